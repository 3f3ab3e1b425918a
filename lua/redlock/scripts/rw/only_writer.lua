-- After lock/only_lock.lua, before lock/peek.lua or lock/force.lua: for writers of any kind alone.
if redis.call('type', KEYS[1]).ok == 'zset' then
    return 0
end
