-- Comes after lock/shape.lua. {1, ms, digest of a value, and its card}: of the key that is held
-- longest; ms until all are free; 0: none is held.
local found, longest, who = redis.call('mget', unpack(KEYS)), -2, ''
for i = 1, #KEYS do
    local left = redis.call('pttl', KEYS[i])
    local other = (left == -1 or left > 0 and not found[i]) and no_lock(KEYS[i])
    if other then
        return other
    end
    if left > longest then
        local value = found[i] or 'not a string'
        longest, who = left, redis.sha1hex(value) .. string.sub(value, 41, 215)
    end
end
return longest > -2 and {1, longest, who} or 0
