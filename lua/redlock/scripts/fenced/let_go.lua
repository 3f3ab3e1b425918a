-- Begins a release. A client that knows that no counter is behind sends only KEYS[1], ARGV[1] and
-- ARGV[2].
-- Deletes and announces like scripts/lock/release.lua, but reads key and counter in one call. The
-- release of a plain lock reads one key and stays a single text.
local found = KEYS[2] and redis.call('mget', KEYS[1], KEYS[2]) or redis.call('mget', KEYS[1])
if found[1] ~= ARGV[1] then
    return found[1] and -1 or 0
end

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
