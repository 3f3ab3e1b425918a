-- After lock/named.lua. KEYS as in create.lua; ARGV[1] the channel.
local format, id = unpack(redis.call('hmget', KEYS[1], 'format', 'id'))
if format and format ~= '1' then
    return redis.error_reply('FORMAT the latch ' .. KEYS[1] .. ' is of another version')
elseif id and is_named(id) then
    removed = redis.call('del', KEYS[1], KEYS[2])
end
return done(ARGV[1])
