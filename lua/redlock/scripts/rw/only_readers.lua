-- After lock/only_lock.lua, before lock/force.lua: spares writers of any kind.
if redis.call('type', KEYS[1]).ok ~= 'zset' then
    return 0
end
