--- redlock check: the state of the servers.
local args = require "redlock.cli.args"
local config = require "redlock.cli.config"
local json = require "redlock.runtime.json"
local report = require "redlock.cli.report"
local stay = require "redlock.cli.stay"

local _M = { usage = "check ", summary = "how the servers are, and what to do about it",
    flags = { { "--wait", nil, "stays until all servers vote and know all floors of fencing "
        .. "tokens, or something is wrong that time does not mend. A restarted server votes after "
        .. "clients have watched it keep its memory for max_lease * 1.01 + 1 s; only time with a "
        .. "client connected counts. Waits for servers that are down, too (to limit that: timeout "
        .. "300 redlock check --wait)",
        short = "-w" } } }

_M.help = [[
redlock check [--wait] [--json]

Asks each server how it is: version, role, age, clock, persistence, and whether it may vote; takes
and releases a lock there, and counts clients with other servers. A row per server with a verdict,
and below what to do about it.

FLAGS

Exit status: 0: all is well; 1: there are warnings; 2: something is wrong; 125: usage.

  redlock check || mail -s "lock servers" ops@example.org < /dev/null
  # the next one is restarted when this one votes again
  systemctl restart redis && redlock check --wait]]

local FAILED = 125

local STATUS = { ok = 0, warning = 1, error = 2 }

--- Runs the verb.
function _M.main(given, names)
    if #names > 0 then
        args.fail("check takes no names; of a lock there is: redlock status "
            .. args.words(names, 1))
    end
    local client = config.client(given)
    local found, err, signo
    if given["--wait"] then
        found, err, signo = stay.until_ready(client)
    else
        found, err = client:check()
    end
    client:close()
    if signo then
        return 128 + signo
    elseif not found then
        report.note(report.error(err))
        return FAILED
    end
    print(given["--json"] and json.encode { source = found.source, verdict = found.verdict,
        quorum = found.quorum, voting = found.voting, findings = found.findings,
        nodes = { unpack(found) } } or tostring(found))
    return STATUS[found.verdict]
end

return _M
