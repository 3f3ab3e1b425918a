-- The fair lock's scripts, which keep its waiters in order; queue.lua explains KEYS and ARGV, and
-- lock/shape.lua comes before this one.
-- 1: taken; 2: it was ours already; {0, ms, 'ticket who'}: held for ms more, with the largest
-- ticket and the holder. Only the first waiter gets it; a call without a ticket only if none waits.
local last = call('zrange', KEYS[2], -1, -1, 'withscores')[2] or '0'
if ARGV[4] ~= '0' then
    call('zadd', KEYS[2], ARGV[4], ARGV[3])
    call('zadd', KEYS[3], now + ttl, ARGV[3])
    local stands = '1 ' .. ARGV[6] .. ' ' .. ARGV[1] .. ' ' .. ARGV[2]
    call('hset', KEYS[4], ARGV[3], stands, 'format', 1)
    for i = 2, 4 do
        call('pexpire', KEYS[i], 2 * ttl)
    end
end
local head = call('zrange', KEYS[2], 0, 0)[1]
if (not head or head == ARGV[3]) and call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
    if head then             -- its place ends with its lease, unless a release ends it earlier
        call('zadd', KEYS[3], now + math.min(ttl, tonumber(ARGV[2])), head)
    end
    return 1
end
local value = redis.pcall('getrange', KEYS[1], 0, 256)   -- not all of a huge one
if value == ARGV[1] then
    return 2
end
local left = call('pttl', KEYS[1])
local other = (left == -1 or type(value) == 'table') and no_lock(KEYS[1])
if other then
    return other
end
if left < 0 and head then
    left = call('zscore', KEYS[3], head) - now
    if call('zrank', KEYS[2], ARGV[3]) == 1 then
        left = math.min(left, 100)       -- the next waiter soon asks again how long the first has
    end
end
local who = type(value) == 'string' and string.sub(value, 1, 20) .. string.sub(value, 41, 215) or ''
return {0, left, last .. ' ' .. who}
