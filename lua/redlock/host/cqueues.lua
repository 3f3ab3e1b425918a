--- Host for cqueues, for coroutines of a controller.

local condition = require "cqueues.condition"
local cqueues = require "cqueues"
local loop = require "redlock.host.loop"

local setmetatable = setmetatable

-- The controllers in which a coroutine of ours listens; it ends when nobody waits.
local listening = setmetatable({}, { __mode = "k" })

-- Woken coroutines run in the controller's next step, before or after this one.
local function let_run()
    cqueues.poll(0)
    cqueues.poll(0)
end

local function listen(box)
    local controller = cqueues.running()
    if not controller or listening[controller] then
        return               -- outside of all controllers nobody can wait
    end
    local readable = { pollfd = box:fd(), events = "r" }
    listening[controller] = true
    if box.holding then      -- by a listener that was stopped
        box:hold_requests(false)
    end
    controller:wrap(function()
        repeat
            cqueues.poll(readable)
        until box:drain(let_run) == 0
        listening[controller] = nil
    end)
end

-- A waiting coroutine would keep its controller running, so step() runs the reminder instead: a
-- step returns when the reminder is due.
local reminder, remind_at
local reminding              -- the controller whose step runs the reminder, outside of all
                             -- coroutines; or nil

local function seconds_left()
    return remind_at and math.max(remind_at - cqueues.monotime(), 0)
end

local step
step = cqueues.interpose("step", function(controller, timeout)
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
    return step(controller, timeout)
end)

return loop.new {
    name = "cqueues",

    can_wait = function()
        local co, is_main = coroutine.running()      -- a finalizer has none of its own
        return co ~= nil and not is_main and cqueues.running() ~= nil
    end,

    suspend = function(w)
        w.condition = w.condition or condition.new()
        w.condition:wait()
    end,

    wake = function(w)
        w.condition:signal()
    end,

    listen = listen,

    spawn = function(fn)
        (cqueues.running() or reminding):wrap(fn)
    end,

    remind = function(seconds, fn)
        reminder, remind_at = fn, cqueues.monotime() + seconds
    end,
}
