-- KEYS[1] the marker; ARGV[1] what it was when it was seen last ("": there was none), ARGV[2]
-- what it is to be. Sets it if it is as it was; returns what it is then. The floors of
-- fencing tokens carry it as well: whether they were lost since shows fenced/run.lua.
local marker = redis.call('get', KEYS[1]) or ''
if marker == ARGV[1] then
    redis.call('set', KEYS[1], ARGV[2])
    redis.call('hset', string.gsub(KEYS[1], 'marker$', 'floor'), 'marker', ARGV[2])
    return ARGV[2]
end
return marker
