--- redlock run: runs a command under a lock.

local args = require "redlock.cli.args"
local attend = require "redlock.cli.attend"
local client_options = require "redlock.servers.options"
local config = require "redlock.cli.config"
local holds = require "redlock.cli.holds"
local process = require "redlock.cli.process"
local report = require "redlock.cli.report"
local restart_guard = require "redlock.servers.restart_guard"
local stay = require "redlock.cli.stay"
local waiting = require "redlock.cli.waiting"

local _M = { usage = "run NAME... -- CMD", summary = "run a command while holding the lock NAME",
    follows = "--" }

_M.flags = {
    { "--wait", "S", "give up after S seconds, with status 124, or 125 if no majority of the "
        .. "servers votes (default: wait until the lock is free)", short = "-w" },
    { "--no-wait", nil, "do not wait for a holder. New or restarted servers are waited for all the "
        .. "same, until a majority votes: they get their votes only while a client is connected",
        short = "-n" },
    { "--quiet", nil, "do not print who holds the lock, neither while waiting (otherwise after "
        .. "2 s) nor with status 124",
        short = "-q" },
    { "--lease", "S", "how long the lock outlives a crash of this machine (30)" },
    { "--at-least", "S", "keep the name closed until S seconds after it was acquired, even if the "
        .. "command or redlock itself ends earlier" },
    { "--max-hold", "S", "end the command after S seconds, with status 123 (default: never)" },
    { "--kill-after", "S", "when the lock is lost or cannot be renewed, or --max-hold has passed, "
        .. "the command and everything that it started get TERM, and KILL S seconds later (5, or a "
        .. "third of --lease if that is less)" },
    { "--label", "TEXT", "the holder's name, as others see it (default: host, process, redlock). "
        .. "The command's name is appended" },
    { "--plain", nil, "take a lock without a fencing token, for users whose rights on the servers "
        .. "cover plain locks only" },
    { "--shared", nil, "lock as a reader: other readers may run at the same time, nobody else" },
    { "--write", nil, "lock as a writer: alone, and no new reader begins while it waits" },
    { "--permits", "N", "at most N commands with --permits run at once, on all machines together. "
        .. "Give the same N everywhere. Locks of the same name are independent of permits" },
    { "--fenced", nil, "take a fencing token with --write or --permits. A lock without these "
        .. "flags has one anyway" },
    { "--once", "S", "close the name for S seconds from now, then run the command; if the name is "
        .. "held or closed, say which and exit with 124. In that time the command never starts "
        .. "twice, whatever happens to it or to redlock" },
}

_M.help = [[
redlock run NAME... [--wait S | --no-wait] [--quiet] [--lease S] [--at-least S] [--max-hold S]
                    [--kill-after S] [--plain | --shared | --write | --permits N | --once S]
                    [--fenced] -- CMD...

Acquires the lock NAME, runs the command, releases the lock, and exits with the command's status.
redlock renews the lock while the command runs. Of several names it acquires all or none.

FLAGS

The command finds in its environment:
  REDLOCK_NAME   the name; several names are a line each
  REDLOCK_TOKEN  the fencing token, a number that grows from hold to hold. What the command writes
                 to can refuse a smaller one: it comes from a holder that was paused past its
                 lease. Readers and several names have no token; writers and permits have one with
                 --fenced. A permit's token is larger than all earlier ones of its slot
  REDLOCK_SLOT   the slot of a permit, 1 to N
  REDLOCK_HELD   what is held around the command. If a redlock run, lead or wait inside it would
                 wait for that, it fails at once

Plain and fenced locks, readers, writers, and several names exclude each other on the same name,
also between this command and programs. Only readers share it.

redlock passes TERM, INT, HUP, QUIT, USR1 and USR2 on to the command. At a terminal the command is
in redlock's process group. Without one it leads a group of its own, and the whole group gets the
signals. When the lock cannot be renewed, or redlock itself is killed or stopped, the command and
everything that it started get TERM and KILL before the lease ends. redlock does not find processes
that others start for the command (systemd, docker, at).

STATUSES

  # crontab of every machine: the first one runs the job. Their clocks
  # may differ by 50 s, or by as long as the job takes if that is more
  PATH=/usr/local/bin:/usr/bin:/bin
  @daily  redlock run nightly --no-wait --quiet --at-least 50 -- report
  # one deployment after the other
  redlock run deploy:web --wait 600 -- ./deploy.sh
  # at most three machines download at a time; backups keep out
  # writers, not each other
  redlock run download --permits 3 -- ./download.sh
  redlock run db --shared -- ./backup.sh
  # a writer does not wait for backups that begin later
  redlock run db --write --fenced --wait 600 -- ./import.sh
  # hold both accounts, or none
  redlock run account:1 account:2 --wait 10 -- ./transfer.sh
  # send invoices from one machine, and rather not at all than twice
  0 4 1 * *  redlock run invoices --once 3600 -- send-invoices
  # several commands
  redlock run migrate:app -- sh -c 'pg_dump app > old.sql && ./migrate'
  # the database refuses late writers, and psql fails; stock.sql ends
  # with WHERE id = 7 AND fence <= :t RETURNING id \gset
  redlock run stock -- \
      sh -c 'psql -v ON_ERROR_STOP=1 -v t=$REDLOCK_TOKEN -f stock.sql']]

