-- Comes before now.lua: a plain lock while nobody waits. KEYS and ARGV as in queue.lua; 1 and
-- {1, n} as in release.lua.
local value = redis.pcall('getrange', KEYS[1], 0, 256)
if value == ARGV[1] and redis.call('exists', KEYS[2], KEYS[4]) == 0 then
    redis.call('del', KEYS[1])
    local n = ARGV[2] ~= '0' and redis.pcall('publish', 'redlock:{' .. KEYS[1] .. '}:free', '')
    return type(n) == 'number' and n > 0 and {1, n} or 1
end
