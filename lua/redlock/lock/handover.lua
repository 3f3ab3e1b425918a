--- A hold that is let go passes to another owner of this process, who waits in the queue.

local attempt = require "redlock.lock.attempt"
local errors = require "redlock.runtime.errors"
local queues = require "redlock.lock.queues"
local rounds = require "redlock.runtime.rounds"

local error, pcall = error, pcall
local max, min = math.max, math.min

local _M = {}

-- After a run of hand-overs other processes get their turn: this one yields for so many seconds,
-- as does an owner who released a lock that others wait for, and wants it again at once. It would
-- be there before them every time. Such an owner yields until each of those who wait may have had
-- the lock for as long, at most as long as a run may last: of eight contenders with holds of 5 ms
-- the luckiest got the lock 1.7 times as often as the last, and 3 times with 5 ms for all.
local YIELD = 0.005
local RUN = 0.05              -- seconds that the hold may be passed on in a row
_M.YIELD_MAX = RUN

--- Seconds for which this process yields a lock to others; 0: it does not.
function _M.yield_for(lock)
    return lock.client.yield_until:left(lock.id, lock.client.now())
end

--- When the first of the owners got a hold who have passed it on to each other.
function _M.run_since(hold)
    return hold.run or hold.since
end

--- Passes on a hold that is let go, if an owner of this process waits for it.
-- @return true; or false: the hold is to be released
function _M.pass(lock, hold)
    local client = lock.client
    local queue = client.queues[lock.id]
    local prim = lock.primitive
    if not queue or prim.shared or hold.passed >= client.options.handover
        or not prim.handover_script or client.now() - _M.run_since(hold) >= RUN
        or rounds.remaining(hold.lease) <= 0 then
        return false
    end
    return queues.offer(queue, hold)
end

--- Notes that a lock was released.
-- @param lock  a lock object
-- @param told  how many connections were told of the release; nil: not known yet
-- @param hold  what was released; nil: the name stays closed
function _M.released(lock, told, hold)
    local client = lock.client
    local queue = client.queues[lock.id]
    -- Our own subscription is one of them. Not known: as if, for those who would be first.
    local own = queue and queue.watching > 0 and 1 or 0
    local others = told and told - own or queue and 1 or 0
    if hold and others > 0 then
        local now = client.now()
        local turns = queue and 0 or others * (now - _M.run_since(hold))
        client.yield_until:add(lock.id, now, min(max(turns, YIELD), RUN))
    end
    queues.wake_first(queue)
end

--- Makes a hold one of another kind, for the same owner, on the servers in one step.
-- @param view   a lock object of the other kind
-- @param owner  whose hold it is
-- @param hold   one of client.holds
-- @param count  how often it counts as entered then
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
    queues.wake_first(client.queues[hold.id])
    if not handle then
        return nil, rounds.failure(client, view, round)
    elseif not attempt.register(call, handle) then
        return nil, errors.new("closed", view)
    end
    client.holds:get(owner, view.id).count = count
    return true
end

-- A lease that has lost less than this share, beside the drift, passes on as it is.
local WORN = 0.01

-- Whether a hold may pass to the owner of a call without a word to the servers: what they have
-- is what an attempt would put there, and the owner needs no token of its own. An extension may
-- be under way still, or have got through to some.
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
-- @return true; or nil: the call goes on
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
