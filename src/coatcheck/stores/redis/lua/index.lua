-- Bring the indexes from what the row was (`old_state`, `old_due`, `key_ids`) to what it is.
if old_state ~= state then
  if old_state == WAITING then
    redis.call('ZREM', p .. 'w:' .. tool, id)
  elseif old_state == HELD then
    redis.call('ZREM', p .. 'held', id)
  end
  if state == WAITING then
    redis.call('ZADD', p .. 'w:' .. tool, created, id)
    redis.call('SADD', p .. 'tools', tool)
  elseif state == HELD then
    redis.call('ZADD', p .. 'held', created, id)
  end
end
if due ~= old_due then
  if due == '' then
    redis.call('ZREM', p .. 'due', id)
  else
    redis.call('ZADD', p .. 'due', due, id)
  end
end

-- Remember which keys were needed to seal what is kept of the task.
if key_id ~= '' and not string.find(key_ids, key_id, 1, true) then
  redis.call('HSET', KEYS[1], 'x', key_ids .. key_id .. ' ')
  redis.call('SADD', p .. 's:' .. key_id, id)
end

-- Should nobody ever sweep, what has ended goes away by itself.
if state == FINISHED and lifetime ~= '' then
  redis.call('PEXPIRE', KEYS[1], lifetime)
  if journal_length ~= '0' then redis.call('PEXPIRE', p .. 'j:' .. id, lifetime) end
  if key ~= '' then redis.call('PEXPIRE', p .. 'k:' .. key, lifetime) end
end
local is_wanted = state == WAITING and old_state ~= WAITING
