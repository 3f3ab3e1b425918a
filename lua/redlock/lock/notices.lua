--- What holders are told while they hold a lock.

local endings = require "redlock.lock.endings"
local lock = require "redlock.lock.lock"
local validate = require "redlock.runtime.validate"

local methods = lock.methods

local DAY = require("redlock.runtime.limits").DAY

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
