-- ARGV[4] the floor to begin with; if this server's is out of range, the one that enough others
-- have. 1: set; 0: there was one; -1: in quarantine.
if not admitted then
    return -1
end
if tag == run and not wild then
    return 0
end
if tag == run and ARGV[2] ~= '' then
    -- It is unknown what was counted here: treat the floors as lost (see run.lua).
    redis.call('del', 'redlock:{server}:marker')      -- first, as the user may lack permission
    redis.call('hset', KEYS[1], ARGV[1], '')
    return -1
end
floor = math.max(wild and 0 or floor, tonumber(ARGV[4]))
redis.call('hset', KEYS[1], ARGV[1], string.format('%s%.0f', run, floor))
return 1
