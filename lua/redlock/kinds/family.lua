--- The getters of the other kinds, as methods of clients.

local election = require "redlock.kinds.election"
local fair_lock = require "redlock.kinds.fair_lock"
local fenced_lock = require "redlock.kinds.fenced_lock"
local fenced_write_lock = require "redlock.kinds.fenced_write_lock"
local latch = require "redlock.kinds.latch"
local lock = require "redlock.lock.lock"
local multi_lock = require "redlock.kinds.multi_lock"
local once = require "redlock.kinds.once"
local plain_lock = require "redlock.kinds.plain_lock"
local rate_limiter = require "redlock.kinds.rate_limiter"
local read_write_lock = require "redlock.kinds.read_write_lock"
local semaphore = require "redlock.kinds.semaphore"

local ipairs = ipairs

local _M = {}

--- The primitives whose holds can be exported, by name.
_M.kinds = {}
for _, prim in ipairs { plain_lock, fenced_lock, fair_lock, read_write_lock.reading,
    read_write_lock.writing, fenced_write_lock, multi_lock.primitive, semaphore.permit } do
    _M.kinds[prim.name] = prim
end

--- The methods: types/client.lua documents them.
_M.methods = {
    getReadWriteLock = fenced_write_lock.pair,
    getMultiLock = multi_lock.new,
    getSemaphore = semaphore.new,
    getPermitExpirableSemaphore = semaphore.new,
    getCountDownLatch = latch.new,
    getElection = election.new,
    once = once.once,
    getRateLimiter = rate_limiter.new,
    getFairLock = function(self, name, opts) return lock.new(self, fair_lock, name, opts) end,
}

return _M
