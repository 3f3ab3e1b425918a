-- Makes the latch stay after its lease: ARGV[1] the id, [2] how long, in ms. Never shortens. 1; 0:
-- gone; -1: another latch.
local id = redis.call('hget', KEYS[1], 'id')
if id ~= ARGV[1] then
    return id and -1 or 0
end
for i = 1, redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) and 2 or 0 do
    redis.call('pexpire', KEYS[i], ARGV[2])
end
return 1
