--- redlock unlock: deletes a lock, whoever holds it.
local args = require "redlock.cli.args"
local config = require "redlock.cli.config"
local json = require "redlock.runtime.json"
local report = require "redlock.cli.report"
local semaphore = require "redlock.kinds.semaphore"

local _M = { usage = "unlock --force NAME", summary = "release NAME, whoever holds it",
    flags = { { "--force", nil, "whoever holds it", short = "-f" } } }

_M.help = [[
redlock unlock --force NAME

Opens a lock whoever holds it, for locks that nobody will open: of a machine that is gone, or
of a program that hangs. (Without it they open by themselves at the end of the lease, unless
somebody renews them.) The holder, if there is one, learns of it when it renews the lock, and
may work on until then beside the next one. Readers and all permits of that name are let go, too,
and a latch of that name is deleted.

FLAGS

Exit status: 0: it is open now; 1: it was open already; 125: no majority of the servers.

  redlock status deploy:web && redlock unlock --force deploy:web]]

local FAILED = 125

--- Runs the verb.
function _M.main(given, names)
    local name = args.name(names, "unlock")
    if not given["--force"] then
        args.fail("only a holder can let go of a lock; --force opens it for everybody, and "
            .. "whoever\nholds it may work on beside the next one: make sure that nobody does. "
            .. "Who is it?\n  redlock status " .. report.name(name))
    end
    local client = config.client(given)
    config.connect(client)           -- to reach all servers, not just a majority
    local opened, err = client:getLock(name):forceUnlock()
    if opened ~= nil then
        local permits, latch = semaphore.open(client, name), client:getCountDownLatch(name):delete()
        opened = opened or permits or latch or false
    end
    client:close()
    if opened == nil then
        report.note(report.error(err))
        return FAILED
    end
    if given["--json"] then
        print(json.encode { name = name, opened = opened })
    else
        print(report.name(name) .. (opened and " is open now" or " was open already"))
    end
    return opened and 0 or 1
end

return _M
