--- Host for luv (libuv), for coroutines while uv.run() runs.

local errors = require "redlock.runtime.errors"
local uv = require "luv"
local loop = require "redlock.host.loop"

local running, yield, resume = coroutine.running, coroutine.yield, coroutine.resume

local poll, active

-- A program may close all handles of its loop, also ours: then listen() makes another.
local function is_closed(handle)
    local ok, closing = pcall(handle.is_closing, handle)
    return not ok or closing
end

local host = loop.new {
    name = "luv",

    can_wait = function()
        local co, is_main = running()
        return co ~= nil and not is_main
    end,

    suspend = function(w)
        w.co = running()
        yield()
        w.co = nil               -- the coroutine may end, but the waiter is reused
    end,

    wake = function(w)
        local co = w.co
        local ok, err = resume(co)
        if not ok then           -- an error of the user's coroutine
            local text = errors.failed("a coroutine", err)
            io.stderr:write("redlock: ", debug.traceback(co, text), "\n")
        end
    end,

    -- The poll is stopped while nobody waits, so that uv.run() can end.
    listen = function(box)
        if poll and is_closed(poll) then
            poll, active = nil, false
        end
        if active then
            return
        end
        poll = poll or uv.new_poll(box:fd())
        active = true
        poll:start("r", function()
            if box:drain() == 0 then
                active = false
                if poll and not is_closed(poll) then
                    poll:stop()
                end
            end
        end)
    end,

    remind = function(seconds, fn)
        local timer = uv.new_timer()
        timer:start(math.ceil(seconds * 1000), 0, function()
            timer:stop()         -- if fn ends the state, luv must not find a handle that is closing
            fn()
            if not is_closed(timer) then
                timer:close()
            end
        end)
        timer:unref()
    end,
}

return host
