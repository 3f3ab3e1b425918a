--- The stage on which a prefix plays (prefixes.lua): what its script can tell coroutines to
-- do, and wait for.

local base = require "spec.sim.sim"
local tokens = require "spec.sim.tokens"
local workload = require "spec.sim.workload"

local coroutine, error, ipairs, setmetatable, traceback = coroutine, error, ipairs,
    setmetatable, debug.traceback
local C, MS, SECOND = base.C, base.MS, base.SECOND

local _M = {}

local LIMIT_US = 20 * SECOND     -- a script that does not get on by then is given up
local LONG = 200                 -- ms: all the script takes once clients are connected

local Stage = {}
Stage.__index = Stage

--- Waits until ready() is true; it is asked after every event.
function Stage.await(_, ready)
    while not ready() do
        coroutine.yield()
    end
end

--- Waits until it has done what it was told.
-- @return what that returned
function Stage:await_done(order)
    self:await(function() return order.done end)
    return order[1], order[2]
end

--- Tells a coroutine to do something: fn(sim, t). Does not wait for it.
-- @return a table: done, and what fn returned
function Stage:tell(t, fn)
    local order = { fn = fn }
    self:await(function() return t.parked and not t.order end)
    t.order = order
    self.sim:wake(t)
    return order
end

--- The same, and waits.
-- @return what fn returned
function Stage:have(t, fn)
    return self:await_done(self:tell(t, fn))
end

--- Tells it to take the lock. The hold is used when the script is over.
-- @param lease  seconds; nil: the client's; false: kept by the watchdog
function Stage:take(t, wait, lease, name)
    return self:tell(t, function(sim)
        local client = t.process.client
        t.lock = self.fenced and client:getFencedLock(self.name)
            or client:getLock(name or self.name)
        local ok, hold, err = workload.take(sim, t, t.lock, wait or 0,
            lease == nil and sim.config.lease or lease or nil)
        t.taken, t.err = ok and { hold = hold } or nil, err
        return ok, hold
    end)
end

function Stage:release(t)
    return self:tell(t, function(sim)
        local hold = t.taken and t.taken.hold
        t.taken = nil
        return workload.call(sim, t, t.lock, "unlock", { value = hold and hold.value,
            hold = hold, last = true })
    end)
end

function Stage:extend(t)
    return self:have(t, function(sim)
        return workload.call(sim, t, t.lock, "extend", nil, sim.config.lease)
    end)
end

--- Whether server i has executed that for the present attempt of a coroutine.
function Stage.did(_, t, role, i)
    local counts = t.attempt and t.attempt[role]
    return counts and counts[i - 1] > 0
end

--- Waits until all these servers have.
function Stage:await_did(t, role, ...)
    for _, i in ipairs { ... } do
        self:await(function() return self:did(t, role, i) end)
    end
end

--- What goes to a server (way 1), comes from it (2), or both (3), is late.
function Stage:silent(t, i, way, ms)
    local till = self.sim.now() + (ms or LONG) * MS
    C.sim_silence(t.process.index, i - 1, way ~= 2 and till or 0, way ~= 1 and till or 0)
end

--- The key of the lock ends there before its time.
function Stage:expire(i)
    self.sim.servers[i].db[self.name] = nil
end

--- Servers count on, each by so much.
function Stage:count(...)
    for i, by in ipairs { ... } do
        if by > 0 then
            tokens.count_on(self.sim, self.sim.servers[i], self.name, by)
        end
    end
end

function Stage:counter(i)
    return tokens.counter_at(self.sim, self.sim.servers[i], self.name) or 0
end

--- No server has the lock's key.
function Stage:await_free()
    self:await(function()
        for _, server in ipairs(self.sim.servers) do
            if server:entry(self.name) then
                return false
            end
        end
        return true
    end)
end

--- Takes it and lets it go.
-- @return its token
function Stage:once(t)
    local token
    repeat
        local ok, hold = self:await_done(self:take(t, 1))
        token = hold and hold.token
    until ok
    self:await_done(self:release(t))
    self:await_free()
    return token
end

--- All are connected with all servers, which count alike, and the lock is free.
function Stage:begin()
    local sim = self.sim
    for _, t in ipairs(sim.tasks) do
        self:await(function() return t.parked end)
    end
    if sim.guarded then
        self:have(self[1], workload.init)
        sim.new_cluster = false
    end
    for _, t in ipairs(self) do
        self:have(t, function()
            local client = t.process.client
            local turn = client:getLock "turn"
            repeat
                local all = turn:isLocked() ~= nil
                for i, node in ipairs(client:stats().nodes) do
                    all = all and (node.ready or sim.twin and (i == sim.twin or i == sim.n))
                end
                sim:sleep(MS)
            until all
        end)
    end
    if self.fenced then
        self:once(self[1])
    end
end

-- ---- a play ---------------------------------------------------------------------

--- The life of a coroutine: does what the script says, and then what any other does.
function _M.life(sim, t)
    while not sim.prefix_over do
        local order = t.order
        if order then
            t.parked = false
            order[1], order[2] = order.fn(sim, t)
            order.done, t.order = true, nil
        else
            t.parked = true
            sim:park()
            t.parked = false
        end
    end
    if t.taken then
        workload.use(sim, t, t.lock, t.taken.hold)
    end
    workload.run(sim, t)
end

--- Lets the script play. Afterwards the schedule goes on.
function _M.play(sim, run_for)
    local prefix = sim.prefix
    local stage = setmetatable({ sim = sim, name = sim.names[1],
        fenced = prefix.fenced and prefix.fenced > 0 }, Stage)
    for i, p in ipairs(sim.processes) do
        stage[i] = p.tasks[1]
    end
    local script = coroutine.create(function()
        stage:begin()
        sim:log("resource", "note", "prefix: " .. prefix.name)
        prefix.play(stage)
        sim:log("resource", "note", "prefix over: " .. prefix.name)
    end)
    run_for(sim, LIMIT_US, function()
        local ok, err = coroutine.resume(script)
        if not ok then
            error(traceback(script, err), 0)
        end
        return coroutine.status(script) == "dead"
    end)
    sim.prefix_over, sim.trap = true, nil
    for _, t in ipairs(sim.tasks) do
        if t.parked then
            sim:wake(t)
        end
    end
end

return _M
