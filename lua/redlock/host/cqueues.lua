--- Host for cqueues, for coroutines of a controller.

local condition = require "cqueues.condition"
local cqueues = require "cqueues"
local loop = require "redlock.host.loop"

local error, pcall, setmetatable = error, pcall, setmetatable

-- The controllers that have a listener: the one coroutine that polls the box and wakes all waiters.
-- It is a waiter if possible, as that one needs no waking; otherwise a helper of ours, which ends
-- when nobody waits.
local listening = setmetatable({}, { __mode = "k" })

-- Lets all woken coroutines run. They run in the controller's next step, but some of them after
-- the coroutine that calls this: so it waits for two steps.
local function let_run()
    cqueues.poll(0)
    cqueues.poll(0)
end

-- Wakes waiters until nobody waits, or until `waiter`, if given, has its outcome.
-- @return the number that still wait, from box:drain()
local function serve(box, waiter)
    local readable = { pollfd = box:fd(), events = "r" }
    local waiting
    repeat
        cqueues.poll(readable)
        waiting = box:drain(let_run)
    until waiting == 0 or waiter and waiter.outcome
    return waiting
end

local ensure_listener

-- Listens until `waiter` is done; a helper takes over if others still wait. waiter: nil for a
-- helper.
local function listen(box, waiter)
    local ok, waiting = pcall(serve, box, waiter)
    listening[cqueues.running()] = nil
    if not ok then
        error(waiting, 0)
    elseif waiting > 0 then
        ensure_listener(box)
    end
end

-- waiter: will be suspended next, and may be made the listener; nil: nobody will be.
ensure_listener = function(box, waiter)
    local controller, is_direct = cqueues.running()
    if not controller or listening[controller] then
        return               -- outside of all controllers nobody can wait
    end
    listening[controller] = true
    if waiter and is_direct then     -- others may resume a coroutine of their own, or never
        waiter.must_listen = true
    else
        controller:wrap(listen, box)
    end
end

-- A coroutine that sleeps until the reminder is due would keep its controller's loop() from ending.
-- So step() is replaced, for all controllers: it runs the reminder when it is due, and returns by
-- then.
local reminder, remind_at
local reminding              -- the controller whose step() is running the reminder, where no
                             -- coroutine is running; or nil

local function seconds_left()
    return remind_at and math.max(remind_at - cqueues.monotime(), 0)
end

local original_step
original_step = cqueues.interpose("step", function(controller, timeout)
    local left = seconds_left()
    if left == 0 then
        remind_at, reminding = nil, controller
        reminder()
        reminding = nil
        left = seconds_left()
    end
    if left and (not timeout or left < timeout) then
        timeout = left
    end
    return original_step(controller, timeout)
end)

local host
host = loop.new {
    name = "cqueues",

    can_wait = function()
        local co, is_main = coroutine.running()      -- a finalizer has none of its own
        return co ~= nil and not is_main and cqueues.running() ~= nil
    end,

    suspend = function(w)
        if w.must_listen then
            w.must_listen = nil
            return listen(host.box, w)
        end
        w.condition = w.condition or condition.new()
        w.condition:wait()
    end,

    wake = function(w)
        if w.condition then              -- the listener may have none, and is awake
            w.condition:signal()
        end
    end,

    listen = ensure_listener,

    spawn = function(fn)
        (cqueues.running() or reminding):wrap(fn)
    end,

    remind = function(seconds, fn)
        reminder, remind_at = fn, cqueues.monotime() + seconds
    end,
}

return host
