--- redlock status: who holds a lock, as each server and their majority see it.
local args = require "redlock.cli.args"
local card = require "redlock.core.card"
local config = require "redlock.cli.config"
local detail = require "redlock.policy.detail"
local json = require "redlock.core.json"
local peek = require "redlock.policy.peek"
local printable = require("redlock.core.printable").printable
local report = require "redlock.cli.report"
local rounds = require "redlock.core.rounds"

local _M = { usage = "status NAME", summary = "who holds it, for how long, server by server",
    flags = {} }

_M.help = [[
redlock status NAME [--json]

Says whether NAME is held, by whom, for how long unless it is renewed, and what each server
knows of it; who reads, who has permits of that name, who stands in line for it as a fair lock,
as a majority says, and how many connections wait. Each hold has eight digits of its own, and its
holder's label if that has one. Readers hold it; permits do not.
Exit status: 0: it is held; 1: it is free; 125: no majority of the servers says so.

  redlock status deploy:web || echo "nobody deploys"]]

local FAILED = 125

-- The options of the client of one node, to hear what each of them says.
local function only(client_options, i)
    local opts = {}
    for option, value in pairs(client_options) do
        opts[option] = value
    end
    opts.nodes, opts.restart_guard = { client_options.nodes[i] }, "ignore"     -- one of many
    return opts
end

-- What one node says of a lock.
local function ask_node(opts, name)
    local client = require("redlock").new(opts)
    local lock = client:getLock(name)
    local row = { node = client.options.nodes[1].label }
    local ok, err = client:open()
    local answers
    if ok then
        local prim = lock.primitive
        answers, err = rounds.ask(client, lock, prim, "peek", prim.keys(client, name),
            prim.args(lock, { n = 0 }))
    end
    client:close()
    local answer = answers and answers[1]
    if not answer then
        local said = err.nodes and err.nodes[1] or err
        row.state, row.message = said.code, said.message
    elseif answer.vote > 0 then
        local its = card.behind(answer.data, 40) or {}
        row.state, row.holder = "held", answer.data:sub(1, 8)
        row.label, row.since = its.label, its.since
        row.who = answer.data
        row.remaining = answer.info >= 0 and answer.info / 1000 or math.huge
    else
        row.state = "free"
    end
    return row
end

-- Adds why nodes would give no vote for a new lock, though they answer.
local function tell_guarded(client, rows)
    local found = client.guarded and client:check() or {}
    for i, row in ipairs(found) do
        if row.guard == "guarded" or row.guard == "disagrees" then
            rows[i].guard, rows[i].message = row.guard, rows[i].message
                or row.guard .. ": " .. row.remedy
        end
    end
end

-- The majority's view of the rows: held, remaining, holder; or nil: there is none.
local function summary(rows)
    local said = {}
    for _, row in ipairs(rows) do
        if row.state == "held" or row.state == "free" then
            said[#said + 1] = { who = row.who, left = row.remaining }
        end
    end
    local held, who, remaining = peek.view(said, #rows)
    if held == nil then
        return nil
    end
    local its = held and card.behind(who, 40) or {}
    return { held = held, holder = held and who:sub(1, 8) or nil, label = its.label,
        since = its.since, remaining = remaining }
end

local function seconds(s)
    return s == math.huge and "without an end" or ("%.1f s"):format(s)
end

-- Who that is, if it is known, behind a word and the digits of a hold.
local function named(text, row)
    return row.label and ("%s: %s, since %s"):format(text, row.label,
        os.date("!%Y-%m-%dT%H:%M:%SZ", math.floor(row.since))) or text
end

local function holder_of(row)
    return named("holder " .. printable(row.holder), row)
end

-- What a majority knows besides: a line for each reader and so on.
local function show_detail(found)
    local lines = {}
    for _, row in ipairs(found.readers) do
        lines[#lines + 1] = { "reader", seconds(row.remaining), named("holder " .. row.hold, row) }
    end
    for _, row in ipairs(found.permits) do
        lines[#lines + 1] = { ("permit %d"):format(row.slot), seconds(row.remaining),
            named("holder " .. row.hold, row) }
    end
    for i, row in ipairs(found.queue) do
        lines[#lines + 1] = { "in line", ("%d."):format(i), named("a waiter", row) }
    end
    for i, n in ipairs { found.waiting, found.waiting_for_permits } do
        lines[#lines + 1] = n > 0 and { "waiting", ("%d"):format(n),
            i == 1 and "connections" or "connections, for permits" } or nil
    end
    if lines[1] then
        print(report.columns(lines))
    end
end

local function show_status(name, rows, seen)
    if not seen then
        report.note("no majority of the servers says whether it is held")
    elseif seen.held then
        print(("%s is held, for %s unless it is renewed, by %s"):format(printable(name),
            seconds(seen.remaining), holder_of(seen)))
    else
        print(printable(name) .. " is free")
    end
    local lines = {}
    for i, row in ipairs(rows) do
        local holder = row.holder and seconds(row.remaining) .. "  " .. holder_of(row)
        lines[i] = { row.node, row.state, holder and row.message
            and holder .. "; " .. row.message or holder or row.message or "" }
    end
    print(report.columns(lines))
end

--- Does what the verb says.
-- @param given  the options
-- @param names  what else was given
-- @return the exit status
function _M.main(given, names)
    local name = args.name(names, "status")
    local client = config.client(given)     -- complains about the whole before the parts
    local opts, rows = config.client_options(given), {}
    for i = 1, #opts.nodes do
        rows[i] = ask_node(only(opts, i), name)
    end
    tell_guarded(client, rows)
    local found = client:open() and detail.of(client, name)
    client:close()
    local seen = summary(rows)
    for _, row in ipairs(rows) do
        row.who = nil
    end
    if given["--json"] then
        print(json.encode { name = name, held = seen and seen.held, answered = seen ~= nil,
            remaining = seen and seen.remaining, holder = seen and seen.holder,
            label = seen and seen.label, since = seen and seen.since, nodes = rows,
            readers = found and found.readers, permits = found and found.permits,
            queue = found and found.queue, waiting = found and found.waiting,
            waiting_for_permits = found and found.waiting_for_permits })
    else
        show_status(name, rows, seen)
        if found then
            show_detail(found)
        end
    end
    return not seen and FAILED or seen.held and 0 or 1
end

return _M
