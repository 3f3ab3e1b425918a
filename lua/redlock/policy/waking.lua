--- What a waiter does between two attempts: it subscribes, sleeps, and is woken.

local bit = require "bit"
local hash = require "redlock.core.hash"
local queues = require "redlock.policy.queues"
local rounds = require "redlock.core.rounds"

local random, min, max = math.random, math.min, math.max

local _M = {}

-- After votes were split: uniform in [0.5, 1.5] of a millisecond, doubled each time up to
-- 2^5; a round trip on a local network is less, and the core's clock is no finer.
-- So often at most in a row: then it is no split, but a holder whose key a node has lost.
local SPLIT_DELAY, SPLIT_DOUBLINGS, SPLIT_TRIES = 0.001, 5, 10

-- A message may be anybody's who may publish. Who was woken so often, and each time found the
-- holders that were there before, does not try again for a millisecond, doubled each time up to
-- a second, whatever messages come. One such time is a matter of course: when the subscription
-- is confirmed.
local VAIN, DEAF, DEAF_MAX = 2, 0.001, 1

-- A number by which all contenders for a name find the same node.
local function home_of(name)
    return bit.band(hash(name:sub(1, 64)), 0x7fffffff)
end

--- The state of a wait.
-- @param place  in the queue of its process, or nil
function _M.new(place)
    return {
        place = place,
        watch = nil,       -- what wakes it
        seen = nil,        -- how many wakes lie behind; nil: it has not subscribed
        opened = nil,      -- how many of them were a majority's
        woken = false,     -- whether a message ended the last sleep
        splits = 0,        -- attempts that split the votes
        home = nil,        -- the node to be asked first, once that has happened
        holders = {},      -- by server: who had it
        vain = 0,          -- wakes in a row after which they have it still
    }
end

--- Subscribes to what wakes a wait, if it may be woken.
-- @param w     the state of the wait: gets watch (or none) and seen
-- @param lock  what is waited for
function _M.subscribe(w, lock)
    local client, prim = lock.client, lock.primitive
    if client.options.wake == "push" and prim.channel then
        w.watch = rounds.open_subscription(client, prim.channel(client, lock.name))
    end
    -- A watch that others have is confirmed already: what it was woken by before our first
    -- attempt failed may have been meant for us.
    w.seen = w.watch and max(rounds.wakes(w.watch) - 1, 0) or 0
    if w.place and w.watch then
        w.place.queue.watching = w.place.queue.watching + 1
    end
end

-- Sleeps for so long, or until it is woken.
-- @param place  or nil
-- @param w      the state of the wait; nil: messages do not wake it
local function nap(client, place, w, seconds)
    if place then
        queues.sleep(place, w, seconds)
    elseif w and w.watch then
        rounds.finish_sleep(client, rounds.begin_pause(w.watch, w.seen, seconds))
    else
        rounds.sleep(client, seconds)
    end
end

-- How long after an attempt no message leads to the next one, in seconds.
local function deaf_for(w)
    return w.vain >= VAIN and min(DEAF * 2 ^ (w.vain - VAIN), DEAF_MAX) * (1 + random()) / 2 or 0
end

--- Sleeps until the next attempt makes sense.
-- @param w        the state of the wait, subscribed
-- @param lock     what is waited for
-- @param code     what became of the last attempt
-- @param free_in  seconds until a majority may be free, or nil
-- @param split    whether some servers granted it
-- @param left     seconds it may last, or nil
-- @param guarded  seconds until quarantines let a majority vote, or nil
function _M.sleep(w, lock, code, free_in, split, left, guarded)
    local client, o = lock.client, lock.client.options
    local pause = ((w.watch and code == "held" or guarded) and o.fallback or o.retry_delay)
        * (0.5 + random())
    if guarded then
        pause = min(pause, guarded + 0.001)
    end
    if split and w.splits < SPLIT_TRIES then
        w.home = w.home or home_of(lock.name)
        w.splits = w.splits + 1
        pause = min(pause, SPLIT_DELAY * 2 ^ min(w.splits, SPLIT_DOUBLINGS)
            * (0.5 + random()))
    elseif free_in then
        pause = min(pause, free_in + 0.001 + random() * 0.002)
    end
    pause = left and min(pause, left) or pause
    local began = client.now()
    nap(client, w.place, w, pause)
    if not w.watch then
        return
    end
    w.woken = rounds.wakes(w.watch) > w.seen
    local rest = w.woken and began + min(deaf_for(w), pause) - client.now() or 0
    if rest > 0 then
        nap(client, w.place, nil, rest)
    end
    local opened = rounds.opened(w.watch)
    w.splits = opened ~= w.opened and w.vain < VAIN and 0 or w.splits
    -- Before the attempt: later ones are news.
    w.seen, w.opened = rounds.wakes(w.watch), opened
end

--- Looks who has it, after an attempt: counts those in a row that a message led to and that
-- found no other holder.
-- @param w       the state of the wait
-- @param client  whose attempt it was
-- @param round   of the attempt
function _M.learn(w, client, round)
    if not w.watch or round == nil then
        return
    end
    local same, new = rounds.compare_holders(client, round, w.holders)
    if new > 0 and same == 0 then    -- one of both: perhaps a key that nobody has let go
        w.vain = 0
    elseif w.woken then
        w.vain = w.vain + 1
    end
end

--- The wait is over.
function _M.finish(w)
    if w.watch then
        rounds.close_subscription(w.watch)
        if w.place then
            w.place.queue.watching = w.place.queue.watching - 1
        end
    end
end

return _M
