--- redlock check: how the servers are.
local args = require "redlock.cli.args"
local config = require "redlock.cli.config"
local json = require "redlock.cli.json"
local report = require "redlock.cli.report"

local _M = { usage = "check ", summary = "how the servers are, and what to do about it",
    options = {} }

_M.help = [[
redlock check [--json]

Asks each server how it is: version, role, age, clock, persistence, and whether it may vote;
a row per server with a verdict, and below what to do about it.
Exit status: 0: all is well; 1: there are warnings; 2: something is wrong; 125: usage.

  redlock check || mail -s "lock servers" ops@example.org < /dev/null]]

local FAILED = 125

local STATUS = { ok = 0, warning = 1, error = 2 }

--- Does what the verb says.
-- @param given  the options
-- @param names  what else was given
-- @return the exit status
function _M.main(given, names)
    if #names > 0 then
        args.fail("check takes no names; of a lock there is: redlock status "
            .. args.words(names, 1))
    end
    local client = config.client(given)
    local found, err = client:check()
    client:close()
    if not found then
        report.note(report.error(err))
        return FAILED
    end
    print(given["--json"] and json.encode { verdict = found.verdict, quorum = found.quorum,
        voting = found.voting, findings = found.findings, nodes = { unpack(found) } }
        or tostring(found))
    return STATUS[found.verdict]
end

return _M
