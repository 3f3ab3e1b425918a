--- One attempt to take a lock: on all servers at once, and for its owner.

local rounds = require "redlock.core.rounds"

local error, max, next, pcall = error, math.max, next, pcall

local _M = {}

--- What was taken gets its owner.
-- @param lock    a lock object
-- @param owner   who has it now
-- @param lease   seconds, or nil: the client's, kept by the watchdog
-- @param handle  the lease
-- @param from    the hold it was passed on from, or nil
-- @return true; nil: the client was closed meanwhile, and it is let go
function _M.taken(lock, owner, lease, handle, from)
    local client, prim = lock.client, lock.primitive
    if client.closed then
        rounds.claim()
        rounds.abandon(handle)
        return nil
    end
    local seconds = lease or client.options.lease
    local kept = not lease and prim.extend_script ~= nil
    if kept then
        rounds.keep(handle, seconds, client.options.max_hold)
    end
    client.holds:set(owner, lock.id,
        { lease = handle, count = 1, seconds = seconds, kept = kept, name = lock.name,
            primitive = prim, taker = false,
            passed = from and from.passed + 1 or 0, since = from and from.since or client.now() })
    rounds.claim()
    return true
end

--- Seconds until a time comes; 0: it has; nil: there is none.
function _M.left_until(ends, client)
    return ends and max(ends - client.now(), 0)
end
local left_until = _M.left_until

-- Asks the servers for it, once.
-- @return as rounds.acquire
local function ask(lock, lease, within, home, op)
    local client, prim = lock.client, lock.primitive
    return rounds.acquire(client, prim, prim.keys(client, lock.name), prim.args(lock),
        lease or client.options.lease, within, home, op)
end

-- The same for a lock with fencing tokens: servers that do not know what they have counted
-- learn it first.
local function ask_seeded(lock, lease, within, home, op)
    local client, prim = lock.client, lock.primitive
    local ends = within and client.now() + within
    if next(client.unseeded) ~= nil then
        prim.unseeded(lock, op, within, true)
        within = left_until(ends, client)
    end
    local handle, round = ask(lock, lease, within, home, op)
    if handle or not rounds.is_unseeded(round) then
        return handle, round
    end
    local seeded
    seeded, lock.unseeded_for = prim.unseeded(lock, op, left_until(ends, client))
    within = left_until(ends, client)
    if not seeded or within == 0 then
        return nil, round
    end
    rounds.free(round)
    return ask(lock, lease, within, home, op)
end

-- One attempt.
-- @param lease   seconds, or nil: the client's lease, kept by the watchdog
-- @param within  seconds that all of it may take, or nil
-- @param op      who is to be told when the caller is killed meanwhile, or nil
-- @return true, and it is held; or nil and its round
local function attempt(lock, owner, lease, within, home, op)
    local request = lock.primitive.unseeded and ask_seeded or ask
    local handle, round = request(lock, lease, within, home, op)
    if not handle then
        return nil, round
    end
    return _M.taken(lock, owner, lease, handle)
end

--- The same; what an interrupt leaves half-done is released before it goes on.
function _M.make(...)
    local ok, got, round = pcall(attempt, ...)
    if not ok then
        rounds.interrupted()
        error(got, 0)
    end
    return got, round
end

return _M
