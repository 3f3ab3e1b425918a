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
