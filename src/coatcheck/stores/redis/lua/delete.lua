-- Forget a task and its journal. Returns 1; or 0 if the kept version is another one; or nil if there is none.
local id, version, scope, tool, key = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local kept = redis.call('HMGET', KEYS[1], 'm', 'l', 'x')
if not kept[1] then return nil end
local old_version, old_state = string.match(kept[1], '^(%d+) (%d)')
if old_version ~= version then return 0 end

redis.call('DEL', KEYS[1], p .. 'j:' .. id)
redis.call('ZREM', p .. 'all', id)
redis.call('ZREM', p .. 'o:' .. scope, id)
redis.call('ZREM', p .. 'due', id)
if old_state ~= FINISHED then redis.call('SREM', p .. 'u:' .. scope, id) end
if old_state == WAITING then redis.call('ZREM', p .. 'w:' .. tool, id) end
if old_state == HELD then redis.call('ZREM', p .. 'held', id) end
if key ~= '' and redis.call('GET', p .. 'k:' .. key) == id then redis.call('DEL', p .. 'k:' .. key) end
for key_id in string.gmatch(kept[3] or '', '%S+') do redis.call('SREM', p .. 's:' .. key_id, id) end
local listeners, is_wanted = kept[2], false
