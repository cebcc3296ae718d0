-- Tell the next store that there is work, for one that was told and has no use for it.
local tool = ARGV[3]
local is_wanted = redis.call('ZCARD', p .. 'w:' .. tool) > 0
