-- Before now.lua: where nobody waits, and neither has this call, it is a plain lock. KEYS and ARGV
-- as in queue.lua. What is not granted here goes the long way.
if ARGV[4] == '0' and redis.call('exists', KEYS[2], KEYS[4]) == 0
    and redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
    return 1
end
