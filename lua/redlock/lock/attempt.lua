--- One attempt of a call (see acquire.lua): on all servers at once, and for its owner.

local hooks = require "redlock.lock.hooks"
local rounds = require "redlock.runtime.rounds"

local max, next, huge = math.max, next, math.huge

local _M = {}

--- Seconds of the lease that a call wants.
function _M.seconds(call)
    return call.lease or call.lock.client.options.lease
end
local seconds_of = _M.seconds

--- Registers a granted lease as the owner's hold, and starts the watchdog.
-- @param call    who has it now
-- @param handle  the lease
-- @param from    the hold it was passed on from, or nil
-- @return true; nil: the client was closed meanwhile, and the lease is let go
function _M.register(call, handle, from)
    local lock, lease = call.lock, call.lease
    local client, prim = lock.client, lock.primitive
    if client.closed then
        rounds.claim(call)
        rounds.abandon(handle)
        return nil
    end
    local seconds, now = seconds_of(call), client.now()
    local kept = not lease and prim.extend_script ~= nil
    if kept then
        rounds.keep(handle, seconds, client.options.max_hold)
    end
    local hold = { lease = handle, count = 1, seconds = seconds, kept = kept, name = lock.name,
        primitive = prim, taker = false, passed = 0, since = now,
        -- Room for what follows: a table that grows is slow.
        id = nil, mine = nil, key = nil, looked = nil, line = nil, number = nil, ends = nil }
    if from then
        hold.passed, hold.run = from.passed + 1, from.run or from.since
    end
    if lock.label ~= client.label then
        hold.label = lock.label
    end
    if lock.traceparent then
        hold.traceparent = lock.traceparent
    end
    call.got = now
    client.holds:set(call.owner, lock.id, hold, now, now + (call.left or rounds.remaining(handle)))
    rounds.claim(call)
    if call.wait then
        hooks.granted(call, client.holds:get(call.owner, lock.id))
    end
    return true
end

-- What an attempt asks the servers for.
local function request_of(call)
    local lock = call.lock
    local client, prim = lock.client, lock.primitive
    return prim, prim.keys(client, lock.name), prim.args(lock, call.wait and hooks.attempt(call)),
        seconds_of(call), max(call.ends - call.now, 0)
end

-- Asks the servers for the lock, once.
-- @return as rounds.acquire
local function ask(call)
    return rounds.acquire(call, request_of(call))
end

--- Begins to try for a future, of a primitive without unseeded().
-- @return the round, or nil
function _M.begin(call)
    return rounds.begin_acquire(call, request_of(call))
end

--- The attempt that was begun is decided.
-- @return as make()
function _M.decided(call, round)
    return _M.took(call, rounds.decided(call, round, true))
end

-- Seconds that the rest of an attempt may take; nil: it has no end.
local function time_left(call)
    call.now = call.lock.client.now()
    return call.ends < huge and max(call.ends - call.now, 0) or nil
end

-- Asks for a lock with fencing tokens: servers that do not know what they have counted learn it
-- first.
-- @return as rounds.acquire
local function ask_seeded(call)
    local lock, place = call.lock, call.place
    local unseeded = lock.primitive.unseeded
    if next(lock.client.unseeded) ~= nil then
        unseeded(lock, place, time_left(call), true)
        call.now = lock.client.now()
    end
    local handle, round = ask(call)
    if handle or not rounds.is_unseeded(round) then
        return handle, round
    end
    local seeded
    seeded, call.seeding = unseeded(lock, place, time_left(call))
    if not seeded or time_left(call) == 0 then
        return nil, round
    end
    rounds.free(round)
    return ask(call)
end

--- Takes the round of the attempt that failed out of a call.
-- @return the round, or nil
function _M.take_round(call)
    local round = call.round
    call.round = nil
    return round
end

--- Gives back the round of an attempt that failed.
function _M.forget(call)
    rounds.free(_M.take_round(call))
end

--- Tries once. An error that is raised (Ctrl-C) leaves the lease in call.lease_out.
-- @return true, and the lock is held; or nil, and call.round is the round of the attempt
function _M.make(call)
    local request = call.lock.primitive.unseeded and ask_seeded or ask
    return _M.took(call, request(call))
end

--- An attempt is decided.
-- (handle: the lease, or nil.)
-- @return as make()
function _M.took(call, handle, round)
    if handle then
        return _M.register(call, handle)
    end
    call.round = round
    return nil
end

return _M
