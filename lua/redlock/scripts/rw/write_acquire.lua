-- The plain lock's acquire, and the door. KEYS as in readers.lua; ARGV[3] how long a writer that
-- waits keeps the door closed, in ms; 0: it does not wait. 1; 2;
-- {0, ms, who}. lock/shape.lua and lock/refused.lua follow.
if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
    return 1                 -- the door stays as it is: this may be a minority
end
local value = redis.pcall('getrange', KEYS[1], 0, 256)   -- the value may be huge
if value == ARGV[1] then
    return 2
end
if ARGV[3] ~= '0' then
    redis.call('set', KEYS[2], '', 'PX', ARGV[3])
end
