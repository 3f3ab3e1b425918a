--- redlock status: the holder of a lock, as each server and their majority see it.
local answers = require "redlock.runtime.answers"
local args = require "redlock.cli.args"
local config = require "redlock.cli.config"
local detail = require "redlock.inspect.detail"
local question = require "redlock.runtime.question"
local health = require "redlock.servers.health"
local json = require "redlock.text.json"
local holders = require "redlock.inspect.holders"
local printable = require("redlock.text.encoding").printable
local limits = require "redlock.runtime.limits"
local report = require "redlock.cli.report"

local _M = { usage = "status NAME", summary = "show who holds NAME, for how long, server by server",
    flags = {} }

_M.help = [[
redlock status NAME [--json]

Shows whether NAME is held, by whom, and for how long unless it is renewed: as a majority of the
servers says, and as each server says. Once a majority agrees, the other servers get as long again,
at least 0.4 s; "no answer yet" does not mean that a server is down. Also shows, as a majority says,
the leader and its term, readers, permits, the arrivals that a latch lacks, the waiters in line for
a fair lock, and how many connections wait. Each hold has eight digits of its own; its holder's
label follows, if it has one.

STATUSES

  redlock status deploy:web || { test $? = 3 && echo "nobody deploys"; }]]

local FREE, FAILED = 3, 125

