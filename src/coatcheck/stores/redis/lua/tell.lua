-- Tell all stores that wait for this task, but for the one that changes it: that one knows.
if listeners then
  for store in string.gmatch(listeners, '%S+') do
    if store ~= me then redis.call('PUBLISH', p .. 'c:' .. store, 't' .. id) end
  end
end
