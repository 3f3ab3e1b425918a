-- After now.lua and lock/shape.lua. KEYS[1] the lock: a string while a writer has it (or a plain or
-- fenced lock of that name), a sorted set while readers have it: '1 ' and the value of each, with
-- the end of its lease as score. KEYS[2] the door: exists while a writer waits. ARGV[1] the value,
-- [2] the lease, in ms.
local kind, me = call('type', KEYS[1]).ok, '1 ' .. ARGV[1]
local mine = kind == 'zset' and tonumber(call('zscore', KEYS[1], me)) or 0
if mine <= now then
    mine = 0                 -- expired; the key exists for other readers
end
local first = kind == 'zset' and call('zrange', KEYS[1], 0, 0)[1]
local ours = first and string.sub(first, 1, 2) == '1 '
if first and mine == 0 and (not ours or call('pttl', KEYS[1]) == -1) and no_lock(KEYS[1]) then
    kind = 'other'           -- another program's: neither a reader's nor a writer's
elseif first and not ours then
    return redis.error_reply('FORMAT the readers of ' .. KEYS[1] .. ' are of another version')
end

-- The key lasts as long as the longest lease.
local function put(ends)
    call('zadd', KEYS[1], ends, me)
    if kind == 'none' then
        call('pexpireat', KEYS[1], ends)
        return
    end
    call('zremrangebyscore', KEYS[1], '-inf', now)
    call('pexpireat', KEYS[1], call('zrange', KEYS[1], -1, -1, 'withscores')[2])
end
