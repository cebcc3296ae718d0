-- What all scripts begin with but those that read one task. ARGV[1] begins every key, ARGV[2] is the store that calls.
-- Those that write are put together of blocks, not of functions: to make functions anew for each run takes longer
-- than to run them.
local p, me = ARGV[1], ARGV[2]
local WAITING, HELD, FINISHED = '0', '1', '3'
