--- What the refusals of an attempt mean (see acquire.lua): somebody has the lock, or contenders
-- have split the votes, and perhaps none will get it.
--
-- `held` needs a majority of the servers that names one holder; or, where servers name none (taken
-- slots, readers), that none of them granted the lock. After split votes a call whose time has
-- passed tries again, a few times. So do all contenders: one gets the lock, and only then are the
-- others refused.

local answers = require "redlock.runtime.answers"
local card = require "redlock.text.card"
local quorum = require("redlock.runtime.limits").quorum

local max, min = math.max, math.min

local _M = {}

-- Attempts of a call after its deadline, counting the last one before that: at most, and at least,
-- however long they take.
local MOST, LEAST = 8, 3

-- A round trip counts as at most timeout / TRIP: longer ones wait for a server that is silent.
local TRIP = 8

--- Finds what the refusals of an attempt mean. Updates in the call:
--   trip   seconds that its first attempt took
--   among  how many split the votes
--   whose  the holder that all refusals have named so far; false: there were several
--   lock.given  the number that the first server gave, when only one was asked first; or nil
--   may    whether that holder may have a majority, with the servers that did not answer
-- @param call  see acquire.lua; its last attempt was refused
-- @param now   of client.now()
-- @return nil: somebody has it; "home": the server that was asked first refused, and no other one
--   was asked; "votes": the votes were split
function _M.look(call, now)
    local client = call.lock.client
    local list, n = answers.of(client, call.round), client.size
    local q, by, whose, most, some, yes, given = quorum(n), {}, nil, 0, 0, 0, nil
    for i = 1, #list do
        if list[i].vote > 0 then
            yes, given = yes + 1, list[i].info
        else
            local who = card.who(list[i].data) or ""
            some = some + (by[who] and 0 or 1)
            by[who] = (by[who] or 0) + 1
            if by[who] > most then
                whose, most = who, by[who]
            end
        end
    end
    if most >= q and (whose ~= "" or yes == 0) then
        return nil
    end
    if call.home then
        call.lock.given = given
    end
    call.trip = call.trip or min(now - call.now, client.options.timeout / TRIP)
    if call.whose == nil then
        call.whose = whose
    end
    call.whose = some == 1 and call.whose == whose and whose
    call.among, call.may = some + (yes > 0 and 1 or 0), most + n - #list >= q
    return call.home and #list == 1 and yes == 0 and "home" or "votes"
end

--- Whether a call whose deadline has passed, and whose votes were split, tries again.
function _M.try_again(call, now)
    local timeout = call.lock.client.options.timeout
    call.tries = (call.tries or 0) + 1
    call.limit = call.limit or now + timeout
    return call.split == "home" or call.tries < MOST
        and (call.tries < LEAST or now + timeout / TRIP < call.limit)
end

-- The remaining seconds, divided by `parts` for each attempt that is left.
local function share(call, now, parts)
    return max(call.limit - now, 0) / (parts * max(LEAST - call.tries, 1))
end

--- How many seconds such a call pauses, at most.
function _M.longest_pause(call, now)
    return share(call, now, 2)
end

--- When its next attempt must be over.
function _M.ends(call, now)
    return now + max(share(call, now, 1), call.lock.client.options.timeout / TRIP)
end

return _M
