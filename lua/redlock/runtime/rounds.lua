--- Rounds from Lua: starts them in the core, waits through the host, reads the answers.

local ffi = require "ffi"
local answers = require "redlock.runtime.answers"
local finalizers = require "redlock.runtime.finalizers"
local ffi_core = require "redlock.runtime.ffi"
local ffi_values = require "redlock.runtime.ffi_values"

local pcall, error, tonumber = pcall, error, tonumber
local yield, type = coroutine.yield, type
local ceil, bytes, fill = math.ceil, ffi_values.bytes, ffi_values.fill
local cast, ffi_new, ffi_gc = ffi.cast, ffi.new, ffi.gc
local intptr = ffi.typeof "intptr_t"

local _M = { failure = answers.failure }
local failure = answers.failure

local FOREVER_MS = 2 ^ 40
local BEGIN, WAIT, NOTIFY = 0, 1, 2           -- RL_BEGIN ...
local HOW = { drop = 0, abandon = 1, orphan = 2, disown = 3 }       -- RL_DROP ...

--- Seconds; longer times count as this.
_M.FOREVER = FOREVER_MS / 1000

local C, GRANTED, orphan
local keys_buf, args_buf, lease_place, changes_out

-- Apart from load(), as LuaJIT does not compile functions that make closures.
local function free_orphan(lease)
    C.rl_lease_free(lease, HOW.orphan)
end

--- Loads the core and prepares its buffers, at first use in a process.
function _M.load()
    if C then
        return C
    end
    C = ffi_core.load()
    GRANTED = tonumber(C.RL_GRANTED)
    orphan = finalizers.for_handle(free_orphan)
    ffi_values.load(C)
    keys_buf, args_buf = ffi_values.keys, ffi_values.args
    lease_place, changes_out = ffi.typeof "rl_lease *[1]", ffi_new "double[1]"
    return C
end

--- Milliseconds of a number of seconds, rounded up.
function _M.to_ms(seconds)
    local ms = seconds * 1000
    return ms >= FOREVER_MS and FOREVER_MS or ceil(ms - 1e-6)
end
local to_ms = _M.to_ms

--- A number for a handle of the core, valid until the handle is given back.
function _M.key(handle)
    return tonumber(cast(intptr, handle))
end

--- @return the time, as client.now(); and a number that changes with each loss, renewal, or change
--   of a server
function _M.look(client)
    local now_ms = C.rl_look(client.core, changes_out)
    return now_ms / 1000, changes_out[0]
end

--- A random number in [0, 1), independent of other processes and of math.random.
function _M.random(client)
    return C.rl_random(client.core)
end

-- ---- waiting for a round ------------------------------------------------------------

-- Frees what a waiter held when its wait ends early (for example, when it is killed): the round,
-- the lease of an attempt, or nil, and by op:abandon() what else there is, or nil.
local function abandon(round, handle, op)
    C.rl_round_free(round)
    if handle ~= nil then
        C.rl_lease_free(handle, HOW.abandon)
    end
    if op then
        op:abandon()
    end
end

-- A host's wait that has called abandon() itself raises this.
_M.GIVEN_UP = "redlock: a wait was given up, as the event loop was blocked for too long"

-- Waits for a round; nil: it could not start. If the wait raises (Ctrl-C, a cancelled future),
-- frees the round and, of an attempt, the lease in lease_out (or nil).
-- @return whether the round was granted; the caller keeps the round
local function wait(client, round, lease_out, op)
    if round == nil then
        return false
    end
    local handle = lease_out and lease_out[0]
    local ok, outcome = pcall(client.host.wait, round, abandon, handle, op, client)
    if not ok then
        if lease_out then
            lease_out[0] = nil
        end
        if outcome ~= _M.GIVEN_UP then
            abandon(round, handle)
        end
        error(outcome, 0)
    end
    return outcome == GRANTED
end
_M.await = wait

