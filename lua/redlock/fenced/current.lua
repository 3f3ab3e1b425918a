-- KEYS as in counter.lua; ARGV[1] a token.
-- 1: the lock is held, and that is the token here; 0: not.
local found = redis.call('mget', KEYS[1], KEYS[2])
return found[1] and string.sub(found[2] or '', 9) == ARGV[1] and 1 or 0
