--- Who holds a lock: named by a majority of the servers, or not at all, so that no server that lies
-- can name somebody else.
--
-- A holder is { label, since (seconds since 1970, by the holder's clock), remaining (seconds that a
-- majority keeps it still) }, without label and since where the value does not say who.

local answers = require "redlock.runtime.answers"
local card = require "redlock.runtime.card"
local quorum = require("redlock.runtime.majority").quorum
local rounds = require "redlock.runtime.rounds"
local ffi_values = require "redlock.runtime.ffi_values"

local max, huge, sort = math.max, math.huge, table.sort

local _M = {}

local function longest_first(a, b)
    return a > b
end

--- @param said  of each server that answered: { who = whose key it has, or nil; left = seconds
--   that it keeps it, huge for a key without an end }
-- @param n     how many servers there are
-- @return true, who holds it, and the seconds until it opens by itself; false: nobody has a
--   majority; nil: with the servers that did not answer somebody may
function _M.view(said, n)
    local keys, most, whose, q = {}, 0, nil, quorum(n)
    for i = 1, #said do
        local who = said[i].who
        if who then
            keys[who] = keys[who] or {}
            local list = keys[who]
            list[#list + 1] = said[i].left
            if #list > most then
                most, whose = #list, who
            end
        end
    end
    if most >= q then
        local left = keys[whose]
        sort(left, longest_first)
        return true, whose, left[q]      -- when the q-th longest is gone the majority is
    elseif #said < q or most > 0 and most + n - #said >= q then
        return nil
    end
    return false
end

-- What servers vote that see a holder, and the digits before the card in what they say of it.
local REFUSED, REFUSED_DIGITS = 0, 20
local SEEN, SEEN_DIGITS = 1, 40

-- Why nobody is named.
local SPLIT = "no majority of the servers names one holder"
local NAMELESS = "by a program that does not say who it is"

-- @param vote  of those that see a holder
-- @return as _M.view(); and whether any sees one that it can tell from others
local function view(client, list, vote)
    local said, any = {}, false
    for i = 1, #list do
        local answer = list[i]
        local who = answer.vote == vote and card.who(answer.data) or nil
        any = any or who ~= nil
        if answer.vote >= 0 then         -- else the server says what cannot be
            said[#said + 1] = { who = who, left = answer.info < 0 and huge or answer.info / 1000 }
        end
    end
    local held, who, left = _M.view(said, client.size)
    return held, who, left, any
end

local function holder_of(who, digits, left)
    local holder = card.behind(who, digits) or {}
    holder.remaining = left
    return holder
end

-- As those servers say that refused the last attempt of a call.
-- @return the holder, or nil; and why nobody is named, or nil: no server knows, as of readers
local function of_round(call)
    local client = call.lock.client
    local held, who, left, any = view(client, answers.of(client, call.round), REFUSED)
    if not held then
        return nil, any and SPLIT or nil
    end
    return holder_of(who, REFUSED_DIGITS, left)
end

--- Asks the servers, until a majority agrees.
-- @param lock    a lock object whose primitive has a peek
-- @param op      as for rounds.acquire(), or nil
-- @param within  seconds that it may take, or nil
-- @return the holder; false: nobody holds it; nil: no majority says either; or nil and an error
function _M.ask(lock, op, within)
    local client, prim = lock.client, lock.primitive
    local list, err = rounds.ask(client, lock, prim, "peek", prim.keys(client, lock.name),
        prim.args(lock, { n = 0 }), op, within)
    if not list then
        return nil, err
    end
    local held, who, left = view(client, list, SEEN)
    return held and holder_of(who, SEEN_DIGITS, left) or held
end

-- @return the holder if its label is known; and what is said in the error
local function named(holder, why)
    if holder and holder.label then
        return holder, holder.label
    end
    return nil, holder and NAMELESS or why
end

--- Notes in the queue of a call whose attempt failed whose the lock is, for those behind it.
-- @param call  see acquire.lua
-- @param held  whether a majority refused it; else nobody is known
function _M.note(call, held)
    local queue = call.place.queue
    queue.held, queue.holder = held, held and of_round(call) or nil
    queue.named = call.lock.client.now()
end

--- Whose the lock is that a call was refused at its end. Mostly the servers have said so; where
-- fewer than a majority have (only the first of them was asked, or one lies), they are asked.
-- @return the holder, or nil; what is said of it, or nil; and whether a majority has named one
function _M.refused(call)
    local lock, client = call.lock, call.lock.client
    local holder, why = of_round(call)
    if (why or call.split) and lock.primitive.peek_script then
        holder = _M.ask(lock, call.place or call.alone,
            max((call.limit or call.ends) - client.now(), client.options.timeout / 8))
    end
    local who, text = named(holder, why)
    return who, text, holder and true or false
end

-- The hold of another owner of this process.
local function here(lock)
    local hold = lock.client.holds.here[lock.id]
    local left = hold and rounds.remaining(hold.lease) or 0
    return left > 0 and holder_of(ffi_values.of(hold.lease), SEEN_DIGITS, left) or nil
end

--- The same for a call whose turn never came.
function _M.unasked(call)
    local lock, queue = call.lock, call.place.queue
    local holder, seen = here(lock), queue.holder
    if not holder and seen then
        holder = { label = seen.label, since = seen.since,
            remaining = max(seen.remaining - (lock.client.now() - queue.named), 0) }
    end
    return named(holder)
end

return _M
