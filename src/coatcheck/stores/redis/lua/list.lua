-- Return a page of an index, newest first: those that stand after a position. `scope`: only this owner's.
local index, limit, at, id, scope = p .. ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[6], ARGV[7]

-- Count those that stand before the position, and on it.
local function rank()
  if at == '' then return 0 end
  local kept = redis.call('ZSCORE', index, id)
  if kept and tonumber(kept) == tonumber(at) then return redis.call('ZREVRANK', index, id) + 1 end
  if kept then return redis.call('ZCOUNT', index, '(' .. at, '+inf') end -- no position of ours
  redis.call('ZADD', index, at, id) -- it is gone since; only the index itself can tell where it stood
  local before = redis.call('ZREVRANK', index, id)
  redis.call('ZREM', index, id)
  return before
end

local found, first = {}, rank()
while #found < limit do
  local missing = limit - #found
  local ids = redis.call('ZREVRANGE', index, first, first + missing - 1)
  for _, other in ipairs(ids) do
    local kept = row(other)
    if not kept then
      redis.call('ZREM', index, other)
    else
      first = first + 1
      if scope == '' or kept[2] == scope then found[#found + 1] = kept end
    end
  end
  if #ids < missing then break end
end
return found
