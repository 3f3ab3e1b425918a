--- redlock history: what became of locks, from a file of events.
local args = require "redlock.cli.args"
local card = require "redlock.core.card"
local config = require "redlock.cli.config"
local history = require "redlock.policy.history"
local json = require "redlock.core.json"
local printable = require("redlock.core.printable").printable
local report = require "redlock.cli.report"

local _M = { usage = "history [FILE]", summary = "what became of locks, from a file of events",
    flags = {} }

_M.help = [[
redlock history [FILE] [--json]

Prints who has taken each lock, when, for how long, and whether it was released or lost, as written
to FILE by programs with the option `history = FILE` (redlock run --history FILE, or in the
configuration, whose file it is without FILE). Who only looks (redlock ls, status) writes nothing
of locks.

Exit status: 0; 125: the file cannot be read.

  redlock run deploy:web --history /var/log/locks -- ./deploy; redlock history /var/log/locks]]

local FAILED = 125

local function text(value)
    return type(value) == "string" and card.clean(value) or "?"
end

-- How it was, in words.
local function detail(e)
    if e.what == "taken" then
        return e.waited and e.waited >= 0.05 and ("after %.1f s"):format(e.waited) or ""
    end
    local held = e.held and ("held for %.1f s"):format(e.held) or ""
    if e.what == "lost" then
        return held .. ": " .. text(e.reason) .. (e.by and " by " .. text(e.by) or "")
    end
    return held .. (e.code and ": " .. text(e.code) or "")
end

local function show(list)
    for _, one in ipairs(list) do
        local lines = {}
        for i, e in ipairs(one.events) do
            lines[i] = { os.date("!%Y-%m-%dT%H:%M:%SZ", math.floor(e.at)), e.what, text(e.who),
                detail(e) }
        end
        print(printable(one.name))
        print(report.columns(lines))
    end
end

--- Does what the verb says.
-- @param given  the options
-- @param names  the file
-- @return the exit status
function _M.main(given, names)
    if #names > 1 then
        args.fail("history takes only one file: " .. args.words(names, 1))
    end
    local path = names[1] or given["--history"] or config.client_options(given).history
    if not path then
        args.fail("which file? Name the one that programs write to by their option `history`")
    end
    local file, why = io.open(path)
    local head = file and file:read(0)
    if not file or not head and file:seek "end" ~= 0 then
        report.note("the history cannot be read: ", why or path)
        return FAILED
    end
    local list, strange = history.read(file:lines())
    file:close()
    if strange > 0 then
        report.note(("%d lines of it are no events"):format(strange))
    end
    if given["--json"] then
        print(json.encode { names = list })
    else
        show(list)
    end
    return 0
end

return _M
