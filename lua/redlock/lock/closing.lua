--- What outlasts its hold: names that stay closed for a while, for jobs that others are about to
-- repeat, and whatever else a primitive's `settle` leaves on the servers.
--
-- What is there gets an end of its own, with the value of the hold; once the hold is given up,
-- nobody can release or extend it any more. The restart guard keeps out servers that forgot
-- something for max_lease: what is to stay for longer is safe only while no majority of the
-- servers has forgotten it.

local validate = require "redlock.runtime.validate"
local errors = require "redlock.runtime.errors"
local rounds = require "redlock.runtime.rounds"
local ffi_values = require "redlock.runtime.ffi_values"

local ipairs, format, max = ipairs, string.format, math.max

local _M = {}

local OPTIONS = { closed_for = true }

--- Checks the argument of Lock:unlock.
-- @return closed_for: seconds, or nil
function _M.options(opts)
    local seconds = validate.options("options", opts, OPTIONS).closed_for
    return seconds and validate.seconds("closed_for", seconds, 0, rounds.FOREVER)
end

--- How long the name of a hold is to stay closed still: seconds; 0: it is not. Nothing is added for
-- clocks of servers that are fast: who closes a name for almost a day wants it to open in time.
-- @param lock     whose hold it is
-- @param hold     one of client.holds
-- @param seconds  since it was taken
function _M.left(lock, hold, seconds)
    return max(hold.since + seconds - lock.client.now(), 0)
end

--- Why a hold was lost, by what the servers said to the release.
-- @param err    of the release
-- @param early  it was to last still: keys that are gone were removed, not run out
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

-- By what a majority answered, if it did: as for a release.
local function failure(lock, answers)
    local foreign, q = 0, lock.client.quorum
    for i = 1, #answers do
        foreign = foreign + (answers[i].vote < 0 and 1 or 0)
    end
    if #answers < q then
        return errors.new("unknown", lock)
    end
    return errors.new(foreign >= q and "held" or "expired", lock)
end

-- ARGV of settle: as of the other scripts of a lease.
local function args_of(lock, hold, value, seconds)
    local args = { value, format("%d", rounds.to_ms(seconds)) }
    if lock.primitive.vote ~= "yes" then
        args[3] = format("%.0f", rounds.token(hold.lease) or 0)
    end
    for _, arg in ipairs(lock.primitive.args(lock, { n = 0 })) do
        args[#args + 1] = arg
    end
    return args
end

--- Gives what a hold has on the servers an end of its own.
-- @param lock     whose hold it is
-- @param hold     one of client.holds
-- @param seconds  that it is to stay from now on, be that more or less than before
-- @param keep     whether the hold goes on; else this is its end, whatever comes of it
-- @return true; or nil and an error: expired, held, unknown (no majority answered: what is there
--   ends with its lease, or then), closed
function _M.settle(lock, hold, seconds, keep)
    local client, prim = lock.client, lock.primitive
    local keys = prim.keys(client, lock.name)
    local args = args_of(lock, hold, ffi_values.of(hold.lease), seconds)
    args[#args + 1] = keep and "" or "closed"
    if not keep then
        rounds.disown(hold.lease)
    end
    if not client.host.can_wait() then
        rounds.say(client, prim, "settle", keys, args)
        return true
    end
    local answers, err = rounds.ask(client, lock, prim, "settle", keys, args)
    if not answers then
        return nil, err.code == "no_quorum" and errors.new("unknown", lock, err.nodes) or err
    end
    local yes = 0
    for i = 1, #answers do
        yes = yes + (answers[i].vote > 0 and 1 or 0)
    end
    if yes >= client.quorum then
        return true
    end
    return nil, failure(lock, answers)
end

return _M
