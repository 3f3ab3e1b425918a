--- What can go wrong. Each fault is an entry of one table:
--
--   often    percent of the schedules that have it
--   times    { least, most } strikes in a schedule
--   breaks   the assumption it breaks, if any: memory, clocks, boottime; such faults are
--            in few schedules, and invariants that need the assumption are not checked there
--   strike   function(sim): it happens, once
--   begin    function(sim): at the beginning
--
-- What lasts must end by itself or by the calm at the end (schedule.lua: calm()).

local schedule = require "spec.sim.schedule"

local ipairs, max = ipairs, math.max
local MS, SECOND = schedule.MS, schedule.SECOND

local _M = {}

local C                      -- the world: set by choose()

--- Some time that matters: a fraction of a lease, about one, or about a time-out.
local function some_us(sim)
    local o = sim.config
    local base = sim:pick { o.lease * 0.1, o.lease * 0.5, o.lease, o.lease * 1.3, o.timeout,
        o.timeout * 4, 0.005 }
    return base * SECOND * (0.5 + sim:below(1000) / 1000)
end

local function some_server(sim)
    return sim:pick(sim.servers)
end

local function some_process(sim)
    return sim:pick(sim.processes)
end

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
        if sim.n - sim.quorum > 0 and not server.stays_down then
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

    { name = "client wall clock", often = 20, times = { 1, 3 }, strike = function(sim)
        C.sim_step_wall(some_process(sim).index, (sim:below(7200) - 3600) * SECOND)
    end },

    { name = "killed client", often = 15, times = { 1, 1 }, strike = function(sim)
        if #sim.processes > 1 then
            sim:kill_process(some_process(sim))
        end
    end },

    { name = "fork", often = 5, times = { 1, 1 }, strike = function(sim)
        sim:fork_process(some_process(sim))
    end },

    { name = "cancel", often = 30, times = { 1, 6 }, strike = function(sim)
        sim:cancel(sim:pick(sim.tasks))
    end },

    -- ---- what breaks an assumption ----

    { name = "all memory lost", breaks = "memory", often = 40, times = { 1, 2 },
        strike = function(sim)
            sim:restart_server(some_server(sim), {}, some_us(sim) * 0.2)
        end },

    { name = "last second lost", breaks = "memory", often = 40, times = { 1, 2 },
        strike = function(sim)
            local server = some_server(sim)
            local disk = server:snapshot()
            sim:later(sim:below(SECOND), function()
                sim:restart_server(server, disk, some_us(sim) * 0.2)
            end)
        end },

    { name = "keys deleted", breaks = "memory", often = 30, times = { 1, 2 },
        strike = function(sim)
            local server = some_server(sim)
            server.db, server.lost_at = {}, sim.now()
        end },

    { name = "server clock steps", breaks = "clocks", often = 40, times = { 1, 3 },
        strike = function(sim)
            local server = some_server(sim)
            local ms = (sim:below(4000) - 1000) / 1000 * sim.config.lease * 1000
            server.offset = server.offset + ms * MS
            server.lost_at = sim.now()
            sim.stepped_us = (sim.stepped_us or 0) + max(0, -ms) * MS
            sim:log(server.lane, "clock", "its clock is stepped", { step_ms = ms })
        end },

    { name = "server clock races", breaks = "clocks", often = 30, times = { 1, 2 },
        strike = function(sim)
            local server = some_server(sim)
            local rate = sim:pick { 0.9, 1.1, 1.5 }
            server.offset = server.offset + sim.now() * (server.rate - rate)
            server.rate = rate
            server.lost_at = sim.now()
            sim:log(server.lane, "clock", "its clock runs at " .. rate)
        end },

    { name = "frozen boot clock", breaks = "boottime", often = 30, times = { 1, 2 },
        strike = function(sim)
            local p, us = some_process(sim), some_us(sim)
            sim:stop_process(p, us)
            C.sim_step_boot(p.index, -us)
            for _, hold in ipairs(sim.held) do   -- what it believes to hold, it does longer
                if hold.process == p then
                    hold.until_us = hold.until_us + us
                end
            end
            sim:log(p.lane, "note", "its machine was frozen, and does not know")
        end },
}

local by_name = {}
for _, fault in ipairs(_M.list) do
    by_name[fault.name] = fault
end

--- Draws the faults of a schedule.
function _M.choose(sim, opts)
    C = schedule.C
    local list = sim.faults
    if opts.only then
        for i, name in ipairs(opts.only) do
            list[i] = by_name[name] or error("no such fault: " .. name)
        end
    else
        local breaking = sim:chance(opts.breaking or 10)
        local few = sim:pick { 10, 50, 100, 100, 150 }
        for _, fault in ipairs(_M.list) do
            if (breaking or not fault.breaks) and sim:below(10000) < fault.often * few then
                list[#list + 1] = fault
            end
        end
    end
    for _, fault in ipairs(list) do
        if fault.breaks then
            sim.broken[fault.breaks] = true
        end
    end
end

--- Begins them: their strikes are spread over the phase with faults.
function _M.begin(sim)
    for _, fault in ipairs(sim.faults) do
        if fault.begin then
            fault.begin(sim)
        end
        for _ = 1, fault.times and sim:between(fault.times[1], fault.times[2]) or 0 do
            sim:later(sim:below(sim.horizon_us), function()
                if not sim.calm_at then
                    sim.count.faults = sim.count.faults + 1
                    sim:log("resource", "note", "fault: " .. fault.name)
                    fault.strike(sim)
                end
            end)
        end
    end
end

return _M
