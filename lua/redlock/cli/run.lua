--- redlock run: a command under a lock.

local args = require "redlock.cli.args"
local config = require "redlock.cli.config"
local client_options = require "redlock.api.options"
local process = require "redlock.cli.process"
local report = require "redlock.cli.report"
local restart_guard = require "redlock.policy.restart_guard"
local stay = require "redlock.cli.stay"

local _M = { usage = "run NAME -- CMD...", summary = "runs a command while it holds the lock NAME",
    follows = "--" }

_M.flags = {
    { "--wait", "S", "give up after S seconds, with status 124 (default: wait for as long as it is "
        .. "held)", short = "-w" },
    { "--no-wait", nil, "the same as --wait 0. Servers that were restarted are waited for all the "
        .. "same, until a majority votes: that comes only while somebody stays", short = "-n" },
    { "--lease", "S", "how long the lock outlives a crash of this machine (30)" },
    { "--at-least", "S", "the name stays closed until S seconds after it was taken, also when the "
        .. "command has ended by then, or redlock itself" },
    { "--max-hold", "S", "end the command after so long, with status 123 (default: never)" },
    { "--kill-after", "S", "when the lock is lost, or --max-hold is over, the command and all that "
        .. "it started get TERM, and KILL S seconds later (5)" },
    { "--plain", nil, "a lock without a fencing token: for users of the servers whose rights are "
        .. "enough for plain locks only" },
}

