--- One attempt of a call (see acquire.lua): asks all servers at once.

local hooks = require "redlock.lock.hooks"
local rounds = require "redlock.runtime.rounds"

local max, huge = math.max, math.huge

local _M = {}

function _M.seconds(call)
    return call.lease or call.lock.client.options.lease
end
local seconds_of = _M.seconds

--- Registers a granted lease as the hold of a call's owner, and starts the watchdog. from: the hold
-- that was passed on, or nil.
-- @return true; nil: the client was closed meanwhile, or there is no thread for the watchdog, and
--   the lease is released
function _M.register(call, handle, from)
    local lock, lease = call.lock, call.lease
    local client, prim = lock.client, lock.primitive
    local seconds, now = seconds_of(call), client.now()
    local kept = (call.keep or not lease) and prim.extend_script ~= nil
    if client.closed or kept and not rounds.keep(handle, seconds, client.options.max_hold) then
        rounds.claim(call)
        rounds.give(handle, "abandon")
        return nil
    end
    local hold = { lease = handle, count = 1, seconds = seconds, kept = kept, name = lock.name,
        primitive = prim, taker = false, passed = 0, since = now,
        -- Fields for later: a table that grows is slow. A nil would keep no room.
        id = false, mine = false, key = false, seen = false, line = false, number = false,
        ends = false }
    from = from or call.before
    if from then
        hold.passed, hold.run = from.passed + 1, from.run or from.since
    end
    if lock.label ~= client.label then
        hold.label = lock.label
    end
    if lock.traceparent then
        hold.traceparent = lock.traceparent
    end
    call.hold = hold
    -- A lower bound will do: by then the core is asked.
    local ends = call.blocks and call.now + seconds * (1 - client.options.drift_factor) - 0.003
        or now + (call.left or rounds.remaining(handle))
    client.holds:set(call.owner, lock.id, hold, now, ends)
    rounds.claim(call)
    local early = lock.early and lock.early[call.owner]      -- of onLost() before
    if early then
        lock.early[call.owner] = nil
        for i = 1, #early do
            client.holds:on_lost(hold, early[i], lock)
        end
    end
    if call.wait then
        hooks.granted(call, client.holds:get(call.owner, lock.id))
    end
    return true
end

-- @return the arguments of rounds.acquire, after the call
local function request_of(call)
    local lock = call.lock
    local client, prim = lock.client, lock.primitive
    return prim, prim.keys(client, lock.name), prim.args(lock, call.wait and hooks.attempt(call)),
        seconds_of(call), max(call.ends - call.now, 0)
end

--- Begins an attempt for a future.
-- @return the round, or nil
function _M.begin(call)
    return rounds.begin_acquire(call, request_of(call))
end

--- Registers the lease if the round of begin() was granted.
-- @return true: the lock is held; or nil: the attempt failed, and its round is call.round
function _M.decided(call, round)
    return _M.took(call, rounds.decided(call, round, true))
end

-- Seconds that the rest of an attempt may take; nil: no limit.
local function time_left(call)
    call.now = call.lock.client.now()
    return call.ends < huge and max(call.ends - call.now, 0) or nil
end

-- Asks for a lock; once more if servers had to learn first which fencing tokens they counted.
-- @return as rounds.acquire
local function ask_taught(call)
    local handle, round = rounds.acquire(call, request_of(call))
    if handle or not rounds.is_unseeded(round) then
        return handle, round
    end
    call.lesson = rounds.teach(call.lock.client, call.place, time_left(call))
    if not call.lesson or time_left(call) == 0 then
        return nil, round
    end
    rounds.free(round)
    return rounds.acquire(call, request_of(call))
end

--- Removes the round of the failed attempt from a call.
-- @return the round, or nil
function _M.take_round(call)
    local round = call.round
    call.round = nil
    return round
end

function _M.forget(call)
    rounds.free(_M.take_round(call))
end

--- Makes one attempt. If it raises (Ctrl-C), the lease stays in call.lease_out.
-- @return as decided()
function _M.make(call)
    return _M.took(call, ask_taught(call))
end

--- Registers the lease `handle` of an attempt, or keeps the round of a failed one (nil).
-- @return as decided()
function _M.took(call, handle, round)
    if handle then
        return _M.register(call, handle)
    end
    call.round = round
    return nil
end

return _M
