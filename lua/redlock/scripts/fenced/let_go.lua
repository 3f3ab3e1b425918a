-- Begins a release. A client that knows that no counter is behind sends only KEYS[1], ARGV[1] and
-- ARGV[2].
-- Deletes and announces like scripts/lock/release.lua, which stays a single text.
local value = redis.pcall('getrange', KEYS[1], 0, 256)
if type(value) == 'table' then
    return string.find(value.err, 'WRONGTYPE', 1, true) and 0 or value
elseif value ~= ARGV[1] then
    return value ~= '' and -1 or 0
end
local found = KEYS[2] and redis.call('mget', KEYS[2], KEYS[2])

local function let_go()
    redis.call('del', KEYS[1])
    if ARGV[2] == '0' then
        return 1
    end
    -- pcall: a user without permission for channels can still release.
    local n = redis.pcall('publish', 'redlock:{' .. KEYS[1] .. '}:free', '')
    return type(n) == 'number' and n > 0 and {1, n} or 1
end

if not ARGV[3] then
    return let_go()
end
