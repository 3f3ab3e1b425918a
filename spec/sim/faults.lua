--- What can go wrong. Each fault is an entry of one table:
--
--   often    percent of the schedules that have it
--   times    { least, most } strikes in a schedule
--   breaks   what it breaks, if anything: memory, keys, clocks, boottime (such faults are in
--            few schedules), floors, counting, quarantines. Invariants that need what does not
--            hold then (see assume()) are not checked there
--   strike   function(sim): it happens, once
--   prepare  function(sim): before anything runs, also what a schedule begins with (prefixes.lua)
--   begin    function(sim): behind that
--
-- What lasts must end by itself or by the calm at the end (schedule.lua: calm()).

local base = require "spec.sim.sim"
local tokens = require "spec.sim.tokens"

local ipairs = ipairs
local C, MS, SECOND = base.C, base.MS, base.SECOND

local _M = {}

--- Some time that matters: a fraction of a lease, about one, or about a time-out.
local function some_us(sim)
    local o = sim.config
    local around = sim:pick { o.lease * 0.1, o.lease * 0.5, o.lease, o.lease * 1.3, o.timeout,
        o.timeout * 4, 0.005 }
    return around * SECOND * (0.5 + sim:below(1000) / 1000)
end

local function some_server(sim)
    return sim:pick(sim.servers)
end

local function some_process(sim)
    return sim:pick(sim.processes)
end

local ROUNDS = { "acquire", "confirm", "extend", "import" }

--- Calls fn(attempt, server) when a server has executed the first request of such a round.
local function trap(sim, role, fn)
    sim.trap = sim:bound(function(_, server, what, attempt)
        if what == role and attempt and not attempt.process.dead then
            sim.trap = nil
            fn(attempt, server)
        end
    end)
end

local OUT_OF_RANGE = { "60000000000000", "99999999999998", "100000000000000",
    "9223372036854775807", "1e+14", "-1", "" }

