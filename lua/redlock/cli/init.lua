--- redlock init: lets the servers of a brand-new cluster vote.
local args = require "redlock.cli.args"
local config = require "redlock.cli.config"
local json = require "redlock.text.json"
local report = require "redlock.cli.report"
local restart_guard = require "redlock.servers.restart_guard"

local _M = { usage = "init ", summary = "let a brand-new set of servers vote at once",
    flags = {
        { "--force", nil, "admit every server that answers, also used ones, and with another "
            .. "max_lease. Only when nobody can hold a lock: stop all clients, and wait for the "
            .. "longest lease. Refused while programs that got votes are connected",
            short = "-f" } } }

_M.help = [[
redlock init [--force]

Lets a brand-new set of servers vote at once. Without this command a new server first goes through
a quarantine of max_lease * 1.01 + 1 s, because a server without memory may have forgotten locks
that are still held. init takes 5 to 8 s, in which programs that knew these servers can say so.

All servers must be up and new, and no program that got votes from them may be connected. init
cannot know about programs that are cut off or paused: run it only for servers that were never used.
If all servers vote already, it only teaches fencing tokens to those that know none.

FLAGS

STATUSES]]

function _M.main(given, names)
    if #names > 0 then
        args.fail "init takes no names"
    end
    local client = config.client(given)
    report.need(client:open())
    report.need(restart_guard.init(client, given["--force"], report.note))
    local found = report.need(client:check())
    client:close()
    if found.voting < #found and not given["--force"] then
        args.fail("the servers are admitted, but:\n" .. tostring(found))
    end
    print(given["--json"] and json.encode { admitted = true } or "the servers may vote")
    return 0
end

return _M
