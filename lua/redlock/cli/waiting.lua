--- Messages of a command that waits for a name: after a while it names the holder; at once it fails
-- if an enclosing `redlock` holds the name, as that wait would never end.

local args = require "redlock.cli.args"
local hash = require("redlock.text.encoding").hash
local process = require "redlock.cli.process"
local report = require "redlock.cli.report"
local restart_guard = require "redlock.servers.restart_guard"

local _M = {}

-- For nested commands: a line for each name that enclosing ones hold: the process id of the holder,
-- and the text from line().
local HELD = "REDLOCK_HELD"

-- Identifies a name: servers and prefix, whether readers are admitted, and the name.
local function line(client, name, shared)
    local o, labels = client.options, {}
    for i = 1, client.size do
        labels[i] = client.options.nodes[i].label
    end
    table.sort(labels)
    return ("%08x %s %s\n"):format(hash(o.prefix .. (o.cluster or table.concat(labels, " "))),
        shared and "r" or "x", name)
end

--- The value of REDLOCK_HELD for a command under these names. shared: whether held as a reader.
function _M.around(client, names, shared)
    local list = { os.getenv(HELD) or "" }
    for _, name in ipairs(names) do
        list[#list + 1] = process.id() .. " " .. line(client, name, shared)
    end
    return table.concat(list)
end

--- Fails if an enclosing `redlock` holds one of the names that are to be acquired.
function _M.check(client, names, shared)
    for pid, held in (os.getenv(HELD) or ""):gmatch "(%d+) ([^\n]*\n)" do
        for _, name in ipairs(names) do
            if (held == line(client, name) or not shared and held == line(client, name, true))
                and process.is_below(tonumber(pid)) then       -- a daemon may outlive it
                args.fail(("deadlock: the redlock around this one holds '%s' until its command "
                    .. "ends"):format(report.name(name)))
            end
        end
    end
end

--- Reports what the command waits for. name: nil if no holder can be named; refusal({ label }, or
-- nil): the text for people.
function _M.say(client, name, refusal)
    local left = restart_guard.left(client)
    if left then
        report.note(("waiting until enough servers vote, %.0f s"):format(math.ceil(left)))
        return
    end
    local found, err = client:check()
    local votes = found and found.voting >= found.quorum
    local holder = votes and name and client:holder(name)
    if not err and not holder and (name or not votes) then        -- nobody has it
        for _, row in ipairs(found) do
            err = err or row.remedy
            if row.remedy then
                report.note("waiting: ", row.node, ": ", row.remedy)
            end
        end
    end
    if not err and (holder or not name) then     -- else the wait fails with it, or continues
        report.note("waiting: ", refusal(holder and holder.label and holder or nil))
    end
end

return _M
