-- Comes before now.lua: a plain lock for a caller that has not waited, while nobody waits. KEYS and
-- ARGV as in queue.lua. Otherwise the full script follows.
if ARGV[4] == '0' and redis.call('exists', KEYS[2], KEYS[4]) == 0
    and redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
    return 1
end