-- Whether a majority of the servers gave the same answer, or none can.
local function decided(said)
    local came = {}
    for _, answer in ipairs(said) do
        came[#came + 1] = answer or nil
    end
    return limits.majority(came, #said, function(answer)
        return answer.code or answer.vote .. answer.data
    end) ~= nil
end

-- Asks each server about the lock, and why it would give no vote for a new one.
-- @return the rows; and the places of servers without an answer yet: true
local function ask(client, name)
    local lock, asked, rows, silent = client:getLock(name), {}, {}, {}
    local prim = lock.primitive
    for place = 1, #client.options.nodes do
        asked[place] = { body = prim.peek_script, place = place, keys = prim.keys(client, name) }
    end
    for place, answer in ipairs(question.ask_until(client, asked, decided)) do
        local row = { node = client.options.nodes[place].label }
        rows[place] = row
        silent[place] = not answer
        if not answer then
            row.state, row.message = "pending", "no answer yet"
        elseif not answer.vote then
            row.state, row.message = answer.code, answer.message
        elseif answer.vote > 0 then
            local its = answers.card(client, answer.data, 40) or {}
            row.state, row.holder = "held", answer.data:sub(1, 8)
            row.label, row.since = its.label, its.since
            row.who = answer.data
            row.remaining = answer.info >= 0 and answer.info / 1000 or math.huge
        else
            row.state = "free"
        end
    end
    for place, row in ipairs(client.guarded and health.rows(client) or {}) do
        if row.ready and row.guard ~= "admitted" then
            rows[place].guard = row.guard
            rows[place].message = rows[place].message or row.guard .. ": " .. row.remedy
        end
    end
    return rows, silent
end

-- The view of the servers that may vote: held, remaining, holder; nil if no majority agrees.
local function summary(rows)
    local said = {}
    for _, row in ipairs(rows) do
        if not row.guard and (row.state == "held" or row.state == "free") then
            said[#said + 1] = { who = row.who, left = row.remaining }
        end
    end
    local held, who, remaining = holders.view(said, #rows)
    if held == nil then
        return nil
    end
    local its = {}
    for _, row in ipairs(rows) do
        its = row.who == who and row or its
    end
    return { held = held, holder = its.holder, label = its.label, since = its.since,
        remaining = remaining }
end

local function seconds(s, before)
    return s == math.huge and "without an end" or (before or "") .. ("%.1f s"):format(s)
end

-- A text with the digits of a hold, and the holder's label if it is known, after `space`.
local function named(text, row, space)
    return row.label and ("%s:%s%s, since %s"):format(text, space or " ", row.label,
        report.time(row.since)) or text
end

local function holder_of(row, space)
    return named("holder " .. printable(row.holder), row, space)
end

-- Prints details that a majority knows, such as a line for each reader.
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
    for i, n in ipairs { found.waiting or 0, found.waiting_for_permits or 0 } do
        lines[#lines + 1] = n > 0 and { "waiting", ("%d"):format(n),
            i == 1 and "connections" or "connections, for permits" } or nil
    end
    if lines[1] then
        print(report.columns(lines))
    end
end

-- Prints a line for each holder of the name.
local function show_holders(name, seen, found)
    local lines, readers, permits = {}, #found.readers, #found.permits
    if seen.held and (seen.label or ""):find "^closed by " then
        lines[1] = ("%s is held by nobody, and stays closed %s%s"):format(name,
            seconds(seen.remaining, "for "), named("", seen, "\n  "))
    elseif seen.held then
        local unless = seen.remaining < math.huge and " unless it is renewed" or ""
        lines[1] = ("%s is held, %s%s, by %s"):format(name, seconds(seen.remaining, "for "), unless,
            readers > 0 and report.count(readers, "reader")
            or holder_of(seen, "\n  "))
    end
    lines[#lines + 1] = report.leader(found.leader)
    lines[#lines + 1] = permits > 0 and ("%s: %s taken"):format(name, report.count(permits,
        "permit")) or nil
    lines[#lines + 1] = found.latch and ("%s is a latch: %d of %d have not arrived"):format(name,
        found.latch.missing, found.latch.count) or nil
    print(lines[1] and table.concat(lines, "\n") or name .. " is free")
end

-- Why nobody can say whether it is held.
local function undecided(rows)
    local n, kept = 0, false
    for _, row in ipairs(rows) do
        n, kept = n + (row.state == "not_a_lock" and 1 or 0), kept or row.guard
    end
    return n >= limits.quorum(#rows) and "its key is not a lock"
        or kept and "too few servers may vote to say whether it is held"
        or "no majority of the servers says whether it is held"
end

local function show_status(name, rows, seen, found)
    if seen then
        show_holders(report.name(name), seen, found)
    else
        report.note(undecided(rows))
    end
    local lines = {}
    for i, row in ipairs(rows) do
        -- The label of the majority's holder is above.
        local its = row.holder and { holder = row.holder, since = row.since,
            label = not (seen and seen.holder == row.holder) and row.label or nil }
        local said = { its and #found.readers == 0
            and seconds(row.remaining) .. "  " .. holder_of(its) or row.message }
        said[2] = said[1] ~= row.message and row.message or nil
        lines[i] = { row.node, row.state == "free" and found.busy and "answered"
            or row.state, table.concat(said, "; ") }
    end
    print(report.columns(lines) .. (seen and "" or report.remedies(rows)))
    show_detail(found)
end

local NOTHING = { readers = {}, permits = {}, queue = {} }

function _M.main(given, names)
    local name = args.name(names, "status")
    local client = config.client(given)
    config.connect(client)
    local rows, silent = ask(client, name)
    local found = detail.ask(client, name, silent)
    local seen, known = summary(rows), found or {}
    if seen and seen.held and found then
        found.leader = client:getElection(name, { id = "redlock status" }):leader() or nil
    end
    client:close()
    for _, row in ipairs(rows) do
        row.who = nil
    end
    local held = seen and (seen.held or known.busy == true)
    if seen and not held then
        report.no_pattern(name)
    end
    if given["--json"] then
        print(json.encode { name = name, held = held, answered = seen ~= nil,
            remaining = seen and seen.remaining, holder = seen and seen.holder,
            label = seen and seen.label, since = seen and seen.since, nodes = rows,
            leader = known.leader and known.leader.id and known.leader,
            readers = known.readers, permits = known.permits, latch = known.latch,
            queue = known.queue, waiting = known.waiting,
            waiting_for_permits = known.waiting_for_permits })
    else
        show_status(name, rows, seen, found or NOTHING)
    end
    return not seen and FAILED or held and 0 or FREE
end

return _M
