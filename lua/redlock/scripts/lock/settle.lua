-- KEYS[1] the lock; ARGV[1] the value, ARGV[2] ms: it stays for so long from now, be that more
-- or less than before, and ends then.
-- 1: done; 0: gone; -1: somebody else's.
local value = redis.pcall('get', KEYS[1])
if type(value) == 'table' and not value.err:find('WRONGTYPE', 1, true) then
    return value        -- this user may not look: that says nothing of whose it is
end
if value == ARGV[1] then
    return redis.call('pexpire', KEYS[1], ARGV[2])
end
return value and -1 or 0
