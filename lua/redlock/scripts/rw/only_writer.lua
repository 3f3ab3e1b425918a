-- After lock/only_lock.lua, before lock/force.lua: spares readers.
if redis.call('type', KEYS[1]).ok == 'zset' then
    return 0
end