_M.list = {
    { name = "slow network", often = 30, times = { 1, 3 }, strike = function(sim)
        local server, p = some_server(sim), some_process(sim)
        C.sim_path(p.index, server.index, sim:below(sim.config.timeout * SECOND),
            sim:below(sim.config.timeout * SECOND))
    end },

    { name = "uneven network", often = 25, times = { 1, 1 }, strike = function(sim)
        for _, p in ipairs(sim.processes) do
            for _, server in ipairs(sim.servers) do
                C.sim_path(p.index, server.index, sim:below(3 * MS), sim:below(20 * MS) + 1)
            end
        end
    end },

    -- The connection breaks at any byte of what is on its way, in either direction.
    { name = "cut", often = 50, times = { 1, 8 }, strike = function(sim)
        C.sim_cut(some_process(sim).index, some_server(sim).index, sim:between(1, 3),
            sim:below(3), sim:below(3))
    end },

    -- Everything that was sent is executed, and no reply comes.
    { name = "lost replies", often = 40, times = { 1, 6 }, strike = function(sim)
        local server, p = some_server(sim), some_process(sim)
        local now = sim.now()
        local us = sim:below(sim.config.timeout * SECOND)
        C.sim_silence(p.index, server.index, 0, now + us)
        sim:later(us * 0.9, function()
            C.sim_cut(p.index, server.index, 3, 1, 0)
        end)
    end },

    -- One direction is silent: what is sent arrives when it is over.
    { name = "silence", often = 40, times = { 1, 4 }, strike = function(sim)
        local server, p = some_server(sim), some_process(sim)
        local till, way = sim.now() + some_us(sim), sim:below(3)
        C.sim_silence(p.index, server.index, way ~= 0 and till or 0, way ~= 1 and till or 0)
        sim:log(server.lane, "note", "silent towards " .. p.lane)
    end },

    -- A process is cut off from all servers, or from a majority.
    { name = "partition", often = 20, times = { 1, 2 }, strike = function(sim)
        local p, till = some_process(sim), sim.now() + some_us(sim)
        local spared = sim:below(sim.n + 1)
        for i, server in ipairs(sim.servers) do
            if i > spared then
                C.sim_silence(p.index, server.index, till, till)
            end
        end
        sim:log(p.lane, "note", "is cut off")
    end },

    { name = "fragments", often = 30, begin = function(sim)
        C.sim_crumble(sim:pick { 5, 30, 90 })
    end },

    { name = "small windows", often = 10, times = { 1, 2 }, strike = function(sim)
        C.sim_window(some_process(sim).index, some_server(sim).index, sim:between(50, 700))
    end },

    { name = "frozen server", often = 35, times = { 1, 4 }, strike = function(sim)
        local server = some_server(sim)
        if server.state ~= C.SIM_UP then
            return
        end
        sim:log(server.lane, "frozen", "stops")
        sim:set_server(server, C.SIM_FROZEN)
        sim:later(some_us(sim), function()
            if server.state == C.SIM_FROZEN then
                sim:set_server(server, C.SIM_UP)
                sim:log(server.lane, "up", "goes on")
            end
        end)
    end },

    { name = "slow server", often = 20, times = { 1, 2 }, strike = function(sim)
        local server = some_server(sim)
        sim:set_server(server, nil, sim:below(sim.config.timeout * SECOND * 0.7))
        sim:log(server.lane, "slow", "is slow")
        sim:later(some_us(sim), function()
            sim:set_server(server, nil, 0)
        end)
    end },

    { name = "crash", often = 30, times = { 1, 3 }, strike = function(sim)
        sim:restart_server(some_server(sim), nil, some_us(sim))
    end },

    -- A minority that does not come back, also not when faults stop.
    { name = "gone for good", often = 10, times = { 1, 1 }, strike = function(sim)
        local server = some_server(sim)
        if sim.n - sim.quorum > (sim.twin and 1 or 0) and not server.stays_down then
            server.stays_down = true
            sim:restart_server(server, nil, SECOND)
        end
    end },

    -- It answers with an error, and has executed nothing.
    { name = "errors", often = 20, times = { 1, 3 }, strike = function(sim)
        local server = some_server(sim)
        server.refuses = sim:pick { "LOADING Redis is loading the dataset in memory",
            "OOM command not allowed when used memory > 'maxmemory'.",
            "READONLY You can't write against a read only replica.",
            "BUSY Redis is busy running a script.", "MISCONF Redis is configured to save" }
        sim:later(some_us(sim), function() server.refuses = nil end)
    end },

    -- No vote, nor a counter.
    { name = "says what cannot be", often = 10, times = { 1, 2 }, strike = function(sim)
        local server = some_server(sim)
        server.says = sim:pick { 1e14 + 3, 2 ^ 53, -3 }
        sim:later(some_us(sim), function() server.says = nil end)
    end },

    { name = "scripts forgotten", often = 15, times = { 1, 3 }, strike = function(sim)
        some_server(sim).scripts = {}
    end },

    -- ---- clients ----

    -- Between any two calls into the core: the thread, or the whole process.
    { name = "pauses", often = 30, begin = function(sim)
        sim.pauses = sim:pick { 2, 10, 40 }
    end },

    { name = "stopped client", often = 25, times = { 1, 3 }, strike = function(sim)
        sim:stop_process(some_process(sim), some_us(sim))
    end },

    { name = "suspend", often = 15, times = { 1, 1 }, strike = function(sim)
        sim:stop_process(some_process(sim), some_us(sim) * 2, true)
    end },

    { name = "client wall clock", often = 20, times = { 1, 3 },
        strike = function(sim)
            C.sim_step_wall(some_process(sim).index, (sim:below(7200) - 3600) * SECOND)
        end },

    -- Its clock that counts all time, in leaps, or four times too fast for a while: what it holds
    -- ends early by it.
    { name = "client clock races", breaks = "quarantines", often = 15, times = { 1, 2 },
        strike = function(sim)
            local p = some_process(sim)
            local leaps = sim:pick { 1, 1, 20, 100 }
            local us = leaps == 1 and sim:below(2 * sim.config.max_lease * SECOND) or 30 * MS
            local function leap()
                if p.dead or sim.calm_at then
                    return
                end
                C.sim_step_boot(p.index, us * p.rate)
                p.stopped_us, p.runs_since_us = p.stopped_us + us, sim.now()
                for _, holds in ipairs { sim.held, sim.promised } do
                    for _, hold in ipairs(holds) do
                        hold.until_us = hold.until_us - (hold.process == p and us or 0)
                    end
                end
                leaps = leaps - 1
                if leaps > 0 then
                    sim:later(10 * MS, leap)
                end
            end
            sim:log(p.lane, "note", "its clock runs ahead")
            leap()
        end },

    { name = "options differ", often = 15, prepare = function(sim)
        sim.other.drift_factor = sim:pick { 0.02, 0.1 }
    end },

    { name = "another max_lease", breaks = "configuration", often = 8, prepare = function(sim)
        sim.other.max_lease = sim.broken.configuration
            and sim.config.max_lease * sim:pick { 1.5, 3 } or nil
    end },

    -- Tokens would have other names of a server's memory.
    { name = "one without the guard", breaks = "configuration", often = 8, prepare = function(sim)
        sim.other.unguarded = sim.broken.configuration and sim.fenced == 0
    end },

    -- Others write the marker, and teach floors.
    { name = "a user without rights", often = 15, begin = function(sim)
        local p = some_process(sim)
        p.forbidden = #sim.processes > 1 and sim:pick { "mark", "tell" } or nil
    end },

    { name = "killed client", often = 15, times = { 1, 1 }, strike = function(sim)
        if #sim.processes > 1 then
            sim:kill_process(some_process(sim))
        end
    end },

    -- A client stops between the two rounds of an attempt, for a while or for ever.
    { name = "stopped between rounds", often = 15, times = { 1, 3 }, strike = function(sim)
        local role, for_ever = sim:pick(ROUNDS), sim:chance(30)
        trap(sim, role, function(attempt)
            local p = attempt.process
            p.stays_stopped = p.stays_stopped or for_ever and #sim.processes > 1
            sim:stop_process(p, p.stays_stopped and 1e12 or some_us(sim))
        end)
    end },

    -- A server has executed the first request of a round, and the others get none.
    { name = "cut off within a round", often = 15, times = { 1, 3 }, strike = function(sim)
        local role, us = sim:pick(ROUNDS), some_us(sim)
        trap(sim, role, function(attempt, first)
            local p, till = attempt.process.index, sim.now() + us
            for _, server in ipairs(sim.servers) do
                if server ~= first then
                    C.sim_silence(p, server.index, till, till)
                    C.sim_cut(p, server.index, 1, 0, 0)
                end
            end
        end)
    end },

    -- What was executed is executed again, later, and nobody gets the answer.
    { name = "executed twice", often = 20, begin = function(sim)
        sim.repeats = sim:pick { 20, 100, 300 }
        sim.repeats_us = some_us(sim) * sim:pick { 0.01, 0.1, 1 }
    end },

    { name = "fork", often = 5, times = { 1, 1 }, strike = function(sim)
        sim:fork_process(some_process(sim))
    end },

    { name = "cancel", often = 30, times = { 1, 6 }, strike = function(sim)
        sim:cancel(sim:pick(sim.tasks))
    end },

    -- ---- what servers forget ----

    -- As after attempts of others that got no further than this server.
    { name = "counters drift apart", often = 20, times = { 1, 4 }, strike = function(sim)
        local server, name = some_server(sim), sim:pick(sim.names)
        local marker = server.db["redlock:{server}:marker"]
        if server.state == C.SIM_UP and not server:entry(name)
            and (not sim.guarded or marker and marker.value:find("^%x+ v4 a "
                .. server.replid:sub(1, 16))) then
            tokens.count_on(sim, server, name, sim:between(1, 40))
        end
    end },

    { name = "counter lost", breaks = "counting", often = 20, times = { 1, 4 },
        strike = function(sim)
            some_server(sim).db[sim.counter_of[sim:pick(sim.names)]] = nil
        end },

    { name = "marker lost", often = 10, times = { 1, 2 }, strike = function(sim)
        some_server(sim).db["redlock:{server}:marker"] = nil
    end },

    { name = "floors lost", breaks = "floors", often = 10, times = { 1, 2 },
        strike = function(sim)
            local server = some_server(sim)
            server.db["redlock:{server}:floor"] = nil
            server.db[sim.counter_of[sim:pick(sim.names)]] = nil
        end },

    -- As after a mistake; of one server, as others must be there to learn from.
    { name = "a floor out of range", breaks = "floors", often = 15, times = { 1, 3 },
        strike = function(sim)
            sim.misled = sim.misled or some_server(sim)
            tokens.set_floor(sim, sim.misled, sim:pick(sim.names), sim:pick(OUT_OF_RANGE),
                sim:chance(50) and sim:pick(OUT_OF_RANGE) or nil)
        end },

    { name = "all memory lost", breaks = "memory", often = 40, times = { 1, 2 },
        strike = function(sim)
            sim:restart_server(some_server(sim), {}, some_us(sim) * 0.2)
        end },

    -- Again and again, or one after the other: within the quarantines.
    { name = "all memory lost again", breaks = "memory", often = 20, times = { 1, 1 },
        strike = function(sim)
            local server, same = some_server(sim), sim:chance(50)
            for k = 0, sim:between(1, 3) do
                sim:later(k * sim.config.guard_us * (0.2 + sim:below(100) / 100), function()
                    if not sim.calm_at then
                        sim:restart_server(same and server or some_server(sim), {}, 5 * MS)
                    end
                end)
            end
        end },

    { name = "older memory", breaks = "memory", often = 30, times = { 1, 2 },
        strike = function(sim)
            local server = some_server(sim)
            local disk = sim:snapshot(server)
            sim:later(sim:below(sim.config.guard_us * 2), function()
                if not sim.calm_at then
                    sim:restart_server(server, disk, some_us(sim) * 0.2)
                end
            end)
        end },

    { name = "last second lost", breaks = "memory", often = 40, times = { 1, 2 },
        strike = function(sim)
            local server = some_server(sim)
            local disk = sim:snapshot(server)
            sim:later(sim:below(SECOND), function()
                sim:restart_server(server, disk, some_us(sim) * 0.2)
            end)
        end },

    -- Its connections stay, and it says that it has a replica: from before the clients look.
    -- Without the guard nobody would.
    { name = "fails over and back", breaks = "memory", often = 30, times = { 1, 2 },
        prepare = function(sim)
            some_server(sim).replicas = 1
        end,
        strike = function(sim)
            for _, server in ipairs(sim.servers) do
                if sim.guarded and server.replicas > 0 and server.state == C.SIM_UP then
                    sim:fail_over_and_back(server)
                end
            end
        end },

    { name = "FLUSHALL", breaks = "memory", often = 30, times = { 1, 2 },
        strike = function(sim)
            local server = some_server(sim)
            server.db = {}
            sim:forgot(server)
            sim:log(server.lane, "note", "is flushed")
        end },

    -- ---- what breaks an assumption ----

    { name = "a key deleted", breaks = "keys", often = 30, times = { 1, 4 },
        strike = function(sim)
            some_server(sim).db[sim:pick(sim.names)] = nil
        end },

    { name = "server clock steps", breaks = "clocks", often = 40, times = { 1, 3 },
        strike = function(sim)
            local server = some_server(sim)
            local ms = (sim:below(4000) - 1000) / 1000 * sim.config.lease * 1000
            sim:step_server(server, ms)
        end },

    { name = "server clocks step together", breaks = "clocks", often = 20, times = { 1, 2 },
        strike = function(sim)
            local ms = sim:below(3000) / 1000 * sim.config.lease * 1000
            local n = sim:chance(50) and 2 or sim.quorum
            for i = 1, math.min(n, sim.n) do
                sim:step_server(sim.servers[i], ms)
            end
        end },

    { name = "server clock races", breaks = "clocks", often = 30, times = { 1, 2 },
        strike = function(sim)
            local server = some_server(sim)
            local rate = sim:pick { 0.9, 1.1, 1.5 }
            server.offset = server.offset + sim.now() * (server.rate - rate)
            server.rate, server.stepped_at, sim.several_clocks = rate, math.huge, true
            sim:log(server.lane, "clock", "its clock runs at " .. rate)
        end },

    -- In the same life: nothing tells that it is older.
    { name = "set back to a snapshot", breaks = { "keys", "counters" }, often = 20,
        times = { 1, 2 },
        strike = function(sim)
            local server = some_server(sim)
            local before = sim:snapshot(server)
            sim:later(sim:below(2 * SECOND), function()
                server.db = before
                sim:log(server.lane, "note", "is set back to a snapshot")
            end)
        end },

    { name = "frozen boot clock", breaks = "boottime", often = 30, times = { 1, 2 },
        strike = function(sim)
            local p, us = some_process(sim), some_us(sim)
            if not sim:stop_process(p, us) then
                return               -- its clock would go back, which none does
            end
            C.sim_step_boot(p.index, -us * p.rate)     -- as far as it went meanwhile
            p.froze_us = p.froze_us + us
            for _, hold in ipairs(sim.held) do   -- what it believes to hold, it does longer
                if hold.process == p then
                    hold.until_us = hold.until_us + us
                end
            end
            sim:log(p.lane, "note", "its machine was frozen, and does not know")
            local server = sim:chance(30) and some_server(sim)
            if server and server.state == C.SIM_UP then      -- on the same machine
                sim:set_server(server, C.SIM_FROZEN)
                server.offset, server.stepped_at = server.offset - us, math.huge
                sim:later(us, function()
                    if server.state == C.SIM_FROZEN then
                        sim:set_server(server, C.SIM_UP)
                    end
                end)
            end
        end },
}

