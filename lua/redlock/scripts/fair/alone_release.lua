-- Comes before now.lua: a plain lock while nobody waits. KEYS and ARGV as in queue.lua;
-- 1 as in release.lua.
local value = redis.pcall('getrange', KEYS[1], 0, 256)
if value == ARGV[1] and redis.call('exists', KEYS[2], KEYS[4]) == 0 then
    redis.call('del', KEYS[1])
    if ARGV[2] ~= '0' then
        redis.pcall('publish', 'redlock:{' .. KEYS[1] .. '}:free', '')
    end
    return 1
end
