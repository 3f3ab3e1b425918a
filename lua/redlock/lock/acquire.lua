--- A call of lock() or tryLock(): waits for its turn, tries once, decides, and sleeps until the
-- next attempt makes sense.
--
-- This room is the path that all kinds of locks share: lock objects (lock, asking, background),
-- the call (acquire, attempt, votes), its waits (turn, local_queue, waking, deadlock), holds and
-- their end (holds, callbacks, handover, closing, outcomes). It reaches servers through
-- runtime/rounds, and knows a kind only as the fields of its primitive: it must not know kinds/ or
-- client/.
--
-- Every step gets one table, the call:
--   lock, owner  what is wanted, and for which owner
--   lease        seconds; nil: the client's, kept by the watchdog
--   patience     seconds without an answer of a majority after which the call gives up
--   started      when the call began, of client.now()
--   deadline     when the wait ends; huge: never
--   now, ends    when the attempt begins, and when it must end
--   hold         what the call got; false: nothing
--   answered     when servers last answered, or had a reason not to; nil: never
--   lease_out    where the core puts the lease of an attempt; empty once a hold owns the lease
--                (rounds.claim)
--   handle       of that lease, once it may have a finalizer; false: none
--   left         seconds of its validity, when the attempt was decided; false: not known
--   place        in the local queue, or once it waits beside that; nil: none (local_queue.lua)
--   free         whether it contends beside the other calls of this process, in no queue
--   blocks       whether nothing else of this thread runs while it waits
--   wait         the table for the primitive's functions (hooks.lua), or nil
--   answers      of the servers to the granted attempt; only with `wait`
--   tried        whether the call has tried to take what it was offered, in this turn
--   before       the hold whose release this attempt follows (handover.lua), or nil
--   waits        whether the first attempt failed, or could not be made at once
--   round        of the last attempt, which failed; nil: it could not even start
--   outcome      the error code of that attempt
--   guarded      seconds until quarantines let a majority vote, or nil
--   lesson       what rounds.teach() returned, or nil
--   sleeps       what waking.lua knows of its sleeps between two attempts; nil: there was none
--   votes        what votes.lua knows of its attempts that split the votes; empty: there was none
--
-- A step returns nil: continue with the next step; true: the lock is held; or an error, which ends
-- the call.

local attempt = require "redlock.lock.attempt"
local closing = require "redlock.lock.closing"
local deadlock = require "redlock.lock.deadlock"
local errors = require "redlock.runtime.errors"
local handover = require "redlock.lock.handover"
local hooks = require "redlock.lock.hooks"
local holders = require "redlock.inspect.holders"
local local_queue = require "redlock.lock.local_queue"
local restart_guard = require "redlock.servers.restart_guard"
local rounds = require "redlock.runtime.rounds"
local outcomes = require "redlock.lock.outcomes"
local turn = require "redlock.lock.turn"
local votes = require "redlock.lock.votes"
local waking = require "redlock.lock.waking"

local error, format, pcall = error, string.format, pcall
local max, min, huge = math.max, math.min, math.huge

local _M = {}

local RETRY = { held = true, no_quorum = true, expired = true }

local function new_call(lock, owner, lease, wait, patience, now)
    local client = lock.client
    local o = client.options
    -- A client's first attempt may include the time to connect.
    local answer = client.used and o.timeout or max(o.connect_timeout, o.timeout)
    client.used = true
    return {
        lock = lock, owner = owner, lease = lease, patience = patience, started = now, now = now,
        deadline = wait and now + wait or huge, ends = wait and now + wait + answer or huge,
        hold = false, lease_out = rounds.lease_out(), handle = false, left = false, free = false,
        waits = false, blocks = false, votes = votes.NONE,
        wait = lock.primitive.waits and hooks.new_wait() or nil,
    }
end

-- ---- the steps -------------------------------------------------------------------

local function sleep_until_worth_it(call)
    local lock, client = call.lock, call.lock.client
    if not rounds.is_ending(client) then
        waking.sleep(call)
    end
    if rounds.is_ending(client) then
        return errors.new("closed", lock)
    elseif not (call.votes.tries or call.place or call.free) and deadlock.is_certain(call) then
        return errors.new("deadlock", lock)
    end
    client.credentials:poll()
