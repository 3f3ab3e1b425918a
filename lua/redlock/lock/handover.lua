--- Hand-over: a released hold passes to another owner of this process that waits in the queue.

local attempt = require "redlock.lock.attempt"
local errors = require "redlock.runtime.errors"
local local_queue = require "redlock.lock.local_queue"
local rounds = require "redlock.runtime.rounds"

local error, pcall = error, pcall
local max, min = math.max, math.min

local _M = {}

-- After a run of hand-overs this process yields to others for YIELD seconds. So does an owner that
-- has released a contended lock and wants it again at once: it would come first every time. It
-- yields until each waiter may have had the lock for as long, RUN at most. Measured with eight
-- contenders and holds of 5 ms: the luckiest got the lock 1.7 times as often as the last; if all
-- yield 5 ms, 3 times.
local YIELD = 0.005
local RUN = 0.05              -- seconds for which a hold may be passed on in a row
_M.YIELD_MAX = RUN

--- Seconds for which this process yields a lock to others; 0: it does not.
function _M.yield_for(lock, now)
    return lock.client.yield_until:left(lock.id, now)
end

--- When the run of hand-overs began that led to a hold.
function _M.run_since(hold)
    return hold.run or hold.since
end

--- Passes on a hold, if another owner of this process waits for it.
-- @return true; or false: release the hold
function _M.pass(lock, hold)
    local client = lock.client
    local queue = client.queues[lock.id]
    local prim = lock.primitive
    if not queue or prim.shared or hold.passed >= client.options.handover
        or not prim.handover_script or client.now() - _M.run_since(hold) >= RUN
        or rounds.remaining(hold.lease) <= 0 then
        return false
    end
    return local_queue.offer(queue, hold)
end

--- Notes that a lock was released.
-- @param lock  a lock object
-- @param told  how many connections got the message; nil: not known yet
-- @param hold  what was released; nil: the name stays closed
function _M.released(lock, told, hold)
    local client = lock.client
    local queue = client.queues[lock.id]
    -- Our own subscription does not count. If the number is not known, a queue here counts as one:
    -- its calls would be first.
    local own = queue and queue.watching > 0 and 1 or 0
    local others = told and told - own or queue and 1 or 0
    if hold and others > 0 then
        local now = client.now()
        local turns = queue and 0 or others * (now - _M.run_since(hold))
        client.yield_until:add(lock.id, now, min(max(turns, YIELD), RUN))
    end
    if queue then
        local_queue.wake_first(queue)
    end
end

--- Turns a hold into one of another kind, for the same owner, on the servers in one step.
-- @param view   a lock object of the other kind
-- @param owner  whose hold it is
-- @param hold   one of client.holds
-- @param count  its hold count after that
-- @return true; or nil and an error: lost, no_quorum, expired, closed: nothing is held any more
function _M.change(view, owner, hold, count)
    local client = view.client
    local call = { lock = view, owner = owner, lease = not hold.kept and hold.seconds or nil,
        lease_out = rounds.lease_out() }
    client.holds:remove(owner, hold.id)
    local ok, handle, round = pcall(rounds.handover, call, hold.lease, attempt.seconds(call),
        view.primitive)
    if not ok then
        rounds.interrupted(call)
        error(handle, 0)
    end
    local_queue.wake_first(client.queues[hold.id])
    if not handle then
        return nil, rounds.failure(client, view, round)
    elseif not attempt.register(call, handle) then
        return nil, errors.new("closed", view)
    end
    client.holds:get(owner, view.id).count = count
    return true
end

-- A lease that has lost less than this share, and the drift, passes on as it is.
local WORN = 0.01

-- Whether a hold may pass to the owner of a call without a request: the servers have what an
-- attempt would put there, and the owner needs no token of its own. Not after an extension, which
-- may be under way, or may have reached only some servers.
local function is_as_new(call, from)
    local lock, seconds = call.lock, attempt.seconds(call)
    local o, left = lock.client.options, rounds.remaining(from.lease)
    local label = from.label
    if label == nil then
        label = lock.client.label            -- false: none
    end
    return lock.primitive.vote ~= "largest" and not from.extended and from.seconds == seconds
        and label == lock.label and from.kept == (call.lease == nil)
        and left >= seconds * (1 - o.drift_factor - WORN) and left <= seconds
end

--- Takes the hold that a call in the queue was offered.
-- @param call  see acquire.lua
-- @return true; or nil: the call continues
function _M.take(call)
    local client, place = call.lock.client, call.place
    local from = place.offer
    local handle = from.lease
    place.offer = nil
    if not is_as_new(call, from) then
        local round
        handle, round = rounds.handover(call, handle, attempt.seconds(call))
        if not handle then
            rounds.free(round)
            return nil
        end
    end
    client.counters.handed_over = client.counters.handed_over + 1
    return attempt.register(call, handle, from)
end

return _M
