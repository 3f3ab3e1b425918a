--- Re-entry: an owner takes again what it holds. If the call wants a longer lease than is left,
-- the hold is extended. If it wants one that is renewed, the watchdog keeps the hold from then on,
-- until the last unlock.

local changes = require "redlock.runtime.changes"
local errors = require "redlock.runtime.errors"
local local_queue = require "redlock.lock.local_queue"
local rounds = require "redlock.runtime.rounds"

local max = math.max

local _M = {}

--- Extends a hold, or with `lease` 0 only asks.
-- @return true; or nil and an error: after `no_quorum` the old validity stands; `not_held`: perhaps
--   another coroutine released it during the call
function _M.extend(lock, owner, hold, lease)
    local client = lock.client
    hold.extended = hold.extended or lease ~= 0
    local ok, err = rounds.extend(client, lock, hold.lease, lease)
    if client.holds:get(owner, hold.id) ~= hold then
        return nil, errors.new(client.closed and "closed" or "not_held", lock)
    elseif ok then
        return true
    end
    if err.code == "not_held" then       -- voided during the call: it was held
        err = errors.new("lost", lock)
    end
    if err.code == "lost" then
        client.holds:lose(hold, changes.why_lost(hold.lease) or "expired")
        errors.because(err, lock, hold.lost)
    end
    return nil, err
end

--- Gives a hold the lease that another call wants as well. Where the caller cannot wait, the lease
-- stays as it is.
-- lease: seconds; nil: the client's, kept by the watchdog.
-- @return true; or nil and an error, as extend()
function _M.grow(lock, owner, hold, lease)
    local client = lock.client
    local keep = not lease and not hold.kept and lock.primitive.extend_script
    if not (lease or keep) or not client.host.can_wait() then
        return true
    end
    local seconds = lease or max(hold.seconds, client.options.lease)
    if rounds.remaining(hold.lease) < local_queue.least_left(client, seconds) then
        local ok, err = _M.extend(lock, owner, hold, seconds)
        if not ok then
            return nil, err
        end
    end
    if keep and not hold.kept then
        client.holds:keep(hold, seconds, client.options.max_hold)
    end
    hold.seconds = max(hold.seconds, seconds)
    return true
end

--- Enters again what an owner holds. lease: as for grow().
-- @return true; false: the owner does not hold it; or nil and an error
function _M.enter(lock, owner, lease)
    local holds, may = lock.client.holds, lock.primitive.reenter
    local hold = holds:get(owner, lock.id)
    if not hold or rounds.remaining(hold.lease) <= 0 then
        return false
    end
    local ok, err = true, nil
    if may then
        ok, err = may(lock, hold)
        err = not ok and errors.new(err or "deadlock", lock)
    end
    if ok then
        ok, err = _M.grow(lock, owner, hold, lease)
    end
    if ok then
        hold.count = hold.count + 1
    elseif err.code == "not_held" then       -- another coroutine released it meanwhile
        return false
    end
    return ok, err
end

return _M