end

-- Waits until no other call of this process is first.
local function wait_for_turn(call)
    if call.place and not call.free then
        local result = turn.wait(call)
        if result == nil and not call.sleeps and call.wait and call.wait.ticket then
            -- Another call has asked for it so far. It subscribes before it asks.
            result = sleep_until_worth_it(call) or turn.wait(call)
        end
        return result
    elseif not call.waits and call.deadline > call.started then
        local client, pause = call.lock.client, handover.yield_for(call.lock, call.now)
        if pause > 0 then
            rounds.sleep(client, min(pause, call.deadline - call.started))
            call.now = client.now()
        end
    end
end

-- Tries again at once if the last attempt may have failed because a password had changed.
local function try_again(call)
    local client = call.lock.client
    if client.credentials:poll() then
        attempt.forget(call)
        call.now = client.now()
        return attempt.make(call)
    end
end

local function try_once(call)
    local client = call.lock.client
    if call.waits then
        call.now = client.now()
        call.ends = call.votes.tries and votes.ends(call, call.now)
            or max(call.deadline, call.now) + client.options.timeout
    end
    return attempt.make(call) or try_again(call)
end

-- The error of a call whose last attempt failed with `code`.
local function failure(call, code)
    local lock, holder, text = call.lock, nil, nil
    local least = lock.client.options.min_validity
    local split, held = call.votes.split and not (call.votes.whose and call.votes.may), nil
    if split or code == "held" then
        holder, text, held = holders.refused(call)
        split = split and not held
        text = split and format("the votes were split among %d", call.votes.among) or text
    elseif code == "expired" and least > 0 then
        text = format("less than min_validity, %g s, was left of it", least)
    end
    local err = rounds.failure(lock.client, lock, attempt.take_round(call), call.lesson)
    if split or held then
        err.code = split and "no_quorum" or "held"
    end
    if text then
        errors.name(err, lock, holder, text)
    end
    return err
end

local function decide(call)
    local client = call.lock.client
    handover.found(call.lock, true)
    local err = hooks.refused(call) or turn.begin_waiting(call)
    if err then
        return err
    end
    local now, code = client.now(), rounds.outcome(client, call.round)
    local guarded = code == "no_quorum" and restart_guard.left(client) or nil
    votes.judge(call, code, now)
    if call.place and not call.free then
        holders.note(call, code == "held" and not call.votes.split)
    end
    if code == "held" or guarded then
        call.answered = now   -- patience is for servers that do not answer
    end
    local over = rounds.to_ms(call.deadline - now) <= 0
    if not RETRY[code] or now - (call.answered or call.started) >= call.patience
        or over and not (call.votes.split and votes.try_again(call, now)) then
        return failure(call, code)
    end
    call.outcome, call.guarded = code, guarded
end

-- Further attempts. A function of its own, as LuaJIT aborts a trace that enters a loop.
-- @return as run()
local function try_more(call)
    local result
    repeat
        result = decide(call) or sleep_until_worth_it(call)
            or wait_for_turn(call) or try_once(call)
    until result
    return result
end

-- Redlock: (1) note the time, (2) ask all servers, (3) hold the lock if a majority grants it in
-- less than the lease, (4) for the rest of the lease, (5) else release it on every server, and
-- try again after a random pause. try_once() is (1) to (5), of which the core does (2) to (5).
-- @return true, or the error that ends the call
local function run(call)
    return wait_for_turn(call) or try_once(call) or try_more(call)
end

-- Like run(), for a call whose first attempt has failed.
local function run_on(call)
    return try_again(call) or try_more(call)
end

-- ---- the call --------------------------------------------------------------------

-- Frees what a call has: a round, a subscription, a place in the queue.
local function leave(call)
    if call.round ~= nil then
        attempt.forget(call)
    end
    if call.waits then
        waking.finish(call)
    end
    local place = call.place
    if place and place.offer then        -- too late: offered to the next one
        place:abandon()
    elseif place then
        place:leave()
    end
end

