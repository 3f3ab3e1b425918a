--- Requests: somebody asks whoever holds a name to let go of it. Nothing is forced.
--
-- A request lies on the servers beside the lock, for whoever holds that when it is made: with a
-- digest of the holder's value, and an end of its own. It is announced on a channel on which those
-- holders listen who want to be asked; what comes there is only a reason to look, as anybody may
-- have sent it. The holder takes the request from the servers. What any of them says is told: it is
-- advice, and a majority would not know of all that a majority was given while some were down.
--
-- An ear is what a hold has for each of its names. It waits for one round at a time, and its host
-- calls step() when that is done: "listening" for a message, "asking" the servers, "deaf" for a
-- while when it has looked too often, "shut" (not even subscribed) when messages come in a flood.

local ffi = require "ffi"
local answers = require "redlock.core.answers"
local card = require "redlock.core.card"
local each = require "redlock.core.each"
local errors = require "redlock.core.errors"
local naming = require "redlock.policy.naming"
local nonce = require "redlock.core.nonce"
local places = require "redlock.core.places"
local quorum = require "redlock.core.quorum"
local rounds = require "redlock.core.rounds"
local script_text = require "redlock.core.script_text"
local subscriptions = require "redlock.core.subscription"
local told = require "redlock.policy.told"
local values = require "redlock.core.values"

local error, ipairs, next, pairs, pcall = error, ipairs, next, pairs, pcall
local setmetatable = setmetatable
local format, match, sub, min = string.format, string.match, string.sub, math.min

local _M = {}

--- Bytes of what is asked.
_M.MAX = card.MAX

local POST = script_text.read "redlock.scripts.asked.post"
local TAKE = script_text.read "redlock.scripts.asked.take"

local LASTS_MS = "30000"      -- for so long a request lies there if nobody reads it
local WHO_MAX = 64            -- bytes of whose it is: an answer has room for RL_DATA_MAX bytes
-- So many looks in a row, then one in so many seconds. A request is a reason for two: when a
-- majority has announced it, and when the others have.
local BURST, PAUSE = 10, 1
-- So many wakes while deaf shut the ear, for so many seconds: messages of a minority are gathered
-- for 64 ms, however many they are.
local FLOOD, SHUT = 8, 10
local REMEMBERED = 64         -- requests that a hold was told of
local SLACK = 0.005           -- seconds by which clocks may disagree on how old a request is

local function channel(client, name)
    return "redlock:{" .. client.options.prefix .. name .. ":asked}:free"
end

local function key(client, name)
    return "redlock:{" .. client.options.prefix .. name .. "}:asked"
end

-- ---- who asks --------------------------------------------------------------------

--- Asks whoever holds a name.
-- @param client  opened
-- @param lock    a view of it
-- @param why     what the holder is told
-- @return the holder (naming.lua), with heard: whether somebody listens, and before: whether an
--   earlier request is still to be read, and this one is not left; false: nobody holds it; or nil
--   and an error
function _M.post(client, lock, why)
    local name = lock.name
    local who = sub(client.label and card.of_process(client.label) or "", 1, WHO_MAX)
    local request = format("%s %s\n%s", nonce(), card.clean(why), who)
    local list, err = each.agree(client, lock, POST, { client.options.prefix .. name,
        key(client, name) }, { request, LASTS_MS, channel(client, name) })
    if not list then
        return nil, err
    end
    local heard, left = false, 0
    for _, answer in ipairs(list) do
        local vote = answer.vote
        if vote > 0 then
            heard, left = heard or vote % 2 == 0, left + (vote <= 2 and 1 or 0)
            answer.vote = 1
        end
    end
    local holder = naming.seen(client, list)
    if holder == nil then
        return nil, errors.new("no_quorum", lock)
    elseif holder then
        holder.heard, holder.before = heard, left < quorum(places.voters(client))
    end
    return holder
end

-- ---- who is asked ----------------------------------------------------------------

local Ear = {}
Ear.__index = Ear

local function is_held(holds, hold)
    return holds.live[hold.key] == hold and rounds.remaining(hold.lease) > 0
end

local function free_round(ear)
    local round = ear.round
    if round then
        ear.round = nil
        rounds.free(ffi.gc(round, nil))
    end
end

-- Waits for a round.
local function heed(ear, state, round)
    free_round(ear)
    if round == nil then     -- the client is closed
        ear.over = true
        return
    end
    ear.state, ear.round = state, ffi.gc(round, rounds.load().rl_round_free)
    local heeds = ear.holds.client.host.heed
    if heeds and not heeds(ear.round, ear) then
        ear:step()
    end
end

local function listen(ear)
    heed(ear, "listening", subscriptions.begin_pause(ear.subscription, ear.seen, rounds.FOREVER))
end

local function look(ear)
    local holds, hold = ear.holds, ear.hold
    ear.seen = subscriptions.wakes(ear.subscription)
    heed(ear, "asking", each.begin(holds.client, TAKE, { key(holds.client, ear.name) },
        { hold.primitive.shared and "readers" or values.of(hold.lease), LASTS_MS },
        holds.client.options.timeout))
end

-- Looks as often as it may; else, later.
local function look_in_time(ear)
    local client = ear.holds.client
    local now = client.now()
    ear.credit, ear.at = min(ear.credit + (now - ear.at) / PAUSE, BURST), now
    if ear.credit >= 1 then
        ear.credit = ear.credit - 1
        look(ear)
    else
        heed(ear, "deaf", rounds.begin_sleep(client, (1 - ear.credit) * PAUSE))
    end
end

local function tell(ear, why, who)
    local holds, hold = ear.holds, ear.hold
    local function words()
        if is_held(holds, hold) then         -- still
            return why, who
        end
    end
    for _, one in ipairs(hold.asked and hold.asked.those or {}) do
        told.tell(holds, hold, one, words)
    end
