--- A small world with choices (explorer.lua): what a message, a server and a beginner may do.
--
-- A stage has three servers, of which the first is the gate (the one with the smallest run_id,
-- which attempts may ask first), and two clients, A and B. Servers are not taken for alike.

local library = require "redlock.testing.library"
local host = require "redlock.testing.host"
local sha1 = require "redlock.testing.sha1"
local testing = require "redlock.testing"

local format = string.format
local getmetatable, setmetatable, type = getmetatable, setmetatable, type
local assert, ipairs, pairs, tonumber = assert, ipairs, pairs, tonumber
local huge, max, insert, remove = math.huge, math.max, table.insert, table.remove

local C = library.core()
local LEASE, TIMEOUT = 4, 0.25           -- seconds
local SECOND, MS = 1e6, 1e3

-- What may become of a message: a request and its answer. `late`: when the request arrives;
-- `breaks`: its connection breaks at once. A late message holds up what follows on its
-- connection; where that broke, its client may overtake it over the next one. The end of the key
-- is that of the key on that server, or of a lease where it has none.
local PATHS = {
    { "arrives" },
    { "arrives a moment later", late = "moment" },     -- than what goes to the other servers
    { "arrives after the time-out", late = "time-out" },
    { "arrives just after the end of the key", late = "end" },
    { "arrives just after the end of the key, over a connection that broke", late = "end",
        breaks = true },
    { "arrives in the last moment of the key, over a connection that broke", late = "last",
        breaks = true },
    { "is lost with its connection", lost = true, breaks = true },
    { "is executed, and the answer is lost with its connection", breaks = true },
    { "is executed, and the answer never arrives", mute = true },
}
local FAULTS = { { "goes on" }, { "restarts with its data" },
    { "restarts empty", forgotten = true } }
local START = { { "later" }, { "B begins" } }
local ORDER = { { "in the order of sending" }, { "in the other order" } }

local _M = { LEASE = LEASE, TIMEOUT = TIMEOUT }
local Stage = {}
Stage.__index = Stage

-- ---- scripts have roles ----------------------------------------------------------------

local roles = {}             -- by text and by SHA-1
local enter = host.enter

local function know(role, text)
    roles[text], roles[sha1.hex(text)] = role, role
end

local function hear(texts)
    local register = texts.register
    function texts.register(core, client, what, body)
        know(what, body)
        return register(core, client, what, body)
    end
end

-- The library of worlds is loaded with the first one, and shares what knows kinds.
hear(require "redlock.runtime.script_text")
function host.enter(world, part)
    if not roles.heard then
        roles.heard = "heard"
        hear(part "redlock.runtime.script_text")
        local own = part("redlock.runtime.script_text").own
        know("mark", own "marker.set")
        know("tell", own "fenced.tell")
        roles["redlock:{server}:marker"] = "marker"
    end
    return enter(world, part)
end

-- ---- messages ----------------------------------------------------------------------

local function execute(self, server, conn, argv, n, what)
    local reply = server.reply
    if self.muted[conn] then
        server.reply = function() return true end
    end
    server.last_word = argv[n]
    getmetatable(server).execute(server, conn, argv, n)
    server.reply = reply
    if what then
        self:log("server %d executes %s", server.index + 1, what)
        self:moment(server, "after server %d has executed %s", server.index + 1, what)
    end
end

-- What a connection has held back arrives, in order; nothing does at a process that has died.
local function flush(self, held)
    self.held[held.conn] = nil
    for _, one in ipairs(held) do
        if held.server.runs == held.runs then
            execute(self, held.server, held.conn, one.argv, one.n, one.what)
        end
    end
end

-- Of two that a client had held back for one server, on two connections, either may be first.
local function due(self, held)
    if self.held[held.conn] ~= held then
        return
    end
    for _, other in pairs(self.held) do
        if other ~= held and other.server == held.server and other.who == held.who
            and other.due_us <= held.due_us + MS and held.number < other.number
            and self.x:choose("order", ORDER, held[1].what .. " and " .. other[1].what
                .. " arrive") == 2 then
            flush(self, other)
            break
        end
    end
    flush(self, held)
end

-- Holds back a request and what follows it on its connection, until so many us from now.
local function hold_back(self, server, conn, us)
    self.number = self.number + 1
    local held = { server = server, conn = conn, runs = server.runs, who = self:sender(),
        due_us = C.sim_now() + us, number = self.number }
    self.held[conn] = held
    self.world.world:later(us, function() due(self, held) end)
    return held
end

-- When a late message arrives, in us from now.
local function delay_us(self, server, late)
    local entry = server:look(self.key)
    local left_us = entry and entry.at and entry.at * MS - server:clock() or LEASE * SECOND
    return late == "moment" and MS or late == "time-out" and (TIMEOUT + 0.02) * SECOND
        or max(0, left_us + (late == "last" and -MS or 2 * MS))
end

