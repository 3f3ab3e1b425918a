-- After lock/shape.lua, lock/only_lock.lua and now.lua. {1, ms until the last lease ends,
-- 'readers'}; 0: no readers.
if call('type', KEYS[1]).ok ~= 'zset' then
    return 0
end
local last = call('zrange', KEYS[1], -1, -1, 'withscores')[2]
return last and tonumber(last) > now and {1, last - now, 'readers'} or 0
