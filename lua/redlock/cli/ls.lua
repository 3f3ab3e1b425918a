--- redlock ls: lists held locks and their holders.
local args = require "redlock.cli.args"
local config = require "redlock.cli.config"
local json = require "redlock.runtime.json"
local report = require "redlock.cli.report"
local terminal = require "redlock.cli.terminal"

local _M = { usage = "ls [PATTERN]", summary = "list the locks that are held, and their holders",
    flags = { { "--foreign", nil, "values that other libraries may have written, too" } } }

_M.help = [[
redlock ls [PATTERN] [--foreign] [--json]

Lists the names that a majority of the servers has below the prefix: what they are held as, the
holder's label, or of readers and permits how many there are; for how long unless that is renewed,
how many wait, since when, and the fencing token. A narrow terminal shows no tokens, and cuts the
middle out of long names. PATTERN is as of Redis (* ? [a-z]); without one: all. Servers are asked by
SCAN, for 100,000 keys a second at most, never by KEYS.

FLAGS

Exit status: 0: also when there are none; 125: too few servers tell.

  redlock ls 'deploy:*']]

local FAILED = 125

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

--- Runs the verb.
function _M.main(given, names)
    if #names > 1 then
        args.fail("only one pattern is wanted, in quotes: redlock ls 'deploy:*'")
    end
    local client = config.client(given)
    config.connect(client)
    local list, err = client:locks(names[1], { foreign = given["--foreign"] })
    client:close()
    if not list then
        report.note(report.error(err))
        return FAILED
    elseif given["--json"] then
        print(json.encode { locks = list[1] and list or {}, more = list.more == true,
            long = list.long })
    else
        show(list)
    end
    return 0
end

return _M
