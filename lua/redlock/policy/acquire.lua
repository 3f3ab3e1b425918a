--- The way of a lock: a call waits for its turn, tries once, decides, and sleeps until the next
-- attempt is worth it.
--
-- All that is known of a call of lock() or tryLock() is in one record, which every step gets:
--   lock, owner  what is wanted, and for whom
--   lease        seconds, or nil: the client's, kept by the watchdog
--   patience     seconds without the answer of a majority after which the call gives up
--   started      when the call began, of client.now()
--   deadline     when the wait is over; huge: it has no end
--   now, ends    when the attempt begins, and when it must be over
--   answered     when servers were last known to answer, or to have a reason not to; nil: never
--   lease_out    where the core puts the lease of an attempt; empty when that has its owner
--                (rounds.claim)
--   place        in the queue of this process, or nil: there is none
--   free         whether it contends beside the others of this process, who do not block it
--   alone        what ends with such a call when its coroutine is killed, once it waits (turn.lua)
--   wait         what the primitive's functions are told (hooks.lua), or nil
--   answers      of the servers to the attempt that was granted, with `wait`
--   tried        whether the call has tried to take what it was offered, in this turn
--   waits        whether the first attempt has failed, or could not be made at once
--   round        of the last attempt, which failed; nil: it could not even be started
--   outcome      what became of that attempt, a code
--   guarded      seconds until quarantines let a majority vote, or nil
--   seeding      the error of the primitive's unseeded(), or nil
-- and from the first sleep between two attempts on (waking.lua):
--   subscription what wakes the call, or nil
--   channel      of the subscription
--   seen         how many wakes lie behind; nil: the call has not subscribed
--   opened       how many of those wakes had a majority of servers behind them
--   woken        whether a message ended the last sleep
--   vain         wakes in a row after which the same holders were found
--   holders      by server: who had the lock
--   splits       attempts that split the votes
--   home         the server to be asked first, from the first such attempt until that server
--                refuses; or nil
--
-- A step returns nil: the next one follows; true: the lock is held; or the error that the call
-- ends with.

local attempt = require "redlock.policy.attempt"
local deadlock = require "redlock.policy.deadlock"
local errors = require "redlock.core.errors"
local handover = require "redlock.policy.handover"
local hooks = require "redlock.policy.hooks"
local queues = require "redlock.policy.queues"
local restart_guard = require "redlock.policy.restart_guard"
local rounds = require "redlock.core.rounds"
local turn = require "redlock.policy.turn"
local waking = require "redlock.policy.waking"

local error, pcall = error, pcall
local max, min, huge = math.max, math.min, math.huge

local _M = {}

local RETRY = { held = true, no_quorum = true, expired = true }

local function new_call(lock, owner, lease, wait, patience)
    local client = lock.client
    local o, now = client.options, client.now()
    -- The first attempt of all may take the time to connect.
    local answer = client.used and o.timeout or max(o.connect_timeout, o.timeout)
    client.used = true
    return {
        lock = lock, owner = owner, lease = lease, patience = patience, started = now, now = now,
        deadline = wait and now + wait or huge, ends = wait and now + wait + answer or huge,
        lease_out = rounds.lease_out(), place = nil, free = false, waits = false,
        wait = hooks.begin(lock),
    }
end

-- ---- the steps -------------------------------------------------------------------

-- Waits until no other owner of this process is before the call.
local function wait_for_turn(call)
    if call.place then
        return turn.wait(call)
    elseif not call.waits and call.deadline > call.started then
        local client, pause = call.lock.client, handover.yield_for(call.lock)
        if pause > 0 then
            rounds.sleep(client, min(pause, call.deadline - call.started))
            call.now = client.now()
        end
    end
end

-- Makes an attempt, and another one when there is a new password: the first may have failed for
-- want of it.
local function try_once(call)
    local client = call.lock.client
    if call.waits then
        call.now = client.now()
        call.ends = max(call.deadline, call.now) + client.options.timeout
    end
    local held = attempt.make(call)
    if not held and client.credentials:poll() then
        attempt.forget(call)
        call.now = client.now()
        held = attempt.make(call)
    end
    return held
end

-- Whether there is to be another attempt.
local function decide(call)
    local lock, client = call.lock, call.lock.client
    local err = hooks.refused(call) or turn.begin_waiting(call)
    if err then
        return err
    end
    local now, code = client.now(), rounds.outcome(client, call.round)
    local guarded = code == "no_quorum" and restart_guard.left(client) or nil
    if call.place then
        call.place.queue.held = code == "held"
    end
    if code == "held" or guarded then
        call.answered = now   -- patience is for servers that do not answer
    end
    if not RETRY[code] or rounds.to_ms(call.deadline - now) <= 0
        or now - (call.answered or call.started) >= call.patience then
        return rounds.failure(client, lock, attempt.take_round(call), call.seeding)
    end
    call.outcome, call.guarded = code, guarded
end

local function sleep_until_worth_it(call)
    local lock, client = call.lock, call.lock.client
    waking.sleep(call)
    if client.closed then
        return errors.new("closed", lock)
    elseif not call.place and not call.free and deadlock.is_certain(call) then
        return errors.new("deadlock", lock)
    end
    client.credentials:poll()
end

-- Redlock: (1) note the time, (2) ask all servers, (3) hold the lock if a majority grants it in
-- less than the lease, (4) for what is left of the lease, (5) else release it on every server,
-- and try again after a random pause. (1) to (5) are try_once(), (2) to (5) within the core.
-- @return true, or the error that the call ends with
local function run(call)
    -- The first try stands before the loop: LuaJIT gives up a trace that enters one.
    local result = wait_for_turn(call) or try_once(call)
    while not result do
        result = decide(call) or sleep_until_worth_it(call)
            or wait_for_turn(call) or try_once(call)
    end
    return result
end

-- ---- the call --------------------------------------------------------------------

-- Gives back what a call that is over has: a round, a subscription, a place in the queue.
local function leave(call)
    attempt.forget(call)
    waking.finish(call)
    turn.leave(call)
    local place = call.place
    if place and place.offer then        -- too late for this call: goes to the next one
        place:vanish()
    elseif place then
        place:leave()
    end
end

--- Takes the lock for an owner who does not hold it.
-- @param lock      a lock object
-- @param owner     who wants it
-- @param lease     seconds, or nil: the client's, kept by the watchdog
-- @param wait      seconds, or nil: as long as it is held
-- @param patience  seconds without a majority after which it gives up
-- @return true, or nil and an error: also `deadlock`, `overload`
function _M.acquire(lock, owner, lease, wait, patience)
    local client = lock.client
    local call = new_call(lock, owner, lease, wait, patience)
    if wait ~= 0 and client.host.concurrent(client) then
        if lock.primitive.line then
            call.place = queues.join(client, lock.id, call.deadline)
        else
            call.free = true
        end
    end
    local ok, result = pcall(run, call)
    if not ok then
        rounds.interrupted(call)
    end
    leave(call)
    if result ~= true then
        hooks.gave_up(call)
    end
    if not ok then
        error(result, 0)
    end
    local counters = client.counters
    if result == true then
        counters.acquired = counters.acquired + 1
        if client.events.fn then
            client.events:emit { type = "acquired", name = lock.name, owner = owner,
                waited = client.now() - call.started }
        end
        return true
    end
    counters.failed = counters.failed + 1
    result.waited = client.now() - call.started
    return nil, result
end

return _M
