--- Events for on_event(e): what happened, when, to whom. Told during calls into the library,
-- never from another thread; an error in the function goes to stderr.
--
--   acquired   name, owner, waited (seconds)
--   contended  name, owner: not had at the first attempt
--   lost       name, reason: as onLost has it
--   renewed    count: renewals by the watchdog since the last event
--   node_up, node_down   node, code
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

local health = require "redlock.health"
local rounds = require "redlock.rounds"

local pcall, tostring, ipairs, setmetatable = pcall, tostring, ipairs, setmetatable

local _M = {}

local Events = {}
Events.__index = Events

function _M.new(client, fn)
    return setmetatable({ client = client, fn = fn, renewals = 0, changes = 0,
        seen = {}, warned = {} }, Events)
end

--- Tells of an event, if anybody listens.
function Events:emit(e)
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
local function warn(self, node, found)
    local key = (node or "") .. " " .. found.kind
    if not self.warned[key] then
        self.warned[key] = true
        self:emit { type = "warning", node = node, kind = found.kind, message = found.message }
    end
end

-- What events of their own tell: not warned of.
local TOLD = { guarded = true, clock_step = true }

local function look_at_node(self, row, was)
    local node = row.node
    if row.ready ~= (was.ready or false) then
        self:emit { type = row.ready and "node_up" or "node_down", node = node, code = row.code }
    end
    if row.guard ~= was.guard and row.guard == "guarded" then
        self:emit { type = "node_guarded", node = node, left = row.guard_left }
    elseif was.guard == "guarded" and row.guard ~= "guarded" and row.guard ~= "disagrees" then
        self:emit { type = "node_admitted", node = node }
    end
    if row.steps ~= (was.steps or 0) then
        self:emit { type = "node_suspect", node = node, step = row.step,
            left = row.suspect_left }
    end
    for _, found in ipairs(row.ready and row.findings or {}) do
        if not TOLD[found.kind] then
            warn(self, node, found)
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
        warn(self, nil, found)
    end
end

--- Tells of what the core did since the last call.
function Events:poll()
    if not self.fn then
        return
    end
    local renewals, changes = rounds.happenings(self.client)
    if renewals ~= self.renewals then
        local count = renewals - self.renewals
        self.renewals = renewals
        self:emit { type = "renewed", count = count }
    end
    if changes ~= self.changes then
        self.changes = changes
        look_at_nodes(self)
    end
end

return _M
