--- One schedule: a seed becomes servers, processes, their work and their misfortune.
--
-- First a phase with faults, then a calm one, in which everybody who waits must be served
-- and everything left behind must be cleaned up.

local base = require "spec.sim.sim"
local vm = require "spec.sim.vm"
local attempts = require "spec.sim.attempts"
local family = require "spec.sim.family"
local processes = require "spec.sim.processes"
local servers = require "spec.sim.servers"
local tokens = require "spec.sim.tokens"

local ipairs, pairs, floor, min, max = ipairs, pairs, math.floor, math.min, math.max
local SECOND, C = base.SECOND, base.C

local _M = {}

local STUCK = 5000           -- steps in one moment
local CLEAN_US = 10 * SECOND -- the longest back-off of a connection, and some retries
-- Who has waited for so long, with no faults, waits for time alone, such as a minute in which
-- nobody knows a floor. One schedule in a hundred took as much of a processor for that as all
-- others.
local LONG_US = 10 * SECOND

-- Percent of the schedules that are small: a third of the time, fewer processes and
-- coroutines; 3.6 ms of CPU, not 6.9. Measured with 57 mutants, up to 15 catches within 1500
-- schedules each: per second of CPU the mix catches 1.18 times as often as large ones alone
-- (geometric mean; 1.3 times what less than one schedule in twenty catches), and none that
-- was caught more than twice less than 0.67 times as often: those need a crowd, and get it in
-- the large ones. A third of the time alone, without fewer of them, gains nothing (1.05).
local SMALL = 75

local step, waking

--- Loads the library, once.
-- @param opts  for vm.load()
function _M.load(opts)
    local redlock, lib = vm.load { cpath = opts.cpath, lua = opts.lua, host = processes.host,
        core = C }
    step, waking = C.sim_record(), require "redlock.lock.waking"
    base.load(lib)
    servers.load()
    attempts.load()
    processes.load(redlock, lib)
end

-- ---- a schedule ------------------------------------------------------------------

--- Faults stop: a majority of the servers is well, and everybody runs again.
local function calm(self)
    self.calm_at, self.trap, self.repeats = self.now(), nil, nil
    self:log("resource", "note", "faults stop")
    for _, server in ipairs(self.servers) do
        server.refuses, server.says = nil, nil
        if math.abs(server.rate - 1) > self.drift then     -- else it has no vote for ever
            server.offset = server.offset + self.now() * (server.rate - 1)
            server.rate = 1
        end
        if not (server.stays_down and server.state == C.SIM_DOWN) then
            self:start_server(server, server.saved)
            self:set_server(server, C.SIM_UP, 0)
        end
        for _, p in ipairs(self.processes) do
            p.forbidden = nil
            if p.stays_stopped then
                self:kill_process(p)
            end
            C.sim_silence(p.index, server.index, 0, 0)
            C.sim_window(p.index, server.index, 0)
            C.sim_path(p.index, server.index, self.config.delay_us, self.config.spread_us)
        end
    end
    C.sim_crumble(0)
    self:later(LONG_US, function()
        self.rest_us = SECOND
        waking.RETRY_DELAY = max(self.config.retry_delay, self.config.fallback)
    end)
    for _, after_us in ipairs(self.misled and { 0, 3 * SECOND } or {}) do
        self:later(after_us, function()          -- it may come back with what it had saved
            tokens.delete_floors(self.misled)
        end)
    end
end

--- Lets so much time pass, or less: until(self) is true.
local function run_for(self, us, done)
    local over, steps, at = false, 0, 0
    self:later(us, function() over = true end)
    local on_command, on_round = servers.on_command, processes.on_round
    local NOTHING, TIMER, COMMAND, ROUND = C.SIM_NOTHING, C.SIM_TIMER, C.SIM_COMMAND, C.SIM_ROUND
    while not (over or self.violation or done and done(self)) do
        local why, now = C.sim_run(), step.now_us
        base.advance(now)
        steps = steps + 1
        if now > at then
            steps, at = 0, now
        elseif steps > STUCK or why == C.SIM_STUCK then
            self:violated("time goes on", "the same moment for ever")
        end
        if why == COMMAND then
            on_command(self)
        elseif why == ROUND then
            on_round(self)
        elseif why == TIMER then
            local fn = self.timer[step.id]
            self.timer[step.id] = nil
            fn()
        elseif why == NOTHING then
            return
        elseif why == C.SIM_HOLD then
            attempts.on_hold(self)
        end
    end
end

local function all_done(self)
    return self.open_tasks == 0
end

--- No server has a key any more.
local function all_clean(self)
    for _, server in ipairs(self.servers) do
        for _, name in ipairs(server.state == C.SIM_UP and self.names or {}) do
            if server:entry(name) then
                return false
            end
        end
    end
    return true
end

