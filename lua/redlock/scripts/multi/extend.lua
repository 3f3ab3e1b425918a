-- Never shortens. 1: all held until then at least. lock/shape.lua and not_ours.lua follow.
local n, mine, found = #KEYS, 0, redis.call('mget', unpack(KEYS))
for i = 1, n do
    mine = mine + (found[i] == ARGV[1] and 1 or 0)
end
if mine == n then
    for i = 1, n do
        if redis.call('pttl', KEYS[i]) < tonumber(ARGV[2]) then
            redis.call('pexpire', KEYS[i], ARGV[2])
        end
    end
    return 1
end
