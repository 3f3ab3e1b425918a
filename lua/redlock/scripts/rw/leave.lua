-- After door.lua, before fenced/let_go.lua: opens the door, unless this undoes a failed attempt.
if ARGV[2] ~= '0' and redis.pcall('get', KEYS[1]) == ARGV[1] then
    redis.call('del', door)
end
