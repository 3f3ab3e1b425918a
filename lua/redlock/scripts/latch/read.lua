-- Begins scripts of a latch. KEYS[1] the latch: hash of format, id, count; KEYS[2] the arrivals.
local format, id, count = unpack(redis.call('hmget', KEYS[1], 'format', 'id', 'count'))
if format and format ~= '1' then
    return redis.error_reply('FORMAT the latch ' .. KEYS[1] .. ' is of another version')
end
