--- redlock change: other servers for a cluster that programs use.
local args = require "redlock.cli.args"
local change = require "redlock.client.change"
local config = require "redlock.cli.config"
local json = require "redlock.text.json"
local report = require "redlock.cli.report"
local stay = require "redlock.cli.stay"
local terminal = require "redlock.cli.terminal"

local _M = { usage = "change URIS", summary = "replace, add or remove servers beside programs",
    flags = {
        { "--yes", nil, "do not ask", short = "-y" },
        { "--gone", "URIS", "old servers that do not answer, and are stopped permanently" },
        { "--new-cluster", "NAME", "the name of the new list, where the old one has a name" } } }

_M.help = [[
redlock change URI... [--yes] [--gone URIS] [--new-cluster NAME]

Gives a cluster other servers: URIs are all servers that it has from then on; the present ones are
those of --nodes, REDLOCK_NODES or the configuration. At least one must stay. Programs need not be
stopped, and get the new list at any time, before or afterwards: with a list that is not the
cluster's they get the error `config`, and no locks. Nobody has a vote for max_lease * 1.01 + 1 s
after the change has begun, so held locks end, and fencing tokens go on. Closed names, latches and
rates are not taken along: wait until they have ended, or they may open.

It may be killed anywhere: run it again. Of two changes at once one is refused.

FLAGS

STATUSES

  redlock change redis://10.0.0.4 redis://10.0.0.2 redis://10.0.0.3]]

local function shown(list)
    return #list > 0 and table.concat(list, " ") or "-"
end

local function confirmed(plan)
    print(report.columns { { "comes", shown(plan.comes) }, { "goes", shown(plan.goes) },
        { "stays", shown(plan.stays) } })
    print(("no locks for %d s; closed names, latches and rates may not survive. Then every program "
        .. "needs the new list"):format(math.ceil(plan.seconds)))
    if not terminal.is_here() then
        args.fail "nobody to ask: --yes begins the change"
    end
    io.stdout:write "begin? (yes/no) "
    io.stdout:flush()
    return io.read() == "yes"
end

local function words(text)
    local list = {}
    for word in (text or ""):gmatch "[^%s,]+" do
        list[#list + 1] = word
    end
    return list
end

function _M.main(given, names)
    if #names == 0 then
        args.fail "change needs the servers of the new list"
    end
    local old = config.client(given)
    local new = config.client(setmetatable({ ["--nodes"] = table.concat(names, " "),
        ["--cluster"] = given["--new-cluster"] }, { __index = given }),
        { restart_guard = true })
    report.need(old:open())
    report.need(new:open())
    if not given["--yes"] and not confirmed(report.need(change.plan(old, new))) then
        args.fail "nothing was changed"
    end
    local plan = report.need(old:change(new, { gone = words(given["--gone"]) }))
    old:close()
    report.note(("the old list has ended; the new one votes in %d s"):format(
        math.ceil(plan.seconds)))
    local found, err, signo = stay.until_ready(new)
    new:close()
    if signo then
        return 128 + signo
    end
    report.need(found, err)
    print(given["--json"] and json.encode { verdict = found.verdict, voting = found.voting,
        comes = plan.comes, goes = plan.goes, stays = plan.stays }
        or ("%d of %d servers vote"):format(found.voting, #found))
    return found.voting == #found and 0 or 1
end

return _M
