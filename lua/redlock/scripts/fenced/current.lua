-- KEYS as in counter.lua; ARGV[1] a token, ARGV[2] "1" with the guard, which shows if a number was
-- counted in an earlier memory.
-- 1: the token was counted for who holds the lock, and none since; 0: not.
local guarded = ARGV[2] == '1'
local found = redis.call('mget', KEYS[1], KEYS[2], guarded and 'redlock:{server}:marker' or KEYS[1])
if guarded and string.sub(found[2] or '', 1, 8) ~= string.sub(found[3] or '', 1, 8) then
    return 0
end
local value, counted = found[1], string.gsub(string.sub(found[2] or '', 9), '^=', '')    -- lent
local current = value and counted == ARGV[1] .. ' ' .. string.sub(value, 1, 8)
return current and 1 or 0
