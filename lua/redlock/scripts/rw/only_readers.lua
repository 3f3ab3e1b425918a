-- Before lock/force.lua: a writer, of whatever kind, is left alone.
if redis.call('type', KEYS[1]).ok ~= 'zset' then
    return 0
end
