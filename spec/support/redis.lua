-- Redis servers to throw away.
local fnv = require "spec.support.fnv"
local inspect = require "spec.support.inspect"
local path = require "spec.support.path"
local proc = require "spec.support.proc"
local proxy = require "spec.support.proxy"
local resp = require "spec.support.resp"
local scope = require "spec.support.scope"
local shim = require "spec.support.shim"
local sys = require "spec.support.sys"

path.use_server()

local _M = {}

local Server = {}
Server.__index = Server

local HOST = "127.0.0.1"

-- LAG=gate: of each cluster, the server with the smallest run_id, where contenders meet, is late:
-- requests of clients arrive LAG_MS (30) later, through a proxy; those of the test itself do not.
-- LAG=other: the server with the largest.
local LAG, LAG_MS = os.getenv "LAG", tonumber(os.getenv "LAG_MS" or 30)
assert(not LAG or LAG == "gate" or LAG == "other", "LAG is neither gate nor other")

-- As restart_guard.lua has them; what clients with the default max_lease set.
local OF_THE_SERVER = "redlock:{server}:"
local MARKER, FLOORS = OF_THE_SERVER .. "marker", OF_THE_SERVER .. "floor"
local MAX_LEASE_MS = 60000

-- The name of all clusters: clients reach servers through proxies, or some of them.
_M.CLUSTER = "spec"

-- Where clients reach it. `direct` is the port where it listens: another one if it is late.
local function set_port(self, port)
    self.port = port
    self.uri = ("redis://%s:%d"):format(HOST, port)
end

local function listen(self, port)
    self.direct = port
    set_port(self, port)
end

local function new(opts)
    local self = setmetatable({ host = HOST, opts = opts, dir = scope.tmpdir() }, Server)
    listen(self, opts.port or sys.free_port())
    if opts.unixsocket then
        self.socket = self.dir .. "/redis.sock"
    end
    return self
end

