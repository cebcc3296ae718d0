-- Keep a new task. Returns 1; or 0 if the quota is used up; or what is kept already, under its key or its id.
local quota = ARGV[16]

if key ~= '' then
  local kept_id = redis.call('GET', p .. 'k:' .. key)
  local kept = kept_id and row(kept_id)
  if kept then return {'key', kept[1], kept[2], kept[3]} end
end

local tokens = redis.call('HGET', KEYS[1], 'w')
if tokens then
  if string.find(tokens, token, 1, true) then return 1 end -- this very command was carried out before
  local kept = row(id)
  return {'id', kept[1], kept[2], kept[3]}
end

local unfinished = p .. 'u:' .. scope
if quota ~= '' and redis.call('SCARD', unfinished) >= tonumber(quota) then
  for _, other in ipairs(redis.call('SRANDMEMBER', unfinished, 16)) do -- were some evicted?
    if redis.call('EXISTS', p .. 't:' .. other) == 0 then redis.call('SREM', unfinished, other) end
  end
  if redis.call('SCARD', unfinished) >= tonumber(quota) then return 0 end
end

redis.call('HSET', KEYS[1], 'v', version, 's', state, 'd', due, 'w', token, 'o', scope, 'b', body)
redis.call('ZADD', p .. 'all', created, id)
redis.call('ZADD', p .. 'o:' .. scope, created, id)
if state ~= FINISHED then redis.call('SADD', unfinished, id) end
if key ~= '' then redis.call('SET', p .. 'k:' .. key, id) end
note_key('')
index('', '')
limit_lifetime()
if state == WAITING then wake_one(tool) end
return 1
