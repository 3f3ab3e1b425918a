-- Before lock/force.lua: readers are left alone.
if redis.call('type', KEYS[1]).ok == 'zset' then
    return 0
end
