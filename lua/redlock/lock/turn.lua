--- A call's wait for its turn (see acquire.lua). In a process whose owners do not block each other,
-- one call at a time contends on the network, and only while no owner here holds the lock.

local deadlock = require "redlock.lock.deadlock"
local errors = require "redlock.runtime.errors"
local hooks = require "redlock.lock.hooks"
local handover = require "redlock.lock.handover"
local holders = require "redlock.inspect.holders"
local local_queue = require "redlock.lock.local_queue"
local reentry = require "redlock.lock.reentry"
local rounds = require "redlock.runtime.rounds"
local outcomes = require "redlock.lock.outcomes"

local min, type = math.min, type

local _M = {}

-- Seconds between two attempts of the first call that others ask for, to get their tickets.
local PACE = 0.1

local function note_contended(lock, owner)
    local client = lock.client
    outcomes.contended(client, lock.name)
    if client.events.fn then
        client.events:emit { type = "contended", name = lock.name, owner = owner,
            traceparent = lock.traceparent }
    end
end

-- @return nil; or why a call must not wait: deadlock, overload (too many calls of this process
--   wait already)
local function why_not_wait(call)
    local client, place = call.lock.client, call.place
    local left = call.deadline - client.now()
    if not place and not call.free then
        local vain = call.deadline > call.started and deadlock.is_certain
            or deadlock.is_in_vain_beside      -- one attempt: others' holds of this kind are `held`
        return vain(call, left) and "deadlock" or nil
    elseif deadlock.is_in_vain_beside(call, left)
        or call.free and deadlock.is_in_vain(call, left) then
        return "deadlock"
    end
    local most = client.options.max_waiting      -- a call with a place is one of them
    local before = place and place.behind or client.waiting
    if before >= most and (client.waiting > most or not place) then
        client.counters.overloaded = client.counters.overloaded + 1
        return "overload"
    end
end

--- Counts a call as contended, the first time that it has to wait.
-- @return nil; or an error: deadlock, overload
function _M.begin_waiting(call)
    if call.waits then
        return nil
    end
    note_contended(call.lock, call.owner)
    local code = why_not_wait(call)
    if code then
        return errors.new(code, call.lock)
    end
    call.waits = true
    if call.free then
        call.place = local_queue.place(call.lock, call.lease, call.deadline, call.wait)
        call.place:stand()
    end
    return nil
end

-- For how many seconds at least another owner of this process keeps the lock.
local function left_here(lock)
    return lock.primitive.shared and 0 or lock.client.holds:left_here(lock.id)
end

-- Whether somebody is known to have the lock. If not, a call is owed an answer of the servers.
local function is_held(call)
    return call.place.queue.held or left_here(call.lock) > 0
end

-- Seconds that a call which is not first sleeps. Has the first one draw its ticket.
local function wait_behind(call)
    local client, queue = call.lock.client, call.place.queue
    local nap = client.host.nap      -- to find killed calls that keep their place
    if not call.lock.primitive.places or call.wait.ticket then
        return nap
    end
    local left = queue.asked + PACE - client.now()
    if left <= 0 then
        local_queue.wake_first(queue)
        left = PACE
    end
    return min(left, nap)
end

-- For how many seconds at least it is not the turn of a call; 0: it is.
local function wait_at_least(call)
    local lock, client = call.lock, call.lock.client
    if not call.place:is_first() then
        return wait_behind(call)
    end
    client.holds:poll()          -- perhaps nothing else finds owners that ended
    if lock.primitive.places then
        return 0
    end
    local pause = left_here(lock)
    if pause == 0 then
        pause = handover.yield_for(lock, client.now())
    end
    return min(pause, client.options.fallback)
end

-- The next step of a call in a queue.
-- @return the seconds that it is to sleep; or as wait()
local function next_step(call)
    local lock, client = call.lock, call.lock.client
    if call.place.offer then
        call.tried = true
        if handover.take(call) then
            return true
        end
    else
        -- By another coroutine of the owner?
        local entered, err = reentry.enter(lock, call.owner, call.lease)
        if entered and lock.primitive.places then
            hooks.gave_up(call)
        end
        if entered or err then
            return entered or err
        end
    end
    local left = call.deadline - client.now()
    if deadlock.is_in_vain(call, left) then
        return errors.new("deadlock", lock)
    end
    local pause, over = wait_at_least(call), rounds.to_ms(left) <= 0
    if over and (call.tried or pause > 0 and is_held(call)) then
        local err = errors.new("held", lock)
        errors.name(err, lock, holders.unasked(call))
        return err
    elseif over or pause == 0 then
        local queue = call.place.queue
        call.before, queue.before = queue.before, nil
        return nil
    end
    return _M.begin_waiting(call) or min(left, pause + 0.001)
end

--- Sleeps in the queue until it is the call's turn to try, or its time has passed and the calls
-- before it have no answer yet.
-- @return nil: the call is to try; true: it holds the lock; or an error: held, deadlock,
--   overload, closed
function _M.wait(call)
    call.tried = false
    local client, step = call.lock.client, next_step(call)
    while type(step) == "number" do
        if not rounds.is_ending(client) then
            local_queue.sleep(call.place, nil, step)
        end
        step = rounds.is_ending(client) and errors.new("closed", call.lock) or next_step(call)
    end
    return step
end

return _M