local function travel(self, server, conn, argv, n, what)
    local path = PATHS[self.x:choose("path", PATHS, what .. " to server " .. server.index + 1)]
    if path.late then
        insert(hold_back(self, server, conn, delay_us(self, server, path.late)),
            { argv = argv, n = n, what = what })
    elseif not path.lost then
        self.muted[conn] = path.mute
        execute(self, server, conn, argv, n, what)
    end
    if path.breaks then
        C.sim_cut(C.sim_record().process, server.index, 1, 0, 0)
    end
end

--- The name of the client whose message arrives; nil: of none that has a name.
function Stage:sender()
    return self.names[C.sim_record().process]
end

-- Takes the place of a server's execute().
local function arrived(self, server, conn, argv, n)
    local held, who = self.held[conn], self:sender()
    local role = argv[1] == "INFO" and "life" or roles[argv[2] or ""]
    local may = self.open and who and self.world_of.roles[role]
    local what = may and who .. "'s " .. role
    if held then
        insert(held, { argv = argv, n = n, what = what })
    elseif may == "path" then
        travel(self, server, conn, argv, n, what)
    else
        execute(self, server, conn, argv, n, what)
    end
end

-- ---- moments -------------------------------------------------------------------------

--- Something has happened: here B may begin, and, where it happened on a server, that server may
-- restart.
function Stage:moment(server, text, ...)
    local x = self.x
    if not self.open then
        return
    end
    if self.begin and x:choose("start", START, format(text, ...)) == 2 then
        self.begin()
    end
    local faults = server and C.sim_now() < self.faults_until_us
    local fault = faults and FAULTS[x:choose("fault", FAULTS, format(text, ...), "server "
        .. server.index + 1)] or FAULTS[1]
    if fault ~= FAULTS[1] then
        self:restart(server, fault.forgotten)
    end
end

-- Restarts a server, but not within its answer.
function Stage:restart(server, forgotten)
    self:log("server %d restarts %s", server.index + 1, forgotten and "empty" or "with its data")
    self.lost[server] = forgotten and C.sim_now() or self.lost[server]
    self.world.world:later(0, function()
        self.world:kill(server.index + 1)
        self.world:start(server.index + 1, { forgotten = forgotten })
    end)
end

--- A server that forgot gives no vote, and gets no floor, before its quarantine has ended.
function Stage:watch_quarantines()
    for _, server in ipairs(self.world.world.servers) do
        local base
        function server.on_script(_, sha, _, _, result)
            local lost_us, floor = self.lost[server], server:look "redlock:{server}:floor"
            local now_base = floor and floor.value.base
            local early = lost_us and C.sim_now() < lost_us + (LEASE * 1.01 + 1) * SECOND - 5 * MS
            local first = type(result) == "table" and result[1] or result
            local votes = roles[sha] == "acquire" and server.last_word ~= ""     -- "": to heal
            if early and votes and (first == 1 or first == 2) then
                self:wrong("server %d votes in its quarantine", server.index + 1)
            elseif early and now_base and now_base ~= base then
                self:wrong("server %d gets a floor in its quarantine", server.index + 1)
            end
            base = now_base
        end
    end
end

-- A key's end, which nobody sends, is a moment, too.
local function watch_ends(self)
    for _, server in ipairs(self.world.world.servers) do
        server.on_write = function(_, key, _, new)
            local at = key == self.key and new and new.at
            if at and at > (self.ends[server] or 0) then
                self.ends[server] = at
                self.world.world:later((at + 1) * MS - server:clock(), function()
                    if self.ends[server] == at then
                        self:moment(server, "after the end of the key on server %d",
                            server.index + 1)
                    end
                end)
            end
        end
    end
end

-- ---- the whole -----------------------------------------------------------------------

function Stage:log(...)
    if self.events then
        insert(self.events, format("%10.4f  ", C.sim_now() / SECOND) .. format(...))
    end
end

--- It went wrong. The first fault counts.
function Stage:wrong(...)
    self.fault = self.fault or format(...)
    self:log("WRONG: %s", self.fault)
end

--- Connects a client, names it, and makes its links as long at each time.
function Stage:name(client, who)
    assert(client:connect(5))
    for _, one in ipairs(self.world.world.clients) do
        if one.client == client then
            self.names[one.process] = who
            for i = 0, #self.world.nodes - 1 do
                C.sim_path(one.process, i, 100, 0)
            end
        end
    end
end

local function copied(value)
    if type(value) ~= "table" then
        return value
    end
    local copy = {}
    for k, v in pairs(value) do
        copy[k] = copied(v)
    end
    return setmetatable(copy, getmetatable(value))
end

-- A world whose servers may vote. What `init` wrote on them in the first one is copied to the
-- others.
local voting, open_world
function open_world(lease)
    local world = testing.new { nodes = 3, round_trip = 0.0002, new_cluster = voting ~= nil,
        client = { lease = lease, max_lease = lease, timeout = TIMEOUT,
            connect_timeout = TIMEOUT, metrics = false, on_event = false } }
    local first = not voting
    voting = voting or {}
    for i, server in ipairs(world.world.servers) do
        voting[i] = voting[i] or {}
        for key, entry in pairs(first and server.db or voting[i]) do
            local list = first and voting[i] or server.db
            list[key] = { value = copied(entry.value), at = entry.at }
        end
    end
    return first and open_world(lease) or world
