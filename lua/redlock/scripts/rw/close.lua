-- After door.lua and fenced/counter.lua, before fenced/voting.lua: a writer that waits closes the
-- door while others hold the lock.
if keep ~= '0' and call('exists', KEYS[1]) == 1 and redis.pcall('get', KEYS[1]) ~= ARGV[1] then
    call('set', door, '', 'PX', keep)
end
