-- {1, counter}: taken; {2, counter}: it was ours already (a request sent twice);
-- {0, ms}: not free for so long; {3, marker}: not the marker; -2: no floor. The counter is
-- written first: whatever fails half-way must not leave a lock that was not counted.
if string.find(ARGV[#ARGV], ' ', 1, true) then
    local marker = redis.call('get', KEYS[#KEYS])
    if marker ~= ARGV[#ARGV] then
        return {3, marker or ''}
    end
end
if value == ARGV[1] and counter then
    return {2, counter}
end
if value then
    return {0, redis.call('pttl', KEYS[1])}
end
if not counter or not count_to(counter + 1) then
    return -2
end
if redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX') then
    return {1, counter}
end
return {0, redis.call('pttl', KEYS[1])}    -- a key of another type
