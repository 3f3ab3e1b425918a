--- What the clients of this process know when somebody asks: the core's counters and times, and
-- how things stand.

local ffi = require "ffi"
local health = require "redlock.policy.health"
local layout = require "redlock.metrics.layout"
local rounds = require "redlock.core.rounds"

local ipairs, pairs, setmetatable, tonumber = ipairs, pairs, setmetatable, tonumber

local _M = {}

local PIECE = 2000           -- holds that are looked at between two pauses

local Collection = {}
Collection.__index = Collection

function _M.new()
    return setmetatable({
        clients = setmetatable({}, { __mode = "k" }),
        cores = {},              -- by address: what was read of a core before
        rounds = layout.array("rounds", "all"),
        servers = {},            -- label -> array
    }, Collection)
end

--- Clients that share a core count once.
function Collection:add(client)
    self.clients[client] = true
end

-- Adds what a counter has grown by; one that is less than before is that of another core, at the
-- same address.
local function add(array, place, before, key, value)
    local was = before[key] or 0
    array[place] = array[place] + (value >= was and value - was or value)
    before[key] = value
end

local function read_times(self, client, before, kind, to)
    local C = rounds.load()
    local times = ffi.new "rl_times"
    C.rl_get_times(client.core, kind, times)
    local from = kind * 100      -- what `before` has of it
    for i = 0, layout.TIMES_BOUNDS do
        add(self.rounds, to.from + i, before, from + i, tonumber(times.within[i]))
    end
    add(self.rounds, to.sum, before, from + 99, tonumber(times.sum_us))
end

--- Reads the counters of a client's core.
function Collection:read(client)
    if not client.core then
        return
    end
    local C = rounds.load()
    local key = rounds.key(client.core)
    local before = self.cores[key] or {}
    self.cores[key] = before
    read_times(self, client, before, C.RL_TIMES_ACQUIRE, layout.rounds.acquire)
    read_times(self, client, before, C.RL_TIMES_RELEASE, layout.rounds.release)
    for _, node in ipairs(client:stats().nodes) do
        local array = self.servers[node.node]
        if not array then
            array = layout.array("server", node.node)
            self.servers[node.node] = array
        end
        for name, place in pairs(layout.server.counters) do
            add(array, place, before, node.node .. " " .. name, node[name])
        end
    end
end

--- The same of all clients.
function Collection:read_all()
    for client in pairs(self.clients) do
        self:read(client)
    end
end

local function count_held(client, pause)
    local n = 0
    local function count()
        n = n + 1
    end
    local next_number = client.holds:scan(nil, PIECE, count)
    while next_number do
        pause()
        next_number = client.holds:scan(next_number, PIECE, count)
    end
    return n
end

local function servers_of(client, servers)
    for _, row in ipairs(health.rows(client)) do
        local server = servers[row.node] or { label = row.node, ready = 0, voting = 0 }
        servers[row.node] = server
        server.ready = server.ready + (row.ready and 1 or 0)
        server.voting = server.voting + (row.verdict ~= "error" and 1 or 0)
        server.offset, server.round_trip = row.clock_offset, row.round_trip
        server.guard, server.remedy = row.guard, row.remedy
    end
end

--- How things stand in this process.
-- @param pause  function(): lets others have their turn
-- @return { held, waiting, clients (that are connected), servers = label -> { label, ready, voting
--   (so many clients are connected to it, or count its vote), offset, round_trip (seconds, or
--   nil), guard, remedy } }
function Collection:now(pause)
    local now = { held = 0, waiting = 0, clients = 0, servers = {} }
    local clients = {}
    for client in pairs(self.clients) do
        clients[#clients + 1] = client
    end
    for _, client in ipairs(clients) do
        if client.core then
            now.clients = now.clients + 1
            now.waiting = now.waiting + client.waiting
            servers_of(client, now.servers)
            now.held = now.held + count_held(client, pause)
        end
    end
    return now
end

return _M
