-- A writer stops waiting: opens the door (other waiting writers close it again). 1: it was closed;
-- 0: it was open.
local n = redis.call('del', KEYS[2])
if n == 1 then
    redis.pcall('publish', 'redlock:{' .. KEYS[1] .. '}:free', '')
end
return n