local function choose_config(self, opts)
    local lease = self:pick { 0.15, 0.3, 0.5, 1, 1, 2, 5, 20 }
    -- Quarantines, of max_lease * 1.01 + 1 s, are to end within the schedule.
    lease = opts.lease or self.guarded and min(lease, 2) or lease
    lease = self.prefix and self.prefix.lease or lease
    local max_lease = (self.guarded or self:chance(50)) and lease * 2 or 60
    local timeout = self:pick { 0.03, 0.05, 0.1, 0.25 }
    local config = {
        lease = lease,
        max_lease = max_lease,
        guard_us = (max_lease * 1.01 + 1) * SECOND,
        counter_ttl = max_lease * self:pick { 1, 3, 1000 },
        handover = self:pick { 0, 1, 3, 16, 16 },
        timeout = timeout,
        connect_timeout = max(timeout, self:pick { 0.1, 0.3, 1 }),
        retry_delay = max(0.02, lease * self:pick { 0.05, 0.2 }),
        fallback = max(0.2, lease * self:pick { 0.1, 0.5 }),
        patience = self:pick { 1, 3, 10 },
        max_hold = self:chance(30) and lease * self:pick { 1.5, 4 } or 3600,
        subscribes = self:chance(85),        -- else servers refuse SUBSCRIBE
        delay_us = self:pick { 50, 100, 1000 },
        spread_us = self:pick { 20, 200, 2000 },
    }
    if self.prefix then          -- whose scripts count on short delays
        config.timeout, config.connect_timeout = 0.25, 1
        config.delay_us, config.spread_us = 50, 20
        for name, value in pairs(self.prefix.config or {}) do
            config[name] = value
        end
    end
    return config
end

local function choose_kind(self, opts)
    self.guarded, self.fenced = self:chance(35), self:pick { 0, 0, 0, 50, 100 }
    if opts.guarded ~= nil then
        self.guarded = opts.guarded
    end
    self.fenced = opts.fenced or self.fenced
    local prefix = self.prefix
    if prefix then
        self.n, self.fenced = prefix.n or self.n, prefix.fenced or self.fenced
        self.quorum = floor(self.n / 2) + 1
        if prefix.guarded ~= nil then
            self.guarded = prefix.guarded
        end
    end
    if self.family then
        self.fenced = 0
    end
    -- The last address may lead to another one's server. A majority is there all the same.
    self.twin = prefix and prefix.twin
        or not prefix and self.n >= 3 and self:chance(4) and self:between(1, self.n - 1) or nil
    self.new_cluster = self.guarded and self:chance(20)      -- to be admitted by init()
end

--- Runs the schedule of a seed.
-- @param opts  log: keep the events; faults, prefixes, invariants, workload: the
--   tables; only: a list of
--   names of faults (nil: as the seed will have it); n: servers; breaking: percent of
--   schedules in which an assumption is broken; guarded: whether the restart guard is on;
--   fenced: percent of the locks that have tokens; lease: seconds; family: the kind of objects
--   (family.lua); nil: locks
-- @return sim, with violation = { name, text, at } or nil, events, count
function _M.run(seed, opts)
    C.sim_reset(seed)
    local self = base.new {
        seed = seed, timer = {}, timers = 0, waiting = {}, attempts = {}, held = {},
        promised = {}, processes = {}, tasks = {}, servers = {},
        open_tasks = 0, messages = 0, pauses = 0,
        rest_us = 50 * base.MS,                  -- between attempts of who was refused in the end
        events = opts.log and {} or nil, checks = {}, broken = {}, faults = {}, other = {},
        count = { grants = 0, announced = 0, passed = 0, calls = 0, faults = 0 },
    }
    self.n = opts.n or self:pick { 1, 2, 3, 3, 3, 3, 3, 3, 4, 5, 5, 5, 7 }
    self.quorum = floor(self.n / 2) + 1
    self.drift = self:chance(50) and 0 or 0.0045
    self.small = self:chance(SMALL)
    opts.prefixes.choose(self, opts)
    family.choose(self, opts)
    choose_kind(self, opts)
    self.config = choose_config(self, opts)
    require("redlock.servers.floors").COUNTER_TTL = self.config.counter_ttl
    waking.RETRY_DELAY = self.config.retry_delay
    self.horizon_us = (0.5 + self:below(1000) / 250) * SECOND
        * min(max(self.config.lease, 0.3), 3) * (self.small and 0.33 or 1)
    if self.guarded then
        self.horizon_us = self.horizon_us + self:pick { 0, 1, 1.5 } * self.config.guard_us
    end
    opts.faults.choose(self, opts)
    opts.invariants.choose(self, opts.ignore)
    for i = 1, self.n do
        self.servers[i] = servers.new(self, i)
    end
    opts.faults.prepare(self)
    opts.workload.names(self)
    if self.family then
        family.names(self)
    end
    processes.begin(self, self.prefix and opts.prefixes.life or self.family and family.run
        or opts.workload.run)
    if self.prefix then
        opts.prefixes.play(self, run_for)
    end
    opts.faults.begin(self)
    processes.pause_at_times(self)
    run_for(self, self.horizon_us)
    if not self.violation then
        calm(self)
        run_for(self, opts.workload.patience_us(self)
            + (self.family and family.patience_us(self) or 0), all_done)
        run_for(self, CLEAN_US, all_clean)
    end
    if not self.violation then
        self:tell("finish")
    end
    self.count.calls = self.calls or 0
    self.count.messages = self.messages
    self.count.virtual = self.now() / SECOND
    processes.finish(self)
    return self
end

return _M
