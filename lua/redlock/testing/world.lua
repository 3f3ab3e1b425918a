--- A world: servers, clients, the links between them, and their common time.

local ffi = require "ffi"
local waits = require "redlock.testing.host"
local library = require "redlock.testing.library"
local redis = require "redlock.testing.redis"
local validate = require "redlock.runtime.validate"

local coroutine, error, ipairs, tonumber, tostring, type = coroutine, error, ipairs, tonumber,
    tostring, type
local select, setmetatable, unpack = select, setmetatable, unpack
local running, traceback = coroutine.running, debug.traceback
local huge, max, min = math.huge, math.max, math.min
local format, ffi_string = string.format, ffi.string

local _M = {}

local SECOND = 1e6                   -- in microseconds, the world's unit
local EPOCH = 1700000000 * SECOND    -- the servers' clocks when it begins
local BEFORE = 1000 * SECOND         -- uptime of a client's machine when the client opens

local World = {}
World.__index = World

local C, redlock, rounds, part, finalize -- of the library in the world
local known = {}             -- commands sent to servers, by the numbers that C gives them
local present                -- the current world, or nil

-- ---- it begins and ends ------------------------------------------------------------

local function load()
    if not redlock then
        C = library.core()
        redlock, part, finalize = library.load(waits)
        rounds = part "redlock.runtime.rounds"
        rounds.load()
    end
end

