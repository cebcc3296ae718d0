-- What all scripts share. ARGV[1] begins every key, ARGV[2] is the store that calls.
local p, me = ARGV[1], ARGV[2]
local WAITING, HELD, FINISHED = '0', '1', '3'

-- Tell one store that waits for this tool that there is work. Stores that are gone are forgotten on the way.
local function wake_one(tool)
  local store
  repeat
    store = redis.call('SPOP', p .. 'i:' .. tool)
  until not store or redis.call('PUBLISH', p .. 'c:' .. store, 'w' .. tool) > 0
end

-- Tell all stores that wait for this task, but for the one that changes it: that one knows.
local function wake_listeners(id, listeners)
  for store in string.gmatch(listeners, '%S+') do
    if store ~= me then redis.call('PUBLISH', p .. 'c:' .. store, 't' .. id) end
  end
end

-- Return what is needed to read a task, or nil if it is gone.
local function row(id)
  local kept = redis.call('HMGET', p .. 't:' .. id, 'o', 'b')
  if kept[2] then return {id, kept[1], kept[2]} end
end
