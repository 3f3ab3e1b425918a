-- Behind now.lua, before slots.lua: where nobody has a permit there is nothing to look for. KEYS
-- and ARGV as there. {1, slot}.
if call('exists', KEYS[1], KEYS[2]) == 0 then
    local slot, ends = tonumber(ARGV[3]), now + ARGV[2]
    slot = slot > 0 and slot or ARGV[5] % ARGV[4] + 1
    call('zadd', KEYS[1], ends, slot)
    call('hset', KEYS[2], slot, ARGV[1], ARGV[1], slot, 'format', 1)
    call('pexpireat', KEYS[1], ends)
    call('pexpireat', KEYS[2], ends)
    return {1, slot}
end
