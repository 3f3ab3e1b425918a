-- After now.lua, before slots.lua: a short cut if no permit is held. KEYS and ARGV as in slots.lua.
-- {1, slot}.
if call('exists', KEYS[1], KEYS[2]) == 0 then
    local slot, ends = tonumber(ARGV[3]), now + ARGV[2]
    slot = slot > 0 and slot or ARGV[5] % ARGV[4] + 1
    call('zadd', KEYS[1], ends, slot)
    call('hset', KEYS[2], slot, ARGV[1], ARGV[1], slot, 'format', 1)
    call('pexpireat', KEYS[1], ends)
    call('pexpireat', KEYS[2], ends)
    return {1, slot}
end
