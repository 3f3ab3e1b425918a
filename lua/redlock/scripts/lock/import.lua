-- KEYS[1] the lock; ARGV[1] the importer's value, [2] its lease in ms, [3] the exported value, to
-- replace. Never shortens: the exporter may have made it last longer.
-- 1: done; 2: it was done already (a request sent twice); shape.lua and not_ours.lua follow. Never
-- takes a free lock: a server that forgot the lock has no say.
local value = redis.pcall('get', KEYS[1])
if value == ARGV[3] then
    redis.call('set', KEYS[1], ARGV[1], 'PX', math.max(ARGV[2], redis.call('pttl', KEYS[1])))
    return 1
elseif value == ARGV[1] then
    return 2
end
