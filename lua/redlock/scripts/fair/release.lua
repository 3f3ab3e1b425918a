-- Comes after alone_release.lua and queue.lua, before lock/shape.lua and lock/not_ours.lua. 1:
-- released; {1, n}: and n waiters were woken. Who lets it go waits no more, also where it was
-- refused; an attempt that kept nobody out (lease 0) keeps its place.
local mine, told = value == ARGV[1], 1
if mine then
    call('del', KEYS[1])
end
if ARGV[2] ~= '0' then
    leave(ARGV[3])
    told = (mine or value == '') and wake_head()
end
if mine then
    return told
end
