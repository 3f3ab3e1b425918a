-- ARGV[1] the importer's value, [2] its lease in ms, [3] the value to replace, on all keys or none.
-- 1; 2: done before; 0: some are gone; {-1, 0, who}: some have another holder.
local n, old, new, other, found = #KEYS, 0, 0, nil, redis.call('mget', unpack(KEYS))
for i = 1, n do
    old = old + (found[i] == ARGV[3] and 1 or 0)
    new = new + (found[i] == ARGV[1] and 1 or 0)
    other = found[i] ~= ARGV[3] and found[i] or other
end
if new == n then
    return 2
elseif other then
    return {-1, 0, string.sub(other, 1, 20) .. string.sub(other, 41, 215)}
elseif old < n then
    return 0
end
for i = 1, n do
    redis.call('set', KEYS[i], ARGV[1], 'PX', math.max(ARGV[2], redis.call('pttl', KEYS[i])))
end
return 1
