-- Before lock/force.lua: spares readers.
if redis.call('type', KEYS[1]).ok == 'zset' then
    return 0
end