local LOST, HELD, FAILED = 123, 124, 125
local TICK = 0.25             -- seconds between two attempts while servers do not vote
local GRACE = 1               -- seconds for servers to be admitted after a quarantine
local SAY_AFTER = 2           -- seconds of waiting

-- Whether a server refuses for a lasting reason: a command is missing, or forbidden.
local function is_refused(err)
    for _, row in ipairs(err.nodes or {}) do
        if row.code == "unsupported" or row.code == "noperm" then
            return true
        end
    end
    return false
end

-- Waits until it is held. Without a limit, it first waits until a majority of the servers votes, if
-- only quarantines prevent that. say() reports the wait; nil: silent.
-- @return the hold; or nil, an exit status, and an error to report
local function acquire(hold, wait, say)
    local began = process.now()
    local ends, waited = began, nil
    while true do
        local got, err, signo = attend.await(hold:acquire_async(wait), wait ~= 0 and say)
        if got then
            return got
        elseif signo then
            return nil, 128 + signo
        end
        local left = err.code == "no_quorum" and (wait or 0) == 0
            and restart_guard.left(hold.client)
        if left and say and process.now() >= began + SAY_AFTER then
            say()
            say = nil
        end
        ends = (left or waited) and process.now() + (left or 0) + GRACE
            or not is_refused(err) and ends or 0
        waited = left
        if err.code ~= "no_quorum" or process.now() >= ends then
            return nil, err.code == "held" and HELD or FAILED, err
        end
        signo = stay.pause(TICK)
        if signo then
            return nil, 128 + signo
        end
    end
end

-- Releases it after the command. at_least: seconds from the acquisition that the name stays closed.
-- @return the exit status of `redlock run`
local function finish(hold, status, lost, at_least)
    local ok, err = hold:release(at_least)
    if lost then
        return LOST
    elseif ok or err.code == "not_held" then
        return status
    elseif err.code == "unknown" then
        report.note(at_least and ("it was not confirmed that the lock stays closed for %g s: ")
            :format(at_least) or "the release was not confirmed, the lock may stay closed for its "
            .. "lease: ", report.error(err))
        return status
    end
    report.note(hold.what, " was lost before the command ended: ", report.error(err))
    return LOST
end

-- Makes the lease as long as --at-least, if that is allowed: then the name stays closed for that
-- time even if this process is killed.
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

function _M.main(given, names, argv)
    args.command_behind(names, argv, "run")
    holds.check(given, names)
    check_at_least(given)
    local at_least, wait = given["--at-least"], given["--no-wait"] and 0 or given["--wait"]
    -- No limit: the hold ends with the command.
    local client = config.client(given, { max_hold = false })
    local hold = holds.new(client, given, names, argv[1])
    -- Names for which a nested command would wait for ever.
    local lasts = not given["--permits"] and not given["--once"]
    if lasts and wait ~= 0 then
        waiting.check(client, names, given["--shared"])
    end
    local function say()
        waiting.say(client, not given["--permits"] and names[1] or nil, function(holder)
            return hold:refusal { holder = holder }
        end)
    end
    config.connect(client)
    process.catch()
    local got, status, err = acquire(hold, wait, not given["--quiet"] and say or nil)
    if got then
        got, err = hold:taken(got, at_least)
        status = FAILED
    end
    if not got then
        client:close()
        if err and not (status == HELD and given["--quiet"]) then
            report.note(status == HELD and hold:refusal(err) or report.error(err))
        end
        return status
    end
    hold.lease = given["--once"] and math.huge or client.options.lease
    local lost
    local variables = hold:variables()
    variables.REDLOCK_HELD = lasts and waiting.around(client, names, given["--shared"]) or nil
    status, lost = attend.run(hold, argv, given, variables)
    status = finish(hold, status, lost, at_least)
    client:close()
    return status
end

return _M
