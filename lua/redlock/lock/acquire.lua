-- KEYS[1] the lock; ARGV[1] the attempt's value, ARGV[2] the lease in ms.
-- 1: taken; 2: it was ours already (a request sent twice); {0, ms}: not free for so long.
-- The set is the one of the Redlock page: SET name value NX PX lease.
if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
    return 1
end
if redis.pcall('get', KEYS[1]) == ARGV[1] then
    return 2
end
return {0, redis.call('pttl', KEYS[1])}
