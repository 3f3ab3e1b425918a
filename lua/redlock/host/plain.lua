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
-- and what only event loops have much to do for (they are made by loop.lua, which says more):
--   host.accept(opts) raises for an option that does not go with it
--   host.open(client, settings, nodes, key)  the core of a client, or nil and what is wrong;
--                     key() tells apart what may be shared
--   host.close(client)  its end
--   host.start(future, body)  runs body() as a task, and settles the future if it cannot
--   host.begin_directly(future, ...)  or nil: see Tasks:begin_directly
--   host.cancel(future)  ends a task with future.cancelled
--   host.took(hold, owner, seconds)  an owner has got a hold of a client that looks, within so
--                     many seconds, whether the owner is gone
--   host.look_within(seconds)  the client is to look at its holds by then
--   host.attend()     somebody is to be told of a loss when it happens ...
--   host.look_again() ... and nobody any more
--   host.drop(owner)  for finalizers: what an owner holds is released soon, or by ...
--   host.let_go()     ... this
--   host.poll_at(time)  when the core is to be looked at for what ends then
--   host.nap          for how many seconds who stands in line may sleep at a time

local cores = require "redlock.runtime.cores"
local ffi_core = require "redlock.runtime.ffi"
local no_wait = require "redlock.runtime.no_wait"
local rounds = require "redlock.runtime.rounds"
local tasks = require "redlock.runtime.tasks"

local type = type
local running, status = coroutine.running, coroutine.status

local _M = { name = "plain", nap = math.huge }

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
    return not no_wait.applies()
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

-- ---- what event loops have more to do for --------------------------------------------

local function nothing()
end

_M.accept, _M.took, _M.look_within = nothing, nothing, nothing
_M.attend, _M.look_again, _M.drop, _M.let_go = nothing, nothing, nothing, nothing

function _M.open(client, settings, nodes)
    return cores.open(settings, nodes, #client.options.nodes)
end

function _M.close(client)
    cores.close(client.core)
end

function _M.start(future, body)
    future.co = coroutine.create(body)
    future.client.tasks:begin(future)
end

function _M.begin_directly(future, a, b, c, d)
    return future.client.tasks:begin_directly(future, a, b, c, d)
end

function _M.cancel(future)
    future.client.tasks:cancel(future)
end

--- Nobody turns the core between two calls.
function _M.poll_at(time)
    return time
end

return _M
