-- KEYS[1] the lock; ARGV[1] the next holder's value, ARGV[2] its lease in ms, ARGV[3] the value
-- that it replaces.
-- 1: done; 2: it was done already (a request sent twice); 0: gone; -1: another's.
-- Never takes a free lock: a server that forgot the lock has no say.
local value = redis.pcall('get', KEYS[1])
if value == ARGV[3] then
    redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
    return 1
end
return value == ARGV[1] and 2 or value and -1 or 0
