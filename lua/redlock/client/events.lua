--- Events for on_event: types/report.lua lists them with their fields. Calls into the library or
-- the event loop emit them, never another thread. The function must not wait (`phase`). Its error
-- goes to the host's log.
--
-- `thin` comes once, and again only after enough servers have confirmed the hold.
--
-- Where nobody listens (on_event = "auto"), a host that has warn(text), as nginx has, gets a line
-- for each change of a server.

local health = require "redlock.servers.health"
local answers = require "redlock.runtime.answers"
local changes = require "redlock.runtime.changes"
local errors = require "redlock.runtime.errors"
local no_wait = require "redlock.runtime.no_wait"
local reasons = require "redlock.runtime.reasons"
local rounds = require "redlock.runtime.rounds"

local ipairs, setmetatable, type = ipairs, setmetatable, type
local max = math.max
local format = string.format

local _M = {}

local Events = {}
Events.__index = Events

--- @return the events of a client; they go to on_event, if that is a function
function _M.new(client)
    local listener = client.options.on_event
    return setmetatable({
        client = client,
        fn = type(listener) == "function" and listener or nil,
        warn = listener == "auto" and client.host.warn or nil,
        renewals = 0,
        changes = 0,
        seen = {},               -- the nodes' rows at the last look
        warned = {},
        away = {},               -- nodes that the log knows to be down
    }, Events)
end

-- ---- for the log -----------------------------------------------------------------

local function no_vote(e)
    return format("%s has no vote: %s (%s)", e.node, e.code or "guarded", e.message)
end

local function about(e) return (e.node or "all servers") .. ": " .. e.message end
local LINES = {
    node_up = function(e) return e.node .. " is there again" end,
    node_admitted = function(e) return e.node .. " votes again" end,
    node_down = function(e)
        return format("%s is down: %s (%s)", e.node, e.code, e.message)
    end,
    node_refused = no_vote, node_guarded = no_vote, node_suspect = about,
    warning = about,
    password_failed = function(e) return "the old password stays: " .. e.message end,
}

-- Clients that share a core see the same changes: only the first of them writes to the log.
local reporters = setmetatable({}, { __mode = "v" })

local function is_reporter(self)
    local core = self.client.core
    if not core then
        return true
    end
    local key = rounds.key(core)
    local reporter = reporters[key]
    if not reporter or reporter.client.core ~= core then
        reporters[key] = self
        return true
    end
    return reporter == self
end

local function write_log(self, e)
    local line = LINES[e.type]
    local news = line ~= nil
    if e.type == "node_up" then
        news = self.away[e.node]         -- the first connection is no news
        self.away[e.node] = nil
    elseif e.type == "node_down" or e.type == "node_refused" then
        self.away[e.node] = true
    elseif e.type == "password_failed" then
        news = self.away.password ~= e.message
        self.away.password = e.message
    end
    if news and is_reporter(self) then
        self.warn(line(e))
    end
end

-- ---- events ----------------------------------------------------------------------

--- Emits an event, if anybody listens.
function Events:emit(e)
    if self.warn then
        write_log(self, e)
    end
    if not self.fn then
        return
    end
    e.time = self.client.now()
    local ok, err = no_wait.call(self.fn, e)
    if not ok then           -- an error of the user must not reach the lock path
        self.client.host.log(errors.failed("the on_event function", err))
    end
end

--- Emits a warning, a { kind, message }, once for each kind and node (a label; nil: all servers).
function Events:warn_once(node, found)
    local key = (node or "") .. " " .. found.kind
    if not self.warned[key] then
        self.warned[key] = true
        self:emit { type = "warning", node = node, kind = found.kind, message = found.message }
    end
end

-- Kinds of findings that have events of their own, and cause no warning.
local TOLD = { guarded = true, clock_step = true, disagrees = true, twin = true }

-- Faults of the set-up: codes of nodes that are not connected, and kinds of findings about others.
local SET_UP = { config = true, readonly = true, noperm = true, auth = true, unsupported = true,
    disagrees = true, twin = true }

