-- 1; {1, n}: it was the last reader, and n waiters were woken; 0: gone; -1: a writer has it.
-- If the door is closed, the last reader announces even an undone attempt (ARGV[2] 0): together
-- such attempts may have kept a writer out.
if kind ~= 'zset' then
    return kind == 'string' and -1 or 0
end
local gone = call('zrem', KEYS[1], me)
local last = call('zrange', KEYS[1], -1, -1, 'withscores')[2]
if last and tonumber(last) <= now then
    last = call('del', KEYS[1]) == 0         -- only expired readers are left
end
if last then
    call('pexpireat', KEYS[1], last)
elseif gone == 1 and (ARGV[2] ~= '0' or call('exists', KEYS[2]) == 1) then
    local n = redis.pcall('publish', 'redlock:{' .. KEYS[1] .. '}:free', '')
    return type(n) == 'number' and n > 0 and {1, n} or 1
end
return mine > 0 and 1 or 0
