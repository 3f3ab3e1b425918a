-- The servers, the clients and the network between them: what faults act upon.
--
-- A proxy of its own carries each edge, from one client to one server, so that any client can
-- be cut off from any server.
local cjson = require "cjson"
local build = require "spec.support.build"
local inspect = require "spec.support.inspect"
local kinds = require "spec.chaos.kinds"
local marks = require "spec.chaos.marks"
local proc = require "spec.support.proc"
local proxy = require "spec.support.proxy"
local redis = require "spec.support.redis"
local resp = require "spec.support.resp"
local restart_guard = require "redlock.servers.restart_guard"
local scope = require "spec.support.scope"
local sys = require "spec.support.sys"

local _M = {}

local ABANDON_S = 0.005
local QUIT_S = 15               -- nginx breaks requests off after ten

local World = {}
World.__index = World

-- ---- what is known afterwards ----------------------------------------------------

function World:mark(k, c, more)
    local m = more or {}
    m.k, m.c, m.a = k, c, marks.now()
    self.marks[#self.marks + 1] = m
end

--- What became of whom, for who reads the history.
function World:log(whom, what, text, more)
    more = more or {}
    more.whom, more.text = whom, text
    self:mark(what, nil, more)
end

function World:violation(text)
    self.violations[#self.violations + 1] = { t = marks.now(), text = text }
end

function World:note(f, text)
    self:log("network", "note", ("%s: client %d, servers %s"):format(text, f.client,
        table.concat(f.edges, " ")))
end

function World:server_note(s, text)
    self:log("server " .. s, "note", text)
end

function World:server_is(s, state, text)
    self:log("server " .. s, state, text)
end

-- ---- clocks ----------------------------------------------------------------------

local function new_clock(dir, name)
    local path = dir .. "/" .. name
    sys.write_file(path, ("\0"):rep(4096))
    return { path = path, us = marks.shared(path),
        env = { LD_PRELOAD = build.program "clockshim.so", CLOCKSHIM = path } }
end

function World:step_server(s, ms)
    local clock = self.clocks[s]
    clock.us[0] = clock.us[0] + ms * 1000
    self.skew_ms = self.skew_ms + math.abs(ms)
    self:log("server " .. s, "clock", "clock step", { step_ms = ms })
end

function World:step_client(c, wall_ms, steady_ms)
    local client = self.clients[c]
    local us = client.clock.us
    us[0] = us[0] + (wall_ms + steady_ms) * 1000
    us[1] = us[1] + steady_ms * 1000
    if steady_ms ~= 0 then
        self:mark("suspended", client.id, { by = steady_ms })
    end
    self:log(client.name, "clock", steady_ms ~= 0 and "as if it had been suspended"
        or "wall clock", { step_ms = math.floor(wall_ms + steady_ms) })
end

-- ---- servers ---------------------------------------------------------------------

-- With "everysec" a write to the log may wait for a slow disk, and a kill forget what was
-- granted; with "no" the log is written before the reply, and survives the process.
local function new_server(self, s)
    local clock = new_clock(self.dir, "server" .. s)
    self.clocks[s] = clock
    self.servers[s] = redis.server { new = true, env = clock.env,
        args = { "--appendonly", "yes", "--appendfsync", "no" } }
    if self.opts.restart_guard then
        self.servers[s]:admit(self.opts.max_lease)
    end
    self:server_is(s, "up", "started")
end

function World:command(s, ...)
    local reply, err = self.servers[s]:call(...)
    if reply == nil and err then
        error(("server %d, %s: %s"):format(s, table.concat({ ... }, " "), err), 0)
    end
    return reply
end

--- Sends a command and does not wait for the answer.
function World:abandon(s, ...)
    local conn = assert(resp.connect(self.servers[s].port, ABANDON_S))
    conn:call(...)
    conn:close()
end

function World:wipe(s)
    local dir = self.servers[s].dir
    os.execute(("rm -rf '%s/appendonlydir' '%s/appendonly.aof'"):format(dir, dir))
    self:server_note(s, "wiped")
end

-- What a machine without power forgets: the end of what it had not synced. (The second name is
-- that of Redis before 7.)
function World:truncate_log(s, bytes)
    os.execute(("cd '%s' && for f in appendonlydir/*.incr.aof appendonly.aof; do "
        .. "[ ! -f \"$f\" ] || truncate -s -%d \"$f\"; done"):format(self.servers[s].dir, bytes))
    self:server_note(s, ("lost the last %d bytes of its log"):format(bytes))
end

local function acquire_script(opts, fenced)
    local function text(name)
        return assert(sys.read_file(("%s/lua/redlock/scripts/%s.lua"):format(
            opts.library or build.root, name)))
    end
    if fenced then
        return text "fenced/counter" .. text "fenced/acquire" .. text "lock/shape"
            .. text "lock/refused"
    end
    local script = text "lock/acquire" .. text "lock/shape" .. text "lock/refused"
    return opts.restart_guard and restart_guard.wrap(script) or script
end

--- What is in each acquire of a client, but for the first ones.
function World:acquire_sha(c)
    local fenced = self.clients[c].kind.fenced or false
    self.shas[fenced] = self.shas[fenced]
        or assert(self.accounts:call("SCRIPT", "LOAD", acquire_script(self.opts, fenced)))
    return self.shas[fenced]
end

-- Two faults may keep one edge shut.
function World:refuse(c, s, on)
    local edge = self.edges[c][s]
    edge.shut = (edge.shut or 0) + (on and 1 or -1)
    edge:refuse(edge.shut > 0)
end

-- The server that a client never reaches where majorities are bare.
function World:out_of_reach(c)
    return (c - 1) % self.opts.nodes + 1
end

--- Nobody gets to a server before its door is opened again.
function World:shut(s)
    for c = 1, #self.edges do
        self:refuse(c, s, true)
        self.edges[c][s]:cut()
    end
    self:server_note(s, "cut off: it may forget locks")
end

function World:open(s)
    for c = 1, #self.edges do
        self:refuse(c, s, false)
    end
    self:server_note(s, "may vote again")
end

-- What a server has to remember as long as it lives is no lock.
local BOOK_KEEPING = "^redlock:{server}:"

--- The keys of a server that locks have made, and how many ms they have left.
function World:keys(s)
    local keys = {}
    for _, key in ipairs(self:command(s, "KEYS", "*")) do
        if not key:find(BOOK_KEEPING) and not key:find "}:fence$" then     -- kept for a day
            keys[key] = self:command(s, "PTTL", key)
        end
    end
    return keys
end

-- ---- clients ---------------------------------------------------------------------

function World:start_client(c)
    local client, opts = self.clients[c], self.opts
    client.run = client.run + 1
    client.id = client.run == 1 and tostring(c) or ("%d#%d"):format(c, client.run)
    local file = ("%s/client%s.json"):format(self.dir, client.id)
    sys.write_file(file, cjson.encode {
        id = client.id, seed = opts.seed, slots = client.kind.slots,
        fenced = client.kind.fenced, locks = opts.locks, leases = opts.leases,
        lease = opts.lease, hold_s = opts.hold_s, settle_s = opts.settle_s,
        careless = opts.careless, ways = client.kind.ways,
        recorder = self.socket, resource = self.resource, accounts = self.accounts.port,
        options = {
            nodes = self.uris[c], lease = opts.lease, max_lease = opts.max_lease,
            timeout = opts.timeout, connect_timeout = opts.connect_timeout,
            cluster = redis.CLUSTER, fallback = opts.fallback, patience = 2,
            restart_guard = opts.restart_guard,
        },
        careless_slot = (c == 1 or client.kind.slots > 1) and client.kind.slots or 0,
    })
    client.log = ("%s/client%s.log"):format(self.dir, client.id)
    client.proc = client.kind.start(file, opts.library, client.clock.env, client.log)
    client.away = false
    self:log(client.name, "up", "started")
end

function World:stop_client(c)
    local client = self.clients[c]
    self:mark("stopped", client.id)
    client.proc:kill "STOP"
    sys.eventually(function()
        return not (inspect.state(client.proc.pid) or ""):find "[RSD]"
    end, 5, "a client to stop")
    self:log(client.name, "frozen", "SIGSTOP")
end

function World:continue_client(c)
    local client = self.clients[c]
    client.proc:kill "CONT"
    self:mark("continued", client.id)
    self:log(client.name, "up", "SIGCONT")
end

function World:kill_client(c)
    local client = self.clients[c]
    client.away = true
    self:mark("died", client.id)         -- before: what it does until then does not count
    client.proc:kill "KILL"
    client.proc:wait()
    client.proc:close()
    self:log(client.name, "down", "kill -9")
end

-- ---- nginx -----------------------------------------------------------------------

-- One of the workers, old ones that are about to end among them. @return its process, and who
-- it is in marks
local function worker_of(client, x)
    local pids = client.quitting and {} or client.proc.nginx:workers()
    local pid = pids[math.floor(x * #pids) + 1]
    return pid, pid and ("%s#%d"):format(client.id, pid)
end

function World:reload_nginx(c)
    local client = self.clients[c]
    if not client.quitting then
        client.proc.nginx:signal "HUP"
        self:log(client.name, "note", "HUP")
    end
end

function World:kill_worker(c, x)
    local pid, id = worker_of(self.clients[c], x)
    if pid then
        self:mark("died", id)
        os.execute(("kill -KILL %d"):format(pid))
        self:log(self.clients[c].name, "note", "kill -9 of worker " .. pid)
    end
end

--- @return the worker, for continue_worker
function World:stop_worker(c, x)
    local pid, id = worker_of(self.clients[c], x)
    if pid then
        self:mark("stopped", id)
        os.execute(("kill -STOP %d"):format(pid))
        self:log(self.clients[c].name, "note", "SIGSTOP of worker " .. pid)
        return { pid = pid, id = id }
    end
end

function World:continue_worker(c, worker)
    if worker then
        os.execute(("kill -CONT %d"):format(worker.pid))
        self:mark("continued", worker.id)
        self:log(self.clients[c].name, "note", "SIGCONT of worker " .. worker.pid)
    end
end

function World:quit_nginx(c)
    local client = self.clients[c]
    if not client.quitting then
        client.proc.nginx:signal "QUIT"
        client.quitting = sys.now()
        self:log(client.name, "down", "QUIT")
    end
end

--- Starts those that have quit. Others are not waited for: that would prolong the faults in
-- whose way they are, and so what they wait for.
function World:start_nginx()
    for c, client in ipairs(self.clients) do
        local nginx = client.proc.nginx
        local since = client.quitting
        if since and sys.now() > since + QUIT_S and nginx.proc:alive() then
            self:violation(("client %d: nginx does not quit"):format(c))
            nginx.proc:kill "KILL"
            nginx.proc:wait()
        end
        if since and not nginx.proc:alive() then
            if nginx.proc.code ~= 0 then
                self:violation(("client %d: nginx quit with %d"):format(c, nginx.proc.code))
            end
            nginx:start()
            client.quitting = nil
            self:log(client.name, "up", "started")
        end
    end
end

--- The same, and waits for them.
function World:await_nginx()
    sys.eventually(function()
        self:start_nginx()
        for _, client in ipairs(self.clients) do
            if client.quitting then
                return false
            end
        end
        return true
    end, 2 * QUIT_S, "nginx to quit")
end

-- ---- the end of clients ----------------------------------------------------------

--- Reports clients that ended by themselves.
function World:look_after_clients()
    for c, client in ipairs(self.clients) do
        if not client.away and not client.proc:alive() then
            client.away = true
            self:mark("died", client.id)
            self:violation(("client %d ended by itself (%s): %s"):format(c, client.proc.code,
                sys.read_file(client.log) or ""))
        end
    end
end

--- All of them take every lock once and say so. @return whether they did
function World:settle_clients(timeout)
    local deadline = sys.now() + timeout
    for _, client in ipairs(self.clients) do
        if not client.away then
            client.proc:write "settle\n"
        end
    end
    for c, client in ipairs(self.clients) do
        local line = not client.away
            and client.proc:read_line(math.max(deadline - sys.now(), 0.01))
        if line ~= "settled" and not client.away then
            self:look_after_clients()
            if not client.away then
                self:violation(("client %d is not served in %g s after all faults were over")
                    :format(c, timeout))
            end
        end
    end
end

function World:quit_clients()
    for c, client in ipairs(self.clients) do
        if not client.away then
            client.proc:write "quit\n"
            local code = client.proc:wait(10)
            if code ~= 0 then
                self:violation(("client %d did not end well (%s): %s"):format(c,
                    tostring(code), sys.read_file(client.log) or ""))
                client.proc:kill "KILL"
                client.proc:wait()
            end
            client.proc:close()
            client.away = true
            local complaint = client.kind.finish and client.kind.finish(client.proc)
            if complaint then
                self:violation(("client %d: %s"):format(c, complaint))
            end
        end
    end
end

-- ---- all -------------------------------------------------------------------------

local function start_recorder(self)
    self.socket, self.file = self.dir .. "/marks", self.dir .. "/marks.jsonl"
    self.recorder = proc.spawn { "luajit", build.root .. "/spec/chaos/recorder.lua",
        self.socket, self.file, stdin = "pipe", stdout = "pipe",
        env = require("spec.support.lua").env() }
    assert(self.recorder:read_line(10) == "ready", "the recorder does not start")
end

local function start_edge(self, c, s)
    local opts = self.opts
    local edge = proxy.proxy(self.servers[s].port)
    edge:seed(c * 1000 + s)
    edge:spread("both", opts.late_permille, 0, opts.lease * 2000)
    edge:reset(opts.reset_permille)
    self.edges[c][s], self.uris[c][s] = edge, edge.uri
end

local function start_edges(self, c)
    self.edges[c], self.uris[c] = {}, {}
    for s in ipairs(self.servers) do
        start_edge(self, c, s)
    end
    if self.opts.bare then
        self:refuse(c, self:out_of_reach(c), true)
    end
end

--- Ends whatever may still be in force.
function World:heal()
    for _, edges in ipairs(self.edges) do
        for _, edge in ipairs(edges) do
            edge:spread("both", 0, 0, 0)
            edge:reset(0)
        end
    end
    for c = 1, self.opts.bare and #self.edges or 0 do
        self:refuse(c, self:out_of_reach(c), false)
    end
end

--- Ends the recorder. @return its marks and ours, as a list
function World:collect()
    self.recorder:close_stdin()
    assert(self.recorder:wait(10) == 0, "the recorder failed")
    local list = {}
    for line in io.lines(self.file) do
        list[#list + 1] = cjson.decode(line)
    end
    for _, m in ipairs(self.marks) do
        list[#list + 1] = m
    end
    return list
end

--- Servers, edges and clients, all up.
-- @param opts  of run.lua
function _M.new(opts)
    local self = setmetatable({ opts = opts, dir = scope.tmpdir(), servers = {}, clocks = {},
        edges = {}, uris = {}, clients = {}, marks = {}, violations = {}, skew_ms = 0,
        shas = {} }, World)
    self.resource = self.dir .. "/resource"
    sys.write_file(self.resource, ("\0"):rep(4096))
    start_recorder(self)
    self.accounts = redis.server()
    for s = 1, opts.nodes do
        new_server(self, s)
    end
    for c = 1, opts.clients + opts.nginx do
        start_edges(self, c)
        local kind = kinds[c > opts.clients and "nginx"
            or opts.kinds[(c - 1) % #opts.kinds + 1]]
        self.clients[c] = { kind = kind, run = 0, name = "client " .. c,
            clock = new_clock(self.dir, "clock" .. c) }
        self:start_client(c)
    end
    return self
end

return _M
