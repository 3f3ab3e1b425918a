-- Frees all slots. KEYS as in slots.lua; ARGV[3] the channel. 1: some were taken; 0: none.
if (redis.call('hget', KEYS[2], 'format') or '1') ~= '1' then
    return redis.error_reply('FORMAT the permits of ' .. KEYS[1] .. ' are of another version')
end
local n = redis.call('del', KEYS[1], KEYS[2])
if n > 0 then
    redis.pcall('publish', ARGV[3], '')
end
return n > 0 and 1 or 0
