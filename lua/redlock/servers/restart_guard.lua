--- The restart guard's side of Lua: its key, its scripts, and init.
--
-- A server that lost its memory must not vote while a lock it forgot may be held. Each acquire
-- checks a marker in that memory (scripts/marker/check.lua) in the same atomic step; the core keeps
-- the quarantines and admits servers (scripts/marker/set.lua, guard.h).

local ffi = require "ffi"
local errors = require "redlock.runtime.errors"
local health = require "redlock.servers.health"
local markers = require "redlock.servers.markers"
local question = require "redlock.runtime.question"
local quorum = require("redlock.runtime.limits").quorum
local rounds = require "redlock.runtime.rounds"
local script_text = require "redlock.runtime.script_text"

local ipairs, tonumber = ipairs, tonumber
local min = math.min
local format, gsub, match = string.format, string.gsub, string.match
local concat, insert = table.concat, table.insert

local _M = {}

-- Of init, in seconds: how long it waits for servers to be observed for longer, or to answer; and
-- the pause between two looks.
local PATIENCE, PAUSE = 8, 0.2
local LATE = { timeout = true, pending = true }

local function in_one_line(name)
    return (gsub(gsub(script_text.own(name), "%-%-[^\n]*", ""), "%s+", " "))
end

local CHECK = in_one_line "marker.check"
local SHOW, SHOWN = match(in_one_line "marker.show", "^(.*)SCRIPT%(%)(.*)$")

-- Puts text before a script, in its first line, so that line numbers in error messages stay true.
local function put_before(text, script)
    local shebang, body = match(script, "^(#![^\n]*\n)(.*)$")
    return (shebang or "") .. text .. (body or script)
end

--- Has a script run only where the marker is the one sent.
function _M.wrap(script)
    return put_before(CHECK, script)
end

--- Has a script's answer show the marker unless it is the one sent. keeps: the script reads that
-- argument itself.
function _M.wrap_answer(script, keeps)
    return put_before((keeps and "local want = ARGV[#ARGV]" or "local want = table.remove(ARGV)")
        .. SHOW, script) .. "\n" .. SHOWN
end

--- Whether the guard is on: by the option, else with more than one server.
function _M.is_on(options)
    if options.restart_guard == "auto" then
        return #options.nodes > 1
    end
    return options.restart_guard
end

local function list(rows)
    local labels = {}
    for i, row in ipairs(rows) do
        labels[i] = row.node .. (row.message and format(" (%s)", row.message) or "")
    end
    return concat(labels, ", ")
end

-- Groups the rows: admitted; in quarantine by the letter in their marker: n, l, s, or young (not
-- begun, or not observed for long enough); disagrees, unknown, absent; off: up, without the guard.
-- gone: whether an absent one is not just late.
-- Second result: for how many seconds they were observed, as far as init needs it, all together.
local function sort_out(rows)
    local by = { admitted = {}, n = {}, l = {}, s = {}, young = {}, disagrees = {}, unknown = {},
        absent = {}, off = {} }
    local new, observed = tonumber(rounds.load().RL_NEW_MS) / 1000, 0
    for _, row in ipairs(rows) do
        local group = not row.ready and "absent" or row.guard ~= "guarded" and row.guard
            or row.memory or "young"
        local least = min(new, row.quarantine)
        group = group == "n" and row.observed < least and "young" or group
        insert(by[group], row)
        by.gone = by.gone or group == "absent" and not LATE[row.code]
        observed = observed + min(row.observed, least)
    end
    return by, observed
end

local function refusal(...)
    return errors.new("config", "init: " .. format(...))
end

-- Why servers must not be admitted: an error, or nil; and whether that may pass soon.
local function objection(by, rows, force)
    local function are(group)
        return #group == 1 and "is" or "are"
    end
    if #by.absent + #by.off == #rows then
        return errors.new("no_quorum", "init", health.complaints(rows))
    elseif force then
        return nil
    elseif #by.unknown + #by.disagrees > 0 then
        local row = by.unknown[1] or by.disagrees[1]
        return refusal("%s: %s", row.node, row.objection or "no answer about the marker"), false,
            #by.unknown == 0 and row.memory == "n"
    elseif #by.absent > 0 then
        return refusal("a new cluster is all up, but %s %s not", list(by.absent), are(by.absent)),
            not by.gone
    elseif #by.l + #by.s > 0 then
        local row = by.l[1] or by.s[1]
        return refusal("%s is not new: %s", row.node, row.objection)
    elseif #by.young > 0 then
        return refusal("%s must be observed for longer: %s", list(by.young),
            by.young[1].objection), true
    elseif #by.admitted > 0 and #by.n > 0 then
        return refusal("%s %s admitted already, so this cluster is not new. %s: %s",
            list(by.admitted), are(by.admitted), by.n[1].node, by.n[1].objection), true
    end
end

-- Asks the servers.
-- @return the rows of client:check(), and the time; or nil and an error
local function ask_servers(client)
    local looked, err = rounds.check(client)
    if not looked then
        return nil, err
    end
    return health.rows(client), client.now()
