--- A small world with choices (explorer.lua): two clients, A and B, and what they do.
--
-- There are three servers, of which the first is the gate (the one with the smallest run_id, which
-- attempts may ask first). Servers are not taken for alike.

local library = require "redlock.testing.library"

local assert, ipairs, pairs, setmetatable, tonumber = assert, ipairs, pairs, setmetatable, tonumber
local huge = math.huge

local C = library.core()
local LEASE, TIMEOUT = 4, 0.25           -- seconds
local SECOND = 1e6

local _M = { LEASE = LEASE }
local Stage = { LEASE = LEASE, TIMEOUT = TIMEOUT }
Stage.__index = Stage
for _, part in ipairs { "messages", "servers", "verdicts" } do
    for name, method in pairs(require("spec.exhaust." .. part)) do
        Stage[name] = method
    end
end

--- Connects a client, names it, and makes its links as long at each time.
function Stage:name(client, who)
    assert(client:connect(5))
    for _, one in ipairs(self.world.world.clients) do
        if one.client == client then
            self.names[one.process] = who
            self:away(who, 100)
        end
    end
end

local function new(world, x, key, events)
    local self = setmetatable({ x = x, key = key, world_of = world, events = events,
        names = {}, held = {}, muted = {}, number = 0, ends = {}, lost = {}, holds = {} }, Stage)
    self.world = self:open_world(world.lease or LEASE)
    self.a, self.b = self.world:client(), self.world:client()
    for _, one in ipairs { { "A", self.a }, { "B", self.b } } do
        self:name(one[2], one[1])
    end
    for _, server in ipairs(self.world.world.servers) do
        function server.execute(_, conn, argv, n)
            self:arrived(server, conn, argv, n)
        end
    end
    self:watch_ends()
    return self
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

--- Holds and renews for so many seconds, and who is cut off meanwhile until it has lost it.
function Stage:keep(who, lock, seconds)
    local ok, err = lock:lock()
    if not ok then
        self:log("%s gets nothing: %s", who, err)
        return
    end
    local hold = self:got(who, lock)
    hold.kept = true
    lock:onLost(function() hold.told = true end)
    self.world:advance(seconds)
    while self.cut_off == who and lock:remaining() > 0 do
        self.world:advance(0.1)
    end
    self:gone(hold)
    lock:unlock()
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
    self.open, self.cut_off = false, nil
    self:pass(more)
end

--- One run.
-- @param world   { odd: how many odd choices at most; limits: of each class; roles: of messages ->
--   "path": they have a choice of paths, "moment": they are moments; in_trouble: who may be
--   cut off, or far from all servers; lease: of its clients; faults_for: servers may restart for
--   so many seconds; run: function(stage, kind) }
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
