-- Reads of one task begin with this, and need no other key. They end here unless the task is there, is of this owner
-- (if one is given), and its lifetime has not run out by now (if that is given). What is due next to a task that nobody
-- holds is its end; of one that is held, that is said beside it.
-- An answer of one string takes a third of the time of one with two: whose it is is told only if it was not given.
local key, scope, now, HELD = KEYS[1], ARGV[1], tonumber(ARGV[2]), '1'
local owner, mark = redis.call('HGET', key, 'o'), redis.call('HGET', key, 'm')
-- What is not there is looked at like what is: it takes as long, and ends the same way.
local is_shown = mark and (scope == '' or owner == scope)
if now then
  local ends
  local state, due, expiry = string.match(mark or '1 3 1000000000000000 ', '^%d+ (%d) (%-?%d*) (@?%-?%d*)')
  if string.sub(expiry, 1, 1) == '@' then
    ends = tonumber(string.sub(expiry, 2))
  elseif state ~= HELD then
    ends = tonumber(due)
  end
  if ends and ends <= now then is_shown = false end
end
if not is_shown then return nil end
