-- 1; {1, n}: n waiters were woken; 0: gone; -1: another holder.
if not mine then
    return call('zscore', KEYS[1], agreed) and -1 or 0
end
free(mine)
if ARGV[2] == '0' then
    return 1
end
local n = redis.pcall('publish', ARGV[6], '')
return type(n) == 'number' and n > 0 and {1, n} or 1
