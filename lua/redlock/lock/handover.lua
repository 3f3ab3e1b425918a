--- Hand-over. Within a process, a released hold passes as it is to another owner that waits in the
-- queue. Between processes, an importer replaces the value of an exported hold on the servers.

local attempt = require "redlock.lock.attempt"
local errors = require "redlock.runtime.errors"
local holders = require "redlock.inspect.holders"
local local_queue = require "redlock.lock.local_queue"
local rounds = require "redlock.runtime.rounds"

local error, pcall = error, pcall
local max, min = math.max, math.min

local _M = {}

-- After a run of hand-overs, or of releases that were followed, this process yields to others for
-- YIELD seconds. So does an owner that has released a contended lock and wants it again at once: it
-- would come first every time. It yields until each waiter may have had the lock for as long, RUN
-- at most. Measured with eight contenders and holds of 5 ms: the luckiest got the lock 1.7 times as
-- often as the last; if all yield 5 ms, 3 times.
local YIELD = 0.005
local RUN = 0.05              -- seconds for which a hold may be passed on in a row

-- A waiter that stands still (SIGSTOP, a frozen machine) listens and takes no turn. Once nobody has
-- used VAIN yields in a row, this process yields less often: REST seconds after the last yield,
-- doubled each time up to REST_MAX. A turn that is taken ends this, and so does another listener.
local VAIN, REST, REST_MAX = 3, 0.01, 0.08
_M.REMEMBERED = 1             -- seconds for which a yield counts

--- Seconds for which this process yields a lock to others; 0: it does not.
function _M.yield_for(lock, now)
    local yield = lock.client.yields:get(lock.id)
    return yield and max(yield.ends - now, 0) or 0
end

-- Others listened to a release: yields for `seconds`, if this is not known to be in vain.
local function yield_to(lock, others, seconds)
    local yields, now = lock.client.yields, lock.client.now()
    local yield = yields:get(lock.id)
    if not yield or others > yield.others then
        yield = { ends = 0, vain = 0 }
    end
    yield.others = others        -- how many listened
    local rest = yield.vain >= VAIN and min(REST * 2 ^ (yield.vain - VAIN), REST_MAX) or 0
    if now >= yield.ends + rest then
        yield.ends, yield.open = now + seconds, true
    end
    yields:add(lock.id, now, yield)
end

--- Notes what an attempt has found: whether somebody else had the lock, if only for a moment.
function _M.found(lock, taken)
    local yield = lock.client.yields:get(lock.id)
    if yield and (taken or yield.open) then
        yield.vain, yield.open = taken and 0 or yield.vain + 1, false
    end
end

--- When the run of hand-overs began that led to a hold.
function _M.run_since(hold)
    return hold.run or hold.since
end

-- The queue for a hold that is about to be released, if its run may continue; or nil.
local function next_in_run(lock, hold)
    local client = lock.client
    local queue = client.queues[lock.id]
    local ends = not queue or hold.passed >= client.options.handover
        or client.now() - _M.run_since(hold) >= RUN
    return not ends and queue or nil
end

--- Passes on a hold, if another owner of this process waits for one like it.
-- @return true; or false: release the hold
function _M.pass(lock, hold)
    local queue = next_in_run(lock, hold)
    return queue ~= nil and local_queue.offer(queue, hold)
end

--- Has the next owner of this process ask at once, with a request that follows the release of this
-- one: together they take one round trip.
function _M.follow(lock, hold)
    local queue = not lock.primitive.places and next_in_run(lock, hold)
    if queue then
        queue.before, hold.followed = hold, true
        local_queue.wake_first(queue)
    end
end

--- Notes that a lock was released. told: how many connections got the message; 0: none, or the name
-- stays closed; nil: not known yet.
function _M.released(lock, told, hold)
    local client = lock.client
    local queue = client.queues[lock.id]
    -- Our own subscription does not count. If the number is not known, a queue here counts as one:
    -- its calls would be first.
    local own = queue and queue.watching > 0 and 1 or 0
    local others = told and told - own or queue and 1 or 0
    if others > 0 and not hold.followed then
        local turns = queue and 0 or others * (client.now() - _M.run_since(hold))
        yield_to(lock, others, min(max(turns, YIELD), RUN))
    end
    if queue then
        local_queue.wake_first(queue)
    end
end

--- Takes the hold that a call in the queue was offered.
-- @return true; or nil: the call continues
function _M.take(call)
    local client, place = call.lock.client, call.place
    local from = place.offer
    place.offer = nil
    if not place:suits(from) then        -- it has grown old while this call slept
        rounds.give(from.lease, "abandon")
        return nil
    end
    client.counters.handed_over = client.counters.handed_over + 1
    return attempt.register(call, from.lease, from)
end

--- Takes over, for an owner of a lock, what was exported with a value and a token (0: none), or
-- what the owner holds as another kind of lock. seconds: of the lease; nil: the client's, kept by
-- the watchdog; keep: whether the watchdog keeps it, whatever its lease.
-- @return true; or nil and an error: lost (with the holder), unknown, expired, closed. What it has
--   taken is then released
function _M.import(lock, owner, value, token, seconds, keep)
    local client = lock.client
    local call = { lock = lock, owner = owner, lease = seconds, keep = keep,
        lease_out = rounds.lease_out() }
    local ok, handle, round = pcall(rounds.import, call, value, attempt.seconds(call), token)
    if not ok then
        rounds.interrupted(call)
        error(handle, 0)
    elseif handle and attempt.register(call, handle) then
        return true
    elseif handle then
        return nil, rounds.failure(client, lock, nil)
    end
    local holder, text = nil, "what the import took is released"
    if rounds.outcome(client, round) == "lost" then
        holder, text = holders.taker(lock, round)
    end
    local err = rounds.failure(client, lock, round)
    errors.name(err, lock, holder, text)
    return nil, err
end

return _M
