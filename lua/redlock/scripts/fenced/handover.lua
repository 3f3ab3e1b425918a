-- Hands a hold over to the next holder, and counts as an acquire does.
-- {1, counter}: done; {2, counter}: done already (a request sent twice); 0: gone; -1: another
-- holder; -2: no floor. Writes the counter first, as acquire.lua does.
-- Only replaces a hold, never acquires a free lock: a server that forgot the lock has no vote.
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
