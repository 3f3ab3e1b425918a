--- A command that runs while something is held: what it is told of that, its signals, and its end
-- when it is held no more. Between the command and this process is a supervisor (supervisor.lua).

local args = require "redlock.cli.args"
local config = require "redlock.cli.config"
local process = require "redlock.cli.process"
local report = require "redlock.cli.report"
local stay = require "redlock.cli.stay"

local _M = {}

local TICK = 0.25             -- seconds between two looks at what nothing happens to
local GRAIN = 0.05            -- the supervisor is told of extensions by more than that
local KILL_AFTER = 5
local BEFORE = 0.5            -- seconds before the end of the hold that KILL comes
local SAY_AFTER = 2           -- seconds of waiting
local GIVE_UP = 5             -- seconds to end who is left behind by a supervisor
local ASKS = { [process.TERM] = true, [process.INT] = true, [process.QUIT] = true }

--- Waits for a call; a signal ends the wait, and the call.
-- @param future  of the call
-- @param say     nil, or function(): says what is waited for, when that has taken a while
-- @return what the call returns; or nil, nil, and the number of that signal: what the call may have
--   taken is released when the client closes
function _M.await(future, say)
    local ends = process.now() + SAY_AFTER
    repeat
        future:get(TICK)
        local signo = stay.pause(0)
        if signo then
            future:cancel()
            return nil, nil, signo
        end
        if say and process.now() >= ends and not future:isDone() then
            say()
            say = nil
        end
    until future:isDone()
    return future:get()
end

local function interpreter()
    local i = 0
    while arg[i - 1] do
        i = i - 1
    end
    return arg[i]
end

-- What changes for the command; false: it does not get that variable. What is not ours is that of
-- a `redlock` around us, and of another name.
local function environment(given, variables)
    local env = { REDLOCK_NAME = false, REDLOCK_TOKEN = false, REDLOCK_SLOT = false,
        REDLOCK_TERM = false }
    for _, variable in ipairs(config.secret_variables(given)) do
        env[variable] = false
    end
    for name, value in pairs(variables) do
        env[name] = type(value) == "number" and ("%.0f"):format(value) or value
    end
    return env
end

-- When the command gets TERM and KILL, so that both come before the hold ends, and renewals have
-- half of the lease to succeed.
-- @return kill_after: from TERM to KILL; before: from KILL to the end of the hold; in seconds
local function timing(lease, wanted)
    local longest = lease / 3
    if wanted and wanted > longest then
        report.note(("--kill-after is cut to %.3g s, a third of the lease; a longer --lease allows "
            .. "more"):format(longest))
    end
    return { kill_after = math.min(wanted or KILL_AFTER, longest),
        before = math.min(BEFORE, lease / 6) }
end

-- Starts the supervisor, which starts the command.
-- @return its process id, and our end of the connection to it
local function start(argv, group, times, env)
    local ours, theirs = process.connection()
    local path = package.searchpath("redlock.cli.supervisor", package.path)
    local list = { interpreter(), path, tostring(theirs), tostring(group),
        tostring(times.kill_after), tostring(times.before) }
    if process.ignores_int() then
        table.insert(list, 2, "-eREDLOCK_INT_IGNORED=true")
    end
    for _, word in ipairs(argv) do
        list[#list + 1] = word
    end
    local pid, why
    if ours then
        pid, why = process.spawn(list, { env = env, keep = theirs, outlives = true })
        process.close(theirs)
    end
    return pid or args.fail("no process: " .. (why or theirs)), ours
end

-- Somebody killed the supervisor, with which the kernel kills the command: what is left of it
-- are children of ours now.
local function bury(status)
    local finish = process.now() + GIVE_UP
    while process.reap(-1) ~= false and process.now() < finish do
        for _, child in ipairs(process.children()) do
            process.kill(child, process.KILL)
        end
        process.signal(0.01)
    end
    report.note "the supervisor of the command was killed, and so was the command"
    return status
end

-- Stays with the command until it ends.
-- @param pid, to  of the supervisor, as start() returned them
-- @return as _M.run()
local function attend(hold, pid, to, group, times)
    local now, asked = process.now, false
    local limit, told, lost = hold.max and now() + hold.max or math.huge, 0, nil
    local function ask_for_the_end(why, seconds)
        report.note(why, "; ending the command")
        process.send(to, ("end %.3f"):format(math.max(seconds, 0)))
        limit, told = math.huge, math.huge
    end
    while true do
        local left = hold:remaining()
        local in_time = math.min(times.kill_after, left - times.before)
        local spare = left - times.before - times.kill_after
        if told < math.huge and hold.lost then
            lost = hold.lost
            ask_for_the_end(hold.what .. " is lost (" .. lost .. ")", times.kill_after)
        elseif told < math.huge and spare <= 0 then
            lost = "expired"
            ask_for_the_end(hold.what .. " was not renewed in time (expired)", in_time)
        elseif now() >= limit then
            lost = "max_hold"
            ask_for_the_end("the command has had its time (max_hold)", in_time)
        elseif now() + left > told + GRAIN then
            told = now() + left
            process.send(to, ("valid %.3f"):format(told))
        end
        local pause = told < math.huge and math.max(math.min(spare, limit - now()), 0.001) or TICK
        local signo, from_terminal = process.signal(math.min(TICK, pause))
        asked = asked or ASKS[signo or 0] or false
        if signo and signo ~= process.CHLD and not (from_terminal and not group) then
            process.send(to, "signal " .. signo)
        end
        local status, _, killed = process.reap(pid)
        if status then
            process.close(to)
            status = killed and bury(status) or status
            if not lost and (hold.lost or hold:remaining() == 0) then
                lost = hold.lost or "expired"
                report.note(hold.what, " was lost (", lost, ") before the command ended")
            end
            return status, lost, asked or ASKS[stay.pause(0) or 0] or false
        end
    end
end

--- Runs a command while something is held, and ends it when that is lost, or has been held for as
-- long as it may. Behind process.catch().
-- @param hold       remaining(): for how many seconds still, 0: it is lost; lost: why; lease: how
--   many seconds it lasts when it is not renewed; max: for how long it may be held, or nil; what:
--   what is said to be lost
-- @param argv       the command
-- @param given      the options of the verb
-- @param variables  of the command's environment, by name
-- @return its exit status; why it was ended, or nil; and whether a signal has asked it to end
function _M.run(hold, argv, given, variables)
    -- Its own group is signalled as a whole. At a terminal the command stays in ours, which the
    -- shell brings to the foreground, stops and continues, with what it is piped to.
    local group = not process.has_terminal()
    local times = timing(hold.lease, given["--kill-after"])
    process.adopt_orphans()
    local pid, to = start(argv, group, times, environment(given, variables))
    return attend(hold, pid, to, group, times)
end

return _M
