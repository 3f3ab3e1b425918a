--- redlock unlock: deletes a lock, whoever holds it.
local args = require "redlock.cli.args"
local config = require "redlock.cli.config"
local json = require "redlock.text.json"
local report = require "redlock.cli.report"
local semaphore = require "redlock.kinds.semaphore"

local _M = { usage = "unlock --force NAME", summary = "release NAME, whoever holds it",
    flags = { { "--force", nil, "required: release it, whoever holds it", short = "-f" },
        { "--holder", "ID", "only if ID holds it: the digits that redlock status shows" },
        { "--foreign", nil, "also what other libraries may have written, as in redlock ls" } } }

_M.help = [[
redlock unlock --force NAME [--holder ID] [--foreign]

Releases a lock, whoever holds it. Use it when the holder's machine is gone, or its program hangs.
If nobody renews a lock, it also ends by itself with its lease.

A holder that still runs learns of this only at its next renewal. Until then it may work at the same
time as the next holder. The command also releases all readers and permits of NAME, and without
--holder deletes a latch of that name. Each server tells what it has, and removes only that. A key
that is not a lock of redlock stays.

FLAGS

STATUSES

  redlock status deploy:web                  # held by holder 59eca9ec
  redlock unlock --force --holder 59eca9ec deploy:web]]

local FREE = 3

function _M.main(given, names)
    local name = args.name(names, "unlock")
    if not given["--force"] then
        args.fail("unlock needs --force, as it releases the lock of another holder, which may "
            .. "still work\nwhile the next one does. First find out who it is, and make sure that "
            .. "it has stopped:\n  redlock status " .. report.name(name))
    end
    local client, holder = config.client(given), given["--holder"]
    local opts = { holder = holder, foreign = given["--foreign"] }
    config.connect(client)           -- to reach all servers, not just a majority
    local opened = report.need(client:getLock(name):forceUnlock(opts))
    local permits = semaphore.open(client, name, opts)
    opened = opened or permits or not holder and client:getCountDownLatch(name):delete() or false
    client:close()
    if not opened then
        report.no_pattern(name)
    end
    if given["--json"] then
        print(json.encode { name = name, opened = opened })
    else
        local says = opened and " is open now" or " was open already"
        if holder then
            says = (opened and " is no longer held by " or " was not held by ") .. holder
        end
        print(report.name(name) .. says)
    end
    return opened and 0 or FREE
end

return _M