end

-- A request as it was posted; nil: it was told before, or is none.
local function read(asked, text)
    local id, why, who = match(text, "^(%x+) ([^\n]*)\n([^\n]*)$")
    if not id or #id ~= 16 or asked.told[id] then
        return nil
    elseif asked.n == REMEMBERED then
        asked.told, asked.n = {}, 0
    end
    asked.told[id], asked.n = true, asked.n + 1
    who = card.clean(sub(who, 1, WHO_MAX))
    return { why = card.clean(why), who = who ~= "" and who or nil }
end

-- What is asked by the answers of servers, and was not told before: a list of { why, who }. A value
-- that others had, or have, as well does not say who was asked: then it is who had the hold by that
-- time.
local function news(ear, list)
    local hold, found = ear.hold, {}
    local alone = hold.passed == 0 and not hold.primitive.shared
    local held_for = ear.holds.client.now() - hold.since
    for _, answer in ipairs(list) do
        if answer.vote == 1 and (alone or answer.info / 1000 <= held_for + SLACK) then
            found[#found + 1] = read(hold.asked, answer.data)
        end
    end
    return found
end

local function open(ear)
    local client = ear.holds.client
    ear.subscription, ear.seen = subscriptions.open(client, channel(client, ear.name)), 0
    return ear.subscription ~= nil
end

local function shut(ear)
    if ear.subscription then
        subscriptions.close(ear.subscription)
        ear.subscription = nil
    end
end

local steps = {}

function steps.listening(ear)
    if subscriptions.wakes(ear.subscription) > ear.seen then
        look_in_time(ear)
    else
        listen(ear)
    end
end

function steps.deaf(ear)
    if subscriptions.wakes(ear.subscription) - ear.seen > FLOOD then
        shut(ear)
        heed(ear, "shut", rounds.begin_sleep(ear.holds.client, SHUT))
    else
        look_in_time(ear)
    end
end

function steps.shut(ear)
    ear.credit, ear.at = 1, ear.holds.client.now()
    if open(ear) then
        listen(ear)
    else
        heed(ear, "shut", rounds.begin_sleep(ear.holds.client, SHUT))
    end
end

function steps.asking(ear)
    local found = news(ear, answers.of(ear.holds.client, ear.round))
    listen(ear)              -- first: who is told may let it go
    for _, one in ipairs(found) do
        tell(ear, one.why, one.who)
    end
end

--- Its round is done.
function Ear:step()
    if self.over or self.holds.client.closed then
        free_round(self)
    elseif self.round and rounds.is_done(self.round) then
        steps[self.state](self)
    end
end

--- Nobody is told any more: the hold is over.
-- @param holds  whose hold it is
-- @param hold   one that has ears
function _M.forget(holds, hold)
    local host = holds.client.host
    for _, ear in ipairs(hold.asked.ears) do
        ear.over = true
        if not host.heed then
            free_round(ear)
        elseif ear.round and ear.state ~= "asking" then
            rounds.wake(ear.round)       -- its last step frees it
        end
        shut(ear)
    end
    if holds.asked then
        holds.asked[hold] = nil
    end
    hold.asked = nil
end

local function begin(holds, hold, names)
    local asked = { those = {}, ears = {}, told = {}, n = 0 }
    for i, name in ipairs(names) do
        local ear = setmetatable({ holds = holds, hold = hold, name = name, credit = BURST,
            at = holds.client.now(), over = false }, Ear)
        if not open(ear) then
            for k = 1, i - 1 do
                shut(asked.ears[k])
            end
            return false
        end
        asked.ears[i] = ear
    end
    hold.asked = asked
    for _, ear in ipairs(asked.ears) do
        listen(ear)
    end
    return true
end

--- From now on fn(lock, why, who) is called when somebody asks for the hold.
-- @param holds  whose hold it is
-- @param hold   which is held
-- @param names  of the locks that it stands for
-- @param fn     the function
-- @param lock   of whoever holds it
-- @return whether that is possible: a name may be too long for a channel
function _M.add(holds, hold, names, fn, lock)
    if not hold.asked and not begin(holds, hold, names) then
        return false
    end
    local those = hold.asked.those
    those[#those + 1] = told.new("onAsked", fn, lock, true)
    if holds.client.host.hear then
        holds.asked = holds.asked or setmetatable({}, { __mode = "k" })
        holds.asked[hold] = true
    end
    return true
end

-- ---- where nothing runs between two calls ----------------------------------------

-- Waits until the servers have answered.
local function await(ear)
    local round = ffi.gc(ear.round, nil)
    ear.round = nil          -- an interrupt (Ctrl-C) gives it back
    local ok, why = pcall(rounds.await, ear.holds.client, round)
    if not ok then
        listen(ear)
        error(why, 0)
    end
    ear.round = ffi.gc(round, rounds.load().rl_round_free)
end

local function hear(ear)
    while ear.round and rounds.is_done(ear.round) do
        ear:step()
        if ear.round and ear.state == "asking" then
            await(ear)
        end
    end
end

--- Looks for messages, once in a millisecond at most, and tells what was asked. That is a round
-- trip when something was.
-- @param holds  of a client
-- @param now    of client.now()
function _M.hear(holds, now)
    local client = holds.client
    if now <= holds.heard or next(holds.asked) == nil or not client.host.hear(client) then
        return
    end
    holds.heard = now
    local ears = {}              -- who is told may take another lock, or let one go
    for hold in pairs(holds.asked) do
        for _, ear in ipairs(hold.asked.ears) do
            ears[#ears + 1] = ear
        end
    end
    for _, ear in ipairs(ears) do
        hear(ear)
    end
end

return _M
