--- A small world with choices (explorer.lua): clients, A, B and perhaps more, and what they do.
--
-- There are three servers, of which the first is the gate (the one with the smallest run_id, which
-- attempts may ask first). Servers are not taken for alike.

local library = require "redlock.testing.library"
local messages = require "spec.exhaust.messages"
local testing = require "redlock.testing"

local assert, ipairs, pairs, setmetatable, tonumber = assert, ipairs, pairs, setmetatable, tonumber
local huge = math.huge

local C = library.core()
local TIMEOUT = 0.25                    -- seconds
local SECOND = 1e6

local _M = {}
local Stage = { TIMEOUT = TIMEOUT }
Stage.__index = Stage
for _, part in ipairs { messages, require "spec.exhaust.servers",
    require "spec.exhaust.verdicts" } do
    for name, method in pairs(part) do
        Stage[name] = method
    end
end

-- ---- the world ---------------------------------------------------------------------------

--- A copy of what a server has, whose values never change.
function Stage.copy(db)
    local copy = {}
    for key, entry in pairs(db) do
        copy[key] = { value = entry.value, at = entry.at }
    end
    return copy
end

-- What `init` writes on servers, by the lease. It draws random numbers, so all worlds get the same.
local voting = {}

local function new_world(lease, options)
    local all = { lease = lease, max_lease = lease, timeout = TIMEOUT, connect_timeout = TIMEOUT,
        metrics = false, on_event = false }
    for name, value in pairs(options or {}) do
        all[name] = value
    end
    local begun = voting[lease] ~= nil
    local world = testing.new { nodes = 3, round_trip = 0.0002, new_cluster = begun,
        client = all, seed = begun and 2 or 1 }
    if begun then
        return world
    end
    voting[lease] = {}
    for i, server in ipairs(world.world.servers) do
        voting[lease][i] = Stage.copy(server.db)
    end
    return new_world(lease, options)
end

--- Connects a client, names it, and makes its links as long at each time.
function Stage:name(client, who)
    assert(client:connect(5))
    for _, one in ipairs(self.world.world.clients) do
        if one.client == client then
            self.names[one.process], self.names[client] = who, who
            self.process[who] = one.process
            self:away(who, 100)
        end
    end
    return client
end

local function new(world, x, key, say)
    local self = setmetatable({ x = x, key = key, world_of = world, say = say,
        lease = world.lease or 4, names = {}, process = {}, held = {}, muted = {}, number = 0,
        ends = {}, lost = {}, first = {}, holds = {}, asked = {}, still = {} }, Stage)
    self.world = new_world(self.lease, world.options)
    for i, server in ipairs(self.world.world.servers) do
        self.first[server] = voting[self.lease][i]
        server.db, server.replicas = self.copy(self.first[server]), 1
        server.base = self.base_of(server.db)
        function server.execute(_, conn, argv, n)
            self:arrived(server, conn, argv, n)
        end
        self:watch(server)
    end
    self.a = self:name(self.world:client(), "A")
    self.b = self:name(self.world:client(), "B")
    return self
end

-- ---- what clients do ---------------------------------------------------------------------

--- Releases a hold as often as it was entered. A release after its end must not report success.
function Stage:release(hold, lock, entered)
    for _ = entered or 1, 1, -1 do
        local left = lock:remaining()
        self:gone(hold)
        if lock:unlock() and left <= 0 then
            self:wrong("%s leaves what has ended, and is not told", hold.who)
        end
    end
end

--- Asks, waits, and holds for `seconds`, unless its lease ends sooner.
-- @param fn  called before it releases, or nil
-- @return whether it got it
function Stage:hold(who, lock, wait, kind, seconds, fn)
    local ok, token = lock:tryLock(wait, self.lease)
    if not ok then
        self:log("%s gets nothing: %s", who, token)
        return false
    end
    local hold = self:got(who, lock, kind.tokens and tonumber(token) or nil)
    local entered = kind.nests and lock:tryLock(0, self.lease) and 2 or 1
    self:rest(who, seconds)
    if fn then
        fn()
    end
    self:release(hold, lock, entered)
    return true
end

--- Holds and renews for `seconds`; a client that is cut off holds until its hold has ended.
-- @param deaf  it does not listen to losses
function Stage:keep(who, lock, seconds, deaf)
    local ok, err = lock:lock()
    if not ok then
        self:log("%s gets nothing: %s", who, err)
        return
    end
    local hold = self:got(who, lock)
    hold.kept, hold.deaf = true, deaf
    if not deaf then
        lock:onLost(function(_, reason) self:told(hold, reason) end)
    end
    self:rest(who, seconds)
    while self.cut_off == who and lock:remaining() > 0 do
        self.world:advance(0.1)
    end
    self:release(hold, lock)
end

--- Lets `seconds` pass, or less if something goes wrong.
function Stage:pass(seconds)
    local world, over = self.world.world, false
    world:later(seconds * SECOND, function() over = true end)
    world:pass(function()
        self:look()
        return over or self.fault ~= nil
    end)
end

--- From now on there are choices.
function Stage:start()
    self.open = true
    self.faults_until_us = C.sim_now() + (self.world_of.faults_for or huge) * SECOND
    self:moment(nil, "at once")
end

--- Runs a, which calls start(), for `seconds`, and b from some moment in them on; then lets
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
    self.open, self.cut_off = false, nil
    self:pass(more)
end

--- One run.
-- @param world   { limits: how many odd choices of each class at most; roles: of messages ->
--   "path": they have a choice of paths, "moment": they are moments; in_trouble: who may be
--   in trouble; pauses: also before it looks at its hold; lease, options: of its clients;
--   faults_for: seconds in which servers may restart; run: function(stage, kind) }
-- @param kind    { key: whose ends are moments, ... } (kinds.lua)
-- @param say     called with each line of a log, or nil
-- @return the stage; its `fault` says what went wrong
function _M.run(world, x, kind, say)
    local self = new(world, x, kind.key, say)
    messages.attend(self)
    world.run(self, kind)
    messages.attend(nil)
    self.world:close()
    return self
end

return _M
