-- Comes after alone_release.lua and queue.lua, before lock/shape.lua and lock/not_ours.lua. 1:
-- released. Who lets it go waits no more, also where it was refused; an attempt that kept nobody
-- out (lease 0) keeps its place. It does not hear whom it woke: who comes again is last in line.
local mine = value == ARGV[1]
if mine then
    call('del', KEYS[1])
end
if ARGV[2] ~= '0' then
    leave(ARGV[3])
    if mine or value == '' then
        wake_head()
    end
end
if mine then
    return 1
end
