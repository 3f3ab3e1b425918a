--- How a lock is waited for: attempts, messages, timers, and a queue within the process.
--
-- A message is a hint; the truth is the next attempt. A waiter subscribes, tries again,
-- and then sleeps until a majority of the servers has announced a release, until a
-- majority may be free by itself (the refusals say when), or for the fallback.

local attempt = require "redlock.policy.attempt"
local errors = require "redlock.core.errors"
local restart_guard = require "redlock.policy.restart_guard"
local queues = require "redlock.policy.queues"
local rounds = require "redlock.core.rounds"
local waking = require "redlock.policy.waking"

local error, pcall = error, pcall
local min, max, huge = math.min, math.max, math.huge

local _M = {}

local RETRY = { held = true, no_quorum = true, expired = true }

-- ---- in line ---------------------------------------------------------------------

local function tell_contended(lock, owner)
    local client = lock.client
    client.counters.contended = client.counters.contended + 1
    if client.events.fn then
        client.events:emit { type = "contended", name = lock.name, owner = owner }
    end
end

-- Whether a hold, or none, is kept for longer than somebody waits.
-- @param left  seconds
local function outlasts(hold, left)
    local remaining = hold and rounds.remaining(hold.lease) or 0
    return remaining > 0 and (hold.kept or remaining > left)
end

-- Whether it is waited for in vain: whoever has it may wait for this one, and keeps it for
-- longer than this one waits.
local function is_vain(lock, owner, left)
    local client = lock.client
    local in_vain = client.host.in_vain
    return in_vain and outlasts(in_vain(client.holds, lock.id, owner), left)
end

-- The same of what is held as another kind of lock, which this owner may do itself.
local function is_vain_beside(lock, owner, left)
    local client, kinds = lock.client, lock.primitive.rivals
    local in_vain = client.host.in_vain
    for i = 1, #kinds do
        local id = kinds[i] .. ":" .. lock.name
        if outlasts(client.holds:get(owner, id), left)
            or in_vain and outlasts(in_vain(client.holds, id, owner), left) then
            return true
        end
    end
    return false
end

-- He has to wait.
-- @param left  seconds
-- @return true; or nil and an error: `overload` (too many of this process wait already),
--   `deadlock`
local function begin_waiting(lock, owner, place, left)
    local client = lock.client
    if place.waits then
        return true
    end
    tell_contended(lock, owner)
    if is_vain_beside(lock, owner, left) then
        return nil, errors.new("deadlock", lock)
    end
    local most = client.options.max_waiting      -- and he one of them, if he came in time
    if client.waiting > most and place.behind >= most then
        client.counters.overloaded = client.counters.overloaded + 1
        return nil, errors.new("overload", lock)
    end
    place.waits = true
    return true
end

-- After a run of hand-overs others get their turn: the process stays out for so long, as
-- does whoever gave a lock to others who wait for it, and wants it again at once. He would
-- be there before them every time. Of eight contenders the luckiest got it 1.4 times as
-- often as the last with 5 ms, 3.9 with 2 ms.
_M.GIVE_WAY = 0.005
local RUN = 0.05              -- seconds that the hold may be passed on in a row

-- How long others have to be let first; 0: not at all.
local function give_way(lock)
    return lock.client.out:left(lock.id, lock.client.now())
end

--- Who lets a hold go passes it on, if somebody of this process waits for it.
-- @return true, or false: it is to be released
function _M.pass(lock, hold)
    local client = lock.client
    local queue = client.queues[lock.id]
    if not queue or hold.passed >= client.options.handover or not lock.primitive.handover_script
        or client.now() - hold.since >= RUN or rounds.remaining(hold.lease) <= 0 then
        return false
    end
    return queues.offer(queue, hold)
end

--- The lock was released.
-- @param lock  a lock object
-- @param told  how many connections were told of it; nil: not known yet
function _M.released(lock, told)
    local client = lock.client
    local queue = client.queues[lock.id]
    -- Our own subscription is one of them. Not known: as if, for those who would be first.
    local own = queue and queue.watching > 0 and 1 or 0
    if told and told > own or not told and queue then
        client.out:add(lock.id, client.now())
    end
    queues.wake_first(queue)
end

-- A lease that has lost less than this share, beside the drift, passes on as it is.
local WORN = 0.01

-- Whether a hold may pass to the next holder without a word to the servers: what they have
-- is what an attempt of his would put there, and he needs no token of his own. An
-- extension may be under way still, or have got through to some.
local function is_as_new(lock, from, lease)
    local o, left = lock.client.options, rounds.remaining(from.lease)
    local seconds = lease or o.lease
    return not lock.primitive.confirm_script and not from.extended and from.seconds == seconds
        and from.kept == (lease == nil)
        and left >= seconds * (1 - o.drift_factor - WORN) and left <= seconds
