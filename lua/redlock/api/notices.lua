--- What holders are told while they hold a lock.

local endings = require "redlock.policy.endings"
local lock = require "redlock.api.lock"
local requests = require "redlock.policy.requests"
local validate = require "redlock.core.validate"

local methods = lock.methods

local DAY = require("redlock.core.limits").DAY

--- Calls fn(lock, left) when `seconds` of the validity are left, or fewer: before it is over, as
-- nobody has renewed it. Once, and again when it was renewed meanwhile. In plain LuaJIT that is
-- during the next call into the library; at once when no more are left now.
-- @param seconds  less than two thirds of a lease that the watchdog keeps: it renews by then
-- @param fn       gets the lock as its owner has it, so that fn can extend it; must not yield in
--   plain LuaJIT; an error in it goes to stderr
-- @return true; or nil and an error: not_held, lost
function methods:onEnding(seconds, fn)
    validate.seconds("seconds", seconds, 0.001, DAY)
    validate.is_function("fn", fn)
    local hold, err = lock.valid_hold(self)
    if not hold then
        return nil, err
    end
    endings.add(self.client.holds, hold, seconds, fn, self)
    return true
end

--- Calls fn(lock, why, who) when somebody asks whoever holds the lock to let go of it
-- (client:ask): in an event loop within about a round trip, in plain LuaJIT during the next call
-- into the library, which takes a round trip more then. Nothing else happens: it is fn that may let
-- go, or not. Each request is told once; after five in a row one in two seconds at least, and one a
-- second at most. Anybody who may write keys may ask, in any words, and in anybody's name. An error
-- in fn goes to stderr.
-- @param fn  gets the lock as its owner has it, so that fn can release it; why: up to 160 bytes of
--   printable ASCII; who: the label of who asks, or nil
-- @return true; or nil and an error: not_held, lost, unsupported (permits, primitives of your own;
--   a name that is longer than some 200 bytes)
function methods:onAsked(fn)
    validate.is_function("fn", fn)
    local hold, err = lock.valid_hold(self)
    if not hold then
        return nil, err
    end
    local prim, holds = self.primitive, self.client.holds
    local names = prim.names and prim.names(self.name) or { self.name }
    if not prim.rivals[1] or not requests.add(holds, hold, names, fn, self) then
        return lock.failure(self, "unsupported")
    end
    holds:attend(hold)
    return true
end
