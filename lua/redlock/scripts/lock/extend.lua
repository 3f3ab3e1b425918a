-- KEYS[1] the lock; ARGV[1] the value, ARGV[2] the lease in ms. Never shortens.
-- 1: ours for at least that long; 0: gone; {-1, 0, who}: another's, as in acquire.lua.
-- PEXPIRE rather than SET, as it works when the server is out of memory.
local value = redis.pcall('get', KEYS[1])
if type(value) == 'table' and not value.err:find('WRONGTYPE', 1, true) then
    return value        -- this user may not read it, which says nothing about the holder
end
if value == ARGV[1] then
    if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then
        redis.call('pexpire', KEYS[1], ARGV[2])
    end
    return 1
end
if type(value) == 'string' then
    return {-1, 0, string.sub(value, 1, 20) .. string.sub(value, 41, 215)}
end
return value and -1 or 0
