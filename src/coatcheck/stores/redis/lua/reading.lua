-- Return what is needed to read a task, or nil if it is gone.
local function row(id)
  local kept = redis.call('HMGET', p .. 't:' .. id, 'o', 'b')
  if kept[2] then return {id, kept[1], kept[2]} end
end
