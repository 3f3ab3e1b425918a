-- Makes the latch stay after its lease: ARGV[1] the id, [2] how long, in ms. 1; 0: gone; -1:
-- another latch.
local id = redis.call('hget', KEYS[1], 'id')
if id ~= ARGV[1] then
    return id and -1 or 0
end
redis.call('pexpire', KEYS[2], ARGV[2])
return redis.call('pexpire', KEYS[1], ARGV[2])
