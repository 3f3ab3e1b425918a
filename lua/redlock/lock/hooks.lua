--- Calls the functions of a primitive (types/primitive.lua). A call has one table for them, its
-- `wait`; its `id` is made when it is first read.

local answers = require "redlock.runtime.answers"
local errors = require "redlock.runtime.errors"
local ffi_values = require "redlock.runtime.ffi_values"
local rounds = require "redlock.runtime.rounds"

local getmetatable, pcall, setmetatable, type = getmetatable, pcall, setmetatable, type
local each = pairs            -- for finalizers: see finalizers.lua
local huge, max = math.huge, math.max

local _M = {}

local Wait = {}

function Wait.__index(wait, field)
    if field == "id" then
        wait.id = ffi_values.nonce()
        return wait.id
    end
end

--- @return the wait of a call, for a primitive that uses one
function _M.new_wait()
    return setmetatable({ n = 0 }, Wait)
end

--- @return a lock object like this one, for another owner; nil: none, as after the owner's death
function _M.copy(lock, owner)
    local its = {}
    for name, value in each(lock) do
        its[name] = value
    end
    its.owner = owner
    return setmetatable(its, getmetatable(lock))
end

--- @return the call's wait, brought up to date for an attempt
function _M.attempt(call)
    local wait = call.wait
    wait.left = call.deadline < huge and max(call.deadline - call.lock.client.now(), 0) or nil
    return wait
end

--- Called after a failed attempt.
-- @return nil; or the error with which the primitive ends the call
function _M.refused(call)
    local lock, wait = call.lock, call.wait
    if not wait or call.round == nil then
        return nil
    end
    wait.n = wait.n + 1
    local refused = lock.primitive.refused
    local code = refused
        and refused(lock, _M.attempt(call), answers.of(lock.client, call.round))
    return type(code) == "string" and errors.new(code, lock) or nil
end

--- Called with a new hold, before the caller knows of it.
function _M.granted(call, hold)
    local lock = call.lock
    hold.agreed = rounds.token(hold.lease)
    hold.data = hold.data or {}
    hold.wait = lock.primitive.places and call.wait or nil
    if lock.primitive.granted then
        lock.primitive.granted(lock, hold, call.answers or {})
    end
end

--- Called when a call ends without the hold it asked for; and with a hold, as the call, that ends
-- without a release, which would take it out of the line where it was refused.
function _M.gave_up(call)
    local lock, wait = call.lock, call.wait
    if wait and (wait.n > 0 or wait.ticket) and lock.primitive.gave_up
        and not lock.client.closed then
        lock.primitive.gave_up(lock, wait)
    end
end

--- Like gave_up(), where its error has no caller, or would hide another one: logs it.
function _M.abandoned(call)
    local ok, err = pcall(_M.gave_up, call)
    if not ok then
        call.lock.client.host.log(errors.failed("a gave_up function", err))
    end
end

return _M