end

-- Why programs that are connected keep servers from being admitted: an error, or nil; and whether
-- that may pass: a server was only late to tell, or another init has admitted servers since.
local function beside(client, rows)
    local asked, info = {}, ffi.new "rl_node_info"
    for i, row in ipairs(rows) do
        asked[#asked + 1] = row.ready and { place = i, clients = true } or nil
    end
    rounds.load().rl_node_get_info(client.core, 0, info)
    local own = ffi.string(info.list)
    -- Programs that got votes; also all of other lists, as those without the guard do not say so.
    local function is_in_use(line)
        local voted, theirs = match(line, " addr=%S+:%d+ .* name=redlock([:!])(%x+) ")
        return voted == "!" or theirs and theirs ~= own
    end
    for k, said in ipairs(question.ask_each(client, asked)) do
        local place = asked[k].place
        if said.code then
            local late = LATE[said.code]
            return refusal("%s does not show who uses it (%s)%s", client.options.nodes[place].label,
                said.message or said.code, late and "" or ": allow CLIENT LIST to this user "
                .. "(+client|list)"), late
        end
        rounds.load().rl_node_get_info(client.core, place - 1, info)
        local n, text = question.count_connections(said.data, is_in_use, info.named)
        if n > 0 then
            local admitted = #sort_out(ask_servers(client) or {}).admitted
            return refusal("%s these servers: their programs may hold locks. Wait until the "
                .. "servers vote by themselves (redlock check --wait), or stop those programs",
                text), admitted > #sort_out(rows).admitted
        end
    end
end

-- Takes markers of another list away, by which nobody has voted: a first command had a mistake in
-- its list. Whoever has that list says so before these servers are admitted, 5 s later.
-- @return nil, or an error; and whether that may pass soon
local function take_over(client, rows)
    local err, late = beside(client, rows)
    local seen = not err and markers.ask(client) or {}
    for place, one in ipairs(seen) do
        if one.state == "n" and one.cluster ~= markers.word(client) then
            markers.write(client, place, one, "n", markers.word(client), markers.list(client))
        end
    end
    return err, not err or late
end

-- What keeps init from admitting now; see objection(). sent: it has admitted some before.
local function what_prevents(client, rows, by, force, sent)
    if #by.admitted == #rows or #by.off >= quorum(#rows)
        or force and #by.admitted + #by.absent == #rows and #by.admitted >= quorum(#rows) then
        return true
    end
    local err, passes, never = objection(by, rows, force)
    if never then
        err, passes = take_over(client, rows)
        return false, err or refusal("the servers had another list"), passes
    end
    if sent and #by.admitted > 0 and #by.n > 0 and passes then       -- a count came between
        err = nil
    end
    if not err and not sent then
        err, passes = beside(client, rows)
    end
    return false, err, passes
end

-- Why a client with a name may not force servers: programs with a name compare no lists, so if
-- these were admitted as more or fewer servers, two lists would have votes.
local function of_another_number(client)
    for place, seen in ipairs(client.options.cluster and markers.ask(client) or {}) do
        local _, n = gsub(seen.servers or "", "%S+", "")
        if n > 0 and n ~= client.size then
            return refusal("%s is one of %d servers ({%s}), and this client has %d: run redlock "
                .. "change", client.options.nodes[place].label, n, seen.servers, client.size)
        end
    end
end

--- See client:init. note: function(text), told why it waits; or nil.
function _M.init(client, force, note)
    local ends, most, sent, seen, told = 0, -1, false, nil, not note
    local other = force and of_another_number(client)
    if other then
        return nil, other
    end
    while true do
        local rows, now = ask_servers(client)
        if not rows then
            return nil, now
        end
        local by, observed = sort_out(rows)
        if observed > most then
            ends, most = client.now() + PATIENCE, observed
        end
        local done, err, passes = what_prevents(client, rows, by, force, sent)
        if done and client.guarded then
            rounds.teach(client)             -- of these, one may have been admitted without floors
            return rounds.check(client)      -- which it has when it answers
        elseif done then
            return true
        elseif err and (not passes or client.now() >= ends) or sent and client.now() >= ends then
            return nil, err or errors.new("no_quorum", "init", health.complaints(rows))
        elseif not err then
            -- A server that loses its memory after `seen` may forget a lock once others vote.
            if sent then
                rounds.sleep(client, PAUSE)
            end
            seen, sent = seen or now, true
            local ok, why = rounds.admit(client, force, seen)
            if not ok then
                return nil, why
            end
        else
            if not told then
                note "waiting 5 to 8 s for programs that know these servers to come back"
                told = true
            end
            rounds.sleep(client, PAUSE)
        end
    end
end

--- Seconds until a majority may vote, if only quarantines, clock steps or forgotten fencing tokens
-- prevent it; else nil.
function _M.left(client)
    local ms = tonumber(rounds.load().rl_guard_left_ms(client.core))
    return ms > 0 and ms / 1000 or nil
end

return _M
