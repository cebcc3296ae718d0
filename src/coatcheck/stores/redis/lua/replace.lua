-- Write the next version of a row, and append to its journal. Returns 1, or 0 if the kept version is another one.
local kept = redis.call('HMGET', KEYS[1], 'm', 'l', 'x')
if not kept[1] then return 0 end
local old_version, old_state, old_due, tokens = string.match(kept[1], '^(%d+) (%d) (%-?%d*) (.*)$')
if tonumber(old_version) ~= tonumber(version) - 1 then
  return string.find(tokens, token, 1, true) and 1 or 0 -- was this very command carried out before?
end

tokens = string.gsub(tokens, '^@%-?%d* ', '') -- when it was to expire
redis.call('HSET', KEYS[1], 'm', mark .. string.sub(tokens, 1, 60), 'b', body)
for first = 17, #ARGV, 1000 do -- Lua unpacks some thousands at once, not more
  redis.call('RPUSH', p .. 'j:' .. id, unpack(ARGV, first, math.min(first + 999, #ARGV)))
end
if state == FINISHED then
  if old_state ~= FINISHED then redis.call('SREM', p .. 'u:' .. scope, id) end
elseif old_state == FINISHED then -- it is taken up again
  redis.call('SADD', p .. 'u:' .. scope, id)
  for _, kept in ipairs({KEYS[1], p .. 'j:' .. id, p .. 'k:' .. key}) do redis.call('PERSIST', kept) end
end
local listeners = kept[2]
if listeners then redis.call('HDEL', KEYS[1], 'l') end
local key_ids = kept[3] or ''
