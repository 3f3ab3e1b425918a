--- Host for plain LuaJIT: a wait blocks the thread, in C; in a future it suspends the coroutine.
--
-- Every host has owner, alive, can_wait, defer, log (see loop.lua), and
--   host.wait(round, abandon, a, b, client)  returns the outcome of a client's round when it is
--                     done; abandon: see box.lua
--   host.concurrent(client)  whether other coroutines can run while the caller waits; if not,
--                     most waits take place in the core
-- and functions that mostly event loops need (made by loop.lua):
--   host.accept(opts) raises for an option that does not go with the host
--   host.open(client, settings, nodes)  the core of a client, or nil and why: see cores.lua; with
--                     host.shares others may use it, too
--   host.close(client)
--   host.start(future, body)  runs body() as a task, and finishes the future if it cannot
--   host.begin_directly(future, ...)  or nil: see Tasks:begin_directly
--   host.cancel(future)  ends a task with future.cancelled
--   host.took(hold, owner, seconds)  an owner took a hold of a client, which checks within
--                     `seconds` whether the owner is gone
--   host.look_within(seconds)  the client must look at its holds by then
--   host.attend()     a loss must be reported when it happens ...
--   host.look_again() ... and no longer
--   host.drop(owner)  for finalizers: releases an owner's holds soon, or with ...
--   host.let_go()     ... this
--   host.poll_at(time)  when to poll the core for a hold that ends at `time`
--   host.nap          the longest sleep of a waiter in the local queue, in seconds

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

--- @return the running coroutine; outside of any, one fixed value
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

_M.can_wait = no_wait.may_wait

function _M.defer(fn)
    fn()
end

function _M.log(text)
    io.stderr:write("redlock: ", text, "\n")
end

_M.concurrent = tasks.is_task

-- A Lua signal handler (Ctrl-C) runs between two calls of rl_wait and may raise from here. Compiled
-- code would not check for it.
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

-- ---- what event loops need -----------------------------------------------------------

local function nothing()
end

_M.accept, _M.took, _M.look_within = nothing, nothing, nothing
_M.attend, _M.look_again, _M.drop, _M.let_go = nothing, nothing, nothing, nothing

function _M.open(_, settings, nodes)
    return cores.open(settings, nodes)
end

function _M.close(client)
    cores.close(client.core)
end

function _M.start(future, body)
    future.co = coroutine.create(body)
    future.client.tasks:start(future)
end

function _M.begin_directly(future, a, b, c, d)
    return future.client.tasks:begin_directly(future, a, b, c, d)
end

function _M.cancel(future)
    future.client.tasks:cancel(future)
end

--- Between two calls nothing drives the core.
function _M.poll_at(time)
    return time
end

return _M
