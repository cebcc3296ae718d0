-- Return whose the task is, and a page of its journal.
local id, after, limit = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
return {redis.call('HGET', KEYS[1], 'o'), redis.call('LRANGE', p .. 'j:' .. id, after, after + limit - 1)}