end

-- Takes what was offered.
-- @return true, or nil and a round
local function take_over(lock, owner, lease, place)
    local client, from = lock.client, place.offer
    place.offer = nil
    local handle = from.lease
    if not is_as_new(lock, from, lease) then
        local round
        handle, round = rounds.handover(client, handle, lease or client.options.lease, place)
        if not handle then
            return nil, round
        end
    end
    client.counters.handed_over = client.counters.handed_over + 1
    return attempt.taken(lock, owner, lease, handle, from)
end

-- The owner has got it meanwhile, by another of his coroutines.
local function reenter(lock, owner)
    local hold = lock.client.holds:get(owner, lock.id)
    if hold and rounds.remaining(hold.lease) > 0 then
        hold.count = hold.count + 1
        return true
    end
    return false
end

-- Whether it is known of a name that somebody has it: without that an answer is due to
-- everybody who asks.
local function is_held(lock, queue)
    return queue.held or lock.client.holds:left_here(lock.id) > 0
end

-- What somebody in line is to do now.
-- @return true: it is held; nil and an error; false: he is to try, as it is his turn, or as
--   his time is over and those before him have no answer yet; or nil, nil and the seconds
--   that he is to sleep
local function next_step(lock, owner, lease, wait, started, place)
    local client, queue = lock.client, place.queue
    if place.offer then
        place.tried = true
        local got, round = take_over(lock, owner, lease, place)
        if got then
            return true
        end
        rounds.free(round)
    elseif reenter(lock, owner) then
        return true
    end
    local left = wait and wait - (client.now() - started) or huge
    if is_vain(lock, owner, left) then
        return nil, errors.new("deadlock", lock)
    end
    local pause = client.host.nap
    if queue[queue.first] == place then
        client.holds:poll()      -- of owners that are gone nobody else may tell
        pause = client.holds:left_here(lock.id)
        if pause == 0 then
            pause = give_way(lock)
            if pause == 0 and not (place.tried and rounds.to_ms(left) <= 0) then
                return false
            end
        end
        pause = min(pause, client.options.fallback)
    end
    if rounds.to_ms(left) <= 0 then
        if not place.tried and not is_held(lock, queue) then
            return false
        end
        return nil, errors.new("held", lock)
    end
    local may, err = begin_waiting(lock, owner, place, left)
    return nil, err, may and min(left, pause + 0.001)
end

-- Sleeps in line while it is not its turn on the network.
-- @return true, false, or nil and an error, as next_step()
local function line_up(lock, owner, lease, wait, started, place)
    place.tried = false
    local got, err, pause = next_step(lock, owner, lease, wait, started, place)
    while pause do
        queues.sleep(place, nil, pause)
        if lock.client.closed then
            return nil, errors.new("closed", lock)
        end
        got, err, pause = next_step(lock, owner, lease, wait, started, place)
    end
    return got, err
end

-- ---- attempts -----------------------------------------------------------------

-- Whether waiting is in vain: another owner of this thread holds the lock beyond the wait, or
-- anybody of it as another kind of lock, and cannot let it go while the thread is blocked.
local function is_deadlock(lock, owner, wait, started)
    local client, kinds = lock.client, lock.primitive.rivals
    client.tasks:poll()          -- one of its futures may have got it
    local left = client.holds:held_by_others(owner, lock.id)
    for i = 1, #kinds do
        left = left or client.holds:held_by_others(nil, kinds[i] .. ":" .. lock.name)
    end
    return left == huge or left and wait and left > wait - (client.now() - started)
end

-- Attempts again until it is held, `wait` seconds are over, or no majority has answered
-- for `patience` seconds.
-- @param round    of the first attempt, which failed
-- @param started  when that began
-- @param w        the state of the wait
-- @return true, or nil and the round of the last attempt or an error
local function attempts(lock, owner, lease, wait, patience, round, started, w)
    local client = lock.client
    local answered = started
    while true do
        local now = client.now()
        local code = rounds.outcome(client, round)
        local guarded = code == "no_quorum" and restart_guard.left(client) or nil
        if w.place then
            w.place.queue.held = code == "held"
        end
        if code == "held" or guarded then
            answered = now   -- patience is for servers that do not answer
        end
        local left = wait and wait - (now - started)
        if not RETRY[code] or (left and rounds.to_ms(left) <= 0) or now - answered >= patience then
            return nil, round
        end
        if not w.seen then
            waking.subscribe(w, lock)
        end
        local free_in, split = rounds.hints(round)
        waking.learn(w, client, round)
        rounds.free(round)
        waking.sleep(w, lock, code, free_in, split and code == "held", left, guarded)
        if client.closed then
            return nil, errors.new("closed", lock)
        elseif not w.place and is_deadlock(lock, owner, wait, started) then
            return nil, errors.new("deadlock", lock)
        end
        client.credentials:poll()
        local got
        round = nil
        if w.place then
            got, round = line_up(lock, owner, lease, wait, started, w.place)
        end
        if not got and not round then
            left = wait and max(wait - (client.now() - started), 0) + client.options.timeout
            got, round = attempt.make(lock, owner, lease, left, w.home, w.place)
        end
        if got then
            return true
        elseif errors.is_error(round) then
            return nil, round
        end
    end