_M.help = [[
redlock run NAME [--wait S | --no-wait] [--lease S] [--at-least S] [--max-hold S]
                 [--kill-after S] [--plain] -- CMD...

Takes the lock NAME, runs the command, lets the lock go, and exits with the command's status.
The lock is renewed while the command runs.

FLAGS

The command finds REDLOCK_NAME in its environment, and the fencing token, a number that grows
from hold to hold, as REDLOCK_TOKEN: whatever it writes to can refuse smaller ones, which come
from somebody who was paused past the end of the lock. Plain and fenced locks of one name, in
programs as well, exclude each other. TERM, INT, HUP, QUIT, USR1 and USR2 are passed on to it.
Without a terminal as standard input it is the leader of a process group of its own, which gets
the signals as a whole. When redlock itself is killed, or stopped for longer than the lock
lasts, the command and all that it started are ended in the same way, KILL coming before the
lock's time is over: what it has others start (systemd, docker, at) is not found.

  # at most one nightly job, whichever machine's cron is first (crontab); their clocks may
  # differ by 50 s, or by how long the job takes, if that is more
  0 3 * * *  redlock run nightly --no-wait --at-least 50 -- /usr/local/bin/report
  # one deployment after the other
  redlock run deploy:web --wait 600 -- ./deploy.sh
  # several commands
  redlock run db:migrate -- sh -c 'pg_dump app > before.sql && ./migrate'
  # late writers change nothing
  redlock run stock -- sh -c 'psql -v t=$REDLOCK_TOKEN -f stock.sql' # ... WHERE fence <= :t]]

local LOST, HELD, FAILED = 123, 124, 125
local TICK = 0.25             -- seconds between two looks at a lock that nothing happens to
local GRACE = 1               -- seconds after the end of a quarantine to be admitted
local GRAIN = 0.05            -- the supervisor is told of extensions by more than that
local KILL_AFTER = 5
local BEFORE = 0.5            -- seconds before the end of the lock that KILL comes, if it can
local GIVE_UP = 5             -- seconds to end who is left behind by a supervisor

-- Waits for the lock; a signal ends the wait.
-- @return true; or nil, an error, and the number of that signal
local function await(lock, wait)
    local future = wait and lock:tryLockAsync(wait) or lock:lockAsync()
    repeat
        future:get(TICK)
        local signo = stay.pause(0)
        if signo and not future:isDone() then
            future:cancel()
            return nil, nil, signo
        end
    until future:isDone()
    return future:get()
end

-- Waits for the lock, and first until a majority of the servers votes, where only their
-- quarantines keep it from doing so.
-- @return true; or nil, an exit status, and an error to be told
local function acquire(lock, wait)
    local ends = process.now()
    while true do
        local ok, err, signo = await(lock, wait)
        if ok then
            return true
        end
        local left = not signo and err.code == "no_quorum" and restart_guard.left(lock.client)
        if left and process.now() >= ends then
            report.note(("waiting until enough servers vote, %.0f s; new cluster? run redlock "
                .. "init"):format(math.ceil(left)))
        end
        ends = left and process.now() + left + GRACE or ends
        if signo or err.code ~= "no_quorum" or process.now() >= ends then
            return nil, signo and 128 + signo or err.code == "held" and HELD or FAILED, err
        end
        signo = stay.pause(TICK)
        if signo then
            return nil, 128 + signo
        end
    end
end

local function interpreter()
    local i = 0
    while arg[i - 1] do
        i = i - 1
    end
    return arg[i]
end

-- Starts the supervisor, which starts the command.
-- @return its process id, and our end of the connection to it
local function start(argv, group, kill_after, env)
    local ours, theirs = process.connection()
    local path = package.searchpath("redlock.cli.supervisor", package.path)
    local list = { interpreter(), path, tostring(theirs), tostring(group), tostring(kill_after) }
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

-- Stays with the command until it ends, and ends it when the lock is lost, or has been held
-- for max_hold.
-- @param pid, to  of the supervisor, as start() returned them
-- @return its exit status; and why it was ended, or nil
local function attend(lock, pid, to, group, kill_after)
    local now, max_hold = process.now, lock.client.options.max_hold
    local limit, told, lost = max_hold and now() + max_hold or math.huge, 0, nil
    lock:onLost(function(_, reason) lost = reason end)
    local function ask_for_the_end(seconds)
        report.note(lost == "max_hold" and "the command has had its time (max_hold)"
            or "the lock is lost (" .. lost .. ")", "; ending the command")
        process.send(to, ("end %.3f"):format(math.max(seconds, 0)))
        limit, told = math.huge, math.huge
    end
    while true do
        local left = lock:remaining()
        if told < math.huge and left == 0 then
            lost = lost or "expired"
            ask_for_the_end(kill_after)
        elseif now() >= limit then
            lost = "max_hold"
            ask_for_the_end(math.min(kill_after, left - BEFORE))
        elseif now() + left > told + GRAIN then
            told = now() + left
            process.send(to, ("valid %.3f"):format(told))
        end
        local pause = told < math.huge and math.max(math.min(left, limit - now()), 0.001) or TICK
        local signo, from_terminal = process.signal(math.min(TICK, pause))
        if signo and signo ~= process.CHLD and not (from_terminal and not group) then
            process.send(to, "signal " .. signo)
        end
        local status, _, killed = process.reap(pid)
        if status then
            return killed and bury(status) or status, lost
        end
    end
end

-- Lets the lock go behind the command.
-- @param at_least  how long the name stays closed, from when it was taken; or nil
-- @return the exit status of it all
local function finish(lock, status, lost, at_least)
    if lost and lost ~= "max_hold" then
        return LOST
    end
    local ok, err = lock:unlock { closed_for = at_least }
    if lost then
        return LOST
    elseif ok or err.code == "not_held" then
        return status
    elseif err.code == "unknown" and at_least then
        report.note("it was not confirmed that the lock stays closed for ", at_least, " s: ",
            report.error(err))
        return status
    elseif err.code == "unknown" then
        report.note("the release was not confirmed, the lock may stay closed for its lease: ",
            report.error(err))
        return status
    end
    report.note("the lock was lost before the command ended: ", report.error(err))
    return LOST
end

-- What changes for the command; false: it does not get that variable.
local function environment(lock, given)
    local env = {}
    for _, variable in ipairs(config.secret_variables(given)) do
        env[variable] = false
    end
    -- Without a token none is handed on: that of a `redlock run` around us is another lock's.
    local token = lock.token and lock:token()
    env.REDLOCK_NAME = lock:getName()
    env.REDLOCK_TOKEN = token and ("%.0f"):format(token) or false
    return env
end

-- Sees to it that the lease is as long as the name is to stay closed, if it may be: so it does
-- also when this process is killed.
local function check_at_least(given)
    local at_least = given["--at-least"]
    if not at_least then
        return
    end
    local o = config.client_options(given)
    for _, option in ipairs { "lease", "max_lease", "lock_delay" } do
        o[option] = o[option] or client_options.defaults[option]
    end
    given["--lease"] = math.max(o.lease, math.min(at_least, client_options.longest_lease(o)))
end

-- The same for longer than a lease may be.
-- @return true; or nil and an error
local function close_for_long(lock, at_least)
    local longest = client_options.longest_lease(lock.client.options)
    if not at_least or at_least <= longest then
        return true
    end
    return lock:settle(at_least, { keep = true })
end

--- Does what the verb says.
-- @param given  the options
-- @param names  the name of the lock
-- @param argv   the command
-- @return the exit status
function _M.main(given, names, argv)
    if names[2] and not argv then
        args.fail("the command goes behind --: redlock run " .. names[1] .. " -- "
            .. args.words(names, 2))
    end
    local name = args.name(names, "run")
    if not argv or #argv == 0 then
        args.fail("no command is given: redlock run NAME -- CMD...")
    end
    check_at_least(given)
    local wait = given["--no-wait"] and 0 or given["--wait"]
    -- The command may take as long as it likes: its end is the end of the hold.
    local client = config.client(given, { max_hold = false })
    config.connect(client)
    process.catch()
    local lock = given["--plain"] and client:getLock(name) or client:getFencedLock(name)
    local ok, status, err = acquire(lock, wait)
    if ok then
        ok, err = close_for_long(lock, given["--at-least"])
        status = FAILED
    end
    if not ok then
        client:close()
        if err and status == HELD then
            report.note(lock:describe(), " is held by somebody else")
        elseif err then
            report.note(report.error(err))
        end
        return status
    end
    -- Its own group is signalled as a whole, but could not read from the terminal.
    local group = not process.is_terminal(0)
    local kill_after = given["--kill-after"] or KILL_AFTER
    process.adopt_orphans()
    local pid, to = start(argv, group, kill_after, environment(lock, given))
    local lost
    status, lost = attend(lock, pid, to, group, kill_after)
    status = finish(lock, status, lost, given["--at-least"])
    client:close()
    return status
end

return _M