local by_name = {}
for _, fault in ipairs(_M.list) do
    by_name[fault.name] = fault
end

-- In any schedule: hardly anything needs what they break.
local HARMLESS = { floors = true, counting = true, quarantines = true, configuration = true }

--- What does not hold in a schedule with these faults; see README.md.
local function assume(sim)
    local broken = sim.broken
    for _, fault in ipairs(sim.faults) do
        local what = fault.breaks
        broken.truth = broken.truth or fault.name == "says what cannot be"
        for _, assumption in ipairs(type(what) == "table" and what or { what }) do
            broken[assumption] = true
        end
    end
    -- Of what the guard needs; prefixes are played by clients that are alike.
    broken.configuration = broken.configuration and sim.guarded
        and not (sim.prefix or sim.family)
    -- The guard sees what is lost with the marker, if all have the same.
    broken.notice = broken.keys or broken.memory and (not sim.guarded or broken.configuration)
    broken.rates = broken.quarantines
    -- A quarantine is counted by a client's clock and by the server's.
    broken.quarantines = broken.quarantines and broken.clocks
    -- With too few left to ask, counters go on from the servers' clocks.
    broken.counters = broken.counters or broken.quarantines or (broken.memory or broken.floors)
        and (not sim.guarded or broken.clocks or broken.boottime or broken.configuration)
    broken.counting = broken.counting or broken.floors
    broken.memory = broken.memory or broken.keys
