-- Before lock/release.lua or fenced/let_go.lua: opens the door, unless this undoes an attempt that
-- failed.
if ARGV[2] ~= '0' and redis.pcall('get', KEYS[1]) == ARGV[1] then
    redis.call('del', 'redlock:{' .. KEYS[1] .. '}:door')
end
