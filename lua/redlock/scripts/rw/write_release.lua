-- The plain lock's release, which also opens the door: the first to come gets in, until a writer
-- is refused. lock/shape.lua and lock/not_ours.lua follow.
local value = redis.pcall('getrange', KEYS[1], 0, 256)
if value == ARGV[1] then
    redis.call('del', KEYS[1])
    if ARGV[2] == '0' then
        return 1
    end
    redis.call('del', KEYS[2])
    local n = redis.pcall('publish', 'redlock:{' .. KEYS[1] .. '}:free', '')
    return type(n) == 'number' and n > 0 and {1, n} or 1
end