local function reply(conn, bytes)
    return C.sim_reply(conn, bytes, #bytes) ~= 0
end

local function new_server(self, i)
    local server = redis.new(function(server)
        return EPOCH + server.ahead + C.sim_now()
    end, reply, i)
    server.index, server.ahead, server.state = i - 1, 0, C.SIM_UP
    -- Once: the servers get one request each, and the call that is to raise it ends.
    server.on_unsupported = function(_, text)
        if not self.unsupported[text] then
            self:fail("redlock.testing: server " .. i .. ": " .. text)
        end
        self.unsupported[text] = true
    end
    return server
end

local function address(node)
    return node.path or node.host .. ":" .. node.port
end

--- A world with servers and no clients. Ends the previous one.
-- @param opts  nodes: a list of addresses; seed; round_trip: seconds
function _M.new(opts)
    load()
    if present then
        present:over()
    end
    C.sim_reset(opts.seed)
    local self = setmetatable({
        redlock = redlock, nodes = opts.nodes, link = opts.round_trip * SECOND / 2,
        servers = {}, places = {}, timers = {}, timer = 0, processes = 0,
        clients = {},            -- a list of { client, process }: the open ones
        tasks = setmetatable({}, { __mode = "k" }), waiting = {},
        unsupported = {},        -- what a server was asked for in vain
    }, World)
    present = self
    waits.enter(self, part)
    for i, node in ipairs(redlock.new({ nodes = opts.nodes }).options.nodes) do
        self.servers[i] = new_server(self, i)
        self.places[address(node)] = i
    end
    return self
end

--- Ends the world: drops all waits, and closes its clients.
function World:over()
    for _, open in ipairs(self.clients) do
        open.client.core, open.client.closed = nil, true
    end
    self.clients, self.waiting, self.timers, self.ended = {}, {}, {}, true
    finalize()
    waits.enter(nil, part)
    present = nil
end

local function check(self)
    if self.ended then
        error("redlock.testing: this world is over: there is another one", 0)
    end
end

--- The call that lets time pass raises this text.
function World:fail(text)
    self.failure = self.failure or text
end

-- ---- clients -----------------------------------------------------------------------

-- Makes the link of a process to a server: as long as all others, or cut.
local function lay(self, process, server)
    local until_us = server.cut and 2 ^ 60 or 0
    C.sim_path(process, server.index, self.link, self.link / 10)
    C.sim_silence(process, server.index, until_us, until_us)
end

--- Connects a client that opens its core; its nodes' addresses become those of the servers.
function World:connect(client, nodes)
    for i, node in ipairs(client.options.nodes) do
        local server = self.servers[self.places[address(node)]]
        if not server then
            error(format("redlock.testing: no server of this world is at %s", node.label), 0)
        end
        local n = nodes[i]
        n.host, n.port, n.path, n.tls = "127.0.0.1", server.index + 1, nil, 0
        server.password = n.password or server.password
    end
    if self.processes == C.SIM_PROCESSES then
        error(format("redlock.testing: a world has room for %d clients", C.SIM_PROCESSES), 0)
    end
    local process = C.sim_process(BEFORE, 1, 1)
    self.processes = self.processes + 1
    self.clients[#self.clients + 1] = { client = client, process = process }
    for _, server in ipairs(self.servers) do
        lay(self, process, server)
    end
    C.sim_enter(process)
end

-- The place of a client among the open ones, and its process; nil: it is not open.
local function place_of(self, client)
    for i, open in ipairs(self.clients) do
        if open.client == client then
            return i, open.process
        end
    end
end

function World:disconnect(client)
    local i = place_of(self, client)
    if i then
        table.remove(self.clients, i)
    end
end

--- After `seconds`, releases the holds of coroutines that have ended.
function World:patrol(seconds)
    if self.patrolling then
        return
    end
    self.patrolling = true
    self:later(max(seconds, 0.001) * SECOND, function()
        self.patrolling = false
        local soonest = huge
        for _, open in ipairs(self.clients) do
            local client = open.client
            soonest = min(soonest, client.core and client.holds:patrol() or huge)
        end
        if soonest < huge then
            self:patrol(soonest)
        end
    end)
end

-- ---- coroutines --------------------------------------------------------------------

--- The running task; nil: no coroutine of this world runs.
function World:this_task()
    local co = running()
    return co and self.tasks[co]
end

local function finish_task(self, task, ok, ...)
    if coroutine.status(task.co) == "dead" then
        task.done, task.n, task.results = true, select("#", ...), { ... }
        if not ok then
            self:fail(traceback(task.co, tostring((...))))
        end
        return
    end
    local what = ...
    if what == task then         -- it sleeps
        return
    elseif type(what) ~= "cdata" then
        self:fail(traceback(task.co, "redlock.testing: a coroutine of a world has yielded"))
        return
    end
    task.round = what
    self.waiting[rounds.key(what)] = task
    C.rl_round_notify(what)
end

-- Has the loops of all processes look for what Lua has begun or ended.
local function notice(self)
    for _, open in ipairs(self.clients) do
        C.sim_waiting(open.process, 0)
    end
end

-- Continues a task.
local function resume(self, task, ...)
    if not task.done then
        finish_task(self, task, coroutine.resume(task.co, ...))
        notice(self)
    end
end

local Task = {}
Task.__index = Task

--- Starts fn(...) as a coroutine, which runs until it waits. future: of a call in the background,
-- whose body fn is; else the first argument.
-- @return a task
function World:spawn(fn, future, ...)
    check(self)
    local task = setmetatable({ world = self, done = false }, Task)
    task.co = coroutine.create(fn)
    self.tasks[task.co] = task
    if type(future) == "table" and future.sleepers then
        task.future = future
        resume(self, task)
    else
        resume(self, task, future, ...)
    end
    return task
end

--- Ends a task's wait with an error.
-- @return whether it waited
function World:interrupt(task, err)
    if not task or not task.round then
        return false
    end
    self.waiting[rounds.key(task.round)] = nil
    task.round = nil
    resume(self, task, err)
    return true
end

--- @return whether the function has returned
function Task:isDone()
    return self.done
end

--- Lets time pass until the function has returned.
-- @param seconds  how long at most; default: no limit
-- @return what it returned; nothing if it has not returned in time
function Task:join(seconds)
    local world, late = self.world, false
    check(world)
    if seconds then
        world:later(seconds * SECOND, function() late = true end)
    end
    world:pass(function() return self.done or late end)
    if self.done then
        return unpack(self.results, 1, self.n)
    end
end

-- ---- time --------------------------------------------------------------------------

--- Calls fn after `us` microseconds.
function World:later(us, fn)
    self.timer = self.timer + 1
    self.timers[self.timer] = fn
    C.sim_at(C.sim_now() + us, self.timer, -1)
end

local function on_command(self)
    local step = C.sim_record()
    local number = step.known
    local argv = known[number]
    if number < 0 or not argv then
        argv = {}
        for i = 1, step.argc do
            argv[i] = ffi_string(step.argv[i - 1].data, step.argv[i - 1].len)
        end
        known[number < 0 and -number or number] = argv
    end
    self.servers[step.server + 1]:execute(step.conn, argv, #argv)
end

local function on_round(self)
    local round = C.sim_record().round
    local key = rounds.key(round)
    local task = self.waiting[key]
    if task then
        self.waiting[key], task.round = nil, nil
        resume(self, task, tonumber(C.rl_round_outcome(round)))
    end
end

-- Has clients report the leases that their cores have lost.
local function look(self)
    for _, open in ipairs(self.clients) do
        local client = open.client
        if client.core then
            client.holds:look()
        end
    end
end

-- Runs the world's next event.
local function go_on(self)
    local why = C.sim_run()
    if why == C.SIM_COMMAND then
        on_command(self)
    elseif why == C.SIM_ROUND then
        on_round(self)
    elseif why == C.SIM_TIMER then
        local id = C.sim_record().id
        local fn = self.timers[id]
        self.timers[id] = nil
        fn()
    elseif why == C.SIM_NOTHING then
        self:fail "redlock.testing: nothing happens in this world any more"
    elseif why == C.SIM_STUCK then
        self:fail "redlock.testing: so much happens that time stands still"
    end
    if why ~= C.SIM_COMMAND then
        look(self)
    end
end

--- Lets time pass until done() is true.
function World:pass(done)
    check(self)
    look(self)
    notice(self)
    while not done() do
        go_on(self)
        if self.failure then
            local failure = self.failure
            self.failure = nil
            error(failure, 0)
        end
    end
end

--- Lets `seconds` pass.
function World:sleep(seconds)
    check(self)
    local task, over = self:this_task(), false
    self:later(seconds * SECOND, function()
        over = true
        if task then
            resume(self, task)
        end
    end)
    if task then
        coroutine.yield(task)
    else
        self:pass(function() return over end)
    end
end

--- @return seconds since the world began
function World.now()
    return C.sim_now() / SECOND
end

-- ---- servers and links -------------------------------------------------------------

--- state: up, frozen, down
function World:set_server(server, state)
    check(self)
    server.state = C["SIM_" .. state:upper()]
    C.sim_server(server.index, server.state, 0)
end

--- Starts a server that is down.
function World:start_server(server, forgotten)
    if server.state ~= C.SIM_DOWN then
        validate.bad("server", "one that was killed is needed")
    end
    server:restart(forgotten and {} or server.db)
    self:set_server(server, "up")
end

-- A reply as Lua clients return it.
local function value_of(result)
    if type(result) ~= "table" then
        return result or nil
    elseif result.err then
        return nil, result.err
    elseif result.ok then
        return result.ok
    end
    local list = {}
    for i = 1, #result do
        list[i] = value_of(result[i])
    end
    return list
end

--- Runs a command on a server, at once.
-- @return the reply; or nil and an error
function World:call(server, ...)
    check(self)
    local argv, n = { ... }, select("#", ...)
    for i = 1, n do
        argv[i] = tostring(argv[i])
    end
    self.unsupported = {}
    local result = server:run(argv, n)
    if self.failure then
        local failure = self.failure
        self.failure = nil
        error(failure, 0)
    end
    return value_of(result)
end

--- Cuts the links of all clients to a server (on), or mends them.
function World:cut(server, on)
    server.cut = on
    for _, open in ipairs(self.clients) do
        lay(self, open.process, server)
        if not on then
            C.sim_mend(open.process, server.index)
        end
    end
end

-- The process of a client, and the client's place. Raises if the client is not open.
local function process_of(self, client)
    local i, process = place_of(self, client)
    if not i then
        validate.bad("client", "one of this world that has been used is needed")
    end
    return process, i
end

--- Stops the process of a client for `seconds`; the caller waits meanwhile.
function World:stop_client(client, seconds)
    C.sim_stop(process_of(self, client), C.sim_now() + seconds * SECOND, 0)
    self:sleep(seconds)
end

--- Kills the process of a client; its coroutines never continue.
function World:crash_client(client)
    local process, i = process_of(self, client)
    C.sim_kill(process)
    client.core, client.closed = nil, true
    table.remove(self.clients, i)
end

return _M
