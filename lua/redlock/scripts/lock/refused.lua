-- Comes after shape.lua, last in an acquire script: {0, ms, who}, of `value`, the key's string if
-- it is one.
local left = redis.call('pttl', KEYS[1])
local other = (left == -1 or type(value) ~= 'string') and no_lock(KEYS[1])
if other then
    return other
end
return {0, left, type(value) == 'string' and string.sub(value, 1, 20) .. string.sub(value, 41, 215)
    or ''}
