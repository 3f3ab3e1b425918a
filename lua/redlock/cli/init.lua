--- redlock init: lets the servers of a brand-new cluster vote.
local args = require "redlock.cli.args"
local config = require "redlock.cli.config"
local json = require "redlock.runtime.json"
local report = require "redlock.cli.report"
local stay = require "redlock.cli.stay"

local _M = { usage = "init ", summary = "let a brand-new set of servers vote at once",
    flags = {
        { "--force", nil, "admits the servers that answer, whatever they say, also for another "
            .. "max_lease. Only when nobody can hold a lock: stop all clients, and wait for the "
            .. "longest lease", short = "-f" },
        { "--wait", nil, "until all servers are up and vote, also where they have to be in use for "
            .. "a while", short = "-w" } } }

_M.help = [[
redlock init [--force] [--wait]

Lets a brand-new set of servers vote at once. Otherwise they do so when they have been in use
for a while (max_lease * 1.01 + 1 s): a server without memory may have forgotten locks that are
still held. All servers must be up, and none in use already (if all are, nothing is done).

FLAGS

Exit status: 0: they may vote; 125: not done, and why.]]

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