end

--- Draws the faults of a schedule.
function _M.choose(sim, opts)
    local list = sim.faults
    if opts.only then
        for i, name in ipairs(opts.only) do
            list[i] = by_name[name] or error("no such fault: " .. name)
        end
    else
        local breaking = sim:chance(opts.breaking or 10)
        local forgetting = breaking or sim.guarded and sim:chance(40)
        local few = sim:pick { 10, 50, 100, 100, 150 }
        for _, fault in ipairs(_M.list) do
            local what = fault.breaks
            local fits = breaking or not what or HARMLESS[what] or forgetting and what == "memory"
            if fits and sim:apart(fault.name, sim.below, sim, 10000)
                < fault.often * few then
                list[#list + 1] = fault
            end
        end
    end
    list[#list + 1] = sim.prefix
    assume(sim)
end

function _M.prepare(sim)
    for _, fault in ipairs(sim.faults) do
        if fault.prepare then
            sim:apart(fault.name, fault.prepare, sim)
        end
    end
end

local function strike(sim, fault)
    if not sim.calm_at then
        sim.count.faults = sim.count.faults + 1
        sim:log("resource", "note", "fault: " .. fault.name)
        fault.strike(sim)
    end
end

local function begin(sim, fault)
    if fault.begin then
        fault.begin(sim)
    end
    return fault.times and sim:between(fault.times[1], fault.times[2]) or 0
end

--- Begins them: their strikes are spread over the phase with faults, and each draws from a
-- stream of its own.
function _M.begin(sim)
    for _, fault in ipairs(sim.faults) do
        for k = 1, sim:apart(fault.name, begin, sim, fault) do
            sim:apart(fault.name .. " " .. k, function()
                sim:later(sim:below(sim.horizon_us), function() strike(sim, fault) end)
            end)
        end
    end
end

return _M
