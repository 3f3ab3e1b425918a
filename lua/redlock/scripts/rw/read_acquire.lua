-- 1; 2: this value read already; {0, ms, who}: a writer holds the lock, or waits for it.
if mine > 0 then
    return 2
end
if kind ~= 'zset' and kind ~= 'none' then
    local who = redis.pcall('getrange', KEYS[1], 0, 256)
    return {0, call('pttl', KEYS[1]), type(who) == 'string'
        and string.sub(who, 1, 20) .. string.sub(who, 41, 215) or ''}
end
if call('exists', KEYS[2]) == 1 then
    return {0, call('pttl', KEYS[2])}
end
put(now + ARGV[2])
return 1
