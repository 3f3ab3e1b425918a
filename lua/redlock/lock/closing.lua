--- The end of a hold: its last unlock, and keys that outlive it, such as a name kept closed.
--
-- Such keys get an end of their own, and keep the value of the hold; once the hold ends nobody can
-- release or extend them. A server that lost its memory has no vote for max_lease. So a name that
-- is kept closed for longer than max_lease opens early if a majority of the servers lose their
-- memory.

local answers = require "redlock.runtime.answers"
local validate = require "redlock.runtime.validate"
local errors = require "redlock.runtime.errors"
local majority = require("redlock.runtime.limits").majority
local handover = require "redlock.lock.handover"
local hooks = require "redlock.lock.hooks"
local outcomes = require "redlock.lock.outcomes"
local question = require "redlock.runtime.question"
local rounds = require "redlock.runtime.rounds"
local ffi_values = require "redlock.runtime.ffi_values"

local ipairs, format = ipairs, string.format

local _M = {}

local OPTIONS = { closed_for = true }

--- Checks the argument of Lock:unlock.
-- @return closed_for: seconds, or nil
function _M.options(opts)
    local seconds = validate.options("options", opts, OPTIONS).closed_for
    return seconds and validate.seconds("closed_for", seconds, 0, rounds.FOREVER)
end

--- How many more seconds the name of a hold is to stay closed, of `seconds` since it was taken.
-- Nothing is added for fast clocks of servers: a name that is closed for almost a day must open in
-- time. 0: not for a millisecond.
function _M.left(lock, hold, seconds)
    local left = hold.since + seconds - lock.client.now()
    return rounds.to_ms(left) > 0 and left or 0
end

--- Why a hold was lost, by the error of its release. early: whether the lease had time left: then
-- missing keys were removed, and did not expire.
function _M.reason(err, early)
    if err.code == "held" then
        return "taken"
    elseif not early then
        return "expired"
    end
    for _, row in ipairs(err.nodes or {}) do
        if row.vote and row.vote < 0 then
            return "taken"
        end
    end
    return "forgotten"
end

--- Begins the last unlock: from now on the owner does not hold the lock. now: of client.now(); how:
-- as for rounds.release().
-- @return the round, or nil
function _M.begin(lock, owner, hold, now, how)
    local client = lock.client
    hold.ends = now + rounds.remaining(hold.lease)
    -- In this order: after an interrupt in between, the lock is not left on the servers.
    local round = rounds.release(hold.lease, how)
    client.holds:remove(owner, lock.id)
    hold.seen = now
    return round
end

--- Ends the last unlock, when its round is done. `ok`, `told` and `taker` are what
-- rounds.released() returned.
-- @return as unlock()
function _M.done(lock, hold, ok, told, taker)
    local client = lock.client
    handover.released(lock, ok and told or 0, hold)
    if ok then
        outcomes.released(client, hold)
        return true
    end
    local err = told
    outcomes.released(client, hold, err)
    if err.code == "expired" or err.code == "held" then
        client.holds:lose(hold, _M.reason(err, client.now() < hold.ends), taker)
        errors.because(err, lock, hold.lost)
    end
    return nil, err
end

-- The question that gives the keys of a hold an end of their own, `seconds` from now. keep: whether
-- the hold continues; else it has ended, once the primitive's functions have returned, which may
-- raise.
local function settling(lock, owner, hold, seconds, keep)
    local client, prim = lock.client, lock.primitive
    local args = { ffi_values.value(hold.lease), format("%d", rounds.to_ms(seconds)) }
    if prim.vote ~= "yes" then
        args[3] = format("%.0f", rounds.token(hold.lease) or 0)
    end
    for _, arg in ipairs(prim.args(lock, { n = 0 })) do
        args[#args + 1] = arg
    end
    args[#args + 1] = keep and "" or "closed"
    local q = { subject = lock, primitive = prim, script = "settle",
        keys = prim.keys(client, lock.name), args = args }
    if not keep then
        client.holds:remove(owner, lock.id)
        rounds.give(hold.lease, "disown")
        hooks.gave_up { lock = lock, wait = hold.wait }
    end
    return q
end

-- @return as settle(), of a question from settling()
local function confirm(lock, q)
    local said, err = question.ask(lock.client, q)
    if not said then
        return nil, err.code == "no_quorum" and errors.new("unknown", lock, err.nodes) or err
    elseif answers.yes(said) >= lock.client.quorum then
        return true
    end
    local code = majority(said, lock.client.size, function(answer)
        return answer.vote < 0 and "held" or answer.vote == 0 and "expired" or nil
    end)
    return nil, errors.new(code or code == nil and "unknown" or "expired", lock)
end

--- Ends a hold and leaves its keys for `seconds`, and waits for nothing.
function _M.settle_unconfirmed(lock, owner, hold, seconds)
    question.send(lock.client, settling(lock, owner, hold, seconds))
end

--- Gives the keys of a hold an end of their own, `seconds` from now. keep: whether the hold
-- continues, whose keys then end no sooner than before; else this is the last unlock, whatever the
-- outcome.
-- @return true (unconfirmed, where the caller cannot wait); or nil and an error: expired, held,
--   unknown (no majority answered: the keys end with the lease, or after `seconds`), closed,
--   unsupported
function _M.settle(lock, owner, hold, seconds, keep)
    local client = lock.client
    if not lock.primitive.settle_script then
        return nil, errors.new("unsupported", lock)
    elseif keep and lock.primitive.users and seconds < hold.seconds then
        validate.bad("seconds", format("with keep a hold of %s needs at least its lease, %g",
            lock:describe(), hold.seconds))
    end
    local now, ok, err = client.now(), true, nil
    local ends = now + rounds.remaining(hold.lease)
    hold.seen = now
    local q = settling(lock, owner, hold, seconds, keep)
    if client.host.can_wait() then
        ok, err = confirm(lock, q)
    else
        question.send(client, q)
    end
    if keep then
        return ok, err
    end
    hold.ends = ends
    return _M.done(lock, hold, ok, ok and 0 or err, false)
end

return _M
