-- The plain lock's release, which also opens the door: the first to come gets in, until a writer
-- is refused.
local value = redis.pcall('getrange', KEYS[1], 0, 256)
if type(value) == 'table' and not value.err:find('WRONGTYPE', 1, true) then
    return value
end
if value ~= ARGV[1] then
    return value ~= '' and -1 or 0
end
redis.call('del', KEYS[1])
if ARGV[2] == '0' then
    return 1
end
redis.call('del', KEYS[2])
local n = redis.pcall('publish', 'redlock:{' .. KEYS[1] .. '}:free', '')
return type(n) == 'number' and n > 0 and {1, n} or 1
