--- Fencing tokens of permits: a number for each hold of a slot, which only grows.
--
-- Votes decide which slot a permit has; then its holder has it counted. Each server has a counter
-- for each slot, and knows the permit for which it last counted. A number is a token when it is the
-- counter of a majority, counted for this permit: lower counters are raised to the largest. So any
-- two tokens of a slot have a server in common, on which the counter grew from one to the other.
-- Neither clocks nor the slot itself matter for this (spec/models/README.md). Floors, for servers
-- that forget, are those of fenced locks.

local asking = require "redlock.lock.asking"
local errors = require "redlock.runtime.errors"
local fenced_lock = require "redlock.kinds.fenced_lock"
local lock = require "redlock.lock.lock"
local rounds = require "redlock.runtime.rounds"
local script = require("redlock.runtime.script_text").own
local ffi_values = require "redlock.runtime.ffi_values"

local error, format, max, pcall = error, string.format, math.max, pcall

local _M = {}

local ROUNDS = 5            -- others may raise counters meanwhile, and floors may be missing

--- The question with which a permit counts.
_M.count = { script("slots.memory", "fenced.counter", "slots.count"), guarded = true }

-- @return the counter of a majority, or nil; the largest counter; whether a server has no base
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
    local args = { ffi_values.value(hold.lease), slot, "0", of_slot[1], of_slot[2], of_slot[3],
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
            rounds.teach(client)
        end
        args[3] = format("%.0f", most)
    end
    return lock.failure(permit, "no_quorum")
end

-- Gives a permit its token, of at least `least`; if that fails, releases it.
-- @return the permit; or nil and an error: no_quorum, lost, closed
local function number(permit, least)
    local hold = lock.hold_of(permit)
    if not hold then
        return lock.failure(permit, "lost")
    end
    local done, token, err = pcall(count, permit, hold)
    if done and token and token >= least and permit:isValid() then
        hold.fence = token
        return permit
    end
    errors.finally(permit.release, permit)
    if not done then                 -- cancelled
        error(token, 0)
    elseif err then
        return nil, err
    end
    return lock.failure(permit, permit.client.closed and "closed" or "lost")
end

--- Finishes taking a permit: gives it a token if its semaphore is fenced. ok, err: from Lock:lock.
function _M.taken(permit, ok, err)
    if not ok then
        return nil, err
    end
    if permit.semaphore.fenced then
        return number(permit, 0)
    end
    return permit
end

--- Counts an imported permit again. Its token is the same unless a majority has forgotten it; with
-- a smaller one than before, the permit is released.
_M.recount = number

function _M.token(self)
    local hold, err = lock.valid_hold(self)
    if not hold then
        return nil, err
    elseif not hold.fence then
        return lock.failure(self, "unsupported")
    end
    return hold.fence
end

return _M
