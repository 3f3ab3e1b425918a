-- Comes after alone_release.lua and queue.lua, before lock/shape.lua and lock/not_ours.lua. 1:
-- released; {1, n}: and n waiters were woken. An attempt that kept nobody out (lease 0) keeps its
-- place.
if value == ARGV[1] then
    call('del', KEYS[1])
    if ARGV[2] == '0' then
        return 1
    end
    leave(ARGV[3])
    return wake_head()
end
