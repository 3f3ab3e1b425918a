--- Whose a lock is: named by a majority of the servers, or not at all, so that no server that lies
-- can name somebody else.
--
-- A holder is { label, since (seconds since 1970, by the holder's clock), remaining (seconds that a
-- majority keeps it still) }, without label and since where the value does not say who.

local answers = require "redlock.runtime.answers"
local card = require "redlock.runtime.card"
local peek = require "redlock.inspect.peek"
local rounds = require "redlock.runtime.rounds"
local ffi_values = require "redlock.runtime.ffi_values"

local max, huge = math.max, math.huge

local _M = {}

-- What servers vote that see a holder, and the digits before the card in what they say of it.
local REFUSED, REFUSED_DIGITS = 0, 20
local SEEN, SEEN_DIGITS = 1, 40

-- Why nobody is named.
local SPLIT = "no majority of the servers names one holder"
local NAMELESS = "by a program that does not say who it is"

-- @param vote  of those that see a holder
-- @return as peek.view(); and whether any sees one that it can tell from others
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
    local held, who, left = peek.view(said, client.size)
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
-- @return the holder, or nil; and what is said of it, or nil
function _M.refused(call)
    local lock, client = call.lock, call.lock.client
    local holder, why = of_round(call)
    if why and lock.primitive.peek_script then
        holder = _M.ask(lock, call.place or call.alone,
            max((call.limit or call.ends) - client.now(), client.options.timeout / 8))
    end
    return named(holder, why)
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
