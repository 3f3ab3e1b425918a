--- A call's sleep between two attempts (see acquire.lua).
--
-- A message is a hint; only an attempt decides. A waiting call subscribes, tries again, and then
-- sleeps until a majority of the servers has announced a release, until the leases of a majority
-- may have expired (the refusals say when), or for `fallback` seconds.

local answers = require "redlock.runtime.answers"
local attempt = require "redlock.lock.attempt"
local local_queue = require "redlock.lock.local_queue"
local rounds = require "redlock.runtime.rounds"
local subscriptions = require "redlock.runtime.subscription"
local votes = require "redlock.lock.votes"

local min, max, huge = math.min, math.max, math.huge
local random = rounds.random

local _M = {}

--- Seconds between attempts that no message is due for, +- half: as on the Redlock page.
_M.RETRY_DELAY = 0.2

-- After split votes: uniform in [0.5, 1.5] of a round trip, or of a millisecond if that is longer
-- (the core's clock is no finer), doubled each time up to 2^5. After SPLIT_TRIES in a row the votes
-- are not split: a node has lost the holder's key.
local SPLIT_DELAY, SPLIT_DOUBLINGS, SPLIT_TRIES = 0.001, 5, 10

-- Seconds after which a call that the first server refused asks all servers at once, unless it is
-- woken before. Asking one first costs a round trip more: a call that always did so would come too
-- late each time. And the holder there may be one of those that split the votes, which announce
-- nothing when they give up.
local ALONE = 0.05

-- Everybody with the right to publish can send messages. A call that VAIN messages in a row led to
-- the same holders is deaf: it ignores messages for a millisecond after an attempt, doubled each
-- time up to a second. One such message is normal: the subscription's confirmation.
local VAIN, DEAF, DEAF_MAX = 2, 0.001, 1

local function restart_splits(call)
    if call.votes.splits then
        call.votes.splits = 0
    end
end

-- Subscribes to the primitive's channel, if it has one.
local function subscribe(call)
    local lock, client, prim = call.lock, call.lock.client, call.lock.primitive
    local channel = prim.channel and prim.channel(client, lock.name, call.wait)
    local subscription = channel and subscriptions.open(client, channel)
    call.sleeps = {
        subscription = subscription, channel = channel,      -- what wakes the call, or nil
        -- How many wakes came before. A shared subscription is confirmed already: what woke others
        -- before our first attempt failed may have been meant for us.
        seen = subscription and max(subscriptions.wakes(subscription) - 1, 0) or 0,
        opened = nil,            -- how many of these a majority of the servers announced
        woken = false,           -- whether a message ended the last sleep
        vain = 0,                -- messages in a row after which the same holders had the lock
        holders = {},            -- by server: who had the lock
    }
    restart_splits(call)
    if call.place and call.place.queue and subscription then
        call.place.queue.watching = call.place.queue.watching + 1
    end
end

-- Subscribes anew if the primitive names another channel now.
local function follow(call)
    local lock, sleeps = call.lock, call.sleeps
    if sleeps.subscription
        and lock.primitive.channel(lock.client, lock.name, call.wait) ~= sleeps.channel then
        _M.finish(call)
        subscribe(call)
    end
end

-- After an attempt: counts those in a row that followed a message and found no other holder.
local function learn(call)
    local sleeps = call.sleeps
    if not sleeps.subscription or call.round == nil then
        return
    end
    local same, new = answers.compare_holders(call.lock.client, call.round, sleeps.holders)
    if new > 0 and same == 0 then    -- with both, perhaps a key that was left behind
        sleeps.vain = 0
    elseif sleeps.woken then
        sleeps.vain = sleeps.vain + 1
    end
end

-- Sleeps for `seconds`, or until it is woken; deaf: not by messages.
local function nap(call, seconds, deaf)
    local client, subscription = call.lock.client, not deaf and call.sleeps.subscription
    if call.place then
        local_queue.sleep(call.place, not deaf and call or nil, seconds)
    else
        rounds.finish_sleep(client, rounds.begin_sleep(client, seconds, subscription,
            subscription and call.sleeps.seen))
    end
end

-- Seconds after an attempt in which no message leads to the next one.
local function deaf_for(call)
    local vain = call.sleeps.vain
    return vain >= VAIN and min(DEAF * 2 ^ (vain - VAIN), DEAF_MAX)
        * (1 + random(call.lock.client)) / 2 or 0
end

-- Seconds until the next attempt after split votes. Sets where that begins.
local function split_pause(call)
    local spread, found = 0.5 + random(call.lock.client), call.votes
    if found.split == "gate" then
        found.gate = nil
        return ALONE * spread
    end
    found.gate = not (call.lock.primitive.everywhere and call.wait.ticket)
    found.splits = found.splits + 1
    return max(SPLIT_DELAY, found.trip) * 2 ^ min(found.splits - 1, SPLIT_DOUBLINGS) * spread
end

-- Seconds until the next attempt, if no message comes. free_in: until a majority may be free, or
-- nil.
local function pause_of(call, free_in)
    local client, guarded, held = call.lock.client, call.guarded, call.outcome == "held"
    local pause = (call.sleeps.subscription and held or guarded) and client.options.fallback
        or _M.RETRY_DELAY
    pause = pause * (0.5 + random(client))
    if guarded then
        pause = min(pause, guarded + 0.001)
    end
    if call.votes.split == "gate" or call.votes.split and call.votes.splits < SPLIT_TRIES then
        return min(pause, split_pause(call))
    elseif free_in then
        pause = min(pause, free_in + 0.001 + random(client) * 0.002)
    end
    return pause
end

-- Calls of this client that wait beside each other need not all ask the servers: what refused one
-- that asked later than another would refuse that one, too.

--- Notes for sleep_on() that a call asked the servers for id (kind:name) at the time `at`, and has
-- to wait; free_at: when a majority may be free; nil: not known.
function _M.refused(client, id, at, free_at)
    client.refused:add(id, client.now(), { at = at, free_at = free_at or huge })
end

--- Sleeps while others are refused that ask for the same, each time since its last sleep `began`,
-- until the deadline of the wait; sleep(seconds) returns whether it was woken.
-- @return when others were last refused; or nil
function _M.sleep_on(client, id, began, deadline, sleep)
    local at
    repeat
        local other, now = client.refused:get(id), client.now()
        -- Not in the same millisecond: that may be the call's own attempt.
        local pause = other and other.at > began and not rounds.is_ending(client) and min(
            deadline - now, client.options.fallback * (0.5 + random(client)),
            other.free_at - now + 0.001 + random(client) * 0.002) or 0
        if pause <= 0 then
            return at
        end
        at, began = other.at, now
    until sleep(pause)
    return at
end

--- Sleeps until the next attempt makes sense, or the call's time has passed. Frees its round.
function _M.sleep(call)
    if call.votes.tries then
        attempt.forget(call)
        nap(call, min(split_pause(call), votes.longest_pause(call, call.lock.client.now())), true)
        return
    elseif not call.sleeps then
        subscribe(call)
    elseif call.wait then
        follow(call)
    end
    local lock, client = call.lock, call.lock.client
    local left = max(call.deadline - client.now(), 0)
    local free_in = call.round ~= nil and answers.free_in(call.round)
    learn(call)
    attempt.forget(call)
    local pause = min(pause_of(call, free_in), left)
    local sleeps, began = call.sleeps, client.now()
    local subscription = sleeps.subscription
    local alike = call.free and not (call.wait or call.votes.split) and call.outcome == "held"
    if alike then
        _M.refused(client, lock.id, call.now, free_in and began + free_in)
    end
    nap(call, pause)
    if not subscription then
        return
    elseif alike and subscriptions.wakes(subscription) <= sleeps.seen then
        call.answered = _M.sleep_on(client, lock.id, began, call.deadline, function(seconds)
            nap(call, seconds)
            return subscriptions.wakes(subscription) > sleeps.seen
        end) or call.answered
    end
    sleeps.woken = subscriptions.wakes(subscription) > sleeps.seen
    local rest = sleeps.woken and began + min(deaf_for(call), pause) - client.now() or 0
    if rest > 0 then
        nap(call, rest, true)
    end
    local opened = subscriptions.opened(subscription)
    if opened ~= sleeps.opened and sleeps.vain < VAIN then
        restart_splits(call)
    end
    -- Before the attempt: later wakes are news.
    sleeps.seen, sleeps.opened = subscriptions.wakes(subscription), opened
end

--- Ends the subscription of a call that no longer waits.
function _M.finish(call)
    local subscription = call.sleeps and call.sleeps.subscription
    if not subscription then
        return
    end
    call.sleeps.subscription = nil
    subscriptions.close(subscription)
    if call.place and call.place.queue then
        call.place.queue.watching = call.place.queue.watching - 1
    end
end

return _M
