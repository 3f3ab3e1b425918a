-- KEYS the locks, each a plain lock's key; ARGV[1] the value, [2] the lease in ms. All or none.
-- 1; 2: this value held all already; {0, ms, 'i who'}: not free for `ms`, KEYS[i] the longest.
local n, mine, found = #KEYS, 0, redis.call('mget', unpack(KEYS))
for i = 1, n do
    mine = mine + (found[i] == ARGV[1] and 1 or 0)
end
if mine == n then
    return 2
end
if redis.call('exists', unpack(KEYS)) == mine then
    for i = 1, n do
        redis.call('set', KEYS[i], ARGV[1], 'PX', ARGV[2])
    end
    return 1
end
local longest, which = -2, 0
for i = 1, n do
    local left = found[i] ~= ARGV[1] and redis.call('pttl', KEYS[i]) or -2
    left = left == -1 and 2 ^ 31 or left         -- without an expiry
    if left > longest then
        longest, which = left, i
    end
end
local value = found[which] or ''
return {0, longest, which .. ' ' .. string.sub(value, 1, 20) .. string.sub(value, 41, 215)}
