-- After readers.lua. ARGV[3] the value that ARGV[1] replaces: of a reader, or of a writer, who
-- becomes a reader. 1; 2: done before; 0: gone; {-1, 0, who}: a writer holds the lock. Never
-- acquires a free lock. A writer's end opens the door, until a writer is refused.
if mine > 0 then
    return 2
end
local old = '1 ' .. ARGV[3]
local value = kind == 'string' and call('get', KEYS[1])
if value == ARGV[3] then
    local ends = now + math.max(ARGV[2], call('pttl', KEYS[1]))
    call('del', KEYS[1], KEYS[2])
    call('zadd', KEYS[1], ends, me)
    call('pexpireat', KEYS[1], ends)
    redis.pcall('publish', 'redlock:{' .. KEYS[1] .. '}:free', '')
    return 1
end
local ends = kind == 'zset' and tonumber(call('zscore', KEYS[1], old)) or 0
if ends > now then
    call('zrem', KEYS[1], old)
    put(math.max(now + ARGV[2], ends))
    return 1
end
return value and {-1, 0, string.sub(value, 1, 20) .. string.sub(value, 41, 215)} or 0
