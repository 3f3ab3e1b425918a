-- Comes after alone_release.lua and queue.lua. 1: released; {1, n}: and n waiters were woken; 0: it
-- was gone; -1: another's. An attempt that kept nobody out (lease 0) keeps its place.
if type(value) == 'table' and not value.err:find('WRONGTYPE', 1, true) then
    return value
end
if value ~= ARGV[1] then
    return value ~= '' and -1 or 0
end
call('del', KEYS[1])
if ARGV[2] == '0' then
    return 1
end
leave(ARGV[3])
return wake_head()
