-- A host for your own event loop: here a small loop around poll(2).
--
--     luajit examples/own_loop.lua redis://127.0.0.1:6379 ...
--
-- Ten coroutines want the same lock; each waits without stopping the others.
local ffi = require "ffi"

ffi.cdef [[
struct pollfd { int fd; short events, revents; };
struct own_timespec { long sec, nsec; };
int clock_gettime(int clock, struct own_timespec *now);
int poll(struct pollfd *fds, unsigned long count, int timeout_ms);
]]

-- ---- the loop: coroutines that are ready, timers, one descriptor -----------------

local Loop = { ready = {}, timers = {}, fd = nil, on_readable = nil }

function Loop.now()
    local t = ffi.new "struct own_timespec"
    ffi.C.clock_gettime(1, t)      -- CLOCK_MONOTONIC
    return tonumber(t.sec) + tonumber(t.nsec) / 1e9
end

function Loop.go(co)
    table.insert(Loop.ready, co)
end

function Loop.sleep(seconds)
    local co = coroutine.running()
    table.insert(Loop.timers, { at = Loop.now() + seconds, co = co })
    coroutine.yield()
end

local POLLIN = 1

local function wait_a_little()
    local p = ffi.new("struct pollfd[1]", { { Loop.fd or -1, POLLIN, 0 } })
    if ffi.C.poll(p, 1, Loop.timers[1] and 1 or 100) > 0 then
        Loop.on_readable()
    end
    for i = #Loop.timers, 1, -1 do
        if Loop.timers[i].at <= Loop.now() then
            Loop.go(table.remove(Loop.timers, i).co)
        end
    end
end

local function run_ready()
    for _ = 1, #Loop.ready do
        assert(coroutine.resume(table.remove(Loop.ready, 1)))
    end
end

function Loop.run()
    while Loop.ready[1] or Loop.timers[1] or Loop.fd do
        if Loop.ready[1] then
            run_ready()
        else
            wait_a_little()
        end
    end
end

-- ---- the host --------------------------------------------------------------------

local host = require("redlock.host.loop").new {
    name = "own",
    can_wait = function()
        local co, is_main = coroutine.running()
        return co ~= nil and not is_main
    end,
    suspend = function(waiter)
        waiter.co = coroutine.running()
        coroutine.yield()
        waiter.co = nil            -- the waiter is used again; what it refers to is kept alive
    end,
    wake = function(waiter)
        Loop.go(waiter.co)
    end,
    listen = function(box)
        Loop.fd = box:fd()
        Loop.on_readable = function()
            if box:drain(run_ready) == 0 then      -- what they start is sent together
                Loop.fd = nil          -- nobody waits: the loop may end
            end
        end
    end,
    spawn = function(fn)
        Loop.go(coroutine.create(fn))
    end,
}

-- ---- an example ---------------------------------------------------------------------

local function main(nodes)
    local client = require("redlock").new { nodes = nodes, host = host }
    local inside = 0
    for i = 1, 10 do
        Loop.go(coroutine.create(function()
            local lock = client:getLock "example"
            assert(lock:lock())
            inside = inside + 1
            assert(inside == 1)
            print(i .. " has it")
            inside = inside - 1
            assert(lock:unlock())
        end))
    end
    Loop.run()
    client:close()
end

if arg and arg[1] then
    main { unpack(arg) }
end

return { host = host, Loop = Loop }
