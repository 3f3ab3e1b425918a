-- After voting.lua.
-- 3 + counter: acquired (a table would be slower); {2, counter}: this value held it already (a
-- request sent twice); {0, ms, who}: as in lock/acquire.lua; {3, marker}: as in voting.lua;
-- -2: no base, or no numbers left. Writes the counter first, so that a failure half-way never
-- leaves a lock that was not counted. lock/shape.lua and lock/refused.lua follow.
if not value or value == ARGV[1] then
    local floor = floor_of_bucket()
    if not floor then
        return -2
    end
    local counter = counted_in(found[2]) or floor
    if value then
        return {2, counter}
    end
    counter = counter + 1
    if not write(counter, floor) then
        return -2
    end
    if call('set', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX') then
        return 3 + counter
    end
    if counted_in(found[2]) then         -- no client has seen the new number
        call('set', KEYS[2], found[2], 'PX', ARGV[5])
    end
end
