--- redlock ls: lists held locks and their holders.
local args = require "redlock.cli.args"
local config = require "redlock.cli.config"
local json = require "redlock.text.json"
local report = require "redlock.cli.report"
local terminal = require "redlock.cli.terminal"

local _M = { usage = "ls [PATTERN]", summary = "list the locks that are held, and their holders",
    flags = { { "--foreign", nil, "also list keys that other libraries may have written" } } }

_M.help = [[
redlock ls [PATTERN] [--foreign] [--json]

Lists the names under the prefix that are held on a majority of the servers. For each name it shows
  KIND      the kind of lock
  HOLDER    the holder's label; the number of readers or permits; how many arrivals a latch
            still misses
  LEFT      the time until the lock ends if nobody renews it
  WAITING   how many wait for it
  SINCE     how long ago it was acquired
  TOKEN     its fencing token
In a narrow terminal the holder has a line of its own. If that is not enough, redlock leaves out the
tokens, and then the middle of long names.

PATTERN is a pattern as in Redis (* ? [a-z]); without one, redlock lists all names. It reads the
names with SCAN, at most 100,000 keys a second from each server, and never with KEYS.

FLAGS

STATUSES

  redlock ls 'deploy:*']]

local function show(list)
    if #list > 0 then
        print(report.locks(list, terminal.width()))
    end
    if list.long > 0 then
        report.note(("%d names are not shown: they are over 1024 bytes long"):format(list.long))
    end
    if list.more then
        report.note("there are more: give a pattern")
    end
end

function _M.main(given, names)
    local pattern = args.pattern(names, "ls")
    local client = config.client(given)
    config.connect(client)
    local list = report.need(client:locks(pattern, { foreign = given["--foreign"] }))
    client:close()
    if given["--json"] then
        print(json.encode { locks = list[1] and list or {}, more = list.more == true,
            long = list.long })
    else
        show(list)
    end
    return 0
end

return _M
