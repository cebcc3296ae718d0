-- Return the row if its version is above the one known; else note that this store wants to hear of it, and return 0.
if tonumber(string.match(mark, '^%d+')) > tonumber(ARGV[3]) then
  if scope ~= '' then return redis.call('HGET', key, 'b') end
  return {owner, redis.call('HGET', key, 'b')}
end
local me, listeners = ARGV[4], redis.call('HGET', key, 'l') or ''
if not string.find(listeners, me, 1, true) then redis.call('HSET', key, 'l', listeners .. me .. ' ') end
return 0
