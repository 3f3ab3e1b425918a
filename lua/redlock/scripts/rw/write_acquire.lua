-- The plain lock's acquire, and the door. KEYS as in readers.lua; ARGV[3] how long a writer that
-- waits keeps the door closed, in ms; 0: it does not wait. 1; 2; {0, ms, who}.
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
local who = type(value) == 'string' and string.sub(value, 1, 20) .. string.sub(value, 41, 215)
    or ''
return {0, redis.call('pttl', KEYS[1]), who}
