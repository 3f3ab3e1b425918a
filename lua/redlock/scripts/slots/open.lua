-- After slots.lua and lock/named.lua: frees permits. ARGV[6] the channel.
for _, slot in ipairs(call('zrange', KEYS[1], 0, -1)) do
    if is_named(call('hget', KEYS[2], slot) or '') then
        free(slot)
        removed = removed + 1
    end
end
return done(ARGV[6])
