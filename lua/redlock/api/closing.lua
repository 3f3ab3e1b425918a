--- Ends of holds whose names stay closed for a while: for jobs that others are about to repeat.
--
-- The key stays, with the value of the hold, for the time that is left; nobody can release or
-- extend it any more. It is bounded as a lease is: no server may keep anything of ours for
-- longer than max_lease.

local validate = require "redlock.core.validate"
local errors = require "redlock.core.errors"
local quorum = require "redlock.core.quorum"
local rounds = require "redlock.core.rounds"

local format, type, min = string.format, type, math.min

local _M = {}

local OPTIONS = { closed_for = true }

--- Checks the argument of Lock:unlock.
-- @return closed_for: seconds, or nil
function _M.options(client, opts)
    local seconds = validate.options("options", opts, OPTIONS).closed_for
    if seconds == nil then
        return nil
    end
    local longest = client.options.max_lease
    if type(seconds) == "number" and seconds > longest then
        validate.bad("closed_for", format("%g s is over max_lease (%g s); raise max_lease for "
            .. "every client", seconds, longest))
    end
    return validate.seconds("closed_for", seconds, 0)
end

--- How long the name of a hold is to stay closed still, by clocks of servers, which may be
-- fast: seconds; 0: it is not.
-- @param lock     whose hold it is
-- @param hold     one of client.holds
-- @param seconds  since it was taken
function _M.left(lock, hold, seconds)
    local client = lock.client
    local left = hold.since + seconds - client.now()
    if left <= 0 then
        return 0
    end
    return min(left * (1 + client.options.drift_factor) + 0.002, client.options.max_lease)
end

-- By what a majority answered, if it did: as for a release.
local function failure(lock, answers, n)
    local foreign = 0
    for i = 1, #answers do
        foreign = foreign + (answers[i].vote < 0 and 1 or 0)
    end
    if #answers < quorum(n) then
        return errors.new("unknown", lock)
    end
    return errors.new(foreign >= quorum(n) and "held" or "expired", lock)
end

--- Ends a hold on the servers so: the last of it here, whatever comes of it.
-- @param lock     whose hold it is
-- @param hold     one of client.holds
-- @param seconds  see left()
-- @return true; or nil and an error: expired, held, unknown (no majority answered: it opens
--   with its lease, or then), closed
function _M.settle(lock, hold, seconds)
    local client, prim = lock.client, lock.primitive
    local keys, ms = prim.keys(client, lock.name), format("%d", rounds.to_ms(seconds))
    local args = { rounds.disown(hold.lease), ms }
    if not client.host.can_wait() then
        rounds.say(client, prim, "settle", keys, args)
        return true
    end
    local answers, err = rounds.ask(client, lock, prim, "settle", keys, args)
    if not answers then
        return nil, err.code == "no_quorum" and errors.new("unknown", lock, err.nodes) or err
    end
    local yes, n = 0, #client.options.nodes
    for i = 1, #answers do
        yes = yes + (answers[i].vote > 0 and 1 or 0)
    end
    if yes >= quorum(n) then
        return true
    end
    return nil, failure(lock, answers, n)
end

return _M
