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

--- The votes of a call none of whose attempts has split them. Later these fields are set:
--   split  what the last attempt did. nil: somebody has the lock, or it failed for another reason;
--          "votes": it split the votes; "gate": the server that was asked first refused, and no
--          other one was asked
--   splits attempts in a row that split the votes
--   gate   whether the server where contenders meet is asked first, from the first such attempt
--          until that server refuses
--   trip   seconds that the call's first attempt took
--   among  how many split the votes
--   whose  the holder that all refusals have named so far; false: there were several
--   may    whether that holder may have a majority, with the servers that did not answer
--   tries, limit  how often it failed since its deadline, and when it gives up
_M.NONE = {}

-- Finds what the refusals of an attempt mean. Sets lock.given: the number that the first server
-- gave, when only one was asked first; or nil.
-- @return call.votes.split
local function count_refusals(call, now)
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
    if call.votes == _M.NONE then
        call.votes = { splits = 0 }
    elseif call.votes.gate then
        call.lock.given = given
    end
    local found = call.votes
    found.trip = found.trip or min(now - call.now, client.options.timeout / TRIP)
    if found.whose == nil then
        found.whose = whose
    end
    found.whose = some == 1 and found.whose == whose and whose
    found.among, found.may = some + (yes > 0 and 1 or 0), most + n - #list >= q
    return found.gate and #list == 1 and yes == 0 and "gate" or "votes"
end

--- Judges an attempt that failed with a code, at `now` of client.now(): sets call.votes.
function _M.judge(call, code, now)
    local split = (code == "held" or call.votes.tries and code == "no_quorum")
        and count_refusals(call, now) or nil
    if call.votes ~= _M.NONE then
        call.votes.split = split
    end
end

--- Whether a call whose deadline has passed, and whose votes were split, tries again.
function _M.try_again(call, now)
    local timeout, found = call.lock.client.options.timeout, call.votes
    found.tries = (found.tries or 0) + 1
    found.limit = found.limit or now + timeout
    return found.split == "gate" or found.tries < MOST
        and (found.tries < LEAST or now + timeout / TRIP < found.limit)
end

-- The remaining seconds, divided by `parts` for each attempt that is left.
local function share(call, now, parts)
    return max(call.votes.limit - now, 0) / (parts * max(LEAST - call.votes.tries, 1))
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
