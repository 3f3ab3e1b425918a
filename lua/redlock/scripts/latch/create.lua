-- After read.lua. ARGV[1] the latch's id, the attempt's value, [2] the lease in ms, [3] the count.
-- 1; 2: made before; {0, ms, who}: there is one; who: the beginning of its id.
if id == ARGV[1] then
    return 2
elseif id then
    return {0, redis.call('pttl', KEYS[1]), string.sub(id, 1, 20)}
end
redis.call('del', KEYS[1], KEYS[2])
redis.call('hset', KEYS[1], 'format', 1, 'id', ARGV[1], 'count', ARGV[3])
redis.call('pexpire', KEYS[1], ARGV[2])
return 1
