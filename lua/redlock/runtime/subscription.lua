--- Subscriptions to the channels on which releases are announced.

local ffi = require "ffi"
local finalizers = require "redlock.runtime.finalizers"
local core = require("redlock.runtime.ffi").load
local rounds = require "redlock.runtime.rounds"

local error, pcall, tonumber = error, pcall, tonumber

local _M = {}

local close = finalizers.for_handle(function(subscription) core().rl_unsubscribe(subscription) end)

--- Subscribes to a channel, until close() or collection; nil: could not subscribe.
function _M.open(client, channel)
    local subscription = core().rl_subscribe(client.core, channel, #channel)
    return subscription ~= nil and ffi.gc(subscription, close) or nil
end

function _M.close(subscription)
    core().rl_unsubscribe(ffi.gc(subscription, nil))
end

--- Calls fn(subscription, ...), and ends the subscription, also after an error. nil: could not
-- subscribe.
-- @return as fn: at most two values
function _M.with(client, channel, fn, ...)
    local subscription = _M.open(client, channel)
    local ok, a, b = pcall(fn, subscription, ...)
    if subscription then
        _M.close(subscription)
    end
    if not ok then
        error(a, 0)
    end
    return a, b
end

--- How many wake-ups a subscription has had.
function _M.wakes(subscription)
    return tonumber(core().rl_subscription_wakes(subscription, 0))
end

--- How many of those wake-ups a majority of the servers sent.
function _M.opened(subscription)
    return tonumber(core().rl_subscription_wakes(subscription, 1))
end

--- Sleeps until the subscription (or nil) has had more than `seen` wake-ups, `seconds` at most.
-- @return how many there are now
function _M.sleep(client, subscription, seen, seconds)
    rounds.finish_sleep(client, rounds.begin_sleep(client, seconds, subscription, seen))
    return subscription and _M.wakes(subscription) or 0
end

return _M
