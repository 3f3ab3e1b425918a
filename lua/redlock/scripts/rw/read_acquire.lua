-- 1; 2: this value read already; {0, ms, who}: a writer holds the lock, or waits for it.
-- lock/refused.lua follows.
if mine > 0 then
    return 2
end
if kind == 'none' or kind == 'zset' then
    if call('exists', KEYS[2]) == 1 then
        return {0, call('pttl', KEYS[2])}
    end
    put(now + ARGV[2])
    return 1
end
local value = redis.pcall('getrange', KEYS[1], 0, 256)
