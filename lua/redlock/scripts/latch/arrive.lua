-- After read.lua. ARGV[1] the latch's id, '' for a look: any; [2] how long it stays, in ms; [3] the
-- channel; [4] the last arrival that the caller knows, '-': it wants none; [5] the count, to make
-- the latch if it is not here, or '0'; [6..] arrivals: '=' and 16 hex digits, or '+' and a name.
-- {1, left, 'id count who...'}: how many are missing, and up to 12 arrivals after [4]; -1: no such
-- latch here. Idempotent.
if not id and ARGV[5] ~= '0' then
    redis.call('hset', KEYS[1], 'format', 1, 'id', ARGV[1], 'count', ARGV[5])
    id, count = ARGV[1], ARGV[5]
end
if not id or (ARGV[1] ~= '' or #ARGV > 5) and ARGV[1] ~= id then return -1 end
local before = redis.call('zcard', KEYS[2])
for i = 6, #ARGV do
    local who = string.sub(ARGV[i], 2)
    who = ARGV[i] == '=' .. who and who or string.sub(redis.sha1hex(who), 1, 16)
    redis.call('zadd', KEYS[2], 0, who)
end
if #ARGV > 5 then
    local stays = math.max(ARGV[2], redis.call('pttl', KEYS[1]))
    redis.call('pexpire', KEYS[1], stays)
    redis.call('pexpire', KEYS[2], stays)
end
local n = redis.call('zcard', KEYS[2])
if n >= tonumber(count) and before < tonumber(count) then redis.pcall('publish', ARGV[3], '') end
local page = ARGV[4] == '-' and {} or redis.call('zrangebylex', KEYS[2], '(' .. ARGV[4], '+',
    'limit', 0, 12)
return {1, math.max(count - n, 0), id .. ' ' .. count .. ' ' .. table.concat(page)}
