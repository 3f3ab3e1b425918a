--- Deadlocks across processes: owners each of which holds what the next one waits for.
--
-- Who waits for a second, and cannot let go meanwhile of what its owner holds, says so on the
-- servers beside what that is, with an end of its own, and says so again as long as it waits. The
-- same script follows on each server from whoever has what is waited for to what those wait for,
-- and so on. A cycle counts when a majority of the servers sees the very same one twice, and each
-- of the others has said meanwhile that it waits still: so nobody is taken for waiting who has
-- given up, died or stands still, and no hand-over looks like a cycle. Servers fewer than a
-- majority can make up none.
--
-- Of those in a cycle who want to end their wait for it (option deadlocks = "end") one does.

local answers = require "redlock.core.answers"
local card = require "redlock.core.card"
local each = require "redlock.core.each"
local errors = require "redlock.core.errors"
local nonce = require "redlock.core.nonce"
local places = require "redlock.core.places"
local printable = require("redlock.core.printable").printable
local quorum = require "redlock.core.quorum"
local rounds = require "redlock.core.rounds"
local script_text = require "redlock.core.script_text"
local values = require "redlock.core.values"

local ipairs, pairs, tonumber = ipairs, pairs, tonumber
local format, gmatch, match, sub = string.format, string.gmatch, string.match, string.sub
local concat, sort, huge, max, min = table.concat, table.sort, math.huge, math.max, math.min

local _M = {}

local LOOK = script_text.read "redlock.scripts.cycle.look"
local LEAVE = script_text.read "redlock.scripts.cycle.leave"

-- Seconds: until the first look; between two of the first ones, and of later ones.
local FIRST, OFTEN, SELDOM = 1, 1, 4
local EARLY = 10                 -- looks until they are later ones
local GRAIN = 0.001              -- of sleeps
local LASTS_MS = "13000"         -- three of the longest pauses
local HOLDS, NAMES = 8, 8        -- of one who waits, that others are told of

--- A call begins to wait. Where the option is off, or no lock is waited for, nothing is done.
-- @param call  see acquire.lua
function _M.begin(call)
    local lock = call.lock
    if lock.client.options.deadlocks and lock.primitive.rivals[1] then
        call.cycle = { due = lock.client.now() + FIRST, looks = 0, values = nil }
    end
end

--- Seconds until a call is to look, a sleep of which does not end before; huge: it is not to.
function _M.pause(call)
    local cycle = call.cycle
    return cycle and max(cycle.due - call.lock.client.now(), 0) + GRAIN or huge
end