end

-- The same; unsubscribes at the end. (After an error that is left to the collector.)
local function retry(lock, owner, lease, wait, patience, round, started, place)
    local w = waking.new(place)
    local got, last = attempts(lock, owner, lease, wait, patience, round, started, w)
    waking.finish(w)
    return got, last
end

-- An attempt, repeated when there is a password that it may have failed for want of.
-- @param within  seconds that both may take, from `started` on, or nil
local function first_attempt(lock, owner, lease, within, started, place)
    local client = lock.client
    local got, round = attempt.make(lock, owner, lease, within, nil, place)
    if not got and client.credentials:poll() then
        rounds.free(round)
        within = attempt.left_until(within and started + within, client)
        got, round = attempt.make(lock, owner, lease, within, nil, place)
    end
    return got, round
end

-- All of it for somebody in line.
-- @param within  seconds the first attempt may last, or nil
-- @return also nil and `overload`: too many wait already
local function in_line(lock, owner, lease, wait, patience, within, started, place)
    local client = lock.client
    local mine, round = line_up(lock, owner, lease, wait, started, place)
    if mine or round then
        return mine, round
    end
    local began = started
    if place.waits then
        began = client.now()
        within = wait and max(wait - (began - started), 0) + client.options.timeout
    end
    mine, round = first_attempt(lock, owner, lease, within, began, place)
    if mine then
        return true
    end
    local may, err = begin_waiting(lock, owner, place,
        wait and wait - (client.now() - started) or huge)
    if not may then
        rounds.free(round)
        return nil, err
    end
    return retry(lock, owner, lease, wait, patience, round, started, place)
end

-- The same in the queue of its process.
local function queued(lock, owner, lease, wait, patience, within, started)
    local place = queues.join(lock.client, lock.id, wait and started + wait)
    local ok, got, failed = pcall(in_line, lock, owner, lease, wait, patience, within, started,
        place)
    if place.offer then          -- too late: to the next one
        place:vanish()
    else
        place:leave()
    end
    if not ok then
        error(got, 0)
    end
    return got, failed
end

-- ---- acquire ---------------------------------------------------------------------

--- Takes the lock for an owner who does not hold it.
-- @param lock      a lock object
-- @param owner     who wants it
-- @param lease     seconds, or nil: the client's, kept by the watchdog
-- @param wait      seconds, or nil: as long as it is held
-- @param patience  seconds without a majority after which it gives up
-- @return true, or nil and an error: also `deadlock`, `overload`
function _M.acquire(lock, owner, lease, wait, patience)
    local client = lock.client
    local counters, started = client.counters, client.now()
    -- The first attempt of all may take the time to connect.
    local answer = client.used and client.options.timeout or client.options.connect_timeout
    local within = wait and wait + max(answer, client.options.timeout)
    client.used = true
    local ok, round
    if wait ~= 0 and client.host.concurrent(client) then
        ok, round = queued(lock, owner, lease, wait, patience, within, started)
    else
        local pause = wait ~= 0 and give_way(lock) or 0
        if pause > 0 then
            rounds.sleep(client, pause)
        end
        ok, round = first_attempt(lock, owner, lease, within, started)
        if not ok then
            tell_contended(lock, owner)
            if wait ~= 0 and is_deadlock(lock, owner, wait, started) then
                rounds.free(round)
                counters.failed = counters.failed + 1
                return nil, errors.new("deadlock", lock)
            elseif wait ~= 0 then
                ok, round = retry(lock, owner, lease, wait, patience, round, started)
            end
        end
    end
    if ok then
        counters.acquired = counters.acquired + 1
        if client.events.fn then
            client.events:emit { type = "acquired", name = lock.name, owner = owner,
                waited = client.now() - started }
        end
        return true
    end
    counters.failed = counters.failed + 1
    local err = errors.is_error(round) and round
        or rounds.failure(client, lock, round, lock.unseeded_for)
    err.waited = client.now() - started
    return nil, err
end

return _M
