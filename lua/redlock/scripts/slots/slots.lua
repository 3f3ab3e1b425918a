-- After now.lua. KEYS[1] the taken slots, with the ends of their leases as scores; KEYS[2] their
-- holders: slot -> value, value -> slot, and 'format' -> 1. ARGV[1] the value, [2] the lease in ms,
-- [3] the slot that the majority gave (0: none yet), [4] the number of slots, [5] where to begin,
-- [6] the channel.
local format, held = unpack(call('hmget', KEYS[2], 'format', ARGV[1]))
if format and format ~= '1' then
    return redis.error_reply('FORMAT the permits of ' .. KEYS[1] .. ' are of another version')
end
-- Both end together: if the clock was set back between, who held what is left alone.
if format and call('exists', KEYS[1]) == 0 then call('del', KEYS[2]) held = nil end

local function free(slot)
    call('zrem', KEYS[1], slot)
    call('hdel', KEYS[2], slot, call('hget', KEYS[2], slot) or '')
    if call('exists', KEYS[1]) == 0 then call('del', KEYS[2]) end
end
local over = call('zrangebyscore', KEYS[1], '-inf', now)
for i = 1, #over do
    held = tonumber(over[i]) ~= tonumber(held) and held
    free(over[i])
end
local agreed, mine = tonumber(ARGV[3]), tonumber(held or nil)

-- Both keys last as long as the longest lease.
local function put(slot, ends)
    call('zadd', KEYS[1], ends, slot)
    call('hset', KEYS[2], slot, ARGV[1], ARGV[1], slot, 'format', 1)
    local last = call('zrange', KEYS[1], -1, -1, 'withscores')[2]
    call('pexpireat', KEYS[1], last)
    call('pexpireat', KEYS[2], last)
end
