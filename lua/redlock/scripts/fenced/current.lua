-- KEYS as in counter.lua; ARGV[1] a token, ARGV[2] the value of its hold, or "": whichever has
-- the lock. 1: that is held, and the token was counted for it, and none since; 0: not.
local found = redis.call('mget', KEYS[1], KEYS[2])
local value, counted = found[1], string.gsub(string.sub(found[2] or '', 9), '^=', '')    -- lent
local current = value and (value == ARGV[2] or ARGV[2] == '')
    and counted == ARGV[1] .. ' ' .. string.sub(value, 1, 8)
return current and 1 or 0
