-- Return tasks whose lease or lifetime has run out.
local now, limit = ARGV[3], tonumber(ARGV[4])
local found, gone

repeat
  found, gone = {}, {}
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', p .. 'due', '-inf', now, 'LIMIT', 0, limit)) do
    local kept = row(id)
    table.insert(kept and found or gone, kept or id)
  end
  local keys = #gone > 0 and redis.call('SMEMBERS', p .. 'keys') or {}
  for _, id in ipairs(gone) do
    for _, index in ipairs({'due', 'held', 'all'}) do redis.call('ZREM', p .. index, id) end
    for _, key_id in ipairs(keys) do redis.call('SREM', p .. 's:' .. key_id, id) end
  end
until #gone == 0
return found
