--- redlock seal: a server that is about to be restarted.
local args = require "redlock.cli.args"
local config = require "redlock.cli.config"
local json = require "redlock.core.json"
local report = require "redlock.cli.report"

local _M = { usage = "seal SERVER", summary = "before it is restarted: it votes at once then",
    flags = {} }

_M.help = [[
redlock seal SERVER

Before a planned restart of one server, as redlock check names it. It gives no votes from now on;
when it comes back with all that it had (appendonly yes, or a dump that SHUTDOWN wrote), it votes
again at once, instead of after max_lease * 1.01 + 1 s. A majority of the other servers must
vote, now and when it comes back. What comes back without the seal, or a second time with it (a
restored copy), waits as usual. Only a restart ends a seal.
Exit status: 0: restart it now; 125: not sealed, and why.

  for s in 10.0.0.1 10.0.0.2 10.0.0.3; do
    redlock seal $s:6379 && ssh $s systemctl restart redis && redlock check --wait || break
  done]]

local FAILED = 125

--- Does what the verb says.
-- @param given  the options
-- @param names  the server
-- @return the exit status
function _M.main(given, names)
    if #names ~= 1 then
        args.fail "seal needs the name of one server, as redlock check shows it"
    end
    local client = config.client(given)
    local ok, err = client:seal(names[1])
    client:close()
    if not ok then
        report.note(report.error(err))
        return FAILED
    end
    print(given["--json"] and json.encode { sealed = true } or "sealed: restart it now")
    return 0
end

return _M
