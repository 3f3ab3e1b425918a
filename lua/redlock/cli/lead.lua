--- redlock lead: runs a command on one of several machines.

local args = require "redlock.cli.args"
local attend = require "redlock.cli.attend"
local card = require "redlock.text.card"
local config = require "redlock.cli.config"
local holds = require "redlock.cli.holds"
local process = require "redlock.cli.process"
local report = require "redlock.cli.report"
local stay = require "redlock.cli.stay"
local waiting = require "redlock.cli.waiting"

local _M = { usage = "lead NAME -- CMD...", summary = "run a command on one of several machines",
    follows = "--" }

_M.flags = {
    { "--id", "TEXT", "this candidate's name, as others see it, 1 to 160 bytes (default: the "
        .. "machine's name and the process number)" },
    { "--quiet", nil, "do not print who leads while standing (otherwise after 2 s)",
        short = "-q" },
    { "--verbose", nil, "print who leads when it begins to stand, when it is elected, and when it "
        .. "no longer leads, with the term", short = "-v" },
    { "--lease", "S", "how long nobody leads after the leader's machine has crashed (30)" },
    { "--kill-after", "S", "when it no longer leads, or cannot renew its lead, the command and "
        .. "everything that it started get TERM, and KILL S seconds later (5, or a third of "
        .. "--lease if that is less)" },
}

_M.help = [[
redlock lead NAME [--id TEXT] [--quiet] [--verbose] [--lease S] [--kill-after S] -- CMD...

Stands for election under NAME, against redlock lead on other machines. The winner starts the
command. It loses the lead when no majority of the servers confirms it in time, or when somebody
opens the lock. Then redlock ends the command and everything that it started before another
candidate leads. It stands again, and keeps standing while no majority of the servers answers. When
the command ends by itself, redlock resigns and exits with the command's status. Another candidate
is elected at once.

FLAGS

The command finds in its environment:
  REDLOCK_NAME   the name
  REDLOCK_TERM   the term, a number that grows from leader to leader. What the command writes to
                 can refuse a smaller one
  REDLOCK_TOKEN  the same number

Programs use client:getElection to ask for the leader, or to stand as candidates. Locks of the same
name exclude the leader. Signals and process groups work as with redlock run. So does the end of the
command when redlock itself is killed or stopped.

STATUSES

  redlock lead scheduler -- /usr/local/bin/scheduler]]

local FAILED = 125
local PAUSE = 1               -- seconds between two campaigns without a majority

-- Stands for election until this candidate wins. say() names the leader; nil: silent.
-- @return the term; or nil and the exit status
local function campaign(election, say)
    local told
    while true do
        local term, err, signo = attend.await(election:campaignAsync(), say)
        if term then
            return term
        elseif not signo and err.code ~= "no_quorum" and err.code ~= "expired"
            and err.code ~= "lost" then
            report.note(report.error(err))
            return nil, FAILED
        elseif not signo and err.code ~= told and say then
            told = err.code
            report.note("not elected yet: ", report.error(err))
        end
        signo = signo or stay.pause(PAUSE)
        if signo then
            return nil, 128 + signo
        end
    end
end

function _M.main(given, names, argv)
    args.command_behind(names, argv, "lead")
    local name = args.name(names, "lead")
    local client = config.client(given, { max_hold = false })
    holds.name(client, argv[1])
    local hold = { what = "the leadership", lease = client.options.lease }
    local election = client:getElection(name, { id = given["--id"]
            or ("%s:%d"):format(card.host(), process.id()),
        on_lost = function(_, reason) hold.lost = reason end })
    function hold.remaining()
        return election:remaining()
    end
    local function say()
        local leader = election:leader()
        waiting.say(client, not (leader and leader.id) and name or nil, function(holder)
            local whose = holder and (" (%s)"):format(holder.label) or ""
            return report.leader(leader) or "the name is held by somebody else" .. whose
        end)
    end
    local function tell(...)
        if given["--verbose"] then
            report.note(report.name(name), ": ", ...)
        end
    end
    waiting.check(client, { name })
    local around = waiting.around(client, { name })
    config.connect(client)
    process.catch()
    local term, status, lost, asked
    repeat
        hold.lost = nil
        if given["--verbose"] then
            local leader = election:leader()
            tell("standing for election; ", report.leader(leader) or leader == false
                and "nobody leads" or "it is not known who leads")
        end
        term, status = campaign(election, not given["--quiet"] and say or nil)
        if term then
            tell(("elected, leads in term %.0f"):format(term))
            status, lost, asked = attend.run(hold, argv, given, { REDLOCK_NAME = name,
                REDLOCK_TERM = term, REDLOCK_TOKEN = term, REDLOCK_HELD = around })
            lost = lost or not election:isLeader() and "expired"
            election:resign()
            tell(lost and ("lost the lead (%s)"):format(lost) or "resigned",
                (", term %.0f"):format(term))
        end
    until not term or asked or not lost
    client:close()
    return status
end

return _M
