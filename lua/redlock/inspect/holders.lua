--- Who holds a lock: a majority of the servers names the holder, or nobody does, so that one lying
-- server cannot name another.
--
-- A holder is { label, since (seconds since 1970, by the holder's clock), remaining (seconds that a
-- majority keeps it) }; without label and since if the value does not name its holder.

local answers = require "redlock.runtime.answers"
local card = require "redlock.text.card"
local limits = require "redlock.runtime.limits"
local question = require "redlock.runtime.question"
local rounds = require "redlock.runtime.rounds"
local ffi_values = require "redlock.runtime.ffi_values"

local max, huge, sort = math.max, math.huge, table.sort

local _M = {}

--- What n servers say: for each that answered, { who = whose key it has, or nil; left = seconds
-- that it keeps it, huge for a key without an end }.
-- @return true, the holder, and the seconds until the lock opens by itself; false: nobody has a
--   majority; nil: with the servers that did not answer somebody may
function _M.view(said, n)
    local whose, left = limits.majority(said, n, function(one) return one.who end), {}
    if not whose then
        return whose
    end
    for i = 1, #said do
        left[#left + 1] = said[i].who == whose and said[i].left or nil
    end
    sort(left, function(a, b) return a > b end)
    return true, whose, left[limits.quorum(n)]      -- the majority ends with the q-th longest
end

-- The votes of a server that sees a holder: in a refusal, in a peek, and in an import; and the
-- digits before the card in these answers.
local REFUSED, SEEN, TAKEN = 0, 1, -1
local DIGITS = { [REFUSED] = 20, [SEEN] = 40, [TAKEN] = 20 }

local SPLIT = "no majority of the servers names one holder"
local NAMELESS = "by a program that does not say who it is"

local function holder_of(client, who, digits, left)
    local holder = answers.card(client, who, digits) or {}
    holder.remaining = left
    return holder
end

-- @return the holder, by the answers with this vote; false, nil: as view(); and why nobody is
--   named; nil: no server knows, as for readers
local function found(client, list, vote)
    local said, why = {}, nil
    for i = 1, #list do
        local answer = list[i]
        local who = answer.vote == vote and card.who(answer.data) or nil
        why = why or who and SPLIT
        if answer.vote >= 0 or vote == TAKEN then    -- negative else: an impossible state
            said[#said + 1] = { who = who, left = answer.info < 0 and huge or answer.info / 1000 }
        end
    end
    local held, who, left = _M.view(said, client.size)
    if not held then
        return held, why
    end
    return holder_of(client, who, DIGITS[vote], vote ~= TAKEN and left or nil)
end

-- Who the servers said holds the lock when they refused a call's last attempt; as found().
local function of_round(call)
    local client = call.lock.client
    return found(client, answers.of(client, call.round), REFUSED)
end

--- Asks the servers who holds a lock whose primitive has a peek. op, within: of the question.
-- @return the holder; false: nobody; nil: no majority says either; or nil and an error
function _M.ask(lock, op, within)
    local client, prim = lock.client, lock.primitive
    local list, err = question.ask(client, { subject = lock, primitive = prim, script = "peek",
        keys = prim.keys(client, lock.name), args = prim.args(lock, { n = 0 }), op = op,
        within = within })
    if not list then
        return nil, err
    end
    return (found(client, list, SEEN))
end

-- @return the holder if its label is known; and the text for the error
local function named(holder, why)
    if holder and holder.label then
        return holder, holder.label
    end
    return nil, holder and NAMELESS or why
end

--- Notes the holder in a call's local queue after a failed attempt, for the calls after it. held:
-- whether a majority refused it; else the holder is unknown.
function _M.note(call, held)
    local queue = call.place.queue
    queue.held, queue.holder = held, held and of_round(call) or nil
    queue.named = call.lock.client.now()
end

--- The holder, for a call that ends refused. Mostly the servers have named it. If fewer than a
-- majority have (only one was asked, or one lies), it asks them.
-- @return the holder, or nil; the text for the error, or nil; whether a majority named one
function _M.refused(call)
    local lock, client = call.lock, call.lock.client
    local holder, why = of_round(call)
    if (why or call.votes.split) and lock.primitive.peek_script then
        holder = _M.ask(lock, call.place,
            max((call.votes.limit or call.ends) - client.now(), client.options.timeout / 8))
    end
    local who, text = named(holder, why)
    return who, text, holder and true or false
end

--- The holder of what a client's local queue of an id (kind:name) waits for, as far as this process
-- knows: another owner here, or who refused the last attempt; or nil.
function _M.known(client, id, queue)
    local hold, seen = client.holds.here[id], queue.holder
    local left = hold and rounds.remaining(hold.lease) or 0
    if left > 0 then
        return holder_of(client, ffi_values.value(hold.lease), DIGITS[SEEN], left)
    end
    return seen and { label = seen.label, since = seen.since,
        remaining = max(seen.remaining - (client.now() - queue.named), 0) } or nil
end

--- Who has what an import was to take over, by its round; asks the servers if fewer than a majority
-- have said so.
-- @return the holder, or nil; and the text for the error, or nil
function _M.taker(lock, round)
    local client = lock.client
    local holder, why = found(client, answers.of(client, round), TAKEN)
    if why and lock.primitive.peek_script then
        holder = _M.ask(lock, nil, client.options.timeout)
    end
    return named(holder, why)
end

--- Like refused(), for a call whose turn never came.
function _M.unasked(call)
    local lock = call.lock
    return named(_M.known(lock.client, lock.id, call.place.queue))
end

return _M
