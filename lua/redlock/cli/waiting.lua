--- What a command that waits for a name says: at once, if it would wait for ever, as a `redlock`
-- around it holds that name; else after a while, who holds it.

local args = require "redlock.cli.args"
local hash = require("redlock.runtime.encoding").hash
local process = require "redlock.cli.process"
local report = require "redlock.cli.report"
local restart_guard = require "redlock.servers.restart_guard"

local _M = {}

-- For nested commands: a line for each name that is held around them: the number of the process
-- that holds it, and what line() says.
local HELD = "REDLOCK_HELD"

-- Which servers and prefix, whether readers are let in, and the name.
local function line(client, name, shared)
    local o, labels = client.options, {}
    for i = 1, client.size do
        labels[i] = client.options.nodes[i].label
    end
    table.sort(labels)
    return ("%08x %s %s\n"):format(hash(o.prefix .. (o.cluster or table.concat(labels, " "))),
        shared and "r" or "x", name)
end

--- What a command finds in its environment as REDLOCK_HELD.
-- @param client  of the servers
-- @param names   that are held while it runs
-- @param shared  whether as a reader
-- @return the text
function _M.around(client, names, shared)
    local list = { os.getenv(HELD) or "" }
    for _, name in ipairs(names) do
        list[#list + 1] = process.id() .. " " .. line(client, name, shared)
    end
    return table.concat(list)
end

--- Fails if what a `redlock` around this one holds is to be waited for.
-- @param client  of the servers
-- @param names   that are wanted
-- @param shared  whether as a reader
function _M.check(client, names, shared)
    for pid, held in (os.getenv(HELD) or ""):gmatch "(%d+) ([^\n]*\n)" do
        for _, name in ipairs(names) do
            if (held == line(client, name) or not shared and held == line(client, name, true))
                and process.is_below(tonumber(pid)) then       -- a daemon may have outlived it
                args.fail(("deadlock: the redlock around this one holds '%s' until its command "
                    .. "ends"):format(report.name(name)))
            end
        end
    end
end

--- Says what is waited for.
-- @param client   of the servers
-- @param name     that is waited for; nil: nobody can be named
-- @param refusal  function(holder): the text for people; holder: { label }, or nil
function _M.say(client, name, refusal)
    local left = restart_guard.left(client)
    if left then
        report.note(("waiting until enough servers vote, %.0f s; new cluster? run redlock init")
            :format(math.ceil(left)))
        return
    end
    local holder, err
    if name then
        holder, err = client:holder(name)
    end
    if not err then           -- else the wait itself will end with it
        report.note("waiting: ", refusal(holder and holder.label and holder or nil))
    end
end

return _M
