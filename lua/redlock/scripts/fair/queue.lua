-- Comes after now.lua. KEYS[1] the lock, a plain lock's key; [2] the queue: waiter -> ticket; [3]
-- when each waiter's place expires, unless it asks again; [4] its last request: '1 refresh value
-- lease', and 'format' -> 1. ARGV[1] the value, [2] the lease in ms, [3] the waiter, [4] its ticket
-- (0: none yet), [5] for how many ms its place is kept, [6] the number of this refresh.
local ttl = tonumber(ARGV[5])
local format = call('hget', KEYS[4], 'format')
if format and format ~= '1' then
    return redis.error_reply('FORMAT the queue of ' .. KEYS[1] .. ' is of another version')
end
local function leave(waiter)
    call('zrem', KEYS[2], waiter)
    call('zrem', KEYS[3], waiter)
    call('hdel', KEYS[4], waiter)
    if call('exists', KEYS[2]) == 0 then
        call('del', KEYS[4])
    end
end
for _, waiter in ipairs(call('zrangebyscore', KEYS[3], '-inf', now)) do
    leave(waiter)
end
-- After the clock was set back, no place may last longer than this.
for _, waiter in ipairs(call('zrangebyscore', KEYS[3], '(' .. now + 2 * ttl, '+inf')) do
    call('zadd', KEYS[3], now + ttl, waiter)
end
local function wake_head()
    local head = call('zrange', KEYS[2], 0, 0)[1]
    redis.pcall('publish', 'redlock:{' .. KEYS[1] .. (head and ':' .. head or '') .. '}:free', '')
end
