--- Runs a command while something is held: its environment, its signals, and its end when the hold
-- ends. A supervisor (supervisor.lua) runs between the command and this process.

local args = require "redlock.cli.args"
local config = require "redlock.cli.config"
local process = require "redlock.cli.process"
local report = require "redlock.cli.report"
local stay = require "redlock.cli.stay"

local _M = {}

local FAILED = 125
local TICK = 0.25             -- seconds between checks while nothing happens
local GRAIN = 0.05            -- seconds; shorter extensions are not sent to the supervisor
local KILL_AFTER = 5
local BEFORE = 0.5            -- seconds from KILL to the end of the hold
local SAY_AFTER = 2           -- seconds of waiting
local GIVE_UP = 5             -- seconds to kill what a dead supervisor left running
local ASKS = { [process.TERM] = true, [process.INT] = true, [process.QUIT] = true }

--- Waits for a call. A signal ends the wait and cancels the call. say(), or nil, reports after a
-- while what the call waits for.
-- @return the call's results; or nil, nil and the number of the signal: the client's close releases
--   what the call may have taken
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

-- The words before the script with which this process was started: luajit and its options.
local function interpreter()
    local first, list = 0, {}
    while arg[first - 1] do
        first = first - 1
    end
    for i = first, -1 do
        list[#list + 1] = arg[i]
    end
    return list
end

-- Changes to the command's environment; false: the variable is removed. Variables that this verb
-- does not set come from an enclosing `redlock` and its other lock.
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

-- When the command gets TERM and KILL: both before the hold ends, and not before renewals have had
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
-- @return its process id, and this process's end of the connection to it
local function start(argv, group, times, env)
    local ours, theirs = process.connection()
    local list = interpreter()
    for _, words in ipairs { { package.searchpath("redlock.cli.supervisor", package.path),
        tostring(theirs), tostring(group), tostring(times.kill_after), tostring(times.before) },
        argv } do
        for _, word in ipairs(words) do
            list[#list + 1] = word
        end
    end
    local pid, why
    if ours then
        pid, why = process.spawn(list, { env = env, keep = theirs, outlives = true })
        process.close(theirs)
    end
    return pid or args.fail("no process: " .. (why or theirs)), ours
end

-- The supervisor died, and the kernel killed the command with it. The command's other descendants
-- are now children of this process: kills them.
local function kill_orphans(status)
    local finish = process.now() + GIVE_UP
    while process.reap(-1) ~= false and process.now() < finish do
        for _, child in ipairs(process.children()) do
            process.kill(child, process.KILL)
        end
        process.signal(0.01)
    end
    report.note "the supervisor of the command died, and the command was killed"
    return status
end

-- Waits for the command to end, passing on signals and the end of the hold. A supervisor that is
-- stopped goes on, to end the command; if it is stopped when that should be killed, it is killed
-- with it. pid, to: from start().
-- @return as run()
local function attend(hold, pid, to, group, times)
    local now, asked = process.now, false
    local limit, told, lost = hold.max and now() + hold.max or math.huge, 0, nil
    local kill_at = math.huge
    local function ask(word, number)
        process.send(to, word .. number)
        process.kill(pid, process.CONT)
    end
    local function ask_for_the_end(why, seconds)
        report.note(why, "; ending the command")
        ask("end ", ("%.3f"):format(math.max(seconds, 0)))
        limit, told, kill_at = math.huge, math.huge, now() + seconds
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
            ask("signal ", signo)
        end
        if now() >= kill_at and process.is_stopped(pid) then
            process.kill(pid, process.KILL)
        end
        local status, _, killed = process.reap(pid)
        if status then
            local said = tonumber(process.receive(to) or "")
            process.close(to)
            status = said or kill_orphans(killed and status or FAILED)
            if not lost and (hold.lost or hold:remaining() == 0) then
                lost = hold.lost or "expired"
                report.note(hold.what, " was lost (", lost, ") before the command ended")
            end
            return status, lost, asked or ASKS[stay.pause(0) or 0] or false
        end
    end
end

--- Runs a command while something is held. Ends it when the hold is lost, or has lasted its longest
-- time. Call process.catch() first.
-- @param hold       remaining(): seconds left, 0: lost; lost: why; lease: seconds that it lasts
--   without renewal; max: seconds that it may last, or nil; what: its name in messages
-- @param argv       the command
-- @param given      the options of the verb
-- @param variables  for its environment, by name
-- @return its exit status; why it was ended, or nil; and whether a signal has asked it to end
function _M.run(hold, argv, given, variables)
    -- With a group of its own, signals go to all of it. At a terminal the command stays in this
    -- group, so that the shell can stop and continue it together with the rest of its pipeline.
    local group = not process.has_terminal()
    local times = timing(hold.lease, given["--kill-after"])
    process.adopt_orphans()
    local pid, to = start(argv, group, times, environment(given, variables))
    return attend(hold, pid, to, group, times)
end

return _M
