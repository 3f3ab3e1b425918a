--- Holders who are told before the time of what they hold is over.

local rounds = require "redlock.runtime.rounds"
local told = require "redlock.lock.told"

local ipairs, pairs = ipairs, pairs
local huge, max, min = math.huge, math.max, math.min

local _M = {}

local SAME = 0.05             -- seconds by which the end of a time that was not renewed may differ

local function tell(holds, hold, one)
    told.tell(holds, hold, one.who, function()
        local left = holds.live[hold.key] == hold and rounds.remaining(hold.lease) or 0
        return left > 0 and left or nil      -- else it is lost, and that is told
    end)
end

-- Puts those who are to be told now into the list `due`; each is told once of the same end.
-- @return when it is to be looked at again
local function look_at(hold, now, due)
    local left, again = rounds.remaining(hold.lease), huge
    for _, one in ipairs(hold.on_ending) do
        if left > one.seconds then
            again = min(again, now + left - one.seconds)
        elseif left > 0 then
            if now + left > one.told + SAME then
                one.told = now + left
                due[#due + 1] = { hold, one }
            end
            again = min(again, now + max(left / 8, SAME))    -- it may have been renewed by then
        end
    end
    return again
end

--- Tells those whose time it is.
-- @param holds  of a client
-- @param now    of client.now()
function _M.look(holds, now)
    local due, again = {}, huge
    for hold in pairs(holds.ending) do
        if holds.live[hold.key] == hold then
            again = min(again, look_at(hold, now, due))
        else
            holds.ending[hold] = nil
        end
    end
    holds.next_ending = again
    for _, pair in ipairs(due) do
        tell(holds, pair[1], pair[2])
    end
end

--- From now on fn(lock, left) is called when so many seconds are left, or fewer.
-- @param holds    whose hold it is
-- @param hold     which is held
-- @param seconds  as users give them
-- @param fn       the function
-- @param lock     of whoever holds it
function _M.add(holds, hold, seconds, fn, lock)
    hold.on_ending = hold.on_ending or {}
    hold.on_ending[#hold.on_ending + 1] = { seconds = seconds, told = 0,
        who = told.new("onEnding", fn, lock, true) }
    holds.ending[hold] = true
    local now = holds.client.now()
    _M.look(holds, now)
    if holds.next_ending < huge then
        holds.client.host.look_within(holds.next_ending - now)
    end
end

return _M
