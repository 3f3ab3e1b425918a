--- The getters of the other kinds, as methods of clients.

local election = require "redlock.kinds.election"
local fair_lock = require "redlock.kinds.fair_lock"
local fenced_lock = require "redlock.kinds.fenced_lock"
local fenced_write_lock = require "redlock.kinds.fenced_write_lock"
local latch = require "redlock.kinds.latch"
local lock = require "redlock.lock.lock"
local multi_lock = require "redlock.kinds.multi_lock"
local once = require "redlock.kinds.once"
local rate_limiter = require "redlock.kinds.rate_limiter"
local read_write_lock = require "redlock.kinds.read_write_lock"
local semaphore = require "redlock.kinds.semaphore"

local ipairs = ipairs

local _M = {}

--- @return the primitives whose holds can be exported, by name
function _M.kinds()
    local kinds = {}
    for _, prim in ipairs { read_write_lock.reading, read_write_lock.writing, multi_lock.primitive,
        fenced_lock, fenced_write_lock, semaphore.permit, fair_lock } do
        kinds[prim.name] = prim
    end
    return kinds
end

local methods = {}
_M.methods = methods

--- Many readers at once, or one writer.
function methods:getReadWriteLock(name, opts)
    return fenced_write_lock.pair(self, name, opts)
end

--- Several names at once, all or none.
function methods:getMultiLock(names, opts)
    return multi_lock.new(self, names, opts)
end

--- At most `permits` holders at once, each with a permit that ends by itself.
function methods:getSemaphore(name, permits, opts)
    return semaphore.new(self, name, permits, opts)
end

--- An alias: all permits end by themselves.
methods.getPermitExpirableSemaphore = methods.getSemaphore

--- Opens when all parties have arrived, and stays open.
function methods:getCountDownLatch(name, opts)
    return latch.new(self, name, opts)
end

--- One of several candidates leads.
function methods:getElection(name, opts)
    return election.new(self, name, opts)
end

--- Runs fn() unless somebody has run it in this period. An error with `before`: fn did not run.
function methods:once(name, period, fn, opts)
    return once.once(self, name, period, fn, opts)
end

--- At most `n` starts in any window of a period.
function methods:getRateLimiter(name, n, period)
    return rate_limiter.new(self, name, n, period)
end

--- A lock that waiters get in the order in which they came.
function methods:getFairLock(name, opts)
    return lock.new(self, fair_lock, name, opts)
end

return _M
