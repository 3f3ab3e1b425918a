-- Comes after start_of.lua and lock/shape.lua. {1, ms, digest of a value, and its card}: of the key
-- that is held longest; ms until all are free; 0: none is held.
local longest, who = -2, ''
for i = 1, #KEYS do
    local left, value = redis.call('pttl', KEYS[i]), start_of(KEYS[i])
    local other = (left == -1 or left > 0 and not value) and no_lock(KEYS[i])
    if other then
        return other
    end
    if left > longest then
        value = value or 'not a string'
        longest, who = left, redis.sha1hex(value) .. string.sub(value, 41, 215)
    end
end
return longest > -2 and {1, longest, who} or 0
