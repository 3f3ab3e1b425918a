--- redlock ls: lists held locks and their holders.
local args = require "redlock.cli.args"
local config = require "redlock.cli.config"
local json = require "redlock.runtime.json"
local report = require "redlock.cli.report"

local _M = { usage = "ls [PATTERN]", summary = "which locks are held, and by whom",
    flags = { { "--foreign", nil, "values that other libraries may have written, too" } } }

_M.help = [[
redlock ls [PATTERN] [--foreign] [--json]

Lists the names that a majority of the servers has below the prefix: what they are held as, for
how long unless that is renewed, how many wait, the fencing token, since when, and the holder's
label; of readers and permits how many there are. PATTERN is as of Redis (* ? [a-z]); without
one: all. Servers are asked by SCAN, for 100,000 keys a second at most, never by KEYS.

FLAGS

Exit status: 0: also when there are none; 125: too few servers tell.

  redlock ls 'deploy:*']]

local FAILED = 125

local function since(row)
    return row.holder and os.date("!%Y-%m-%dT%H:%M:%SZ", math.floor(row.holder.since)) or ""
end

local function show(list)
    local lines = { { "NAME", "KIND", "LEFT", "WAITING", "TOKEN", "SINCE", "HOLDER" } }
    for i, row in ipairs(list) do
        lines[i + 1] = { report.name(row.name), row.kind, ("%.1f s"):format(row.remaining),
            ("%d"):format(math.max(row.waiting, row.queue)),
            row.token and ("%.0f"):format(row.token) or "", since(row), report.holder(row) }
    end
    if #list > 0 then
        print(report.columns(lines))
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
