-- Undoes a creation that failed. 1; 0: gone; -1: another latch.
local id = redis.call('hget', KEYS[1], 'id')
if id ~= ARGV[1] then
    return id and -1 or 0
end
redis.call('del', KEYS[1], KEYS[2])
return 1
