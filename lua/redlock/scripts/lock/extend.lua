-- KEYS[1] the lock; ARGV[1] the value, ARGV[2] the lease in ms. Never shortens.
-- 1: ours until then at least; 0: gone; {-1, 0, who}: somebody else's, as in acquire.lua.
-- PEXPIRE, not SET: it works when the server is out of memory.
local value = redis.pcall('get', KEYS[1])
if type(value) == 'table' and not value.err:find('WRONGTYPE', 1, true) then
    return value        -- this user may not look: that says nothing of whose it is
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
