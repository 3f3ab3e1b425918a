--- Host for plain LuaJIT: waiting blocks the thread, in C; in a future, it suspends it.
--
-- A host is the only place that knows how to wait. It has
--   host.owner()      who is asking: the key of an ownership, compared by identity
--   host.alive(owner) whether an owner can still ask for anything
--   host.can_wait()   whether the caller may wait at all
--   host.wait(round, vanish, a, b, client)  returns the outcome of a round of that client
--                     when it is done; vanish: see loop.lua
--   host.concurrent(client)  whether others that use it can go on while the caller waits
--   host.defer(fn)    runs a callback of the user
--   host.log(text)
--   host.shared       whether its clients are shared (rl_share)
-- Hosts of event loops are made by loop.lua, which has more to say.

local ffi_core = require "redlock.core.ffi"
local rounds = require "redlock.core.rounds"
local tasks = require "redlock.core.tasks"

local type = type
local running, status = coroutine.running, coroutine.status

local _M = { name = "plain" }

local MAIN = {}               -- the main thread has no coroutine object everywhere
local C, INTERRUPTED

--- @return the running coroutine, or one fixed value outside of any
function _M.owner()
    local co, is_main = running()
    if not co or is_main then
        return MAIN
    end
    return co
end

function _M.alive(owner)
    return type(owner) ~= "thread" or status(owner) ~= "dead"
end

function _M.can_wait()
    return true
end

function _M.defer(fn)
    fn()
end

function _M.log(text)
    io.stderr:write("redlock: ", text, "\n")
end

function _M.concurrent(client)
    return tasks.is_task(client)
end

-- A signal handler of Lua (Ctrl-C) runs between two calls of rl_wait and may raise from
-- here. Compiled code would not look for it.
local function wait_on(round)
    local outcome
    repeat
        outcome = C.rl_wait(round)
    until outcome ~= INTERRUPTED
    return outcome
end
if jit then
    jit.off(wait_on)
end

--- Waits until the round is done.
-- @return its outcome
function _M.wait(round, _, _, _, client)
    if not C then
        C = ffi_core.load()
        INTERRUPTED = C.RL_INTERRUPTED
    end
    if tasks.is_task(client) then
        return rounds.suspend(round)
    end
    local outcome = C.rl_wait(round)
    if outcome == INTERRUPTED then
        return wait_on(round)
    end
    return outcome
end

return _M
