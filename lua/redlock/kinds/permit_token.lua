--- Fencing tokens of permits: a number per hold of a slot that only grows.
--
-- A permit has its slot by the votes for it; behind that its holder has it counted. Each slot has
-- a counter on each server, which knows for which permit it was counted last. A number is a token
-- when it is the counter of a majority, counted for this permit: the counters of those that are
-- behind are raised to the largest. Two tokens of a slot then have a server in common, on which one
-- followed the other, and the counter grew in between; no clock has a part in this, nor the slot
-- itself (spec/models/family). Floors, for servers that forget, are those of fenced locks.

local asking = require "redlock.lock.asking"
local fenced_lock = require "redlock.kinds.fenced_lock"
local floors = require "redlock.servers.floors"
local lock = require "redlock.lock.lock"
local rounds = require "redlock.runtime.rounds"
local script_text = require "redlock.runtime.script_text"
local ffi_values = require "redlock.runtime.ffi_values"

local error, format, max, pcall = error, string.format, math.max, pcall

local _M = {}

local FENCED, SLOTS = "redlock.scripts.fenced.", "redlock.scripts.slots."
local ROUNDS = 5            -- counters that others raise meanwhile, or floors that are not there

--- The questions that a permit's primitive needs for this.
_M.asks = {
    count = { script_text.read(SLOTS .. "memory", FENCED .. "counter", SLOTS .. "count"),
        guarded = true },
    floor = { script_text.read(FENCED .. "run", FENCED .. "floor") },
    seed = { script_text.read(FENCED .. "run", FENCED .. "seed") },
}

-- @return the counter of a majority, or nil; the largest;
--   and whether a server has no floor
local function read(answers)
    local token, most, unseeded = nil, 0, false
    for i = 1, #answers do
        local answer = answers[i]
        if answer.vote == 1 then
            token, most = answer.agreed and answer.info or token, max(most, answer.info)
        end
        unseeded = unseeded or answer.vote == -1
    end
    return token, most, unseeded
end

-- Has the permit counted until a majority is at one number.
-- @return that number; or nil and an error
local function count(permit, hold)
    local client, slot = permit.client, format("%d", rounds.token(hold.lease))
    local name = permit.name .. ":slots#" .. slot
    local keys = fenced_lock.keys(client, name)
    keys[1] = permit.primitive.keys(client, permit.name)[2]
    local of_slot = fenced_lock.args { client = client, name = name }
    local args = { ffi_values.of(hold.lease), slot, "0", of_slot[1], of_slot[2], of_slot[3],
        client.guarded and "1" or "" }
    for _ = 1, ROUNDS do
        local answers, err = asking.ask(permit, "count", args, keys)
        if not answers or lock.hold_of(permit) ~= hold then
            return nil, err
        end
        local token, most, unseeded = read(answers)
        if token then
            return token
        elseif unseeded then
            floors.seed(permit, args[4])
        end
        args[3] = format("%.0f", most)
    end
    return lock.failure(permit, "no_quorum")
end

-- Gives a permit its token, or has undo(permit, hold) make it none.
-- @param least  what the token is to be at least
-- @return the permit; or nil and an error: no_quorum, lost, closed
local function number(permit, least, undo)
    local hold = lock.hold_of(permit)
    if not hold then
        return lock.failure(permit, "lost")
    end
    local done, token, err = pcall(count, permit, hold)
    if done and token and token >= least and permit:isValid() then
        hold.fence = token
        return permit
    end
    pcall(undo, permit, hold)
    if not done then                 -- cancelled
        error(token, 0)
    elseif err then
        return nil, err
    end
    return lock.failure(permit, permit.client.closed and "closed" or "lost")
end

local function let_go(permit)
    permit:release()
end

-- It stays where it was: whoever has the transfer may try again.
local function leave(permit, hold)
    if lock.hold_of(permit) == hold then
        permit.client.holds:remove(lock.owner_of(permit), permit.id)
        rounds.disown(hold.lease)
    end
end

--- What there is to do behind the attempt to take a permit.
-- @param permit  of a semaphore
-- @param ok      as Lock:lock returns it
-- @param err     the error, without ok
-- @return the permit, which has a token if its semaphore gives some; or nil and an error
function _M.taken(permit, ok, err)
    if not ok then
        return nil, err
    end
    if permit.semaphore.fenced then
        return number(permit, 0, let_go)
    end
    return permit
end

--- Has a permit that came from another process counted again: where a majority has not forgotten
-- it, its token is what it was.
-- @param permit  which is held here, and was with a token there
-- @param token   that one; what the servers have counted is at least that, or the permit is not
--   taken over
-- @return the permit; or nil and an error: no_quorum, lost, closed
function _M.recount(permit, token)
    return number(permit, token, leave)
end

--- @return the token of a permit; or nil and an error: not_held, lost, unsupported (its semaphore
--   gives none)
function _M.of(self)
    local hold, err = lock.valid_hold(self)
    if not hold then
        return nil, err
    elseif not hold.fence then
        return lock.failure(self, "unsupported")
    end
    return hold.fence
end

return _M
