-- ARGV[3] the floor to begin with. 1: it is set; 0: there was one; -1: in quarantine.
if not admitted then
    return -1
end
if tag == run then
    return 0
end
floor = math.max(floor, tonumber(ARGV[3]))
redis.call('hset', KEYS[1], ARGV[1], string.format('%s%.0f', run, floor))
return 1
