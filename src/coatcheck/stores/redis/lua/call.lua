-- If a worker `is_wanted`, tell one store that waits for this tool. Stores that are gone are forgotten on the way.
if is_wanted then
  local store
  repeat
    store = redis.call('SPOP', p .. 'i:' .. tool)
  until not store or redis.call('PUBLISH', p .. 'c:' .. store, 'w' .. tool) > 0
end
return 1
