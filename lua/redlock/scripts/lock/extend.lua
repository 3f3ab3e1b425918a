-- KEYS[1] the lock; ARGV[1] the value, ARGV[2] the lease in ms. Never shortens.
-- 1: ours for at least that long; shape.lua and not_ours.lua follow.
-- PEXPIRE rather than SET, as it works when the server is out of memory.
local value = redis.pcall('get', KEYS[1])
if value == ARGV[1] then
    if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then
        redis.call('pexpire', KEYS[1], ARGV[2])
    end
    return 1
end
