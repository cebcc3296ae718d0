-- Make sure that what is kept here is ours and can be read. Returns its schema, and the keys that would be missing.
local known, key_id = tonumber(ARGV[3]), ARGV[4]
local schema = redis.call('GET', p .. 'schema')
local number = schema and string.match(schema, '^coatcheck (%d+)$')
if schema and (not number or tonumber(number) > known) then return {schema} end

-- Is there still something that was sealed with this key?
local function is_needed(other)
  local sealed = p .. 's:' .. other
  while true do
    local ids = redis.call('SRANDMEMBER', sealed, 100)
    if #ids == 0 then return false end
    for _, id in ipairs(ids) do
      if redis.call('EXISTS', p .. 't:' .. id) == 1 then return true end
      redis.call('SREM', sealed, id)
    end
  end
end

local given, missing = {}, {}
for i = 5, #ARGV do given[ARGV[i]] = true end
for _, other in ipairs(redis.call('SMEMBERS', p .. 'keys')) do
  if not given[other] and is_needed(other) then missing[#missing + 1] = other end
end
if #missing == 0 then
  if not schema then redis.call('SET', p .. 'schema', 'coatcheck ' .. known) end
  if key_id ~= '' then redis.call('SADD', p .. 'keys', key_id) end
  redis.call('PUBLISH', p .. 'c:', '') -- who may not do this should hear of it now
end
return {schema or '', missing}
