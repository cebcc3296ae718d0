-- A row, as insert and replace are given it. `due` is when its lease or its lifetime runs out, whichever is first.
local id, token, version, state = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local created, due, scope, tool = ARGV[7], ARGV[8], ARGV[9], ARGV[10]
local key_id, key, lifetime, journal_length, body = ARGV[11], ARGV[12], ARGV[13], ARGV[14], ARGV[15]

-- Bring the indexes from what the row was to what it is.
local function index(old_state, old_due)
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
  if due == old_due then return end
  if due == '' then
    redis.call('ZREM', p .. 'due', id)
  else
    redis.call('ZADD', p .. 'due', due, id)
  end
end

-- Should nobody ever sweep, what has ended goes away by itself.
local function limit_lifetime()
  if state ~= FINISHED or lifetime == '' then return end
  redis.call('PEXPIRE', KEYS[1], lifetime)
  if journal_length ~= '0' then redis.call('PEXPIRE', p .. 'j:' .. id, lifetime) end
  if key ~= '' then redis.call('PEXPIRE', p .. 'k:' .. key, lifetime) end
end

-- Remember which keys were needed to seal what is kept of the task.
local function note_key(key_ids)
  if key_id == '' or string.find(key_ids, key_id, 1, true) then return end
  redis.call('HSET', KEYS[1], 'x', key_ids .. key_id .. ' ')
  redis.call('SADD', p .. 's:' .. key_id, id)
end
