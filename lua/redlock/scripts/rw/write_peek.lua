-- After lock/shape.lua and lock/only_lock.lua. {1, ms left, digest of the holder's value, and its
-- card}: of a writer of any kind; 0: none.
local value = redis.pcall('getrange', KEYS[1], 0, 256)
if type(value) == 'table' then
    return not value.err:find('WRONGTYPE', 1, true) and value or 0
elseif value == '' and redis.call('pttl', KEYS[1]) == -2 then
    return 0
end
return {1, redis.call('pttl', KEYS[1]), redis.sha1hex(value) .. string.sub(value, 41, 215)}
