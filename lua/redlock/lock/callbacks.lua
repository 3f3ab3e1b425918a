--- Callbacks of users for a hold: onLost and onEnding.
--
-- A callback must not keep the owner of its hold alive, since an owner that is never collected
-- keeps its hold. So a callback refers weakly to a lock with an owner of its own, and has a copy
-- of the lock without the owner.

local copy = require("redlock.lock.hooks").copy
local errors = require "redlock.runtime.errors"
local rounds = require "redlock.runtime.rounds"

local ipairs, pairs, pcall, setmetatable = ipairs, pairs, pcall, setmetatable
local huge, max, min = math.huge, math.max, math.min

local _M = {}

local WEAK = { __mode = "v" }
local SAME = 0.05             -- seconds: closer ends of a lease count as one

--- Makes a callback for call(): fn gets the lock, and the arguments of call(). event: its name for
-- users, like "onLost"; named: whether the lock must name its owner, because fn runs in another
-- coroutine.
function _M.new(event, fn, lock, named)
    if lock.owner == nil and not named then
        return { event = event, fn = fn, same = { lock } }
    end
    return { event = event, fn = fn, rest = copy(lock),
        same = setmetatable({ lock.owner ~= nil and lock or nil }, WEAK) }
end

local function run(host, callback, lock, first, ...)
    if first ~= nil then
        local ok, err = pcall(callback.fn, lock, first, ...)
        if not ok then       -- the library call that runs it must not fail
            host.log(errors.failed("an " .. callback.event .. " function", err))
        end
    end
end

--- Calls a callback of a hold as soon as the host can, unless the owner no longer exists. args():
-- the arguments after the lock, taken when it runs; nil: do not run.
function _M.call(holds, hold, callback, args)
    local host, owner = holds.client.host, holds.whose[hold.mine]
    local lock = callback.same[1] or owner ~= nil and copy(callback.rest, owner)
    if lock then
        host.defer(function() run(host, callback, lock, args()) end)
    end
end

-- ---- before the end --------------------------------------------------------------

local function call_on_ending(holds, hold, ending)
    _M.call(holds, hold, ending.callback, function()
        local left = holds.live[hold.key] == hold and rounds.remaining(hold.lease) or 0
        return left > 0 and left or nil      -- else it is lost: for onLost
    end)
end

-- Adds the callbacks that are due to a list, once for each end of the lease.
-- @return when to look again
local function due_of(hold, now, due)
    local left, again = rounds.remaining(hold.lease), huge
    for _, ending in ipairs(hold.on_ending) do
        if left > ending.seconds then
            again = min(again, now + left - ending.seconds)
        elseif left > 0 then
            if now + left > ending.called + SAME then
                ending.called = now + left
                due[#due + 1] = { hold, ending }
            end
            again = min(again, now + max(left / 8, SAME))    -- perhaps renewed
        end
    end
    return again
end

--- Calls the onEnding functions of a client's holds that are due, and sets holds.next_ending.
function _M.call_endings(holds, now)
    local due, again = {}, huge
    for hold in pairs(holds.ending) do
        if holds.live[hold.key] == hold then
            again = min(again, due_of(hold, now, due))
        else
            holds.ending[hold] = nil
        end
    end
    holds.next_ending = again
    for _, pair in ipairs(due) do
        call_on_ending(holds, pair[1], pair[2])
    end
end

--- Calls the onEnding functions of a hold, whatever is left of it.
function _M.call_all_endings(holds, hold)
    for _, ending in ipairs(hold.on_ending) do
        call_on_ending(holds, hold, ending)
    end
end

--- Has fn(lock, left) called when `seconds` or less of the hold's validity are left.
function _M.on_ending(holds, hold, seconds, fn, lock)
    hold.on_ending = hold.on_ending or {}
    hold.on_ending[#hold.on_ending + 1] = { seconds = seconds, called = 0,
        callback = _M.new("onEnding", fn, lock, true) }
    holds.ending[hold] = true
    local now = holds.client.now()
    _M.call_endings(holds, now)
    if holds.next_ending < huge then
        holds.client.host.look_within(holds.next_ending - now)
    end
end

return _M
