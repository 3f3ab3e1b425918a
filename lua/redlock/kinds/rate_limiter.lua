--- Rate limiters: at most so many starts in any window of the period.
--
-- A start takes a slot of a semaphore, which nobody lets go: it ends by itself when the period is
-- over. So there are never more starts in a window of the period, less what clocks drift, than
-- there are slots; a start counts from when it was asked for.

local future = require "redlock.lock.future"
local lock = require "redlock.lock.lock"
local options = require "redlock.servers.options"
local printable = require("redlock.runtime.encoding").printable
local rounds = require "redlock.runtime.rounds"
local ffi_values = require "redlock.runtime.ffi_values"
local semaphore = require "redlock.kinds.semaphore"
local validate = require "redlock.runtime.validate"

local setmetatable, min = setmetatable, math.min
local format = string.format

local _M = { MAX = 128 }

local Limiter, methods = {}, {}

-- Leaves a slot to its time. A permit that was taken for the whole period is just forgotten; where
-- servers gave other slots they are told, as nobody extends it.
-- @return true; or nil and an error
local function leave(self, permit)
    local longest = options.longest_lease(self.client.options)
    if self.period > longest then
        return permit:settle(self.period)
    end
    local client, owner = self.client, lock.owner_of(permit)
    local hold = lock.hold_of(permit, owner)
    if not hold then
        return lock.failure(permit, "closed")
    end
    local args = { ffi_values.of(hold.lease), format("%d", rounds.to_ms(self.period)),
        format("%.0f", rounds.token(hold.lease)), "1", "0", "" }
    client.holds:remove(owner, permit.id)
    rounds.disown(hold.lease)
    rounds.say(client, semaphore.permit, "settle", semaphore.permit.keys(client, permit.name), args)
    return true
end

--- Waits until there is room for a start.
-- @param wait  seconds; default: as long as it takes; 0: asks once
-- @return true: start now; or nil and an error: held (there was no room in time), no_quorum,
--   expired, unknown, overload, phase, closed
function methods:acquire(wait)
    lock.check_wait(wait)
    local lease = min(self.period, options.longest_lease(self.client.options))
    local permit = semaphore.permit_of(self)
    local ok, err = permit[wait == nil and "lock" or "tryLock"](permit, wait or lease, lease)
    if not ok then
        return nil, err
    end
    return leave(self, permit)
end

--- The same for a call that does not wait if it is not told to.
-- @param wait  seconds; default: 0
-- @return as acquire()
function methods:tryAcquire(wait)
    return self:acquire(wait or 0)
end

--- @return a future of what acquire() returns; and so on
function methods:acquireAsync(wait)
    lock.check_wait(wait)
    return future.start(self.client, self.acquire, self, wait)
end

function methods:tryAcquireAsync(wait)
    return self:acquireAsync(wait or 0)
end

--- @return how many starts there is room for now, as a majority of the servers sees it; or nil and
--   an error: no_quorum, phase, closed
methods.availablePermits = semaphore.available

--- @return the name as it was given
function methods:getName() return self.given end

--- For people: rate limiter(mails, 3 in 60 s)
function methods:__tostring()
    return format("rate limiter(%s, %d in %g s)", printable(self.given), self.permits, self.period)
end

Limiter.__index = Limiter
validate.methods(Limiter, "limiter", methods)

--- See Client:getRateLimiter.
function _M.new(client, name, n, period)
    validate.integer("n", n, 1, _M.MAX)
    validate.seconds("period", period, options.min_lease(client.options), rounds.FOREVER)
    lock.new(client, semaphore.permit, name)     -- checks the name
    return setmetatable({ client = client, given = name, name = name .. ":rate", permits = n,
        period = period }, Limiter)
end

return _M
