-- KEYS[1] the lock; ARGV[1] the value, ARGV[2] ms from now until the key ends; last ARGV 'closed':
-- the hold has ended, and the card says so; else it continues, and its key ends no sooner than it
-- did.
-- 1: done; shape.lua and not_ours.lua follow.
local value, ended = redis.pcall('get', KEYS[1]), ARGV[#ARGV] == 'closed'
local since, label = string.match(ARGV[1], '^( %x+ )(.*)$', 41)
local closed = since and string.sub(ARGV[1], 1, 40) .. since
    .. string.sub('closed by ' .. label, 1, 160) or ARGV[1]
if ended and (value == ARGV[1] or value == closed) then
    redis.call('set', KEYS[1], closed, 'px', ARGV[2])
    return 1
elseif value == ARGV[1] then
    if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then
        redis.call('pexpire', KEYS[1], ARGV[2])
    end
    return 1
end
