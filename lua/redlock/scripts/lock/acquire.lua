-- The plain lock's scripts. The value of its one key is 40 hex digits and the holder's card.
-- KEYS[1] the lock; ARGV[1] the attempt's value, ARGV[2] the lease in ms.
-- 1: taken; 2: it was ours already (a request sent twice); {0, ms, who}: held for ms more. `who` is
-- the first 20 digits, which identify the hold but cannot release it, and the card, a label.
-- NOTALOCK: the key holds something else. shape.lua and refused.lua follow.
-- The command is that of the Redlock page: SET name value NX PX lease.
if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
    return 1
end
local value = redis.pcall('getrange', KEYS[1], 0, 256)   -- not all of a huge one
if value == ARGV[1] then
    return 2
end
