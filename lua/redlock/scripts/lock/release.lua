-- KEYS[1] the lock; ARGV[1] the value, ARGV[2] the lease in ms; 0: do not announce it.
-- 1: deleted, and announced if it was to be; {1, n}: n subscribers heard it; shape.lua and
-- not_ours.lua follow.
local value = redis.pcall('getrange', KEYS[1], 0, 256)
if value == ARGV[1] then
    redis.call('del', KEYS[1])
    if ARGV[2] == '0' then
        return 1
    end
    -- pcall: a user without access to channels can still release.
    local n = redis.pcall('publish', 'redlock:{' .. KEYS[1] .. '}:free', '')
    return type(n) == 'number' and n > 0 and {1, n} or 1
end
