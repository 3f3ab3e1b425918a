--- redlock unlock: deletes a lock, whoever holds it.
local args = require "redlock.cli.args"
local config = require "redlock.cli.config"
local json = require "redlock.text.json"
local report = require "redlock.cli.report"
local semaphore = require "redlock.kinds.semaphore"

local _M = { usage = "unlock --force NAME", summary = "release NAME, whoever holds it",
    flags = { { "--force", nil, "required: release it, whoever holds it", short = "-f" } } }

_M.help = [[
redlock unlock --force NAME

Releases a lock, whoever holds it. Use it when the holder's machine is gone, or its program hangs.
If nobody renews a lock, it also ends by itself with its lease.

A holder that still runs learns of this only at its next renewal. Until then it may work at the same
time as the next holder. The command also releases all readers and permits of NAME, and deletes a
latch of that name. It never deletes a key that holds something else than a lock.

FLAGS

STATUSES

  redlock status deploy:web && redlock unlock --force deploy:web]]

local FREE = 3

function _M.main(given, names)
    local name = args.name(names, "unlock")
    if not given["--force"] then
        args.fail("unlock needs --force, as it releases the lock of another holder, which may "
            .. "still work\nwhile the next one does. First find out who it is, and make sure that "
            .. "it has stopped:\n  redlock status " .. report.name(name))
    end
    local client = config.client(given)
    config.connect(client)           -- to reach all servers, not just a majority
    local opened = report.need(client:getLock(name):forceUnlock())
    local permits, latch = semaphore.open(client, name), client:getCountDownLatch(name):delete()
    opened = opened or permits or latch or false
    client:close()
    if not opened then
        report.no_pattern(name)
    end
    if given["--json"] then
        print(json.encode { name = name, opened = opened })
    else
        print(report.name(name) .. (opened and " is open now" or " was open already"))
    end
    return opened and 0 or FREE
end

return _M
