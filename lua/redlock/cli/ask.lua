--- redlock ask: asks whoever holds a name to let go of it.
local args = require "redlock.cli.args"
local config = require "redlock.cli.config"
local json = require "redlock.core.json"
local printable = require("redlock.core.printable").printable
local report = require "redlock.cli.report"
local requests = require "redlock.policy.requests"

local _M = { usage = "ask NAME --why TEXT", summary = "asks its holder to let go",
    flags = { { "--why", "TEXT", "what the holder is told, up to 160 bytes" } } }

_M.help = [[
redlock ask NAME [--why TEXT]

Asks whoever holds NAME to let go of it. Nothing is forced: holders are told who want to be asked
(lock:onAsked in a program, redlock run --on-ask), and do as they like. It does not wait for what
becomes of that; what nobody reads is gone after 30 s.

FLAGS

Exit status: 0: the holder was told, or will be with its next call; 1: nobody holds it; 2: the
holder does not listen, or has not read an earlier request yet; 125: no majority of the servers.

  redlock ask deploy:web --why "a fix waits" && redlock wait deploy:web --wait 60]]

local FREE, UNHEARD, FAILED = 1, 2, 125

local function show(name, holder)
    if not holder then
        print(name .. " is free")
        return
    end
    local who = holder.label or "its holder, who does not say who it is"
    if not holder.heard then
        print(("%s: nobody listens; held by %s"):format(name, who))
    elseif holder.before then
        print(("%s: an earlier request is still to be read by %s"):format(name, who))
    else
        print(("%s: asked %s"):format(name, who))
    end
end

--- Does what the verb says.
-- @param given  the options
-- @param names  the lock
-- @return the exit status
function _M.main(given, names)
    local name, why = args.name(names, "ask"), given["--why"]
    if why and (why == "" or #why > requests.MAX) then
        args.fail(("--why takes 1 to %d bytes"):format(requests.MAX))
    end
    local client = config.client(given)
    config.connect(client)
    local holder, err = client:ask(name, why)
    client:close()
    if holder == nil then
        report.note(report.error(err))
        return FAILED
    elseif given["--json"] then
        local of = holder or {}
        print(json.encode { name = name, held = holder ~= false, heard = of.heard,
            before = of.before, label = of.label, since = of.since, remaining = of.remaining })
    else
        show(printable(name), holder)
    end
    return not holder and FREE or holder.heard and not holder.before and 0 or UNHEARD
end

return _M
