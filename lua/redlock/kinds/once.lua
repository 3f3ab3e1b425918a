--- Once per period: of several machines that start a job at about the same time, one runs it.
--
-- The lock of the name stays closed until the period ends, counted from when it was taken. By
-- default it is held while the job runs, and settled when the job returns: a job that fails or dies
-- opens the lock, and may be repeated elsewhere. With `before` it is settled before the job begins,
-- and has no holder: nothing that happens to the job or the client opens it.

local errors = require "redlock.runtime.errors"
local fenced_lock = require "redlock.kinds.fenced_lock"
local lock = require "redlock.lock.lock"
local plain_lock = require "redlock.kinds.plain_lock"
local rounds = require "redlock.runtime.rounds"
local validate = require "redlock.runtime.validate"

local find = string.find

local _M = {}

local OPTIONS = { before = true, owner = true, fenced = true }

--- Whether a holder, or nil, is a run that has closed the name (scripts/lock/settle.lua).
function _M.has_run(holder)
    return holder ~= nil and holder.label ~= nil and find(holder.label, "^closed by ") ~= nil
end

--- A lock whose holder is named: has_run() needs a label.
function _M.view(client, kind, name, owner)
    local view = lock.new(client, kind, name, { owner = owner })
    view.label = view.label or "once"
    return view
end

-- Runs fn(view, token or nil) while the lock is held, then closes the lock for the period. An error
-- of fn opens it, and is raised again.
local function run(view, token, period, fn)
    local hold = lock.hold_of(view)
    if not view:isValid() then         -- the process was paused
        view:unlock()
        return nil, errors.new("expired", view)
    end
    return errors.around(fn, function(ok)
        local still = lock.hold_of(view) == hold and view:isValid()
        hold.count = 1                 -- also if fn has taken it again
        if ok and not still then
            return nil, errors.new("lost", view)
        end
        return view:unlock(ok and { closed_for = period } or nil)
    end, view, token)
end

function _M.once(client, name, period, fn, opts)
    opts = validate.options("options", opts, OPTIONS)
    validate.seconds("period", period, 0.001, rounds.FOREVER)
    validate.is_function("fn", fn)
    local before = validate.flag("before", opts.before)
    local kind = validate.flag("fenced", opts.fenced) and fenced_lock or plain_lock
    local view = _M.view(client, kind, name, opts.owner or {})
    if view:isValid() then             -- what the owner holds would end with the run
        return lock.failure(view, "deadlock")
    end
    local ok, token = view:tryLock()
    if not ok then
        if token.code == "held" then
            token.done = _M.has_run(token.holder)
        end
        return nil, token
    end
    if not before then
        return run(view, token, period, fn)
    end
    local ends = client.now() + period
    local settled, err = view:settle(period)
    if not settled then
        return nil, err
    elseif client.now() >= ends then   -- paused: another client may have run it since
        return nil, errors.new("expired", view)
    end
    return true, fn(nil, token)
end

return _M
