-- Return the row if its version is above the one known; else note that this store wants to hear of it, and return 0.
local id, known = ARGV[3], tonumber(ARGV[4])
local kept = redis.call('HMGET', KEYS[1], 'm', 'l')
if not kept[1] then return nil end
if tonumber(string.match(kept[1], '^%d+')) > known then return row(id) end
local listeners = kept[2] or ''
if not string.find(listeners, me, 1, true) then redis.call('HSET', KEYS[1], 'l', listeners .. me .. ' ') end
return 0
