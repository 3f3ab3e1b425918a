--- For specs of programs that lock: a world with servers, clients and a clock, in this process
-- (types/testing.lua). Methods without a result return the world.
--
-- This folder: the world (init, world), its host and its copy of the library (host, library), and
-- the model of Redis (redis, store and one file per type). Only world and library know the
-- simulated core; the model of Redis must not know what locks are.

local validate = require "redlock.runtime.validate"
local worlds = require "redlock.testing.world"

local error, ipairs, pairs, setmetatable, type = error, ipairs, pairs, setmetatable, type
local format = string.format

local _M = {}

local OPTIONS = { nodes = true, seed = true, round_trip = true, new_cluster = true, client = true }
local START = { forgotten = true }
local MAX_NODES, LONGEST = 32, 1e9

local World, methods, spawning = {}, {}, {}

-- ---- clients and time ----------------------------------------------------------------

--- A client of all servers, on a machine of its own.
function methods:client(opts)
    local all = {}
    for _, list in ipairs { self.world.client_options,
        validate.options("options", opts, opts or {}) } do
        for name, value in pairs(list) do
            all[name] = value
        end
    end
    all.nodes = all.nodes or self.nodes
    return self.redlock.new(all)
end

--- Lets time pass, with all that happens in it. A coroutine of the world sleeps.
function methods:advance(seconds)
    validate.seconds("seconds", seconds, 0, LONGEST)
    self.world:sleep(seconds)
    return self
end

--- @return seconds since the world began
function methods:now()
    return self.world.now()
end

--- Starts fn(...) as a coroutine, which runs until it waits.
function spawning:spawn(fn, ...)
    validate.is_function("fn", fn)
    return self.world:spawn(fn, ...)
end

-- ---- what can go wrong -----------------------------------------------------------------

local function server_of(self, i)
    return self.world.servers[validate.integer("server", i, 1, #self.nodes)]
end

--- Kills the process of server i, and breaks its connections.
function methods:kill(i)
    self.world:set_server(server_of(self, i), "down")
    return self
end

--- Starts a killed server again, with its data unless it has `forgotten`.
function methods:start(i, opts)
    local server = server_of(self, i)
    opts = validate.options("options", opts, START)
    self.world:start_server(server, validate.flag("forgotten", opts.forgotten))
    return self
end

--- Freezes server i, which keeps its connections.
function methods:freeze(i)
    self.world:set_server(server_of(self, i), "frozen")
    return self
end

--- Thaws server i, which then executes the requests that it received meanwhile.
function methods:thaw(i)
    self.world:set_server(server_of(self, i), "up")
    return self
end

--- Drops all traffic between server i and the clients, without an error.
function methods:cut(i)
    self.world:cut(server_of(self, i), true)
    return self
end

--- Lets traffic through again; older connections are broken.
function methods:mend(i)
    self.world:cut(server_of(self, i), false)
    return self
end

--- Sets the clock of server i forward by `seconds`, or back.
function methods:step_clock(i, seconds)
    validate.seconds("seconds", seconds)
    local server = server_of(self, i)
    server.ahead = server.ahead + seconds * 1e6
    return self
end

--- Stops the process of a client for `seconds`, in which the caller waits.
function methods:stop(client, seconds)
    validate.seconds("seconds", seconds, 0, LONGEST)
    self.world:stop_client(client, seconds)
    return self
end

--- Kills the process of a client.
function methods:crash(client)
    self.world:crash_client(client)
    return self
end

-- ---- looking ---------------------------------------------------------------------------

--- Runs a command on a server at once, without a client.
function spawning:call(i, ...)
    return self.world:call(server_of(self, i), ...)
end

--- Ends the world, and closes its clients.
function methods:close()
    if not self.world.ended then
        self.world:over()
    end
    return self
end

--- For people: world(3 servers, 31.0 s)
function methods:__tostring()
    return format("world(%d servers, %s)", #self.nodes, self.world.ended and "over"
        or format("%.1f s", self.world.now()))
end
validate.methods(World, "world", methods)
validate.any_methods(World, "world", spawning)

local function nodes_of(value)
    if type(value) == "table" then
        return value
    end
    local list = {}
    for i = 1, validate.integer("option nodes", value == nil and 3 or value, 1, MAX_NODES) do
        list[i] = format("redis://10.0.0.%d:6379", i)
    end
    return list
end

--- A new world; ends the previous one.
function _M.new(opts)
    opts = validate.options("options", opts, OPTIONS)
    local round_trip = opts.round_trip == nil and 0.0005 or opts.round_trip
    local self = setmetatable({ nodes = nodes_of(opts.nodes) }, World)
    self.world = worlds.new {
        nodes = self.nodes,
        seed = validate.integer("option seed", opts.seed == nil and 1 or opts.seed, 0, 2 ^ 53),
        round_trip = validate.seconds("option round_trip", round_trip, 0, 1000),
    }
    self.redlock = self.world.redlock
    self.world.client_options = validate.options("option client", opts.client, opts.client or {})
    if not validate.flag("option new_cluster", opts.new_cluster) and #self.nodes > 1 then
        -- As its clients would, whose max_lease and cluster are in the markers.
        local client = self:client { nodes = self.nodes, on_event = false, metrics = false }
        local ok, err = client:init { force = true }
        client:close()
        if not ok then
            error(err, 0)
        end
    end
    return self
end

return _M
