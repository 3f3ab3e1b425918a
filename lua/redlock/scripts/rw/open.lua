-- A writer waits no more: opens the door (others who wait close it again). 1: it was closed; 0.
local n = redis.call('del', KEYS[2])
if n == 1 then
    redis.pcall('publish', 'redlock:{' .. KEYS[1] .. '}:free', '')
end
return n