--- Whether a round was granted and still is: the process may have been stopped since.
function _M.is_granted(round)
    return C.rl_round_outcome(round) == GRANTED
end
local is_granted = _M.is_granted

-- Waits for a round and frees it.
-- @return true when it was granted, or nil and an error
local function conclude(client, subject, round, op)
    if wait(client, round, nil, op) and is_granted(round) then
        C.rl_round_free(round)
        return true
    end
    return nil, failure(client, subject, round)
end

-- ---- acquire ---------------------------------------------------------------------

--- A place where the core puts the lease of an attempt, so that an interrupt (Ctrl-C) that raises
-- before the lease has an owner finds it.
function _M.lease_out()
    return lease_place()
end

--- Takes the result of a call's attempt; won: whether the round was granted when the wait ended.
-- @return the lease (cdata), with its validity in call.left: call claim() once it has an owner; or
--   nil and the round, for failure() or free()
function _M.decided(call, round, won)
    local lease_out = call.lease_out
    local handle = lease_out[0]
    if won then
        if call.wait then
            call.answers = answers.of(call.lock.client, round)
        end
        local left = tonumber(C.rl_round_won(round))
        if left > 0 then
            call.left, call.handle = left / 1000, handle
            ffi_gc(handle, orphan)
            return handle
        end
    end
    lease_out[0] = nil
    if handle ~= nil then
        C.rl_lease_free(handle, HOW.abandon)
    end
    return nil, round
end

-- @return as decided(), after the wait
local function await_lease(call, round)
    return _M.decided(call, round,
        wait(call.lock.client, round, call.lease_out, call.place))
end

-- @return the core's primitive (nil: no memory), and how many KEYS and ARGV are in the buffers
local function prepare(call, prim, keys, args)
    local nkeys, nargs = fill(keys_buf, keys), fill(args_buf, args)
    local client = call.lock.client
    local ids = client.registered[prim] or client:scripts(prim)
    return ids and ids.primitive, nkeys, nargs
end

--- Tries once, for `within` seconds, to acquire the keys on a majority. An interrupt (Ctrl-C) can
-- raise between any two steps: run it under pcall, and call interrupted() on an error. For the call
-- see lock/acquire.lua: abandon() of its place is called if it is killed.
-- @return as decided()
function _M.acquire(call, prim, keys, args, lease, within)
    local primitive, nkeys, nargs = prepare(call, prim, keys, args)
    local round = C.rl_acquire(call.lock.client.core, primitive, keys_buf, nkeys, args_buf, nargs,
        bytes(call.lock.label), to_ms(lease), to_ms(within), call.votes.gate and 0 or -1,
        call.blocks and not call.wait and WAIT or BEGIN, call.lease_out)
    local handle = call.lease_out[0]
    if round == nil and handle ~= nil then
        call.handle = handle
        ffi_gc(handle, orphan)               -- LuaJIT does not compile a tail call of this
        return handle
    end
    return await_lease(call, round)
end

--- Begins an attempt for a future; rl_next() reports when the round is done.
-- @return the round, for decided(); or nil
function _M.begin_acquire(call, prim, keys, args, lease, within)
    local primitive, nkeys, nargs = prepare(call, prim, keys, args)
    return C.rl_acquire(call.lock.client.core, primitive, keys_buf, nkeys, args_buf, nargs,
        bytes(call.lock.label), to_ms(lease), to_ms(within), -1, NOTIFY, call.lease_out)
end

--- Gives up an attempt whose call no longer waits.
function _M.give_up(call, round)
    local handle = call.lease_out[0]
    call.lease_out[0] = nil
    abandon(round, handle)
end

