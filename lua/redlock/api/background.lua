--- A lock's calls as futures (see future.lua), on behalf of the owner who makes them: the call
-- has begun when these return; in a plain script its requests are on their way as soon as somebody
-- waits, or 1 ms later. Bad arguments raise at once.

local closing = require "redlock.api.closing"
local future = require "redlock.api.future"
local lock = require "redlock.api.lock"

local getmetatable, setmetatable = getmetatable, setmetatable

local methods = lock.methods

-- The same lock for the same owner, wherever it is used.
local function for_this_owner(self)
    return setmetatable({ client = self.client, primitive = self.primitive, name = self.name,
        id = self.id, owner = lock.owner_of(self) }, getmetatable(self))
end

local function start(self, method, ...)
    return future.start(self.client, method, for_this_owner(self), ...)
end

--- @return a future of what lock() returns; and so on
function methods:lockAsync(lease)
    lock.check_lease(self, lease)
    return start(self, self.lock, lease)
end

function methods:tryLockAsync(wait, lease)
    lock.check_wait(wait)
    lock.check_lease(self, lease)
    return start(self, self.tryLock, wait, lease)
end

function methods:unlockAsync(opts)
    closing.options(opts)
    return start(self, self.unlock, opts)
end

function methods:extendAsync(lease)
    lock.check_lease(self, lease)
    return start(self, self.extend, lease)
end
