--- redlock lead: runs a command on one of several machines.

local args = require "redlock.cli.args"
local attend = require "redlock.cli.attend"
local card = require "redlock.runtime.card"
local config = require "redlock.cli.config"
local holds = require "redlock.cli.holds"
local process = require "redlock.cli.process"
local report = require "redlock.cli.report"
local stay = require "redlock.cli.stay"
local waiting = require "redlock.cli.waiting"

local _M = { usage = "lead NAME -- CMD...", summary = "runs a command on one of several machines",
    follows = "--" }

_M.flags = {
    { "--id", "TEXT", "what others learn of who leads, 1 to 160 bytes (the machine's name, and the "
        .. "number of the process)" },
    { "--quiet", nil, "without a word while it stands; else it says after 2 s who leads",
        short = "-q" },
    { "--verbose", nil, "say who leads when it begins to stand, when it is elected, and when it no "
        .. "longer leads, with the term", short = "-v" },
    { "--lease", "S", "how long nobody leads behind a machine that has crashed (30)" },
    { "--kill-after", "S", "when it leads no more, or its lead cannot be prolonged, the command "
        .. "and all that it started get TERM, and KILL S seconds later (5, or a third of --lease "
        .. "if that is less)" },
}

_M.help = [[
redlock lead NAME [--id TEXT] [--quiet] [--verbose] [--lease S] [--kill-after S] -- CMD...

Stands for election, as others do elsewhere under the same NAME. Whoever is elected starts the
command. When no majority of the servers confirms it in time, or somebody has opened the lock, the
command and all that it started are ended, before another one leads, and it stands again. It goes
on standing while no majority of the servers answers. When the command ends by itself, redlock
resigns, another candidate is elected at once, and this one exits with the command's status.

FLAGS

The command finds in its environment REDLOCK_NAME and the term, a number that grows from leader to
leader, as REDLOCK_TERM, and as REDLOCK_TOKEN: whatever it writes to can refuse smaller ones.
Programs ask for the leader, or are candidates beside it, by client:getElection. Locks of the name
exclude the leader. Signals, groups of processes, and what is ended when redlock itself is killed
or stopped, are as for redlock run.
Exit status: the command's own; 125: redlock itself failed; 128+n: ended by signal n.

  redlock lead scheduler -- /usr/local/bin/scheduler]]

local FAILED = 125
local PAUSE = 1               -- seconds between two campaigns without a majority

-- Stands for election until this candidate wins.
-- @param say  function that names the leader; nil: silent
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

--- Runs the verb.
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
