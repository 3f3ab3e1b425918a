-- KEYS the locks, each a plain lock's key; ARGV[1] the value, [2] the lease in ms. All or none.
-- 1; 2: this value held all already; {0, ms, 'i who'}: not free for `ms`, KEYS[i] the longest.
local n, mine, found = #KEYS, 0, {}
local there = redis.call('exists', unpack(KEYS))
for i = 1, there > 0 and n or 0 do
    found[i] = start_of(KEYS[i])
    mine = mine + (found[i] == ARGV[1] and 1 or 0)
end
if mine == n then
    return 2
elseif there == mine then
    for i = 1, n do
        redis.call('set', KEYS[i], ARGV[1], 'PX', ARGV[2])
    end
    return 1
end
