-- KEYS as in create.lua; ARGV[1] the channel. 1: deleted; 0: there was none.
if (redis.call('hget', KEYS[1], 'format') or '1') ~= '1' then
    return redis.error_reply('FORMAT the latch ' .. KEYS[1] .. ' is of another version')
end
local n = redis.call('del', KEYS[1], KEYS[2])
if n > 0 then
    redis.pcall('publish', ARGV[1], '')
end
return n > 0 and 1 or 0
