-- 3 + counter: taken (a table would take longer); {2, counter}: it was ours already (a
-- request sent twice); {0, ms, who}: as in lock/acquire.lua; {3, marker}: as in
-- marker/check.lua; -2: no floor, or the last number was given out. The counter is written first:
-- whatever fails half-way must not leave a lock that was not counted.
local guarded = #ARGV[7] ~= 40       -- else it is a master_replid
local found = call('mget', KEYS[1], KEYS[2], guarded and 'redlock:{server}:marker' or KEYS[1])
local value = found[1]
if guarded and found[3] ~= ARGV[7] then
    local marker = found[3] or ''
    if marker .. '!' ~= ARGV[7] then
        return {3, marker}
    elseif not string.find(call('info', 'replication'),
        'master_replid:' .. sub(marker, 23, 38), 1, true) then
        return {3, '!' .. marker}
    end
end
if value and value ~= ARGV[1] then
    return {0, call('pttl', KEYS[1]), sub(value, 1, 20) .. sub(value, 41, 215)}
end
local floor = of_this_run(call('hget', KEYS[3], ARGV[4]))
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
if counted_in(found[2]) then         -- nobody was told of the next one
    call('set', KEYS[2], found[2], 'PX', ARGV[5])
end
return {0, call('pttl', KEYS[1])}    -- a key of another type: readers have it
