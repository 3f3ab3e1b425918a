-- KEYS[1] the lock; ARGV[1] the value, ARGV[2] the lease in ms; 0: do not announce it.
-- 1: deleted, and announced if it was to be; {1, n}: n subscribers heard it; 0: it was gone;
-- -1: another's.
local value = redis.pcall('getrange', KEYS[1], 0, 256)
if type(value) == 'table' and not value.err:find('WRONGTYPE', 1, true) then
    return value        -- this user may not read it, which says nothing about the holder
end
if value == ARGV[1] then
    redis.call('del', KEYS[1])
    if ARGV[2] == '0' then
        return 1
    end
    -- pcall: a user without access to channels can still release.
    local n = redis.pcall('publish', 'redlock:{' .. KEYS[1] .. '}:free', '')
    return type(n) == 'number' and n > 0 and {1, n} or 1
end
return value ~= '' and -1 or 0
