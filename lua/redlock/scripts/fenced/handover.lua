-- A hold passes to the next holder, and is counted as an acquire.
-- {1, counter}: done; {2, counter}: it was done already (a request sent twice); 0: gone;
-- -1: somebody else's; -2: no floor. The counter is written first, as in acquire.lua.
-- Replaces, and never takes what is free: a server that forgot the lock has no say.
if value == ARGV[1] then
    return counter and {2, counter} or -2
end
if value ~= replaced then
    return value and -1 or 0
end
if not counter or not count_to(counter + 1) then
    return -2
end
redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {1, counter}
