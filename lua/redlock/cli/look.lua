--- redlock status, unlock, check, init: what is, and what an operator does about it.

local args = require "redlock.cli.args"
local config = require "redlock.cli.config"
local json = require "redlock.cli.json"
local report = require "redlock.cli.report"
local quorum = require "redlock.core.quorum"
local rounds = require "redlock.core.rounds"
local printable = require("redlock.core.printable").printable

local _M = {}

local FAILED = 125

-- The options of the client of one node, to hear what each of them says.
local function only(client_options, i)
    local opts = {}
    for option, value in pairs(client_options) do
        opts[option] = value
    end
    opts.nodes = { client_options.nodes[i] }
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
            prim.args(lock))
    end
    client:close()
    local answer = answers and answers[1]
    if not answer then
        local said = err.nodes and err.nodes[1] or err
        row.state, row.message = said.code, said.message
    elseif answer.vote > 0 then
        row.state, row.holder = "held", answer.data:sub(1, 8)
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
    local q = quorum(#rows)
    local answered, held = 0, {}
    for _, row in ipairs(rows) do
        answered = answered + ((row.state == "held" or row.state == "free") and 1 or 0)
        if row.holder then
            held[row.holder] = held[row.holder] or {}
            table.insert(held[row.holder], row.remaining)
        end
    end
    for holder, times in pairs(held) do
        if #times >= q then
            table.sort(times, function(a, b) return a > b end)
            return { held = true, holder = holder, remaining = times[q] }
        end
    end
    return answered >= q and { held = false } or nil
end

local function seconds(s)
    return s == math.huge and "without an end" or ("%.1f s"):format(s)
end

local function show_status(name, rows, seen)
    if not seen then
        report.note("no majority of the servers says whether it is held")
    elseif seen.held then
        print(("%s is held, for %s unless it is renewed, by holder %s"):format(printable(name),
            seconds(seen.remaining), printable(seen.holder)))
    else
        print(printable(name) .. " is free")
    end
    local lines = {}
    for i, row in ipairs(rows) do
        local holder = row.holder and seconds(row.remaining) .. "  holder "
            .. printable(row.holder)
        lines[i] = { row.node, row.state, holder and row.message
            and holder .. "; " .. row.message or holder or row.message or "" }
    end
    print(report.columns(lines))
end

function _M.status(list)
    local given, names = args.parse(list, 2, {})
    if given["--help"] then
        return nil
    end
    local name = args.name(names, "status")
    local client = config.client(given)     -- complains about the whole before the parts
    local opts, rows = config.client_options(given), {}
    for i = 1, #opts.nodes do
        rows[i] = ask_node(only(opts, i), name)
    end
    tell_guarded(client, rows)
    client:close()
    local seen = summary(rows)
    if given["--json"] then
        print(json.encode { name = name, held = seen and seen.held, answered = seen ~= nil,
            remaining = seen and seen.remaining, holder = seen and seen.holder, nodes = rows })
    else
        show_status(name, rows, seen)
    end
    return not seen and FAILED or seen.held and 0 or 1
end

function _M.unlock(list)
    local given, names = args.parse(list, 2, { ["--force"] = "" })
    if given["--help"] then
        return nil
    end
    local name = args.name(names, "unlock")
    if not given["--force"] then
        args.fail("only a holder can let go of a lock; --force opens it for everybody, and "
            .. "whoever\nholds it may work on beside the next one: make sure that nobody does. "
            .. "Who is it?\n  redlock status " .. printable(name))
    end
    local client = config.client(given)
    local opened, err = client:getLock(name):forceUnlock()
    client:close()
    if opened == nil then
        report.note(report.error(err))
        return FAILED
    end
    if given["--json"] then
        print(json.encode { name = name, opened = opened })
    else
        print(printable(name) .. (opened and " is open now" or " was open already"))
    end
    return opened and 0 or 1
end

local STATUS = { ok = 0, warning = 1, error = 2 }

function _M.check(list)
    local given, names = args.parse(list, 2, {})
    if given["--help"] then
        return nil
    elseif #names > 0 then
        args.fail("check takes no names; of a lock there is: redlock status "
            .. args.words(names, 1))
    end
    local client = config.client(given)
    local found, err = client:check()
    client:close()
    if not found then
        report.note(report.error(err))
        return FAILED
    end
    print(given["--json"] and json.encode { verdict = found.verdict, quorum = found.quorum,
        voting = found.voting, findings = found.findings, nodes = { unpack(found) } }
        or tostring(found))
    return STATUS[found.verdict]
end

function _M.init(list)
    local given, names = args.parse(list, 2, { ["--force"] = "" })
    if given["--help"] then
        return nil
    elseif #names > 0 then
        args.fail "init takes no names"
    end
    local client = config.client(given)
    local ok, err = client:init { force = given["--force"] }
    client:close()
    if not ok then
        report.note(report.error(err))
        return FAILED
    end
    print(given["--json"] and json.encode { admitted = true } or "the servers may vote")
    return 0
end

return _M
