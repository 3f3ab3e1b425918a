--- Host for cqueues, for coroutines of a controller.

local condition = require "cqueues.condition"
local cqueues = require "cqueues"
local loop = require "redlock.host.loop"

local error, pcall, setmetatable = error, pcall, setmetatable

-- The controllers in which one coroutine listens for all that wait: one that waits itself, as
-- nobody need wake it, or else one of ours, which ends when nobody waits.
local listening = setmetatable({}, { __mode = "k" })

-- Woken coroutines run in the controller's next step, before or after this one.
local function let_run()
    cqueues.poll(0)
    cqueues.poll(0)
end

-- Wakes waiters until nobody waits, or w no longer does.
-- @return how many wait, as box:drain() says
local function serve(box, w)
    local readable = { pollfd = box:fd(), events = "r" }
    local waiting
    repeat
        cqueues.poll(readable)
        waiting = box:drain(let_run)
    until waiting == 0 or w and w.outcome
    return waiting
end

local function listen(box, w)
    local controller = cqueues.running()
    if not controller or listening[controller] then
        return               -- outside of all controllers nobody can wait
    end
    listening[controller] = true
    if box.holding then      -- by a listener that was stopped
        box:hold_requests(false)
    end
    if w then
        w.listens = true
    else
        controller:wrap(function()
            serve(box)
            listening[controller] = nil
        end)
    end
end

-- Waits and listens, and has a coroutine of ours listen for those who still wait then.
local function listen_until_done(box, w)
    w.listens = nil
    local ok, waiting = pcall(serve, box, w)
    listening[cqueues.running()] = nil
    if not ok then
        error(waiting, 0)
    elseif waiting > 0 then
        listen(box)
    end
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

local host
host = loop.new {
    name = "cqueues",

    can_wait = function()
        local co, is_main = coroutine.running()      -- a finalizer has none of its own
        return co ~= nil and not is_main and cqueues.running() ~= nil
    end,

    suspend = function(w)
        if w.listens then
            return listen_until_done(host.box, w)
        end
        w.condition = w.condition or condition.new()
        w.condition:wait()
    end,

    wake = function(w)
        if w.condition then
            w.condition:signal()
        end
    end,

    listen = listen,

    spawn = function(fn)
        (cqueues.running() or reminding):wrap(fn)
    end,

    remind = function(seconds, fn)
        reminder, remind_at = fn, cqueues.monotime() + seconds
    end,
}

return host
