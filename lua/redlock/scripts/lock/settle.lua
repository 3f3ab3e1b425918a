-- KEYS[1] the lock; ARGV[1] the value, ARGV[2] ms from now until the key ends; last ARGV 'closed':
-- the hold has ended, and the card says so; else it continues, and extend.lua, which follows, never
-- shortens. 1: done.
local value, ended = redis.pcall('get', KEYS[1]), ARGV[#ARGV] == 'closed'
local since, label = string.match(ARGV[1], '^( %x+ )(.*)$', 41)
local closed = since and string.sub(ARGV[1], 1, 40) .. since
    .. string.sub('closed by ' .. label, 1, 160) or ARGV[1]
if ended and (value == ARGV[1] or value == closed) then
    redis.call('set', KEYS[1], closed, 'px', ARGV[2])
    return 1
end
