-- Sets the floor of a bucket on a server that has none, or one that is out of range.
-- ARGV[4] the floor to set; where this server's own is out of range, that of enough others.
-- 1: set; 0: it had one already; -1: in quarantine, or it is now.
if not admitted then
    return -1
end
if tag == run and not wild then
    return 0
end
if tag == run and ARGV[2] ~= '' then
    -- Nobody knows which numbers were given out here: treat the floors as lost (see run.lua).
    redis.call('del', 'redlock:{server}:marker')      -- first: without permission nothing changes
    redis.call('hset', KEYS[1], ARGV[1], '')
    return -1
end
floor = math.max(wild and 0 or floor, tonumber(ARGV[4]))
redis.call('hset', KEYS[1], ARGV[1], string.format('%s%.0f', run, floor))
return 1
