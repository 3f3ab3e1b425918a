-- After lock/named.lua and read.lua. ARGV[1] the channel.
if id and is_named(id) then
    removed = redis.call('del', KEYS[1], KEYS[2])
end
return done(ARGV[1])
