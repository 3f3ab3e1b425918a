--- Events for on_event(e): what happened, when, to whom. Told during calls into the library,
-- never from another thread; an error in the function goes to stderr.
--
--   acquired   name, owner, waited (seconds)
--   contended  name, owner: not had at the first attempt
--   lost       name, reason: as onLost has it
--   renewed    count: renewals by the watchdog since the last event; names: a list of whose, each
--              once, the last one first (of the last 4096)
--   node_up    node, code ("ok"): connected, also after node_down and node_refused
--   node_down  node, code, message: the connection is lost, or the first one cannot be made
--   node_refused    node, code, message: it is there, and gets no vote for how it or this client
--              is set up: one server under two addresses, a replica, another max_lease, a wrong
--              password or user
--   node_guarded    node, left: no votes for so many seconds (nil: it is down, too), it may have
--              forgotten locks
--   node_admitted   node: it votes (again)
--   node_suspect    node, step, left: its clock was stepped by so many seconds, no votes
--   warning    kind, message (with the remedy), node (nil: about the whole): once each;
--              see client:check() for the kinds
--   fence_seeded    name, floor: too few servers that knew which tokens were given out could be
--              asked (a new cluster, all lost their memory, or who has not is out of reach), so
--              they go on from the clock
--   password_failed   message: a password function failed; the old password stays
-- All have type and time (seconds of CLOCK_BOOTTIME).
--
-- Where nobody listens (on_event = "auto"), hosts that have warn(text), as nginx has, are told what
-- becomes of servers, a line for each change.

local ffi = require "ffi"
local health = require "redlock.policy.health"
local rounds = require "redlock.core.rounds"

local pcall, tonumber, tostring, ipairs, setmetatable, type =
    pcall, tonumber, tostring, ipairs, setmetatable, type
local format = string.format

local _M = {}

local Events = {}
Events.__index = Events

--- @return the events of a client, which go to fn if its user listens
function _M.new(client)
    local listener = client.options.on_event
    return setmetatable({
        client = client,
        fn = type(listener) == "function" and listener or nil,
        warn = listener == "auto" and client.host.warn or nil,
        renewals = 0,
        changes = 0,
        seen = {},               -- the nodes' rows as of the last look
        warned = {},
        away = {},               -- nodes of which the log was told that they are
    }, Events)
end

-- ---- for the log -----------------------------------------------------------------

local LINES = {
    node_up = function(e)
        return e.node .. " is there again"
    end,
    node_down = function(e)
        return format("%s is down: %s (%s)", e.node, e.code, e.message)
    end,
    node_refused = function(e)
        return format("%s gets no vote: %s (%s)", e.node, e.code, e.message)
    end,
    node_guarded = function(e)
        return format("%s gives no votes%s: it may have forgotten locks; new cluster? run redlock "
            .. "init", e.node, e.left and format(" for %.0f s", e.left) or "")
    end,
    node_admitted = function(e)
        return e.node .. " votes again"
    end,
    node_suspect = function(e)
        return format("%s gives no votes for %.0f s: its clock was stepped by %+.3f s; let NTP "
            .. "slew it", e.node, e.left, e.step)
    end,
    warning = function(e)
        return (e.node or "all servers") .. ": " .. e.message
    end,
    password_failed = function(e)
        return "the old password stays: " .. e.message
    end,
}

-- Clients of one core see the same: the first of them tells of it.
local tellers = setmetatable({}, { __mode = "v" })

local function is_teller(self)
    local core = self.client.core
    if not core then
        return true
    end
    local key = tonumber(ffi.cast("intptr_t", core))
    local teller = tellers[key]
    if not teller or teller.client.core ~= core then
        tellers[key] = self
        return true
    end
    return teller == self
end

local function tell_log(self, e)
    local line = LINES[e.type]
    local news = line ~= nil
    if e.type == "node_up" then
        news = self.away[e.node]         -- else it is the first connection
        self.away[e.node] = nil
    elseif e.type == "node_down" or e.type == "node_refused" then
        self.away[e.node] = true
    elseif e.type == "password_failed" then
        news = self.away.password ~= e.message
        self.away.password = e.message
    end
    if news and is_teller(self) then
        self.warn(line(e))
    end
