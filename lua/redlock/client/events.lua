--- Events for on_event(e): what happened, when, to whom. Told during calls into the library, or by
-- the event loop, never from another thread: what the function calls must not wait (`phase`). An
-- error in it goes to stderr.
--
--   acquired   name, owner, waited (seconds)
--   contended  name, owner: not had at the first attempt
--   released   name, held (seconds), code ("unknown": no majority has answered): let go, or passed
--              on to another owner of this process
--   lost       name, held, reason, holder: as onLost has them
--   renewed    count: renewals by the watchdog since the last event; names: a list of whose, each
--              once, the last one first (of the last 4096)
--   thin       name, votes, wanted: with the option margin; fewer servers than a majority and the
--              margin have confirmed the lock, as seen at its next renewal; again only after it was
--              confirmed by enough
--   node_up    node, code ("ok"): connected, also after node_down and node_refused
--   node_down  node, code, message: the connection is lost, or the first one cannot be made
--   node_refused    node, code, message: the server is up, and gets no vote for how the server or
--              this client is set up: one server under two addresses, a replica, another
--              max_lease, a wrong password or user
--   node_guarded    node, left: the server may have forgotten locks, and gives no votes for so
--              many seconds (nil: the server is down, too)
--   node_admitted   node: the server votes (again)
--   node_suspect    node, step, left: the server's clock was stepped by `step` seconds; no votes
--              for `left` seconds
--   warning    kind, message (with the remedy), node (nil: about all servers): once each;
--              see client:check() for the kinds
--   fence_seeded    name, floor: too few servers could say which tokens were given out (a new
--              cluster, all lost their memory, or those that know are out of reach), so tokens go
--              on from the clock
--   password_failed   message: a password function failed; the old password stays
-- All have type and time (seconds of CLOCK_BOOTTIME); acquired, contended, released and lost also
-- traceparent, if the lock was given one.
--
-- Where nobody listens (on_event = "auto"), hosts that have warn(text), as nginx has, are told what
-- becomes of servers, a line for each change.

local ffi = require "ffi"
local health = require "redlock.servers.health"
local happenings = require "redlock.runtime.happenings"
local interrupt = require "redlock.runtime.interrupt"
local no_wait = require "redlock.runtime.no_wait"
local rounds = require "redlock.runtime.rounds"

local tonumber, tostring, ipairs, setmetatable, type =
    tonumber, tostring, ipairs, setmetatable, type
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

-- Clients that share a core see the same changes: the first of them tells the log.
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
        news = self.away[e.node]         -- the first connection is no news
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
    local ok, err = no_wait.call(self.fn, e)
    if not ok then           -- an error of the user must not get into the lock path
        interrupt.rethrow(err)
        self.client.host.log("the on_event function failed: " .. tostring(err))
    end
end

--- Tells of a warning, once.
-- @param node   a label; nil: about all servers
-- @param found  kind and message
function Events:warn_once(node, found)
    local key = (node or "") .. " " .. found.kind
    if not self.warned[key] then
        self.warned[key] = true
        self:emit { type = "warning", node = node, kind = found.kind, message = found.message }
    end
end

-- Kinds of findings that have events of their own, and are not warned of.
local TOLD = { guarded = true, clock_step = true, disagrees = true, twin = true }

-- What is a matter of settings: findings about a node that is connected, and codes of nodes
-- that are not.
local REFUSALS = { disagrees = "config", twin = "config" }
local SET_UP = { config = true, readonly = true, noperm = true, auth = true, unsupported = true }

-- Why the settings keep a node from voting: the kind of trouble, a code and a text; or nil.
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
    -- A node that is being connected again keeps its state.
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

-- A hold that has fewer servers behind it than the margin wants is told of once.
local function look_at_votes(self, hold)
    local client = self.client
    local wanted = client.quorum + client.options.margin
    local votes = client.options.margin > 0 and rounds.votes(hold.lease, true) or wanted
    if votes < 0 then        -- there was no extension before
        return
    elseif votes < wanted and not hold.thin then
        self:emit { type = "thin", name = hold.name, votes = votes, wanted = wanted }
    end
    hold.thin = votes < wanted
end

-- Some renewals may be of other clients that share the core.
local function tell_renewed(self, from, to)
    local count, names, named = 0, {}, {}
    for k = to, from, -1 do
        local key = happenings.renewed_as(self.client, k)
        local hold = key and self.client.holds:known_as(key)
        if not key then          -- so long ago that the core has forgotten whose
            count = count + k - from + 1
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

--- Tells of what the core did since the last call.
function Events:poll()
    local counts = self.fn or self.client.meter
    if not (counts or self.warn) then
        return
    end
    local renewals, changes = happenings.counts(self.client)
    if counts and renewals ~= self.renewals then
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
