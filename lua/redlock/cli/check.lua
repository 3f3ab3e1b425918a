--- redlock check: the state of the servers.
local args = require "redlock.cli.args"
local config = require "redlock.cli.config"
local json = require "redlock.text.json"
local report = require "redlock.cli.report"
local stay = require "redlock.cli.stay"

local _M = { usage = "check ", summary = "show the health of the servers, and remedies",
    flags = { { "--wait", nil, "wait until all servers vote and know the earlier fencing tokens, "
        .. "or until something is wrong that does not pass by itself. Servers that are down are "
        .. "waited for, too; to limit that: timeout 300 redlock check --wait. Clients must "
        .. "see a restarted server keep its memory for max_lease * 1.01 + 1 s before it votes. "
        .. "Only time with a client connected counts", short = "-w" } } }

_M.help = [[
redlock check [--wait] [--json]

Asks each server for its version, role, age, clock and persistence, and whether it may vote.
Acquires and releases a lock on each, and counts the clients that use another list of servers.
A server is "ok" only if all of that was seen; a lock that it grants too late, twice, is an error.
Prints a row with a verdict for each server, below them what to do, and a verdict on the whole.
While a server is restarted or replaced, only `redlock check --wait` with status 0 says that the
next one may follow. Status 1 does not: 2 of 3 servers may vote.

FLAGS

STATUSES

  redlock check || mail -s "lock servers" ops@example.org < /dev/null
  # restart a server, and wait until it votes again; only with status 0
  # restart the next
  systemctl restart redis && redlock check --wait]]

local STATUS = { ok = 0, warning = 1, error = 2 }

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
    end
    report.need(found, err)
    print(given["--json"] and json.encode { source = found.source, verdict = found.verdict,
        summary = found.summary, quorum = found.quorum, voting = found.voting,
        findings = found.findings, nodes = { unpack(found) } } or tostring(found))
    return STATUS[found.verdict]
end

return _M
