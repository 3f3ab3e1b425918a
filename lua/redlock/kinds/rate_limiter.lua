--- Rate limiters: at most `n` starts in any window of the period.
--
-- A start takes a slot of a semaphore that nobody releases; the slot ends with the period. So a
-- window of the period, less the drift of clocks, never has more starts than slots. A start counts
-- from when it is granted.

local closing = require "redlock.lock.closing"
local future = require "redlock.lock.future"
local lock = require "redlock.lock.lock"
local options = require "redlock.servers.options"
local printable = require("redlock.text.encoding").printable
local rounds = require "redlock.runtime.rounds"
local semaphore = require "redlock.kinds.semaphore"
local validate = require "redlock.runtime.validate"

local setmetatable, min = setmetatable, math.min
local format = string.format

local _M = { MAX = 128 }

local Limiter, methods = {}, {}

-- Keeps the slot of a permit until its time ends. Just forgets one that was taken for the whole
-- period, and tells servers that gave other slots, as no extension will.
-- @return true; or nil and an error
local function use_up(self, permit)
    local longest = options.longest_lease(self.client.options)
    if self.period > longest then
        return permit:settle(self.period)
    end
    local hold = lock.hold_of(permit)
    if not hold then
        return lock.failure(permit, "closed")
    end
    closing.settle_unconfirmed(permit, permit.owner, hold, self.period)
    return true
end

function methods:acquire(wait)
    lock.check_wait(wait)
    local lease = min(self.period, options.longest_lease(self.client.options))
    local permit = semaphore.permit_of(self)
    local ok, err
    if wait then
        ok, err = permit:tryLock(wait, lease)
    else
        ok, err = permit:lock(lease)
    end
    if not ok then
        return nil, err
    end
    return use_up(self, permit)
end

function methods:tryAcquire(wait)
    return self:acquire(wait or 0)
end

function methods:acquireAsync(wait)
    lock.check_wait(wait)
    return future.start(self.client, self.acquire, self, wait)
end

function methods:tryAcquireAsync(wait)
    return self:acquireAsync(wait or 0)
end

methods.availablePermits = semaphore.available

function methods:getName() return self.given end

function methods:__tostring()
    return format("rate limiter(%s, %d in %g s)", printable(self.given), self.permits, self.period)
end
validate.methods(Limiter, "limiter", methods)

function _M.new(client, name, n, period)
    validate.integer("n", n, 1, _M.MAX)
    validate.seconds("period", period, options.min_lease(client.options), rounds.FOREVER)
    lock.new(client, semaphore.permit, name)     -- checks the name
    return setmetatable({ client = client, given = name, name = name .. ":rate", permits = n,
        period = period }, Limiter)
end

return _M
