-- ARGV[4] the floor to begin with, as enough others have it where this one is out of range.
-- 1: it is set; 0: there was one; -1: in quarantine.
if not admitted then
    return -1
end
if tag == run and not wild then
    return 0
end
if tag == run and ARGV[2] ~= '' then
    -- What was counted here is not known: as if the floors had been lost (see run.lua).
    redis.call('del', 'redlock:{server}:marker')      -- first: not every user may
    redis.call('hset', KEYS[1], ARGV[1], '')
    return -1
end
floor = math.max(wild and 0 or floor, tonumber(ARGV[4]))
redis.call('hset', KEYS[1], ARGV[1], string.format('%s%.0f', run, floor))
return 1
