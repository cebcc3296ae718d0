-- Return the oldest tasks that need a worker. If there are none, note that this store waits for some; 'always': note
-- it in any case, and call again if there are more than this one takes, because others wait in the same store.
local limit, registers, is_for_others = tonumber(ARGV[3]), ARGV[4], ARGV[5] == '1'
local named = {}
for i = 6, #ARGV do named[ARGV[i]] = true end

local queue = {}
for _, tool in ipairs(redis.call('SMEMBERS', p .. 'tools')) do
  if (named[tool] == nil) == is_for_others then
    local ids = redis.call('ZRANGE', p .. 'w:' .. tool, 0, limit, 'WITHSCORES')
    if #ids == 0 then redis.call('SREM', p .. 'tools', tool) end
    for i = 1, #ids, 2 do queue[#queue + 1] = {id = ids[i], at = tonumber(ids[i + 1]), tool = tool, n = #queue} end
  end
end
table.sort(queue, function(a, b)
  if a.at ~= b.at then return a.at < b.at end
  return a.n < b.n
end)

local found, left_over = {}, nil
for _, place in ipairs(queue) do
  if #found == limit then
    left_over = place.tool
    break
  end
  local kept = row(place.id)
  if kept then
    found[#found + 1] = kept
  else
    redis.call('ZREM', p .. 'w:' .. place.tool, place.id)
  end
end

if is_for_others then return found end
if left_over and registers == 'always' then redis.call('PUBLISH', p .. 'c:' .. me, 'w' .. left_over) end
if registers == 'always' or (registers == 'if none' and #found == 0) then
  for tool in pairs(named) do
    local idle = p .. 'i:' .. tool
    redis.call('SADD', idle, me)
    -- Who waits is noted again every few seconds. Once nobody does, the names of those who died go away by themselves.
    if redis.call('TTL', idle) < 30 then redis.call('EXPIRE', idle, 60) end
  end
end
return found
