-- Behind alone_release.lua and queue.lua. 1; {1, n}: n who wait were told; 0: gone; -1: somebody
-- else's. An attempt that kept nobody out (lease 0) stays in line.
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