--- Takes over an exported hold, for `lease` seconds, if a majority still has its value, which is
-- replaced. token: of the hold; 0: none; once: whether the hold is given away itself (rl_import).
-- @return as acquire()
function _M.import(call, value, lease, token, once)
    local lock = call.lock
    local client, prim = lock.client, lock.primitive
    local keys, args = prim.keys(client, lock.name), prim.args(lock, { n = 0 })
    local primitive, nkeys, nargs = prepare(call, prim, keys, args)
    local round = C.rl_import(client.core, primitive, keys_buf, nkeys, args_buf, nargs,
        bytes(value), bytes(lock.label), to_ms(lease), token, once and 1 or 0,
        call.lease_out)
    return await_lease(call, round)
end

--- The lease just acquired has its owner: an interrupt no longer releases it.
function _M.claim(call)
    call.lease_out[0] = nil
end

--- After an error raised in acquire() or before claim(): releases what may have been acquired.
function _M.interrupted(call)
    local lease_out, handle = call.lease_out, call.handle
    local raw = lease_out[0]
    lease_out[0] = nil
    if raw ~= nil and handle then        -- a hold may have it: its finalizer frees it
        C.rl_round_free(C.rl_release(ffi_gc(handle, orphan), BEGIN))
    elseif raw ~= nil then
        C.rl_lease_free(raw, HOW.abandon)
    end
end

--- The code of a failed attempt, as in errors.
function _M.outcome(client, round)
    if round == nil then
        return client.closed and "closed" or "nomem"
    end
    return answers.code_name(C.rl_round_outcome(round))
end

--- Whether nodes had no vote because they do not know which fencing tokens they counted.
function _M.is_unseeded(round)
    return round ~= nil and C.rl_round_unseeded(round) ~= 0
end

--- Frees a round; nil: it could not start.
function _M.free(round)
    if round ~= nil then
        C.rl_round_free(round)
    end
end

--- For hosts that do not block: yields the round and SUSPENDED, until the coroutine is resumed
-- with the round's outcome. Raises an outcome that is an error, or { raise = any error }.
_M.SUSPENDED = {}
function _M.suspend(round)
    local outcome = yield(round, _M.SUSPENDED)
    if type(outcome) == "table" then
        error(outcome.raise or outcome, 0)
    end
    return outcome
end

function _M.is_done(round)
    return C.rl_round_outcome(round) ~= 0
end

-- ---- holding ---------------------------------------------------------------------

--- Seconds of validity left; 0: expired. No round trip.
function _M.remaining(handle)
    return tonumber(C.rl_remaining_ms(handle)) / 1000
end

--- Hands a lease to the watchdog, for renewals of `lease` seconds; max_hold: seconds, or false.
-- @return whether there is a thread for it
function _M.keep(handle, lease, max_hold)
    return C.rl_keep(handle, to_ms(lease), max_hold and to_ms(max_hold) or 0) == 0
end

--- How many servers have confirmed a lease. With `before`: how many had when its last extension
-- began; -1: there was none.
function _M.votes(handle, before)
    return C.rl_lease_votes(handle, before and 1 or 0)
end

--- The fencing token of a lease, or the number that the servers agreed on; nil: none.
function _M.token(handle)
    local token = tonumber(C.rl_lease_token(handle))
    return token > 0 and token or nil
end

--- Frees a lease's handle, and waits for nothing. how: "drop": the lease is no longer renewed, and
-- expires; "abandon": releases a lease that has no owner, or whose release was sent already;
-- "orphan": releases one whose owner no longer exists; "disown": another process takes it over.
function _M.give(handle, how)
    C.rl_lease_free(ffi_gc(handle, nil), HOW[how])
end

--- Extends a lease to `lease` seconds from now.
-- @return true, or nil and an error: lost, no_quorum (the old validity stands), not_held,
--   unsupported, closed
function _M.extend(client, subject, handle, lease)
    return conclude(client, subject, C.rl_extend(handle, to_ms(lease)))
end

--- Begins the release. Writes what the sockets accept before it returns; for a future it does
-- not, and rl_next() reports when the round is done.
-- @param handle  the lease
-- @param how     "future"; or "wait": waits in the core before it returns; or nil
-- @return the round, for released(), or for release_done() when it is done; or nil
function _M.release(handle, how)
    local round = C.rl_release(handle, how == "wait" and WAIT or how and NOTIFY or BEGIN)
    return round
