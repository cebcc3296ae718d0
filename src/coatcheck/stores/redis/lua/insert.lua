-- Keep a new task. Returns 1; or 0 if the quota is used up; or what is kept already, under its key or its id.
local quota = ARGV[17]

if key ~= '' then
  local kept_id = redis.call('GET', p .. 'k:' .. key)
  local kept = kept_id and redis.call('HMGET', p .. 't:' .. kept_id, 'o', 'b')
  if kept and kept[2] then return {'key', kept_id, kept[1], kept[2]} end
end

if redis.call('ZADD', p .. 'all', 'NX', created, id) == 0 then -- the cheapest way to ask whether it is there
  local kept = redis.call('HMGET', KEYS[1], 'o', 'b', 'm')
  if kept[3] then
    if string.find(kept[3], token, 1, true) then return 1 end -- this very command was carried out before
    return {'id', id, kept[1], kept[2]}
  end
  redis.call('ZADD', p .. 'all', created, id)
end

local unfinished = p .. 'u:' .. scope
if quota ~= '' and redis.call('SCARD', unfinished) >= tonumber(quota) then
  for _, other in ipairs(redis.call('SRANDMEMBER', unfinished, 16)) do -- were some evicted?
    if redis.call('EXISTS', p .. 't:' .. other) == 0 then redis.call('SREM', unfinished, other) end
  end
  if redis.call('SCARD', unfinished) >= tonumber(quota) then
    redis.call('ZREM', p .. 'all', id)
    return 0
  end
end

redis.call('HSET', KEYS[1], 'm', mark, 'o', scope, 'b', body)
redis.call('ZADD', p .. 'o:' .. scope, created, id)
if state ~= FINISHED then redis.call('SADD', unfinished, id) end
if key ~= '' then redis.call('SET', p .. 'k:' .. key, id) end
local old_state, old_due, key_ids = '', '', ''
