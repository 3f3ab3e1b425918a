-- Before now.lua: releasing the last permit deletes both keys, even if its lease has ended, as no
-- other permit was given since. KEYS and ARGV as in slots.lua; 1 and {1, n} as in release.lua.
if redis.call('zcard', KEYS[1]) == 1 then
    local who = redis.call('hmget', KEYS[2], 'format', ARGV[1])
    if who[1] == '1' and who[2] then
        redis.call('del', KEYS[1], KEYS[2])
        local n = ARGV[2] ~= '0' and redis.pcall('publish', ARGV[6], '')
        return type(n) == 'number' and n > 0 and {1, n} or 1
    end
end