end

--- Waits for a release.
-- @return as release_done()
function _M.released(client, subject, handle, round)
    local granted = round ~= nil and is_granted(round) or wait(client, round)
    return _M.release_done(client, subject, handle, round, granted)
end

--- Takes the result of a release that is done; granted: whether it was when the wait ended. Gives
-- back the round, and the handle of the lease.
-- @return true, and how many waiters the servers woke; or nil, an error: expired, held, unknown,
--   not_held, closed; and the holder of the keys (ffi_values.lua), or false
function _M.release_done(client, subject, handle, round, granted)
    ffi_gc(handle, nil)
    local told = granted and tonumber(C.rl_release_done(round)) or -1
    if told >= 0 then
        return true, told
    end
    local taker = ffi_values.taker(handle) or false
    C.rl_lease_free(handle, HOW.drop)
    return nil, failure(client, subject, round), taker
end

--- Frees the round and the handle of a release that no caller waits for.
function _M.free_release(handle, round)
    _M.free(round)
    _M.give(handle, "drop")
end

--- Whether a call must not wait any longer: the client is closed, or the process ends.
function _M.is_ending(client)
    local is_ending = client.host.is_ending
    return client.closed or is_ending ~= nil and is_ending()
end

-- ---- checks and pauses -----------------------------------------------------------

-- Callers read the results from the client: true, or nil and an error when it is closed.
local function learned(client, subject, ok, err)
    if ok and client.closed then
        return nil, failure(client, subject, nil)
    end
    return ok, err
end

--- Asks every server for what health.lua reads.
-- @return true once each has answered or failed; or nil and an error: closed
function _M.check(client)
    return learned(client, "check", conclude(client, "check", C.rl_check(client.core)))
end

--- Has the servers that know floors of fencing tokens teach those that have none. What it writes is
-- there before anything that is asked later. within, op: as for acquire().
-- @return a row for each server, as in errors, with `vote` (rl_teach()) where it answered; nil: the
--   client is closed, or there is no memory
function _M.teach(client, op, within)
    local round = C.rl_teach(client.core, -1, 0, within and to_ms(within) or FOREVER_MS)
    local done = wait(client, round, nil, op)
    local rows = done and answers.rows(client, round) or nil
    client.token_limit = nil         -- the clocks were looked at meanwhile
    if round ~= nil then
        C.rl_round_free(round)
    end
    return rows
end

--- Admits the servers that are new, and were at `seen` (a time of client.now()); with `force`, in
-- any quarantine. Returns as check().
function _M.admit(client, force, seen)
    return learned(client, "init", conclude(client, "init",
        C.rl_teach(client.core, to_ms(seen), force and 1 or 0, FOREVER_MS)))
end

--- Begins a pause, which the host may end early with rl_round_wake(), and which ends early when the
-- subscription (or nil) has had more than `seen` wake-ups.
-- @return the round, or nil
function _M.begin_sleep(client, seconds, subscription, seen)
    return C.rl_sleep(client.core, to_ms(seconds), subscription or nil, seen or 0)
end

function _M.wake(round)
    C.rl_round_wake(round)
end

--- Waits for a pause and frees its round. op: as for acquire().
function _M.finish_sleep(client, round, op)
    conclude(client, "a pause", round, op)
end

--- Pauses while the connections are served.
function _M.sleep(client, seconds)
    conclude(client, "a pause", C.rl_sleep(client.core, to_ms(seconds), nil, 0))
end

--- Waits until all rounds of a list are done, at most `seconds`.
function _M.await_all(client, list, seconds)
    local finish = client.now() + seconds
    for i = 1, #list do
        while list[i] ~= nil and not _M.is_done(list[i]) and client.now() < finish do
            _M.sleep(client, 0.001)
        end
    end
end

return _M
