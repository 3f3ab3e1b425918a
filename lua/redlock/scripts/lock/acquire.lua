-- KEYS[1] the lock; ARGV[1] the attempt's value, ARGV[2] the lease in ms.
-- 1: taken; 2: it was ours already (a request sent twice); {0, ms, who}: not free for so long,
-- with the beginning of the holder's value, enough to know it again, not to release it, and what
-- is behind its 40 digits, the card that says whose it is.
-- The set is the one of the Redlock page: SET name value NX PX lease.
if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
    return 1
end
local value = redis.pcall('getrange', KEYS[1], 0, 256)   -- never all of a huge one
if value == ARGV[1] then
    return 2
end
local who = type(value) == 'string' and string.sub(value, 1, 20) .. string.sub(value, 41, 215)
    or ''
return {0, redis.call('pttl', KEYS[1]), who}
