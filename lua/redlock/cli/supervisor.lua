--- The program between `redlock run` and its command. It ends the command and its descendants in
-- time, even when `redlock` itself was killed or stopped.
--
--     luajit .../redlock/cli/supervisor.lua FD OWN_GROUP KILL_AFTER BEFORE COMMAND...
--
-- It is a separate program so that signals meant for `redlock run` miss it: those sent to all
-- processes of that name, and the terminal's. FD is its end of a connection; `redlock` sends
--
--     valid T     the lock is held until T (by process.now()); sent first
--     signal N    a signal for the command
--     end S       end everything: TERM now, and KILL after S seconds
--
-- When `redlock` falls silent, because it was killed or stopped, KILL comes BEFORE seconds before
-- T, and TERM at most KILL_AFTER seconds before KILL.
--
-- Orphans among its descendants become its children, so a daemon cannot escape. It ends at once
-- when the command ends by itself. Last it sends the command's status: its own does not tell that
-- of the command from that of a luajit that died.

local root = arg[0]:match "^(.*)redlock/cli/supervisor%.lua$"
package.path = root .. "?.lua;" .. package.path
local process = require "redlock.cli.process"

local min, max = math.min, math.max

local LATE = 0.1              -- seconds that a message of `redlock` may be late
local GIVE_UP = 5             -- seconds after KILL until it gives up on what still runs
local PAUSE = 0.02            -- seconds between checks for orphans, while it ends everything

local fd, own_group = tonumber(arg[1]), arg[2] == "true"
local kill_after, before = tonumber(arg[3]), tonumber(arg[4])
local pid, status             -- of the command; status: once it has ended
local valid                   -- when the lock expires
local kill_at                 -- when everything that still runs gets KILL
local told = {}               -- processes other than the command that got TERM

-- A stopped process would not act on TERM.
local function send(to, signo)
    process.kill(to, signo)
    if signo == process.TERM then
        process.kill(to, process.CONT)
    end
end

-- Signals the descendants of a process that are in a group.
local function send_below(parent, signo, group)
    for _, child in ipairs(process.children(parent)) do
        send_below(child, signo, group)
        if process.group(child) == group then
            send(child, signo)
        end
    end
end

-- A command may leave its own group; this process's is redlock's, too.
local function signal(signo)
    local group = not status and process.group(pid)
    if group and not (own_group and group == pid) then
        send_below(pid, signo, group)
        send(pid, signo)
    end
    if group and own_group then
        send(-pid, signo)
    end
end

-- Signals new children of this process, but not the command's group, which has the signal already.
local function say_to_children(signo)
    for _, child in ipairs(process.children()) do
        local fresh = child ~= pid and not told[child]
            and not (own_group and process.group(child) == pid)
        if signo == process.KILL or fresh then
            told[child] = true
            send(child, signo)
        end
    end
end

local function begin_end(seconds)
    kill_at = min(kill_at or math.huge, process.now() + seconds)
    signal(process.TERM)
end

-- Ends everything because `redlock` does not run and so cannot report a missed renewal.
local function end_alone()
    begin_end(max(min(kill_after, valid - before - process.now()), 0))
end

-- When to call end_alone().
local function alone_at()
    return valid - before - kill_after + LATE
end

local function hear(text)
    local word, number = text:match "^(%a+) (%S+)$"
    number = tonumber(number)
    if word == "valid" then
        valid = number
    elseif word == "signal" then
        signal(number)
    elseif word == "end" then
        begin_end(number)
    elseif text == "" then
        fd = -1
        if not kill_at then
            end_alone()
        end
    end
end

local STOPPED = {
    [process.TTIN] = ", as it wants the terminal in the background",
    [process.TTOU] = ", as it wants the terminal in the background",
    [process.TSTP] = "; if redlock is stopped, too, it is ended before the lock ends",
}

local function stopped(child, signo)
    if child == pid then
        io.stderr:write(("redlock: the command is stopped by signal %d%s\n"):format(signo,
            STOPPED[signo] or ""))
    end
end

-- @return whether nothing is left to reap
local function reap()
    while true do
        local code, child = process.reap(-1, stopped)
        if child == pid then
            status = code
        end
        if not child then
            return code == false
        end
    end
end

local function quit(code)
    process.send(fd, tostring(code))
    os.exit(code)
end

process.keep(fd)
process.keep_ignoring()
process.adopt_orphans()
local ends = process.block()
repeat
    process.wait(fd, ends, 1)
    local text = process.receive(fd)
    valid = text and tonumber(text:match "^valid (%S+)$")
    if text and not valid then
        quit(125)
    end
until valid

local command = {}
for i = 5, #arg do
    command[i - 4] = arg[i]
end
local why
pid, why = process.spawn(command, { group = own_group })
if not pid then
    io.stderr:write("redlock: no process: ", why, "\n")
    quit(125)
end

while true do
    local now = process.now()
    process.wait(fd, ends, kill_at and PAUSE or max(alone_at() - now, 0))
    local text = fd >= 0 and process.receive(fd)
    while text do
        hear(text)
        text = fd >= 0 and process.receive(fd)
    end
    local nobody = reap()
    if status and (nobody or not kill_at) then
        quit(status)
    end
    now = process.now()
    if not kill_at and now >= alone_at() then
        end_alone()
    end
    if kill_at and now < kill_at then
        say_to_children(process.TERM)
    elseif kill_at then
        signal(process.KILL)
        say_to_children(process.KILL)
    end
    if kill_at and now >= kill_at + GIVE_UP then
        io.stderr:write("redlock: some of what the command started cannot be ended\n")
        quit(status or 128 + process.KILL)
    end
end
