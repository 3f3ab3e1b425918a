-- What a release begins with. Where no counter can be behind, as its client knows, it gets
-- KEYS[1], ARGV[1] and ARGV[2] alone.
-- It deletes and announces as scripts/lock/release.lua does, and is apart from that: a plain lock
-- is released by one text that reads one key; here key and counter are read in one call.
local found = KEYS[2] and redis.call('mget', KEYS[1], KEYS[2]) or redis.call('mget', KEYS[1])
if found[1] ~= ARGV[1] then
    return found[1] and -1 or 0
end

local function let_go()
    redis.call('del', KEYS[1])
    if ARGV[2] == '0' then
        return 1
    end
    -- pcall: a user without channels can release as well.
    local n = redis.pcall('publish', 'redlock:{' .. KEYS[1] .. '}:free', '')
    return type(n) == 'number' and n > 0 and {1, n} or 1
end

if not ARGV[3] then
    return let_go()
end
