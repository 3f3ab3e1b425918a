-- ARGV[1] the next holder's value, [2] its lease in ms, [3] the value to replace, on all keys or
-- none. 1; 2: done before; 0: some are gone; -1: some have another holder.
local n, old, new, found = #KEYS, 0, 0, redis.call('mget', unpack(KEYS))
for i = 1, n do
    old = old + (found[i] == ARGV[3] and 1 or 0)
    new = new + (found[i] == ARGV[1] and 1 or 0)
end
if old < n then
    return new == n and 2 or redis.call('exists', unpack(KEYS)) > old and -1 or 0
end
for i = 1, n do
    redis.call('set', KEYS[i], ARGV[1], 'PX', ARGV[2])
end
return 1