end

local function new(world, x, key, events)
    local self = setmetatable({ x = x, key = key, world_of = world, events = events,
        names = {}, held = {}, muted = {}, number = 0, ends = {}, lost = {}, holds = {} }, Stage)
    self.world = open_world(world.lease or LEASE)
    self.a, self.b = self.world:client(), self.world:client()
    for _, one in ipairs { { "A", self.a }, { "B", self.b } } do
        self:name(one[2], one[1])
    end
    for _, server in ipairs(self.world.world.servers) do
        function server.execute(_, conn, argv, n)
            arrived(self, server, conn, argv, n)
        end
    end
    watch_ends(self)
    return self
end

--- Somebody has it: whoever holds must be alone while it is valid, until gone().
-- @return the hold
function Stage:got(who, lock, token)
    self:log("%s holds, for %.3f s%s", who, lock:remaining(), token and ", token " .. token or "")
    local hold = { who = who, lock = lock }
    insert(self.holds, hold)
    self:look()
    if token and self.token and token <= self.token then
        self:wrong("%s got token %d after token %d", who, token, self.token)
    end
    self.token = token or self.token
    return hold
end

function Stage:gone(hold)
    for i, one in ipairs(self.holds) do
        if one == hold then
            remove(self.holds, i)
            self:log("%s releases", hold.who)
        end
    end
end

--- Asks, waits, and holds for so many seconds, unless its lease ends sooner.
-- @param fn  called before it releases, or nil
-- @return whether it got it
function Stage:hold(who, lock, wait, kind, seconds, fn)
    local ok, token = lock:tryLock(wait, LEASE)
    if not ok then
        self:log("%s gets nothing: %s", who, token)
        return false
    end
    local hold = self:got(who, lock, kind.tokens and tonumber(token) or nil)
    self.world:advance(seconds)
    if fn then
        fn()
    end
    self:gone(hold)
    lock:unlock()
    return true
end

--- Holds and renews for so many seconds, unless it loses it.
function Stage:keep(who, lock, seconds)
    assert(lock:lock())
    local hold = self:got(who, lock)
    hold.kept = true
    lock:onLost(function() hold.told = true end)
    self.world:advance(seconds)
    self:gone(hold)
    lock:unlock()
end

--- At most one of the holds is valid; one that is kept was told of its loss before it ends.
function Stage:look()
    local valid
    for _, hold in ipairs(self.holds) do
        if hold.lock:remaining() > 0 then
            if valid then
                self:wrong("%s and %s hold, for %.3f s and %.3f s more", valid.who, hold.who,
                    valid.lock:remaining(), hold.lock:remaining())
            end
            valid = hold
        elseif hold.kept and not hold.told then
            self:wrong("%s was not told of its loss", hold.who)
        end
    end
end

--- No key of a lock is left.
function Stage:nothing_left()
    for _, server in ipairs(self.world.world.servers) do
        for key in pairs(server.db) do
            if server:look(key) and not key:find "{server}" and not key:find ":fence$" then
                self:wrong("%s is left on server %d", key, server.index + 1)
            end
        end
    end
end

--- Lets `seconds` pass, or less if something goes wrong.
function Stage:pass(seconds)
    local world, over = self.world.world, false
    world:later(seconds * SECOND, function() over = true end)
    world:pass(function()
        if #self.holds > 0 then
            self:look()
        end
        return over or self.fault ~= nil
    end)
end

--- From now on there are choices.
function Stage:start()
    self.open = true
    self.faults_until_us = C.sim_now() + (self.world_of.faults_for or huge) * SECOND
    self:moment(nil, "at once")
end

--- Runs a, which calls start(), for so many seconds, and b from some moment in them on; then lets
-- `more` pass, in which all goes as usual.
function Stage:play(a, b, seconds, more)
    function self.begin()
        self.begin = nil
        self:log("B begins")
        self.world.world:later(0, function() self.world:spawn(b) end)
    end
    self.world:spawn(a)
    self:pass(seconds)
    if self.begin then
        self.begin()
    end
    self:pass(seconds)
    self.open = false
    self:pass(more)
end

--- One run.
-- @param world   { odd: how many odd choices at most; limits: of each class; roles: of messages ->
--   "path": they have a choice of paths, "moment": they are moments; lease: of its clients;
--   faults_for: servers may restart for so many seconds; run: function(stage, kind) }
-- @param kind    { key: whose ends are moments, ... } (kinds.lua)
-- @param events  a list for the log, or nil
-- @return the stage; its `fault` says what went wrong
function _M.run(world, x, kind, events)
    local self = new(world, x, kind.key, events)
    world.run(self, kind)
    self.world:close()
    return self
end

return _M