-- The values of what cannot be let go while the call waits; nil: nothing, and nobody waits for it.
local function stuck(call)
    local holds, list = call.lock.client.holds, {}
    for _, hold in ipairs(holds.client.host.stuck(holds, call.owner)) do
        if hold.primitive.rivals[1] and #list < HOLDS then
            list[#list + 1] = values.of(hold.lease)
        end
    end
    return list[1] and list
end

local function keys_of(lock)
    local prim, keys = lock.primitive, {}
    for i, name in ipairs(prim.names and prim.names(lock.name) or { lock.name }) do
        keys[i] = i <= NAMES and lock.client.options.prefix .. name or nil
    end
    return keys
end

local function args_of(call, how)
    local cycle, client = call.cycle, call.lock.client
    local args = { client.options.prefix, cycle.id, format("%d", cycle.looks),
        client.options.deadlocks == "end" and "ends" or "tells",
        call.lock.primitive.shared and "read" or "write", LASTS_MS, how }
    for _, value in ipairs(cycle.values) do
        args[#args + 1] = value
    end
    return args
end

-- What a majority of the servers has said of one and the same cycle.
-- @param list  their answers
-- @return the cycle's digest, and a list of what each says behind it; or nil
local function agreed(client, list)
    local by_digest = {}
    for _, answer in ipairs(list) do
        local digest, rest = match(answer.vote == 1 and answer.data or "", "^(%x+) ?(.*)$")
        if digest and #digest == 40 then
            by_digest[digest] = by_digest[digest] or {}
            local said = by_digest[digest]
            said[#said + 1] = rest
        end
    end
    for digest, said in pairs(by_digest) do
        if #said >= quorum(places.voters(client)) then
            return digest, said
        end
    end
end

-- How often each of the others has said that it waits, by what servers say.
-- @param said  a list of texts
-- @return two lists: a majority has heard of so many times at most; of so many at least
local function counts_of(client, said)
    local columns, q = {}, quorum(places.voters(client))
    for _, text in ipairs(said) do
        local i = 0
        for count in gmatch(text, "%d+") do
            i = i + 1
            columns[i] = columns[i] or {}
            columns[i][#columns[i] + 1] = tonumber(count)
        end
    end
    local most, least = {}, {}
    for i, column in ipairs(columns) do
        sort(column)
        most[i], least[i] = column[q] or huge, column[#column - q + 1] or 0
    end
    return most, least
end

-- Asks the servers, and says to them that the call waits.
-- @return as agreed()
local function look(call)
    local lock, cycle = call.lock, call.cycle
    local client = lock.client
    cycle.looks = cycle.looks + 1
    local within = min(client.options.timeout, max(call.deadline - client.now(), 0))
    local round = each.begin(client, LOOK, keys_of(lock), args_of(call, "brief"), within)
    local ok = rounds.await(client, round, nil, call.place or call.alone)
    if round == nil or not ok then
        rounds.free(round)
        return nil
    end
    return agreed(client, answers.take(client, round))
end

-- Whether it is the cycle of an earlier look, and all others have said since that they wait still.
local function is_confirmed(call, digest, said)
    local cycle = call.cycle
    local most, least = counts_of(call.lock.client, said)
    if cycle.digest ~= digest then
        cycle.digest, cycle.most = digest, most
        return false
    end
    for i, count in ipairs(cycle.most) do
        if not least[i] or least[i] <= count then
            return false
        end
    end
    return true
end

-- The rows of look.lua: a list of { name, who, ends, label, since }; nil: they are none.
local function parse(client, text)
    local chain, at, prefix = {}, 1, #client.options.prefix
    while at <= #text do
        local key_len, card_len, who, ends, from = match(text, "^(%d+) (%d+) (%x+) (%l+):()", at)
        local first = from and from + tonumber(key_len)
        at = first and first + tonumber(card_len)
        if not at or at > #text + 1 then
            return nil
        end
        local its = card.read(sub(text, first, at - 1)) or {}
        chain[#chain + 1] = { name = sub(text, from + prefix, first - 1), label = its.label,
            since = its.since, who = who, ends = ends == "ends" }
    end
    return chain[1] and chain
end

-- Asks for all of a cycle; a majority must say the same.
-- @return as parse()
local function whole(call, digest)
    local client, asked, keys = call.lock.client, {}, keys_of(call.lock)
    local args = args_of(call, "full")
    for place = 1, places.count(client) do
        asked[#asked + 1] = places.label(client, place) and { place = place, keys = keys,
            args = args } or nil
    end
    local now, said = agreed(client, each.ask(client, LOOK, asked, call.place or call.alone))
    local same = {}
    for _, text in ipairs(now == digest and said or {}) do
        same[text] = (same[text] or 0) + 1
        if same[text] == quorum(places.voters(client)) then
            return parse(client, text)
        end
    end
end

-- Whether the call is the one of a cycle that ends: one is enough.
local function is_to_end(call, chain)
    local last = ""
    for _, one in ipairs(chain) do
        last = one.ends and one.who > last and one.who or last
    end
    return last == call.cycle.id
end

-- For people, and programs: what is held by whom, in order; the last one has what the caller holds.
local function public(chain)
    local list = {}
    for i, one in ipairs(chain) do
        list[i] = { name = one.name, label = one.label, since = one.since }
    end
    return list
end

local function sentence(chain)
    local parts = {}
    for i, one in ipairs(chain) do
        parts[i] = format("'%s' is held by %s", printable(one.name), i == #chain and "this one"
            or one.label or "somebody")
    end
    return concat(parts, ", who waits for a lock: ")
end

local function tell(call, chain, ended)
    local lock = call.lock
    lock.client.events:emit { type = "deadlock", name = lock.name, owner = call.owner,
        chain = public(chain), ended = ended, message = sentence(chain),
        traceparent = lock.traceparent }
end

-- Looks, and says what is found.
-- @return nil, or the error that the call ends with
local function find(call)
    local cycle, client = call.cycle, call.lock.client
    local digest, said = look(call)
    if not digest then
        cycle.digest = nil
        return nil
    elseif cycle.told == digest or not is_confirmed(call, digest, said) then
        return nil
    end
    local chain = not client.closed and whole(call, digest)
    if not chain then
        return nil
    end
    cycle.told = digest
    local ends = is_to_end(call, chain)
    tell(call, chain, ends)
    return ends and errors.deadlocked(call.lock, public(chain), sentence(chain)) or nil
end

--- Looks if it is time, which takes a round trip then.
-- @return nil, or the error that the call ends with: deadlock
function _M.look(call)
    local cycle, client = call.cycle, call.lock.client
    if not cycle or cycle.due > client.now() or client.closed then
        return nil
    end
    cycle.values = cycle.values or stuck(call)
    if not cycle.values then
        call.cycle = nil
        return nil
    end
    cycle.id = cycle.id or nonce()
    local err = find(call)
    if call.cycle then
        cycle.due = client.now() + (cycle.looks < EARLY and OFTEN or SELDOM)
    end
    return err
end

--- A call with a cycle waits no more. What it has said is taken away, and nobody waits for that.
function _M.finish(call)
    local cycle, client = call.cycle, call.lock.client
    call.cycle = nil
    if not cycle.id or client.closed then
        return
    end
    local args = { client.options.prefix, cycle.id }
    for _, value in ipairs(cycle.values) do
        args[#args + 1] = value
    end
    rounds.free(each.begin(client, LEAVE, {}, args))
end

return _M
