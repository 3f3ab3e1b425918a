--- Schedules in which the servers of a cluster change: a world (redlock.testing), programs with the
-- old list or a new one that lock, take tokens and keep holds, operators that run changes in any
-- order and are killed, and faults. Then the faults end, somebody finishes a change, and each name
-- must be free for programs with its list, and refused to all others.
--
--   luajit spec/sim/changes.lua [FIRST [COUNT]]    from the project's folder; prints what is wrong

local is_command = arg and arg[0] and arg[0]:find "changes.lua$"
if is_command then
    package.path = "./lua/?.lua;./lua/?/init.lua;./?.lua;./build/?.lua;" .. package.path
    package.cpath = "./build/?.so;" .. package.cpath
end

local redlock = require "redlock"
local library = require "redlock.testing.library"

local max, floor = math.max, math.floor

local _M = {}

local NAMES = { "x", "y" }
local MAX_LEASE = 2
local GUARD = MAX_LEASE * 1.01 + 1
local FAULTY = 12                -- seconds with faults

-- The numbers of servers of the old list and of the new one.
local SIZES = { { 1, 3 }, { 3, 1 }, { 3, 3 }, { 3, 3 }, { 3, 5 }, { 5, 3 }, { 2, 3 }, { 5, 4 },
    { 4, 5 }, { 1, 2 }, { 2, 1 }, { 7, 3 }, { 3, 7 } }

local Run = {}
Run.__index = Run

-- ---- chance ----------------------------------------------------------------------

function Run:below(n)
    self.state = (self.state * 16807) % 2147483647
    return self.state % n
end

function Run:chance(percent)
    return self:below(100) < percent
end

