-- Comes after shape.lua and only_lock.lua. KEYS[1] the lock. Deletes it, whoever holds it. 1:
-- deleted; 0: there was none.
local n = redis.call('del', KEYS[1])
if n > 0 then
    redis.pcall('publish', 'redlock:{' .. KEYS[1] .. '}:free', '')
end
return n
