-- Comes after shape.lua and only_lock.lua. KEYS[1] the lock.
-- 0: free; or {1, ms left, SHA-1 of the holder's value followed by its card}.
local value = redis.pcall('getrange', KEYS[1], 0, 256)   -- not all of a huge one
if value == '' and redis.call('pttl', KEYS[1]) == -2 then
    return 0
elseif type(value) == 'table' and not value.err:find('WRONGTYPE', 1, true) then
    return value        -- this user may not read it
elseif type(value) == 'table' then
    value = 'not a string'
end
return {1, redis.call('pttl', KEYS[1]), redis.sha1hex(value) .. string.sub(value, 41, 215)}
