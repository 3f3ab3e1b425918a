--- Reads the clients of this process on demand: the core's counters and times, and present state.
--
-- This folder counts for redlock.metrics: collect reads the core, meter counts calls, shared adds
-- up nginx workers, layout gives each number its place, text writes them. Locks know only the
-- meter, through the option `metrics`. Only shared knows the dictionary.

local ffi = require "ffi"
local health = require "redlock.servers.health"
local holders = require "redlock.inspect.holders"
local layout = require "redlock.metrics.layout"
local printable = require("redlock.text.encoding").printable
local rounds = require "redlock.runtime.rounds"

local ipairs, pairs, setmetatable, tonumber = ipairs, pairs, setmetatable, tonumber
local abs, max = math.abs, math.max

local _M = {}

local PIECE = 1000           -- holds read between two pauses
local LISTED = 50            -- holds, and names with waiters, that are listed

local Collection = {}
Collection.__index = Collection

function _M.new()
    return setmetatable({
        clients = setmetatable({}, { __mode = "k" }),
        cores = {},              -- by address: what was last read of a core
        rounds = layout.array("rounds", "all"),
        servers = {},            -- label -> array
    }, Collection)
end

--- Clients that share a core count once.
function Collection:add(client)
    self.clients[client] = true
end

-- Adds the growth of a counter. If it is less than before, it is of a new core at the same address.
local function add(array, place, before, key, value)
    local was = before[key] or 0
    array[place] = array[place] + (value >= was and value - was or value)
    before[key] = value
end

local function read_times(self, client, before, kind, to)
    local C = rounds.load()
    local times = ffi.new "rl_times"
    C.rl_get_times(client.core, kind, times)
    local from = kind * 100      -- its first key in `before`
    for i = 0, layout.TIMES_BOUNDS do
        add(self.rounds, to.from + i, before, from + i, tonumber(times.within[i]))
    end
    add(self.rounds, to.sum, before, from + 99, tonumber(times.sum_us))
end

--- Reads the counters of a client's core.
function Collection:collect(client)
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

function Collection:collect_all()
    for client in pairs(self.clients) do
        self:collect(client)
    end
end

-- Counts what a client holds, and lists the first ones, and the first that make it a leader.
local function look_at_holds(client, list, leaders, pause)
    local n, now = 0, client.now()
    local function list_hold(hold)
        n = n + 1
        if hold.leader and #leaders < LISTED and rounds.remaining(hold.lease) > 0 then
            leaders[#leaders + 1] = { name = printable(hold.name), id = printable(hold.leader),
                term = rounds.token(hold.lease) }
        end
        if #list < LISTED then
            list[#list + 1] = { name = printable(hold.name),
                kind = hold.leader and "election" or hold.primitive.name,
                held = now - hold.since, left = rounds.remaining(hold.lease),
                label = printable(hold.leader or hold.label or client.label or "") }
        end
    end
    local next_number = client.holds:scan(nil, PIECE, list_hold)
    while next_number do
        pause()
        next_number = client.holds:scan(next_number, PIECE, list_hold)
    end
    return n
end

-- Lists the names that a client's calls wait for in queues of this process, and their holders.
local function look_at_queues(client, list)
    local time = tonumber(rounds.load().rl_unix_ms()) / 1000
    for id, queue in pairs(client.queues) do
        if #list >= LISTED then
            return
        end
        local kind, name = id:match "^([^:]*):(.*)$"
        local holder = holders.known(client, id, queue) or {}
        list[#list + 1] = { name = printable(name), kind = kind,
            calls = queue.last - queue.first + 1 - queue.gone, label = holder.label,
            held = holder.since and max(time - holder.since, 0) }
    end
end

-- What is certain of a server's clock and round trip: a program that slept before it read the
-- answer measured its own pause.
-- @return the offset, at least, and the round trip, in seconds; nil: unknown
local function measured(o, row)
    local offset, took = row.clock_offset, row.round_trip
    local least = offset and max(abs(offset) - row.clock_error, 0)
    return least and least > 0 and offset < 0 and -least or least,
        took and took <= max(4 * o.timeout, o.connect_timeout) and took or nil
end

local function servers_of(client, servers)
    for _, row in ipairs(health.rows(client)) do
        local server = servers[row.node] or { server = row.node, connected = 0, voting = 0,
            changing = 0 }
        servers[row.node] = server
        server.connected = server.connected + (row.ready and 1 or 0)
        server.voting = server.voting + (row.verdict ~= "error" and 1 or 0)
        server.changing = server.changing + (row.why == "changing" and 1 or 0)
        server.clock_offset, server.round_trip = measured(client.options, row)
        server.guard, server.remedy = row.guard, row.remedy
        server.certificate_ends = row.certificate_ends
    end
end

--- @return the present state of this process: { held, waiting, clients (in use), and
--   servers  label -> { server (its label), connected, voting, changing (how many are connected to
--            it, count its vote, or see a change there), clock_offset, round_trip (seconds, or
--            nil), guard, remedy }
--   holds    { { name, kind, held, left, label }, ... }: at most LISTED
--   queues   { { name, kind, calls, label, held (of who holds it, as far as is known) }, ... }: at
--            most LISTED
--   leaders  { { name (of the election), id, term }, ... }: at most LISTED }
-- @param pause  function(): lets other work run
function Collection:now(pause)
    local now = { held = 0, waiting = 0, clients = 0, servers = {}, holds = {}, queues = {},
        leaders = {} }
    local clients = {}
    for client in pairs(self.clients) do
        clients[#clients + 1] = client
    end
    for _, client in ipairs(clients) do
        if client.core then
            now.clients = now.clients + 1
            now.waiting = now.waiting + client.waiting
            servers_of(client, now.servers)
            now.held = now.held + look_at_holds(client, now.holds, now.leaders, pause)
            look_at_queues(client, now.queues)
        end
    end
    return now
end

return _M