-- @return why the set-up keeps a node from voting: the kind of fault, a code and a text; or nil
local function refusal(row)
    local first = row.findings[1]
    if not row.ready and SET_UP[row.lost] then
        return row.lost, row.lost, row.message
    elseif row.ready and first and SET_UP[first.kind] then
        return first.kind, "config", first.message
    end
end

local UNTOLD = { guarded = true, disagrees = true }

local function look_at_node(self, i, row, was)
    local node = row.node
    local refused, code, message = refusal(row)
    row.refused = refused
    -- A node that reconnects keeps its state.
    row.state = row.ready and "up" or row.lost and (refused or "down") or was.state
    if row.state ~= was.state and row.ready then
        self:emit { type = "node_up", node = node, code = row.code }
    elseif row.state ~= was.state and not refused then
        self:emit { type = "node_down", node = node, code = row.lost, message = row.message }
    end
    if refused and refused ~= was.refused then
        self:emit { type = "node_refused", node = node, code = code, message = message }
    end
    -- Its memory may be read before the rest of a handshake is.
    row.guard = row.ready and row.guard or was.guard
    if row.guard ~= was.guard and row.guard == "guarded" then
        self:emit { type = "node_guarded", node = node, left = row.guard_left,
            message = row.objection }
    elseif UNTOLD[was.guard] and not UNTOLD[row.guard] then
        self:emit { type = "node_admitted", node = node }
    end
    if row.steps ~= (was.steps or 0) then
        self:emit { type = "node_suspect", node = node, step = row.step,
            left = max(row.suspect_left, row.guard_left or 0),
            message = reasons.text(self.client, i, answers.node_info(self.client, i),
                rounds.load().RL_WHY_CLOCK_STEPPED) }
    end
    if row.seeded ~= (was.seeded or 0) then
        self:emit { type = "fence_seeded", node = node, floor = row.seeded }
    end
    for _, found in ipairs(row.ready and row.findings or {}) do
        if not TOLD[found.kind] then
            self:warn_once(node, found)
        end
    end
end

local function look_at_nodes(self)
    local rows, files_read = health.rows(self.client), true
    for i, row in ipairs(rows) do
        look_at_node(self, i, row, self.seen[i] or {})
        files_read = files_read and row.ready
    end
    self.seen = rows
    -- Looks at files once, when all have just been read: later a disk may hang, and the caller
    -- with it.
    for _, found in ipairs(health.findings(self.client, not files_read or self.saw_files)) do
        self:warn_once(nil, found)
    end
    self.saw_files = self.saw_files or files_read
end

-- Emits `thin` when fewer servers have confirmed a hold than the margin wants.
local function look_at_votes(self, hold)
    local client = self.client
    local wanted = client.quorum + client.options.margin
    local votes = client.options.margin > 0 and rounds.votes(hold.lease, true) or wanted
    if votes < 0 then        -- not extended so far
        return
    elseif votes < wanted and not hold.thin then
        self:emit { type = "thin", name = hold.name, votes = votes, wanted = wanted }
    end
    hold.thin = votes < wanted
end

-- Some renewals may be of other clients that share the core.
local function emit_renewed(self, from, to)
    local count, names, named = 0, {}, {}
    for k = to, from, -1 do
        local key = changes.noted(self.client, 1, k)
        local hold = key and self.client.holds.live[key]
        if not key then          -- the core no longer knows whose: where it is shared, of others
            count = self.client.host.shares and count or count + k - from + 1
            break
        elseif hold then
            count = count + 1
            if self.client.meter then
                self.client.meter:renewed(hold.name)
            end
            if not named[hold] then
                named[hold] = true
                names[#names + 1] = hold.name
                look_at_votes(self, hold)
            end
        end
    end
    if count > 0 then
        self:emit { type = "renewed", count = count, names = names }
    end
end

--- Emits what the core did since the last call.
function Events:poll()
    local counts = self.fn or self.client.meter
    if not (counts or self.warn) then
        return
    end
    local counted = changes.counters(self.client)
    if counts and counted.renewals ~= self.renewals then
        local from = self.renewals + 1
        self.renewals = counted.renewals
        emit_renewed(self, from, counted.renewals)
    end
    if counted.node_changes ~= self.changes then
        self.changes = counted.node_changes
        look_at_nodes(self)
    end
end

return _M
