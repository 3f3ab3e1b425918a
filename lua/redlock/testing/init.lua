--- Specs of programs that lock: a world with servers, clients and a clock, all in this process.
--
--     local world = redlock.testing.new { nodes = 3 }
--     local client = world:client()
--     assert(client:getLock("job"):tryLock(0, 30))
--     world:advance(31)
--     world:kill(2)
--
-- No redis-server, no socket, no thread, and no time: the servers are a model that runs the real
-- scripts, the library and its core are the real ones, and time passes when somebody waits, or when
-- the spec lets it pass. Two runs with one seed are the same. What the model cannot do raises.
--
-- Methods that only do something return the world.
--
-- A call that waits, in a spec itself, lets time pass until it returns; coroutines that the world
-- has started (spawn) wait beside each other. There is one world at a time: a new one ends the one
-- before.

local validate = require "redlock.core.validate"
local worlds = require "redlock.testing.world"

local ipairs, pairs, setmetatable, type = ipairs, pairs, setmetatable, type
local format = string.format

local _M = {}

local OPTIONS = { nodes = true, seed = true, round_trip = true, new_cluster = true, client = true }
local START = { forgotten = true }
local MAX_NODES, LONGEST = 32, 1e9

local World, methods, spawning = {}, {}, {}

-- ---- clients and time ----------------------------------------------------------------

--- A client of all servers, on a machine of its own.
-- @param opts  as for redlock.new; nodes: the world's
-- @return a client
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

--- Lets so many seconds pass, with all that happens in them. In a coroutine of the world: sleeps.
function methods:advance(seconds)
    validate.seconds("seconds", seconds, 0, LONGEST)
    self.world:sleep(seconds)
    return self
end

--- @return how many seconds have passed since the world began
function methods:now()
    return self.world.now()
end

--- Starts fn(...) as a coroutine, which runs until it waits. An error of it is raised by whoever
-- lets time pass.
-- @return a task: join(seconds) lets time pass, so long at most, until fn has returned, and gives
--   what that was; isDone()
function spawning:spawn(fn, ...)
    validate.is_function("fn", fn)
    return self.world:spawn(fn, ...)
end

-- ---- what can go wrong -----------------------------------------------------------------

local function server_of(self, i)
    return self.world.servers[validate.integer("server", i, 1, #self.nodes)]
end

--- The process of server i is killed, and its connections break.
function methods:kill(i)
    self.world:set_server(server_of(self, i), "down")
    return self
end

--- It is started again, with what it had.
-- @param i     its number, from 1
-- @param opts  forgotten: true: it has lost its memory
function methods:start(i, opts)
    local server = server_of(self, i)
    opts = validate.options("options", opts, START)
    self.world:start_server(server, validate.flag("forgotten", opts.forgotten))
    return self
end

--- It stands still, and holds its connections.
function methods:freeze(i)
    self.world:set_server(server_of(self, i), "frozen")
    return self
end

--- It goes on, and does what it was asked for meanwhile.
function methods:thaw(i)
    self.world:set_server(server_of(self, i), "up")
    return self
end

--- Nothing gets through between server i and all clients, and nobody is told.
function methods:cut(i)
    self.world:cut(server_of(self, i), true)
    return self
end

--- The network is well again; connections from before are broken.
function methods:mend(i)
    self.world:cut(server_of(self, i), false)
    return self
end

--- The clock of server i is set forward by so many seconds, or back.
function methods:step_clock(i, seconds)
    validate.seconds("seconds", seconds)
    local server = server_of(self, i)
    server.ahead = server.ahead + seconds * 1e6
    return self
end

--- The process of a client stands still for so long, as for a collector or a page that is read
-- from disk. The caller waits for that.
function methods:stop(client, seconds)
    validate.seconds("seconds", seconds, 0, LONGEST)
    self.world:stop_client(client, seconds)
    return self
end

--- The process of a client dies: what it held is held until its lease ends. Its coroutines do not
-- go on, and its methods say closed.
function methods:crash(client)
    self.world:crash_client(client)
    return self
end

-- ---- looking ---------------------------------------------------------------------------

--- Runs a command on a server, at once and for nobody.
-- @param i    its number, from 1
-- @param ...  the words: strings or numbers
-- @return its reply, as a client of Redis for Lua gives it: nil for none; or nil and an error
function spawning:call(i, ...)
    return self.world:call(server_of(self, i), ...)
end

--- Ends the world: its clients are closed.
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

World.__index = World
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

--- A new world; the one before is over.
-- @param opts  nodes: how many servers, or a list of their addresses, as for redlock.new (3);
--   seed: a number, from which all chance comes (1); round_trip: seconds between clients and
--   servers (0.0005); client: options for all clients; new_cluster: true: the servers are as new,
--   and in quarantine
-- @return a world; its field nodes has the addresses, its field redlock the library in it
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
        self.world:admit_all()
    end
    return self
end

return _M
