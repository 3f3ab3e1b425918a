--- What the refusals of an attempt say (see acquire.lua): somebody has the lock, or several who
-- contend have split the votes, and perhaps nobody will have it.
--
-- `held` is true only if a majority of the servers names one holder; or, where they name none
-- (slots that are all taken, readers), if none of them has granted it: whoever has got what there
-- was there goes on. A call whose time is over tries again after split votes, a few times: all
-- contenders do, so that one of them gets it, and only then are the others refused.

local answers = require "redlock.runtime.answers"
local card = require "redlock.runtime.card"
local quorum = require("redlock.runtime.majority").quorum

local max, min = math.max, math.min

local _M = {}

-- Tries of a call after its time was over, and with the last one that was made before; and how
-- many there are at least, however long they take.
local MOST, LEAST = 8, 3

-- The part of a server's time-out that a round trip is taken for at most: longer ones wait for a
-- server that does not answer.
local TRIP = 8

--- Looks what the refusals of an attempt say. Brings up to date in the call:
--   trip   seconds that its first attempt took
--   among  how many have split the votes
--   whose  the holder that all refusals have named so far; false: there were several
--   lock.given  the number that the server gave that was asked first, or nil
--   may    whether that one may have a majority, with the servers that did not answer
-- @param call  see acquire.lua; its last attempt was refused
-- @param now   of client.now()
-- @return nil: somebody has it; "home": the server that was asked first has refused, and no other
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

--- Whether a call whose time is over tries again.
-- @param call  see acquire.lua; look() has found its votes split
-- @param now   of client.now()
function _M.try_again(call, now)
    local timeout = call.lock.client.options.timeout
    call.tries = (call.tries or 0) + 1
    call.limit = call.limit or now + timeout
    return call.split == "home" or call.tries < MOST
        and (call.tries < LEAST or now + timeout / TRIP < call.limit)
end

-- Seconds that are left for so many parts of the tries that are owed.
local function share(call, now, parts)
    return max(call.limit - now, 0) / (parts * max(LEAST - call.tries, 1))
end

--- How long such a call pauses, at most.
function _M.longest_pause(call, now)
    return share(call, now, 2)
end

--- When its next attempt must be over.
function _M.ends(call, now)
    return now + max(share(call, now, 1), call.lock.client.options.timeout / TRIP)
end

return _M
