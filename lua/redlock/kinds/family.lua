--- The other members of the family, as methods of clients. Each is loaded at its first use.

local loader = require("redlock.runtime.lazy").loader
local lock = require "redlock.lock.lock"

local election = loader "redlock.kinds.election"
local fair_lock = loader "redlock.kinds.fair_lock"
local fenced_lock = loader "redlock.kinds.fenced_lock"
local fenced_write_lock = loader "redlock.kinds.fenced_write_lock"
local latch = loader "redlock.kinds.latch"
local multi_lock = loader "redlock.kinds.multi_lock"
local once = loader "redlock.kinds.once"
local rate_limiter = loader "redlock.kinds.rate_limiter"
local read_write_lock = loader "redlock.kinds.read_write_lock"
local semaphore = loader "redlock.kinds.semaphore"

local ipairs = ipairs

local _M = {}

--- @return the primitives whose holds can be exported, by their names
function _M.kinds()
    local kinds = {}
    for _, prim in ipairs { read_write_lock().reading, read_write_lock().writing,
        multi_lock().primitive, fenced_lock(), fenced_write_lock(), semaphore().permit,
        fair_lock() } do
        kinds[prim.name] = prim
    end
    return kinds
end

local methods = {}
_M.methods = methods

--- Many readers at once, or one writer. No I/O.
-- @param name  as for getLock; plain and fenced locks of the name exclude both
-- @param opts  as for getLock; fenced: true: writers have tokens, in one sequence with those of
--   fenced locks of the name. Who writes then cannot read as well (deadlock)
-- @return an object with readLock() and writeLock(), each with the methods of a lock (see
--   read_write_lock.lua)
function methods:getReadWriteLock(name, opts)
    return fenced_write_lock().pair(self, name, opts)
end

--- Several names at once, all or none. No I/O.
-- @param names  a list of 1 to 128 names, each as for getLock; locks of each name exclude it
-- @param opts   as for getLock
-- @return a lock object, with getNames() (see multi_lock.lua)
function methods:getMultiLock(names, opts)
    return multi_lock().new(self, names, opts)
end

--- At most so many holders at once, each with a permit that ends by itself. No I/O.
-- @param name     as for getLock, in a name space of its own
-- @param permits  1 to 1024: the same for all who use the name; where they differ, the largest
--   number of a client that is alive is the bound
-- @param opts     fenced: true: each permit has a token, counted per slot
-- @return a semaphore (see semaphore.lua)
function methods:getSemaphore(name, permits, opts)
    return semaphore().new(self, name, permits, opts)
end

--- The same: permits always end by themselves.
methods.getPermitExpirableSemaphore = methods.getSemaphore

--- Opens when so many parties have arrived, and stays open. No I/O.
-- @param name  as for getLock, in a name space of its own
-- @param opts  ttl: seconds that it stays on the servers after the last arrival; default: 86400
-- @return a latch (see latch.lua)
function methods:getCountDownLatch(name, opts)
    return latch().new(self, name, opts)
end

--- One of several candidates leads. No I/O.
-- @param name  as for getLock: locks of the name exclude the leader
-- @param opts  id: who stands for election, 1 to 160 bytes; on_elected(election, term), on_lost(
--   election, reason)
-- @return an election, as one candidate sees it (see election.lua)
function methods:getElection(name, opts)
    return election().new(self, name, opts)
end

--- Runs fn() if nobody has run it in this period.
-- @param name    as for getLock: locks of the name exclude it
-- @param period  seconds from the start of a run on in which there is no other
-- @param fn      the job; an error of it is raised again
-- @param opts    before: true: never starts twice in a period, whatever becomes of the first start;
--   default: a run that fails or dies may be repeated. owner: as for getLock
-- @return true and fn's results; false: somebody runs it, or has; or nil and an error: no_quorum,
--   expired, unknown, closed: with `before` fn did not run; without it the period may be open, also
--   lost: somebody else may have run it as well
function methods:once(name, period, fn, opts)
    return once().once(self, name, period, fn, opts)
end

--- At most so many starts in any window of a period. No I/O.
-- @param name    as for getLock, in a name space of its own
-- @param n       1 to 128 starts
-- @param period  seconds
-- @return a limiter (see rate_limiter.lua)
function methods:getRateLimiter(name, n, period)
    return rate_limiter().new(self, name, n, period)
end

--- A lock that those who wait get in the order in which they came. No I/O.
-- @param name  as for getLock: plain and fenced locks of the name exclude it
-- @param opts  as for getLock
-- @return a lock object (see fair_lock.lua)
function methods:getFairLock(name, opts)
    return lock.new(self, fair_lock(), name, opts)
end

return _M
