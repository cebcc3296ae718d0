-- Write the next version of a row, and append to its journal. Returns 1, or 0 if the kept version is another one.
local kept = redis.call('HMGET', KEYS[1], 'v', 's', 'd', 'w', 'l', 'x')
if not kept[1] then return 0 end
if tonumber(kept[1]) ~= tonumber(version) - 1 then
  return string.find(kept[4], token, 1, true) and 1 or 0 -- was this very command carried out before?
end

redis.call('HSET', KEYS[1], 'v', version, 's', state, 'd', due, 'w', token .. string.sub(kept[4], 1, 60), 'b', body)
for first = 16, #ARGV, 1000 do -- Lua unpacks some thousands at once, not more
  redis.call('RPUSH', p .. 'j:' .. id, unpack(ARGV, first, math.min(first + 999, #ARGV)))
end
if kept[2] ~= state and state == FINISHED then redis.call('SREM', p .. 'u:' .. scope, id) end
local listeners = kept[5]
if listeners then redis.call('HDEL', KEYS[1], 'l') end
local old_state, old_due, key_ids = kept[2], kept[3], kept[6] or ''