-- Counts a call that holds the lock. An owner that held it already has not waited.
local function count(call)
    local lock, hold = call.lock, call.hold
    handover.found(lock, false)
    outcomes.acquired(lock.client, lock.name, call.started, hold and hold.since or call.started)
end

-- Releases what a call got that ends with an error: its caller does not know of it.
local function give_back(call)
    local lock, hold = call.lock, call.hold
    local client = lock.client
    if hold and client.holds:get(call.owner, lock.id) == hold then
        rounds.free_release(hold.lease, closing.begin(lock, call.owner, hold, client.now()))
        handover.released(lock, nil, hold)
    end
end

-- Runs the steps of a call, and leaves. Run it under pcall: an interrupt (Ctrl-C) may raise between
-- any two instructions, and functions of users may raise.
local function go(call, steps)
    local result = steps(call)
    leave(call)
    if result == true then
        local lock, client = call.lock, call.lock.client
        count(call)
        if client.events.fn then
            client.events:emit { type = "acquired", name = lock.name, owner = call.owner,
                waited = client.now() - call.started, traceparent = lock.traceparent }
        end
    end
    return result
end

-- Ends a call. ok, result: of go(), under pcall.
-- @return as acquire()
local function conclude(call, ok, result)
    local lock, client = call.lock, call.lock.client
    if not ok then
        rounds.interrupted(call)
        leave(call)
        give_back(call)
        hooks.abandoned(call)
        error(result, 0)
    elseif result == true then
        return true
    end
    hooks.gave_up(call)
    outcomes.failed(client, lock.name, result.code)
    result.waited = client.now() - call.started
    return nil, result
end

local function run_in_line(call)
    call.place:join()
    return run(call)
end

--- Acquires the lock for an owner that does not hold it, at `now` of client.now(). The head of this
-- file says what lease and patience are; wait: seconds, or nil: until it is free.
-- @return true, or nil and an error: also `deadlock`, `overload`
function _M.acquire(lock, owner, lease, wait, patience, now)
    local client = lock.client
    local call = new_call(lock, owner, lease, wait, patience, now)
    if not client.host.concurrent(client) then
        call.blocks = true
    elseif wait ~= 0 then
        if lock.primitive.line then
            call.place = local_queue.place(lock, lease, call.deadline, call.wait)
            return conclude(call, pcall(go, call, run_in_line))
        end
        call.free = true
    end
    return conclude(call, pcall(go, call, run))
end

-- ---- the same for a future that needs no coroutine -----------------------------------

--- Makes a call for begin(). The arguments are those of acquire().
-- @return the call; or nil: it needs a coroutine, as it is not for a plain lock, this process holds
--   or wants the name already, or yields it, or somebody listens to events
function _M.new_plain_call(lock, owner, lease, wait, patience)
    local client = lock.client
    local now = client.now()
    if lock.primitive.name ~= "lock" or client.events.fn or client.queues[lock.id]
        or client.holds:left_here(lock.id) > 0 or handover.yield_for(lock, now) > 0 then
        return nil
    end
    return new_call(lock, owner, lease, wait, patience, now)
end

--- Begins the first attempt, and waits for nothing. An interrupt may raise between any two
-- instructions of begin() and decided(): then call give_up().
-- @return the round; or nil: it could not begin, and the call has ended
function _M.begin(call)
    if call.deadline > call.started then
        call.place = local_queue.place(call.lock, call.lease, call.deadline)
        call.place:join()
    end
    local round = attempt.begin(call)
    if round == nil then
        leave(call)
    end
    return round
end

--- Decides a call when the round of begin() is done.
-- @return true: the lock is held; or nil: call go_on()
function _M.decided(call, round)
    if attempt.decided(call, round) then
        leave(call)
        count(call)
        return true
    end
end

--- Continues a call whose first attempt has failed.
-- @return as acquire()
function _M.go_on(call)
    return conclude(call, pcall(go, call, run_on))
end

--- Ends a call of new_plain_call() that nobody waits for any more. round: of begin(), if that is
-- not decided; or nil.
function _M.give_up(call, round)
    if round ~= nil then
        rounds.give_up(call, round)
    else
        rounds.interrupted(call)
    end
    leave(call)
    give_back(call)
end

return _M