end

-- ---- events ----------------------------------------------------------------------

--- Tells of an event, if anybody listens.
function Events:emit(e)
    if self.warn then
        tell_log(self, e)
    end
    if not self.fn then
        return
    end
    e.time = self.client.now()
    local ok, err = pcall(self.fn, e)
    if not ok then           -- it must not get into the lock path
        self.client.host.log("the on_event function failed: " .. tostring(err))
    end
end

--- Tells of a warning, once.
-- @param node   a label; nil: it is about the whole
-- @param found  kind and message
function Events:warn_once(node, found)
    local key = (node or "") .. " " .. found.kind
    if not self.warned[key] then
        self.warned[key] = true
        self:emit { type = "warning", node = node, kind = found.kind, message = found.message }
    end
end

-- What events of their own tell: not warned of.
local TOLD = { guarded = true, clock_step = true, max_lease = true, twin = true }

-- Findings about a node that is connected, and why others are not, that are a matter of settings.
local REFUSALS = { max_lease = "config", twin = "config" }
local SET_UP = { config = true, readonly = true, noperm = true, auth = true, unsupported = true }

-- Why a node gets no vote for how things are set up: what it is, a code and a text; or nil.
local function refusal(row)
    if not row.ready and SET_UP[row.lost] then
        return row.lost, row.lost, row.message
    end
    for _, found in ipairs(row.ready and row.findings or {}) do
        if REFUSALS[found.kind] then
            return found.kind, REFUSALS[found.kind], found.message
        end
    end
end

local UNTOLD = { guarded = true, disagrees = true }

local function look_at_node(self, row, was)
    local node = row.node
    local refused, code, message = refusal(row)
    row.refused = refused
    -- While it is being connected again it is what it was.
    row.state = row.ready and "up" or row.lost and (refused or "down") or was.state
    if row.state ~= was.state and row.ready then
        self:emit { type = "node_up", node = node, code = row.code }
    elseif row.state ~= was.state and not refused then
        self:emit { type = "node_down", node = node, code = row.lost, message = row.message }
    end
    if refused and refused ~= was.refused then
        self:emit { type = "node_refused", node = node, code = code, message = message }
    end
    if row.guard ~= was.guard and row.guard == "guarded" then
        self:emit { type = "node_guarded", node = node, left = row.guard_left }
    elseif UNTOLD[was.guard] and not UNTOLD[row.guard] then
        self:emit { type = "node_admitted", node = node }
    end
    if row.steps ~= (was.steps or 0) then
        self:emit { type = "node_suspect", node = node, step = row.step,
            left = row.suspect_left }
    end
    for _, found in ipairs(row.ready and row.findings or {}) do
        if not TOLD[found.kind] then
            self:warn_once(node, found)
        end
    end
end

local function look_at_nodes(self)
    local rows = health.rows(self.client)
    for i, row in ipairs(rows) do
        look_at_node(self, row, self.seen[i] or {})
    end
    self.seen = rows
    for _, found in ipairs(health.findings(self.client)) do
        self:warn_once(nil, found)
    end
end

-- The core may have done others for clients that share it.
local function tell_renewed(self, from, to)
    local count, names, named = 0, {}, {}
    for k = to, from, -1 do
        local key = rounds.renewed_as(self.client, k)
        local hold = key and self.client.holds:known_as(key)
        if not key then          -- so long ago that nobody knows
            count = count + k - from + 1
            break
        elseif hold then
            count = count + 1
            if not named[hold] then
                named[hold] = true
                names[#names + 1] = hold.name
            end
        end
    end
    if count > 0 then
        self:emit { type = "renewed", count = count, names = names }
    end
end

--- Tells of what the core did since the last call.
function Events:poll()
    if not (self.fn or self.warn) then
        return
    end
    local renewals, changes = rounds.happenings(self.client)
    if self.fn and renewals ~= self.renewals then
        local from = self.renewals + 1
        self.renewals = renewals
        tell_renewed(self, from, renewals)
    end
    if changes ~= self.changes then
        self.changes = changes
        look_at_nodes(self)
    end
end

return _M
