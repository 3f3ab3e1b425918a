-- 1; {1, n}: the last one out, and n who wait were told; 0: gone; -1: a writer has it.
-- Behind a closed door the last one tells them also when it kept nobody out by itself (lease 0):
-- with others of its kind it did.
if kind ~= 'zset' then
    return kind == 'none' and 0 or -1
end
local gone = call('zrem', KEYS[1], me)
local last = call('zrange', KEYS[1], -1, -1, 'withscores')[2]
if last and tonumber(last) <= now then
    last = call('del', KEYS[1]) == 0         -- only of those whose time is over
end
if last then
    call('pexpireat', KEYS[1], last)
elseif gone == 1 and (ARGV[2] ~= '0' or call('exists', KEYS[2]) == 1) then
    local n = redis.pcall('publish', 'redlock:{' .. KEYS[1] .. '}:free', '')
    return type(n) == 'number' and n > 0 and {1, n} or 1
end
return mine > 0 and 1 or 0