function Run:pick(list)
    return list[self:below(#list) + 1]
end

function Run:seconds(most)
    return self:below(1000) / 1000 * most
end

-- ---- lists -----------------------------------------------------------------------

-- `n` servers, of which `stays` are in the list, and the others from `fresh` on.
function Run:another(list, n, fresh)
    local most = math.min(n, #list) - (n == #list and n > 1 and 1 or 0)
    local stays, to = 1 + self:below(most), {}
    local first = self:below(#list)
    for i = 1, n do
        to[i] = i <= stays and list[(first + i) % #list + 1] or fresh + i
    end
    table.sort(to)
    return to
end

function Run:uris(list)
    local uris = {}
    for i, k in ipairs(list) do
        uris[i] = self.world.nodes[k]
    end
    return uris
end

function Run:client(list)
    local one = #list == 1
    return self.world:client { nodes = self:uris(list),
        restart_guard = not one or list ~= self.lists[1] or self.guarded }
end

-- ---- what must hold --------------------------------------------------------------

function Run:violated(text, ...)
    self.violation = self.violation or ("%.3f s: "):format(self.world:now()) .. text:format(...)
end

function Run:log(text, ...)
    if self.verbose then
        print(("%8.3f  "):format(self.world:now()) .. text:format(...))
    end
end

function Run:took(who, name, lock, before)
    local other, token, now = self.holder[name], lock:token(), self.world:now()
    local hold = { who = who, ends = now + max(lock:remaining(), 0), token = token }
    self:log("%s has %s until %.3f, token %.0f", who, name, hold.ends, token)
    if other and other.ends > now and hold.ends > now then
        self:violated("%s and %s both hold %s", who, other.who, name)
    end
    if token <= before then
        self:violated("%s: %s got %.0f, and %.0f was given out before", name, who, token, before)
    end
    self.last[name] = max(self.last[name], token)
    self.holder[name], self.takes = hold, self.takes + 1
    lock:onLost(function(_, reason)
        self:log("%s loses %s: %s", who, name, reason)
        hold.ends = 0
    end)
    return hold
end

-- ---- programs --------------------------------------------------------------------

function Run:hold(lock, hold, name, seconds)
    local till = self.world:now() + seconds
    while self.world:now() < till and not self.over do
        self.world:advance(0.05)
        local left, now = lock:remaining(), self.world:now()
        if left <= 0 then
            break
        end
        hold.ends = now + left
        local other = self.holder[name]
        if other ~= hold and other.ends > now then
            self:violated("%s and %s both hold %s", hold.who, other.who, name)
        end
    end
end

function Run:program(number, turns)
    local list = turns[1]
    while list > 1 and not (self.early or self.made[list] or self.over) do
        self.world:advance(0.1)
    end
    local client, who = self:client(self.lists[list]), "program " .. number .. " of list " .. list
    local till = self.world:now() + self:seconds(FAULTY)
    self.clients[#self.clients + 1] = client
    while not self.over do
        if turns[2] and self.world:now() > till then
            return client:close() and self:program(number, { turns[2] })
        end
        local name = self:pick(NAMES)
        local lock, before = client:getFencedLock(name), self.last[name]
        if lock:tryLock(self:seconds(0.5)) then
            local hold = self:took(who, name, lock, before)
            self:hold(lock, hold, name, self:chance(30) and self:seconds(8) or self:seconds(0.3))
            hold.ends = 0
            lock:unlock()
        end
        self.world:advance(0.01 + self:seconds(0.1))
    end
end

-- ---- operators -------------------------------------------------------------------

-- What an operator says of servers that do not answer: `stopped` is; `mistaken` is not, but may be
-- cut off just now.
function Run:operate(to)
    local from = self:client(self.lists[1])
    local new = self:client(self.lists[to])
    self.operators[from], self.operators[new] = true, true
    local task = self.world:spawn(function()
        self:log("a change to list %d begins", to)
        local gone = self.stopped or self.mistaken
        local ok, err = from:change(new, { gone = gone and self:uris { gone } })
        self.made[to] = self.made[to] or ok and true
        self:log("a change to list %d: %s", to, tostring(ok and "made" or err))
        return ok, err
    end)
    return task
end

function Run:end_operators()
    for client in pairs(self.operators) do
        self.operators[client] = nil
        if client.core then
            self.world:crash(client)
        end
    end
end

function Run:operator()
    for _ = 1, 2 do
        self.world:advance(self:seconds(FAULTY / 2))
        if self.calm then
            return
        end
        local task = self:operate(self:pick(self.targets))
        if self:chance(70) then
            self.world:advance(self:seconds(30 * self.round_trip))
            self:end_operators()
            self:log(task:isDone() and "the operators end" or "the operators are killed")
        end
    end
end

-- ---- faults ----------------------------------------------------------------------

local FAULTS = {}

function FAULTS.restart(self, i)
    if #self.lists[1] == 1 and not self.guarded and i == self.lists[1][1] then
        return
    end
    local world, forgets = self.world, self.losses > 0 and self:chance(70)
    self.losses = self.losses - (forgets and 1 or 0)
    self:log("server %d is down%s", i, forgets and ", and forgets" or "")
    world:kill(i)
    world:advance(self:seconds(1))
    world:start(i, { forgotten = forgets })
end

function FAULTS.freeze(self, i)
    self:log("server %d stands still", i)
    self.world:freeze(i)
    self.world:advance(self:seconds(1))
    self.world:thaw(i)
end

function FAULTS.cut(self, i)
    self:log("server %d is cut off", i)
    self.world:cut(i)
    self.world:advance(self:seconds(1))
    self.world:mend(i)
end

function FAULTS.stop(self)
    local client = self:pick(self.clients)
    if client and client.core then
        self:log "a program stands still"
        self.world:stop(client, self:seconds(1.5))
    end
end

-- A process of some client does not reach a server, or hears nothing from it.
function FAULTS.silence(self, i)
    local C, open = library.core(), self.world.world.clients
    local client = open[self:below(#open) + 1]
    local till = C.sim_now() + self:seconds(1.5) * 1e6
    local way = self:below(3)
    C.sim_silence(client.process, i - 1, way ~= 0 and till or 0, way ~= 1 and till or 0)
end

local KINDS = { "restart", "restart", "freeze", "cut", "stop", "silence", "silence" }

function Run:misfortune()
    while true do
        self.world:advance(self:seconds(2))
        if self.calm then
            return
        end
        local i = 1 + self:below(#self.world.nodes)
        if not self.down[i] then
            self.down[i] = true
            FAULTS[self:pick(KINDS)](self, i)
            self.down[i] = nil
        end
    end
end

-- One that goes is stopped for good.
function Run:stop_one()
    local i = self.lists[1][1]
    for _, list in ipairs { unpack(self.lists, 2) } do
        for _, k in ipairs(list) do
            if k == i then
                return
            end
        end
    end
    self.world:advance(self:seconds(FAULTY))
    if not self.down[i] then
        self.down[i], self.stopped = true, i
        self.world:kill(i)
        self:log("server %d is stopped for good", i)
    end
end

-- ---- the end ---------------------------------------------------------------------

-- Does what an error says of a server with the marker of a list that never had its vote. True: did.
function Run:obey(text)
    for i, uri in ipairs(self.world.nodes) do
        if text:find(uri .. " belongs", 1, true) and text:find "run FLUSHALL on this server" then
            self:log("FLUSHALL on server %d", i)
            self.world:call(i, "FLUSHALL")
            return true
        end
    end
end

-- Finishes one of the changes.
-- @return the number of the list that the cluster has then, or nil and an error
function Run:finish()
    local err
    for _ = 1, 2 do
        for _, to in ipairs(self.targets) do
            local ok
            repeat
                ok, err = self:operate(to):join(60)
                self:end_operators()
            until ok or not self:obey(tostring(err))
            if ok then
                return to
            end
        end
        self.world:advance(GUARD)
    end
    -- One that was made without a server, which another one had closed.
    return self.mistaken and next(self.made), err
end

function Run:conclude()
    self.calm = true
    self.world:advance(3)                -- faults end
    self:end_operators()
    local to, err = self:finish()
    if not to then
        return self:violated("no change can be finished: %s", tostring(err))
    end
    self.world:advance(self:seconds(2))
    self.over = true
    for _, task in ipairs(self.programs) do
        task:join(60)
    end
    for k, list in ipairs(self.lists) do
        local client = self:client(list)
        for _, name in ipairs(NAMES) do
            local lock = client:getFencedLock(name)
            local before = self.last[name]
            local ok, why = lock:tryLock(k == to and 20 or 0.3)
            if k == to and not ok then
                self:violated("%s is stuck: %s", name, tostring(why))
            elseif ok and k ~= to then
                self:violated("a program of list %d gets %s, after the change to %d", k, name, to)
            elseif ok then
                self:took("the last", name, lock, before)
                lock:unlock()
            end
        end
    end
end

--- Runs the schedule of a seed.
-- @return what is wrong, as a text, or nil; and the run
function _M.run(seed, verbose)
    local self = setmetatable({ state = (seed * 7919 + 12345) % 2147483646 + 1, verbose = verbose,
        holder = {}, last = { x = 0, y = 0 }, takes = 0, clients = {}, operators = {},
        programs = {}, down = {}, made = {} }, Run)
    for _ = 1, 5 do
        self:below(2)
    end
    local sizes, lists = self:pick(SIZES), { {} }
    for i = 1, sizes[1] do
        lists[1][i] = i
    end
    lists[2] = self:another(lists[1], sizes[2], sizes[1])
    lists[3] = self:chance(30) and self:another(lists[1], sizes[2], sizes[1] + sizes[2]) or nil
    if lists[3] and table.concat(lists[2], " ") == table.concat(lists[3], " ") then
        lists[3] = nil
    end
    self.lists, self.targets = lists, lists[3] and { 2, 3 } or { 2 }
    self.guarded = self:chance(60)       -- one server alone
    self.losses = self:below(math.min(2, floor((sizes[1] + 1) / 2)))
    self.round_trip = self:pick { 0.0005, 0.005, 0.03 }
    local world = redlock.testing.new { nodes = sizes[1] + 2 * sizes[2], seed = seed,
        new_cluster = true, round_trip = self.round_trip, client = { max_lease = MAX_LEASE,
            lease = 1, timeout = 0.2, connect_timeout = 0.3, fallback = 0.2, on_event = false } }
    self.world = world
    local first = self:client(lists[1])
    assert(first:init { force = true })
    for i = 1, 3 + self:below(3) do
        local turns = self:pick { { 1 }, { 1, 2 }, { 1, 2 }, { 2 }, { 1, lists[3] and 3 } }
        self.programs[i] = world:spawn(self.program, self, i, turns)
    end
    for _ = 1, 1 + self:below(2) do
        world:spawn(self.operator, self)
    end
    -- A list may begin by itself where servers without a marker are heard alone, and these are most
    -- of it: its programs start after its change then, unless there are no faults.
    local faults, empty = self:below(3), self.losses
    for _, k in ipairs(lists[2]) do
        empty = empty + (k > sizes[1] and 1 or 0)
    end
    self.early = faults == 0 or not lists[3] and empty < (sizes[2] + 1) / 2
    for _ = 1, faults do
        world:spawn(self.misfortune, self)
    end
    if self.losses == 0 and self:chance(20) then
        self.mistaken = self:pick(lists[1])
    elseif self:chance(20) then
        world:spawn(self.stop_one, self)
    end
    world:advance(FAULTY)
    self:conclude()
    world:close()
    return self.violation, self
end

if is_command then
    local first, count, bad, takes = tonumber(arg[1] or 1), tonumber(arg[2] or 1), 0, 0
    for seed = first, first + count - 1 do
        local ok, text, run = pcall(_M.run, seed, count == 1)
        takes = takes + (ok and run.takes or 0)
        if not ok or text then
            bad = bad + 1
            print(seed, text)
        end
    end
    print(("%d schedules, %d takes, %d wrong"):format(count, takes, bad))
    os.exit(bad == 0 and 0 or 1)
end

return _M
