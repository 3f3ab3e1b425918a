--- redlock init: lets the servers of a brand-new cluster vote.
local args = require "redlock.cli.args"
local config = require "redlock.cli.config"
local json = require "redlock.text.json"
local report = require "redlock.cli.report"
local stay = require "redlock.cli.stay"

local _M = { usage = "init ", summary = "let a brand-new set of servers vote at once",
    flags = {
        { "--force", nil, "admit every server that answers, without these checks, even with "
            .. "another max_lease. Only when nobody can hold a lock: stop all clients, and wait "
            .. "for the longest lease", short = "-f" },
        { "--wait", nil, "wait until all servers are up and vote, even if that takes a quarantine",
            short = "-w" } } }

_M.help = [[
redlock init [--force] [--wait]

Lets a brand-new set of servers vote at once. Without this command a new server first goes through
a quarantine of max_lease * 1.01 + 1 s, because a server without memory may have forgotten locks
that are still held.

All servers must be up, and none of them may have been admitted before. If all of them have been,
init changes nothing, but with --cluster it gives the servers that name.

FLAGS

STATUSES]]

local FAILED = 125

--- Runs the verb.
function _M.main(given, names)
    if #names > 0 then
        args.fail "init takes no names"
    end
    local client = config.client(given)
    local ok, err, signo
    local function init()
        ok, err = client:init { force = given["--force"] }
    end
    if given["--wait"] then
        local found, why
        found, why, signo = stay.until_all_vote(client, init)
        ok, err = found and found.voting == #found, why or err
    else
        init()
    end
    client:close()
    if signo then
        return 128 + signo
    elseif not ok then
        report.note(report.error(err))
        return FAILED
    end
    print(given["--json"] and json.encode { admitted = true } or "the servers may vote")
    return 0
end

return _M
