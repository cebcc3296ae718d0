-- A row, as insert and replace are given it. `due` is when its lease or its lifetime runs out, whichever is first.
local id, token, version, state = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local created, due, scope, tool = ARGV[7], ARGV[8], ARGV[9], ARGV[10]
local key_id, key, lifetime, journal_length, expiry, body = ARGV[11], ARGV[12], ARGV[13], ARGV[14], ARGV[15], ARGV[16]
local mark = version .. ' ' .. state .. ' ' .. due .. ' ' .. expiry .. token -- one field: each takes time, and memory
