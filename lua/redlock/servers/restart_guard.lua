--- The restart guard's side of Lua: its key, its scripts, and init.
--
-- A server that lost its memory must not vote while a lock it forgot may be held. Each acquire
-- checks a marker in that memory (scripts/marker/check.lua) in the same atomic step; the core keeps
-- the quarantines and admits servers (scripts/marker/set.lua, guard.h).

local errors = require "redlock.runtime.errors"
local health = require "redlock.servers.health"
local quorum = require("redlock.runtime.limits").quorum
local rounds = require "redlock.runtime.rounds"
local script_text = require "redlock.runtime.script_text"

local ipairs, tonumber = ipairs, tonumber
local format, match, gsub, concat = string.format, string.match, string.gsub, table.concat

local _M = {}

--- The key of a server's marker. Keys that belong to no lock are redlock:{server}:<kind>.
_M.KEY = "redlock:{server}:marker"

local ATTEMPTS = 3            -- of init: other clients may set markers at the same time

-- In one line.
local CHECK = gsub(gsub(script_text.read "redlock.scripts.marker.check", "%-%-[^\n]*", ""), "%s+",
    " ")
local SET = script_text.read "redlock.scripts.marker.set"   -- kept here: the core only points to it

--- Puts the marker's check before an acquire script, in its first line, so that line numbers in
-- error messages stay true.
function _M.wrap(script)
    local shebang, body = match(script, "^(#![^\n]*\n)(.*)$")
    return (shebang or "") .. CHECK .. (body or script)
end

--- Whether the guard is on: by the option, else with more than one server.
function _M.is_on(options)
    if options.restart_guard == "auto" then
        return #options.nodes > 1
    end
    return options.restart_guard
end

--- Sets the guard's fields of rl_options.
function _M.configure(settings, options)
    settings.unguarded = _M.is_on(options) and 0 or 1
    settings.marker, settings.marker_script = _M.KEY, SET    -- off: it looks for others' markers
    settings.behind_proxy = options.behind_proxy and 1 or 0
end

local function list(rows)
    local labels = {}
    for i, row in ipairs(rows) do
        labels[i] = row.node .. (row.message and format(" (%s)", row.message) or "")
    end
    return concat(labels, ", ")
end

-- Groups the rows: admitted, guarded, disagrees, unknown, absent.
local function sort_out(rows)
    local by = { admitted = {}, guarded = {}, disagrees = {}, unknown = {}, absent = {} }
    by.unverified = by.admitted
    for _, row in ipairs(rows) do
        local kind = row.ready and by[row.guard] or by.absent
        kind[#kind + 1] = row
    end
    return by
end

local HOW = " redlock init --force admits what is there at once; only when nobody can hold a lock"

-- Why servers must not be admitted at once: an error, or nil. Where all are admitted they may get
-- a name.
local function objection(by, rows)
    local text
    if #by.absent == #rows then
        return errors.new("no_quorum", "init", health.complaints(rows))
    elseif #by.unknown > 0 then
        return errors.new("config", format("init: %s: %s", list(by.unknown),
            by.unknown[1].remedy or "no answer about the marker"))
    elseif #by.disagrees > 0 then
        text = format("init: %s: %s.", by.disagrees[1].node, by.disagrees[1].why)
    elseif #by.absent > 0 then
        text = format("init: a new cluster is all up, but %s %s not.", list(by.absent),
            #by.absent == 1 and "is" or "are")
    elseif #by.admitted > 0 and #by.guarded > 0 then
        text = format("init: %s %s admitted already, so this cluster is not new; %s will be "
            .. "after its quarantine, by whoever uses it.", list(by.admitted),
            #by.admitted == 1 and "is" or "are", list(by.guarded))
    end
    return text and errors.new("config", text .. HOW)
end

local function no_quorum(rows)
    return nil, errors.new("no_quorum", "init", health.complaints(rows))
end

-- With the guard off: whether a majority is up.
local function are_up(rows)
    local up = 0
    for _, row in ipairs(rows) do
        up = up + (row.ready and 1 or 0)
    end
    return up >= quorum(#rows)
end

-- Whether servers know the cluster by a hash of its addresses although it has a name now.
local function is_unnamed(client, rows)
    local name = client.options.cluster
    for _, row in ipairs(rows) do
        if name and row.cluster ~= name then
            return true
        end
    end
    return false
end

-- Asks the servers.
-- @return the rows of client:check(), and the time; or nil and an error
local function look(client)
    local looked, err = rounds.check(client)
    if not looked then
        return nil, err
    end
    return health.rows(client), client.now()
end

--- See client:init.
function _M.init(client, force)
    -- A server that loses its memory after `seen` may forget a lock, once others are admitted.
    local rows, seen = look(client)
    if not rows then
        return nil, seen
    end
    if not client.guarded then
        if are_up(rows) then
            return true
        end
        return no_quorum(rows)
    end
    local by = sort_out(rows)
    if #by.guarded > 0 then       -- a quarantine begins once a majority was heard: look again
        rows, seen = look(client)
        if not rows then
            return nil, seen
        end
        by = sort_out(rows)
    end
    if #by.admitted == #rows and not is_unnamed(client, by.admitted) then
        return true
    end
    local err = not force and objection(by, rows)
    if err then
        return nil, err
    end
    for _ = 1, ATTEMPTS do
        local ok
        ok, err = rounds.admit(client, force, seen)
        if not ok then
            return nil, err
        end
        by = sort_out(health.rows(client))
        if #by.guarded == 0 and #by.disagrees == 0 and #by.admitted >= quorum(#rows)
            and not is_unnamed(client, by.admitted) then
            return true
        end
    end
    err = not force and #by.admitted >= quorum(#rows) and objection(by, rows)
    if err then
        return nil, err
    end
    return no_quorum(health.rows(client))
end

--- Seconds until a majority may vote, if only quarantines or clock steps prevent it; else nil.
function _M.left(client)
    local ms = tonumber(rounds.load().rl_guard_left_ms(client.core))
    return ms > 0 and ms / 1000 or nil
end

return _M