local function launch(self)
    local argv = {
        "redis-server", "--save", "", "--appendonly", "no", "--bind", HOST,
        "--port", self.direct, "--dir", self.dir, "--daemonize", "no",
        "--loglevel", "warning",
        stdout = self.dir .. "/log", stderr = "stdout", env = self.opts.env,
    }
    local function add(...)
        for _, arg in ipairs { ... } do
            argv[#argv + 1] = arg
        end
    end
    if self.socket then
        add("--unixsocket", self.socket)
    end
    if self.opts.password then
        add("--requirepass", self.opts.password)
    end
    add(unpack(self.opts.args or {}))
    argv.env = self.clock and self.clock.env or self.opts.env
    local old = self.proc
    self.proc = proc.spawn(argv)
    scope.replace_proc(old)
    self.pid = self.proc.pid
    self.frozen = false
end

-- True once the server answers; false if it has exited instead.
local function settled(self)
    if not self.proc:alive() then
        return true, false
    end
    -- Somebody else's server could answer while ours fails to get the port.
    local info = self:call("INFO", "server")
    return info and tonumber(info:match "process_id:(%d+)") == self.pid, true
end

local function await(self)
    for _ = 1, 5 do
        local _, running = sys.eventually(function()
            return settled(self)
        end, 30, "redis-server on port " .. self.port)
        if running then
            return self
        elseif self.opts.port or self.started then
            break
        end
        -- The port was free a moment ago, but somebody was faster.
        listen(self, sys.free_port())
        launch(self)
    end
    error("redis-server failed: " .. (sys.read_file(self.dir .. "/log") or ""), 0)
end

local function disconnect(self)
    if self.conn then
        self.conn:close()
        self.conn = nil
    end
end

local function finish(self, signal)
    disconnect(self)
    if self.late then
        self.late:stop()
    end
    self.proc:kill(signal)
    if not self.proc:wait(30) then
        error(("redis-server on port %d survives SIG%s"):format(self.port, signal))
    end
    return self
end

function Server:start()
    self.started = true
    launch(self)
    await(self)
    if self.late then
        self.late:restart()
    end
    return self
end

function Server:stop()
    self:thaw()
    return finish(self, "TERM")
end

function Server:kill()
    return finish(self, "KILL")
end

function Server:restart()
    return self:kill():start()
end

function Server:alive()
    return self.proc:alive()
end

function Server:freeze()
    self.proc:kill "STOP"
    sys.eventually(function()
        return inspect.state(self.pid) == "T"
    end, 5, "redis-server to stop")
    self.frozen = true
    return self
end

function Server:thaw()
    if self.frozen then
        self.proc:kill "CONT"
        sys.eventually(function()
            return inspect.state(self.pid) ~= "T"
        end, 5, "redis-server to continue")
        self.frozen = false
    end
    return self
end

local function connect(self)
    local conn, err = resp.connect(self.direct)
    if not conn then
        return nil, err
    end
    self.conn = conn
    if self.opts.password then
        return conn:call("AUTH", self.opts.password)
    end
    return true
end

-- The reply, or nil and the message of an error.
function Server:call(...)
    if not self.conn or not self.conn:usable() then
        disconnect(self)
        local ok, err = connect(self)
        if not ok then
            return nil, err
        end
    end
    return self.conn:call(...)
end

local BREAK = [[
    if redis.call('exists', KEYS[1]) == 1 then
        redis.call('rename', KEYS[1], 'away')
    end
    return redis.call('rpush', KEYS[1], 'x')
]]

--- Puts a list where a key was, in one step, so that no script can use it; that is `away` now.
function Server:break_key(key)
    assert(self:call("EVAL", BREAK, 1, key))
end

-- How often it has executed a command.
function Server:calls_of(command)
    return tonumber(self:call("INFO", "commandstats")
        :match("cmdstat_" .. command .. ":calls=(%d+)") or 0)
end

-- Makes or changes a user. Rules for channels are left out where there are none, and everybody
-- may use all: before Redis 6.2. Who may only read a key may write it, too: before 7.0.
function Server:user(name, ...)
    local rules = {}
    for _, rule in ipairs { ... } do
        if path.since(6, 2) or not rule:find "^&" and not rule:find "channels$" then
            rules[#rules + 1] = path.since(7, 0) and rule or (rule:gsub("^%%R~", "~"))
        end
    end
    local ok, err = self:call("ACL", "SETUSER", name, unpack(rules))
    if ok ~= "OK" then
        error("ACL SETUSER: " .. tostring(err), 2)
    end
    return self
end

-- How many clients are connected, not counting the connection used by call().
function Server:connections()
    local own = assert(self:call("CLIENT", "ID"))
    local n = 0
    for id in assert(self:call("CLIENT", "LIST")):gmatch "id=(%d+) addr" do
        if tonumber(id) ~= own then
            n = n + 1
        end
    end
    return n
end

-- The name of the life that it is in, as markers have it; nil: it does not answer.
function Server:life()
    local info = self:call("INFO", "replication")
    return info and info:match("master_replid:(%x+)"):sub(1, 16)
end

-- Admits the server as client:init() would, for clients whose max_lease is 60 s unless
-- another is given. Each database has a marker of its own.
-- @param cluster  the name of the cluster, or the hash of its servers; nil: CLUSTER
-- @param time     in seconds, from which tokens begin; nil: now
function Server:admit(max_lease, cluster, time)
    local ms = max_lease and max_lease * 1000 or MAX_LEASE_MS
    local inc = {}
    for i = 1, 16 do
        inc[i] = ("%x"):format(math.random(0, 15))
    end
    self:mark(("%s v4 a %s 0 %d %s"):format(table.concat(inc), self:life(), ms,
        cluster or _M.CLUSTER), time)
    assert(self:call("CONFIG", "RESETSTAT") == "OK")
    return self
end

-- As scripts/marker/set.lua.
function Server:mark(marker, time)
    assert(self:call("SET", MARKER, marker) == "OK")
    local base = ("%s%.0f"):format(marker:sub(1, 8), 16e3 * (time or os.time()))
    assert(self:call("HSET", FLOORS, "marker", marker:sub(1, 16), "base", base, "most", base))
    return self
end

function Server:marker()
    return self:call("GET", MARKER)
end

-- Its words: inc, state ("a": admitted; "n", "l", "s": in quarantine), life, db, max_lease in ms,
-- cluster, observed in ms; nil: it has none of ours.
function Server:marked()
    local words = {}
    for word in (self:marker() or ""):gmatch "%S+" do
        words[#words + 1] = word
    end
    return words[2] == "v4" and { inc = words[1], state = words[3], life = words[4],
        db = tonumber(words[5]), max_lease = tonumber(words[6]), cluster = words[7],
        observed = tonumber(words[8] or "") } or nil
end

-- What its counters and floors are marked with.
function Server:memory()
    local marked = self:marked()
    return (marked and marked.inc or self:life()):sub(1, 8)
end

-- How many keys there are but those of the server itself. KEYS, unlike DBSIZE, does not
-- count those that have expired but are not yet removed.
function Server:keys()
    local n = 0
    for _, key in ipairs(assert(self:call("KEYS", "*"))) do
        n = n + (key:find(OF_THE_SERVER, 1, true) == 1 and 0 or 1)
    end
    return n
end

-- Until no request is on its way to a late server.
function Server:await_idle()
    if self.late then
        self.late:await_idle()
    end
    return self
end

-- Waits until nobody has a lock there; for a cluster: on those of its servers that run.
function Server:await_free(seconds)
    self:await_idle()
    sys.eventually(function() return self:keys() == 0 end, seconds, "all locks to be free")
    return self
end

local Cluster = {}
Cluster.__index = Cluster

function Cluster:each(fn)
    for i, server in ipairs(self) do
        fn(server, i)
    end
    return self
end

local function each_running(self, fn)
    return self:each(function(server)
        if server:alive() and not server.frozen then
            fn(server)
        end
    end)
end

--- Some of the servers as a cluster of their own: those with these numbers.
function Cluster:pick(...)
    local some = setmetatable({ unnamed = self.unnamed }, Cluster)
    for i, k in ipairs { ... } do
        some[i] = self[k]
    end
    return some
end

function Cluster:uris()
    local uris = {}
    for i, server in ipairs(self) do
        uris[i] = server.uri
    end
    return uris
end

-- Their addresses as a text in Lua, quoted, as `nodes` of redlock.new takes it.
function Cluster:text()
    return ("%q"):format(table.concat(self:uris(), " "))
end

-- What their markers say where they have no name: the hash of the sorted addresses.
local function hash_of(servers)
    local list = {}
    for i, server in ipairs(servers) do
        list[i] = HOST .. ":" .. server.port
    end
    table.sort(list)
    return bit.tohex(fnv(table.concat(list, " ")))
end

function Cluster:admit(max_lease)
    local hash, time = self.unnamed and hash_of(self) or nil, os.time()
    return each_running(self, function(server)
        server:admit(max_lease, hash, time)
    end)
end

-- Empties the servers; those that were admitted still are.
function Cluster:flush()
    local time = os.time()
    return each_running(self, function(server)
        local marker = server:await_idle():marker()
        assert(server:call "FLUSHALL")
        if marker then
            server:mark(marker, time)
        end
    end)
end

-- How many keys there are on all running servers together, but for the markers.
function Cluster:keys()
    local n = 0
    each_running(self, function(server)
        n = n + server:keys()
    end)
    return n
end

-- How many servers have a key.
function Cluster:having(key)
    local n = 0
    self:each(function(server)
        n = n + server:call("EXISTS", key)
    end)
    return n
end

function Cluster:await_idle()
    return each_running(self, Server.await_idle)
end

Cluster.await_free = Server.await_free

-- Waits until none of the running servers has any of these keys.
function Cluster:await_none(...)
    local names = { ... }
    return each_running(self:await_idle(), function(server)
        sys.eventually(function() return server:call("EXISTS", unpack(names)) == 0 end, 10,
            table.concat(names, ", ") .. " to be gone")
    end)
end

function Cluster:stop()
    return self:each(function(server)
        if server:alive() then
            server:kill()
        end
    end)
end

local function run_id(server)
    return server:call("INFO", "server"):match "run_id:(%x+)"
end

-- Makes one server late for its clients.
local function delay_one(self)
    local late = self[1]
    for _, server in ipairs(self) do
        if (run_id(server) < run_id(late)) == (LAG == "gate") then
            late = server
        end
    end
    late.late = proxy.late(late.direct, LAG_MS)
    set_port(late, late.late.port)
end

local function start(self, n, opts)
    self.unnamed = opts and opts.unnamed
    for i = 1, n do
        self[i] = new(opts or {})
        if opts and opts.clocks then
            self[i].clock = shim.clock()
        end
        launch(self[i])
    end
    self:each(await)
    if LAG and n > 1 and not (opts or {}).unixsocket then
        delay_one(self)
    end
    return (n == 1 or (opts or {}).new) and self or self:admit()
end

-- opts: args, port, password, unixsocket; new: the servers are not admitted yet; a single one,
-- whose clients do without the guard, never is.
-- unnamed: they are known by their addresses, as those of programs that say no `cluster`.
-- clocks: each has a wall clock of its own, server.clock.
function _M.cluster(n, opts)
    return start(setmetatable({}, Cluster), n, opts)
end

--- For all tests of a group: a cluster that is empty before each of them. It can be named at
-- once; the servers are there from setup() on.
function _M.shared_cluster(n, opts)
    local busted = require "busted"
    local cluster = setmetatable({}, Cluster)
    busted.setup(function() start(cluster, n, opts) end)
    busted.before_each(function() cluster:flush() end)
    return cluster
end

function _M.server(opts)
    return _M.cluster(1, opts)[1]
end

return _M
