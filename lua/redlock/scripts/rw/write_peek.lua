-- After lock/shape.lua and lock/only_lock.lua. {1, ms left, digest of the holder's value, and its
-- card}: of a writer of any kind; 0: none.
local value = redis.pcall('get', KEYS[1])
if not value or type(value) == 'table' then
    return value and not value.err:find('WRONGTYPE', 1, true) and value or 0
end
return {1, redis.call('pttl', KEYS[1]), redis.sha1hex(value) .. string.sub(value, 41, 215)}
