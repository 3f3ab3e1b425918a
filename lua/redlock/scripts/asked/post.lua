-- Somebody asks whoever holds a lock to let go of it. KEYS[1] the lock, [2] where the request lies;
-- ARGV[1] the request, [2] for how many ms it stays, [3] the channel on which holders listen.
-- {vote, ms left, digest of the holder's value, and its card}, as of lock/peek.lua. The vote is 1:
-- the request lies there; 3: an earlier one does, which nobody has read yet; one more of both:
-- somebody listens. 0: the lock is free, and nothing is left. ms left is -1 without an end.
local value = redis.pcall('get', KEYS[1])
if not value then
    return 0
end
if type(value) == 'table' and not value.err:find('WRONGTYPE', 1, true) then
    return value        -- this user may not look
elseif type(value) == 'table' then
    local kind = redis.pcall('type', KEYS[1])
    value = kind.ok == 'zset' and 'readers' or 'not a string'
end
local whom, before = redis.sha1hex(value), redis.pcall('get', KEYS[2])
-- First: it is an error for a user who may not, and then nothing is left.
local heard = redis.call('publish', ARGV[3], '') > 0 and 1 or 0
local early = type(before) == 'string' and string.sub(before, 1, 40) == whom
if not early then
    redis.call('set', KEYS[2], whom .. ' ' .. ARGV[1], 'PX', ARGV[2])
end
return {(early and 3 or 1) + heard, redis.call('pttl', KEYS[1]), whom .. string.sub(value, 41, 215)}
