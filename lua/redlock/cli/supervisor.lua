--- What `redlock run` starts, and what starts the command: sees to it that all that comes of the
-- command ends when it must, also when `redlock` itself was killed, or does not run any more.
--
--     luajit .../redlock/cli/supervisor.lua FD OWN_GROUP KILL_AFTER BEFORE COMMAND...
--
-- A program of its own, as what is meant for `redlock run` should not meet it: a signal to all of
-- that name, the terminal's. FD is our end of a connection on which `redlock` says
--
--     valid T     the lock is held until then (of process.now()); first of all
--     signal N    a signal for the command
--     end S       all is to end: TERM, and what is left after S seconds gets KILL
--
-- When `redlock` falls silent (it was killed, or stopped), KILL comes BEFORE seconds before T, and
-- TERM at most KILL_AFTER seconds before KILL.
--
-- Whoever loses his parent below us becomes our child, so that nobody gets away by being a
-- daemon. Exits with the command's status, at once when the command ends by itself.

local root = arg[0]:match "^(.*)redlock/cli/supervisor%.lua$"
package.path = root .. "?.lua;" .. package.path
local process = require "redlock.cli.process"

local min, max = math.min, math.max

local LATE = 0.1              -- seconds that `redlock` may be late with its word
local GIVE_UP = 5             -- seconds after KILL: who is not gone by then cannot be ended
local PAUSE = 0.02            -- while all is to end, as orphans come without a word

local fd, own_group = tonumber(arg[1]), arg[2] == "true"
local kill_after, before = tonumber(arg[3]), tonumber(arg[4])
local pid, status             -- of the command; status: when it has ended
local valid                   -- until when the lock is held
local kill_at                 -- when all is to end: who is left then is killed
local told = {}               -- who has got TERM beside the command

-- One that is stopped would not hear of TERM.
local function send(to, signo)
    process.kill(to, signo)
    if signo == process.TERM then
        process.kill(to, process.CONT)
    end
end

-- Those below a process that are in our group.
local function send_below(parent, signo)
    for _, child in ipairs(process.children(parent)) do
        send_below(child, signo)
        if process.group(child) == process.group(0) then
            send(child, signo)
        end
    end
end

local function signal(signo)
    if not status then
        if not own_group then
            send_below(pid, signo)
        end
        send(own_group and -pid or pid, signo)
    end
end

-- Says to those that are our children now, but not to the command's group, which was told.
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

-- `redlock`, which should have said that the lock was not renewed, does not run.
local function end_alone()
    begin_end(max(min(kill_after, valid - before - process.now()), 0))
end

-- When that is to happen.
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

-- @return whether nobody is left
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

process.keep(fd)
process.keep_ignoring()
process.adopt_orphans()
local ends = process.block()
repeat
    process.wait(fd, ends, 1)
    local text = process.receive(fd)
    valid = text and tonumber(text:match "^valid (%S+)$")
    if text and not valid then
        os.exit(125)
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
    os.exit(125)
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
        os.exit(status)
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
        os.exit(status or 128 + process.KILL)
    end
end
