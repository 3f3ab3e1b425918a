--- One schedule: a seed becomes servers, processes, their work and their misfortune.
--
-- First a phase with faults, then a calm one, in which everybody who waits must be served
-- and everything left behind must be cleaned up. `sim`, the one object of this file, is what
-- faults, invariants and workloads get.

local bit = require "bit"
local ffi = require "ffi"
local vm = require "spec.sim.vm"
local redis = require "spec.sim.redis"

local coroutine, tonumber, type, ipairs, pairs, setmetatable, traceback = coroutine, tonumber,
    type, ipairs, pairs, setmetatable, debug.traceback
local floor, min, max, huge = math.floor, math.min, math.max, math.huge
local ffi_string, cast = ffi.string, ffi.cast

local _M = {}

local Sim = {}
Sim.__index = Sim

local MS, SECOND = 1000, 1e6
local STUCK = 5000           -- steps in one moment
local CLEAN_US = 10 * SECOND -- the longest back-off of a connection, and some retries
_M.MS, _M.SECOND = MS, SECOND

local C, redlock, rounds, errors, prims, step, raw_now
local argv, words = {}, nil  -- of the command that a server got
local roles = {}             -- sha of a script -> what it is for: acquire, extend, ...
local REPEATED = { acquire = true, confirm = true, extend = true, heal = true, release = true,
    handover = true }
local sim                    -- the schedule that runs
local task                   -- the coroutine that runs

-- ---- chance ----------------------------------------------------------------------

function Sim.below(_, n)
    return C.sim_random(n)
end

function Sim.chance(_, percent)
    return C.sim_random(100) < percent
end

--- A whole number from a to b.
function Sim.between(_, a, b)
    return a + C.sim_random(b - a + 1)
end

function Sim.pick(_, list)
    return list[C.sim_random(#list) + 1]
end

-- ---- time, log, violations -------------------------------------------------------

function Sim.now()
    return C.sim_now()
end

--- Milliseconds on the clock of the process that runs.
function Sim.local_ms()
    return tonumber(raw_now())
end

--- Calls fn after so many microseconds; for a process: not while it is stopped.
function Sim:later(us, fn, process)
    local id = self.timers + 1
    self.timers = id
    self.timer[id] = fn
    C.sim_at(C.sim_now() + us, id, process and process.index or -1)
end

--- An event for the log (make sim SEED=n) and the timeline.
function Sim:log(lane, kind, text, more)
    local log = self.events
    if log then
        local e = more or {}
        e.t, e.lane, e.kind, e.text = C.sim_now() / MS, lane, kind, text
        log[#log + 1] = e
    end
end

--- An invariant does not hold.
function Sim:violated(name, text)
    if not self.violation then
        self.violation = { name = name, text = text, at = C.sim_now() / MS }
        self:log("resource", "violation", name .. ": " .. text)
    end
end

--- Tells the invariants; the first that returns a text is violated.
function Sim:tell(event, ...)
    local list = self.checks[event]
    for i = 1, list and #list or 0 do
        local text = list[i].on[event](self, ...)
        if text then
            self:violated(list[i].name, text)
        end
    end
end

-- ---- servers ---------------------------------------------------------------------

local function server_reply(conn, bytes)
    return C.sim_reply(conn, bytes, #bytes) ~= 0
end

local function new_server(self, i)
    local server
    server = redis.new(function()
        return server.offset + step.now_us * server.rate
    end, server_reply, i)
    server.index, server.lane = i - 1, "server " .. i
    server.state, server.cost = C.SIM_UP, 0
    server.offset = 1.7e15 + self:below(200 * MS)      -- as far as NTP lets them differ
    server.rate = 1 + (self:below(2001) - 1000) / 1000 * self.drift
    server.lost_at = -1              -- when it forgot something
    server.on_write = function(at, key, old, new)
        local list = self.checks.write
        for k = 1, list and #list or 0 do
            local text = list[k].on.write(self, at, key, old, new)
            if text then
                self:violated(list[k].name, text)
            end
        end
    end
    server.before_script = function(_, sha, _, args)
        server.role, server.value = roles[sha], args[1]
        server.replaced = args[5] and args[4] or args[3]      -- by a hand-over
    end
    server.on_script = function(_, sha, keys, args, result)
        local role = roles[sha]
        if role then
            self:on_script(server, role, keys[1], args, result)
        end
    end
    self:log(server.lane, "up", "starts")
    return server
end

--- The true time at which a key of a server is gone; 0: it is not there.
function Sim.gone_at(_, server, key)
    local entry = server:look(key)
    if not entry then
        return 0
    end
    return entry.at and ((entry.at + 1) * MS - server.offset) / server.rate or huge
end

--- state: C.SIM_UP, SIM_FROZEN, SIM_DOWN; cost: microseconds per command
function Sim.set_server(_, server, state, cost)
    server.state, server.cost = state or server.state, cost or server.cost
    C.sim_server(server.index, server.state, server.cost)
end

--- Its process dies, and comes back later with what `keep` has; nil: what it had.
function Sim:restart_server(server, keep, after_us)
    if server.state == C.SIM_DOWN then
        return
    end
    self:log(server.lane, "down", "crashes")
    self:set_server(server, C.SIM_DOWN)
    self:later(after_us, function()
        self:start_server(server, keep)
    end)
end

--- It has lost its memory. Before its first vote there was nothing to forget.
function Sim.forgot(_, server)
    if server.voted then
        server.lost_at = C.sim_now()
    end
end

function Sim:start_server(server, keep)
    if server.state == C.SIM_DOWN and not server.stays_down then
        if keep then
            self:forgot(server)
        end
        server:restart(keep or server.db)
        self:set_server(server, C.SIM_UP)
        self:log(server.lane, "up", keep and "is back, with what it had saved" or "is back")
    end
end

-- ---- what scripts did: the attempts ----------------------------------------------

--- How many servers are in a set, a bit each.
function _M.count(set)
    local n = 0
    while set ~= 0 do
        set = bit.band(set, set - 1)
        n = n + 1
    end
    return n
end

--- Counts what a server said, for the attempt whose value it was asked about.
local function count_vote(attempt, server, role, vote)
    local counts = attempt[role]
    counts[server.index] = counts[server.index] + 1
    if type(vote) ~= "number" then           -- an error: it was asked, and did nothing
        return
    end
    -- A write of a connection that broke, executed after it was released twice: that is
    -- as much as the library does about it.
    if (role == "acquire" or role == "handover") and attempt.release[server.index] >= 2 then
        attempt.straggler = true
    end
    if vote <= 0 and (role == "acquire" or role == "confirm") then
        attempt.refused = attempt.refused + 1
    end
    if vote > 0 then
        counts.yes = bit.bor(counts.yes, 2 ^ server.index)
    elseif vote < 0 then
        counts.foreign = bit.bor(counts.foreign, 2 ^ server.index)
    end
end

local GUARDED, UNSEEDED = 3, -2      -- RL_VOTE_*: none

function Sim:on_script(server, role, key, args, result)
    local vote, info = result, nil
    if type(result) == "table" then
        vote, info = result.err or result[1], result[2]
    end
    local attempt = self.attempts[args[1]]
    if vote == GUARDED or vote == UNSEEDED then
        vote = "none"
    elseif attempt and server.repeats then
        attempt.straggler = true
    elseif attempt then
        count_vote(attempt, server, role, vote)
        server.voted = server.voted or vote == 1 and role == "acquire"
        -- It kept others out, as a hold does: a clock that stepped had no vote, say.
        if role == "release" and info and not (attempt.held or attempt.announced)
            and _M.count(attempt.acquire.yes) >= self.quorum then
            attempt.announced, self.count.announced = true, self.count.announced + 1
        end
    end
    self.messages = self.messages + 1
    local list = self.checks.script
    for i = 1, list and #list or 0 do
        local text = list[i].on.script(self, server, role, key, args, vote, attempt, info)
        if text then
            self:violated(list[i].name, text)
        end
    end
    if self.trap then
        self:trap(server, role, attempt)
    end
end

--- How often each server executed a script for it, and which said what, a bit each.
local function counter()
    return { [0] = 0, 0, 0, 0, 0, 0, 0, 0, 0, yes = 0, foreign = 0 }
end

--- The value of a lease.
function _M.value_of(lease)
    return ffi_string(C.rl_lease_value(lease), C.RL_VALUE_LEN)
end

-- @param before  the attempt whose hold is passed on, or nil
local function new_attempt(self, lease, lease_ms, fenced, before)
    local value = _M.value_of(lease)
    local attempt = { value = value, task = task, process = task.process, at = C.sim_now(),
        at_ms = tonumber(raw_now()), lease_ms = lease_ms, acquire = counter(),
        extend = counter(), release = counter(), refused = 0, passed = 0 }
    if before then
        attempt.handover, attempt.from = counter(), before
        attempt.passed, attempt.since = before.passed + 1, before.since
    end
    if fenced then
        attempt.confirm, attempt.heal, attempt.witnesses = counter(), counter(), {}
    end
    task.attempt = attempt
    self:tell("attempt", attempt, self.attempts[value])
    self.attempts[value] = attempt
    task.attempts = task.attempts + 1
end

-- ---- holds -----------------------------------------------------------------------

local function on_hold(self)
    local h = step.hold
    local value = ffi_string(h.value, C.RL_VALUE_LEN)
    local process = self.processes[step.process + 1]
    local hold, at = nil, 0
    for i, other in ipairs(self.held) do
        if other.value == value then
            hold, at = other, i
        end
    end
    -- Imported: it counts when the servers have confirmed it (adopted()).
    local attempt = self.attempts[value]
    if attempt and attempt.exported then
        attempt.adopted = h.what ~= 3 and { value = value, process = process,
            name = ffi_string(h.key.data, h.key.len), attempt = attempt,
            token = tonumber(h.token), deadline_ms = tonumber(h.deadline_ms),
            until_us = h.until_us } or nil
        if h.what ~= 3 or not hold then
            return
        end
    end
    if h.what == 3 then
        if hold then
            table.remove(self.held, at)
            self:tell("ended", hold)
        end
        return
    end
    if not hold then
        hold = { value = value, process = process,
            name = ffi_string(h.key.data, h.key.len),
            at = C.sim_now(), attempt = attempt, token = tonumber(h.token),
            lane = attempt and attempt.task.lane or process.lane }
        self.held[#self.held + 1] = hold
        self.count.grants = self.count.grants + 1
        if attempt then
            attempt.held, attempt.since = true, attempt.since or hold.at
        end
    end
    local before = hold.until_us
    hold.deadline_ms, hold.until_us = tonumber(h.deadline_ms), h.until_us
    hold.now_ms = tonumber(raw_now())
    self:log(hold.lane, before and "validity" or "holding", hold.name,
        { ["until"] = h.until_us / MS, lock = hold.name, token = hold.token })
    self:tell("hold", hold, before)
end

--- The running coroutine has got a hold from another process.
function Sim:adopted(value)
    local attempt = self.attempts[value]
    local hold = attempt.adopted
    attempt.exported, attempt.adopted = nil, nil
    if not hold then
        return
    end
    hold.lane, hold.at, hold.now_ms = task.lane, C.sim_now(), tonumber(raw_now())
    attempt.task, attempt.process, attempt.held = task, task.process, true
    attempt.since, attempt.passed = C.sim_now(), 0
    self.held[#self.held + 1] = hold
    self:log(hold.lane, "holding", hold.name, { ["until"] = hold.until_us / MS, lock = hold.name,
        token = hold.token })
    self:tell("hold", hold, 0)
end

-- ---- processes and their coroutines ----------------------------------------------

local function key_of(round)
    return tonumber(cast("intptr_t", round))
end

--- Runs a coroutine until it waits or ends.
local function resume(self, t, value)
    local p = t.process
    if p.dead or t.done then
        return
    end
    C.sim_enter(p.index)
    task = t
    local ok, what = coroutine.resume(t.co, value)
    task = nil
    if not ok then
        t.done = true
        self:violated("crash", traceback(t.co, tostring(what)))
    elseif coroutine.status(t.co) == "dead" then
        t.done = true
        self.open_tasks = self.open_tasks - 1
    elseif type(what) == "cdata" then
        t.round = what
        self.waiting[key_of(what)] = t
        C.rl_round_notify(what)
        C.sim_waiting(p.index, 1)
    else
        if what.whole then
            C.sim_stop(p.index, C.sim_now() + what.us, 0)
            p.runs_since_us = C.sim_now() + what.us
            p.stopped_us = p.stopped_us + what.us
        end
        t.sleep = what
        self:later(what.us, function()
            if t.sleep == what then
                t.sleep = nil
                resume(self, t)
                C.sim_waiting(p.index, 0)            -- it may have woken others
            end
        end, p)
    end
end

local function on_round(self)
    local round = step.round
    local key = key_of(round)
    local t = self.waiting[key]
    if t then
        self.waiting[key] = nil
        t.round = nil
        C.sim_waiting(t.process.index, -1)
        resume(self, t, tonumber(C.rl_round_outcome(round)))
    end
end

--- The coroutine's call ends with an error, as a future that is cancelled.
function Sim:cancel(t, code)
    if t.round == nil or t.process.dead or C.sim_stopped(t.process.index) ~= 0 then
        return false
    end
    self.waiting[key_of(t.round)] = nil
    t.round, t.cancelled_at = nil, C.sim_now()
    C.sim_waiting(t.process.index, -1)
    resume(self, t, errors.new(code or "cancelled", "a call"))
    C.sim_waiting(t.process.index, 0)        -- it may have woken others
    return true
end

--- The running coroutine sleeps. whole: its process is stopped meanwhile.
function Sim.sleep(_, us, whole)
    rounds.suspend({ us = us, whole = whole })
end

--- Stops a process for so long.
-- @return false: it is dead, or stopped already
function Sim.stop_process(self, p, us, suspended)
    if p.dead or C.sim_stopped(p.index) ~= 0 then
        return false
    end
    p.stopped_us = p.stopped_us + us
    p.runs_since_us = C.sim_now() + us
    self:log(p.lane, "note", suspended and "its machine is suspended" or "is stopped",
        { ms = us / MS })
    C.sim_stop(p.index, C.sim_now() + us, suspended and 1 or 0)
    return true
end

function Sim:kill_process(p)
    if p.dead then
        return
    end
    p.dead, p.died_at = true, C.sim_now()
    self:log(p.lane, "note", "is killed")
    for _, t in ipairs(p.tasks) do
        if not t.done then
            self.open_tasks = self.open_tasks - 1
            self:log(t.lane, "idle", "dead")
        end
    end
    C.sim_kill(p.index)
    for i = #self.held, 1, -1 do
        if self.held[i].process == p then
            table.remove(self.held, i)
        end
    end
end

function Sim:fork_process(p)
    if p.dead or not p.client.core then
        return
    end
    p.forked_at = C.sim_now()
    self:log(p.lane, "note", "goes on as the child of a fork")
    C.sim_enter(p.index)
    C.sim_fork(p.index)
end

function _M.new_task(self, p, fn)
    local t = { id = #self.tasks + 1, process = p, attempts = 0, paused_us = 0 }
    t.lane = p.lane .. (#p.tasks > 0 and "." .. #p.tasks + 1 or "")
    t.co = coroutine.create(function()
        local ok, err = xpcall(fn, function(e)
            return errors.is_error(e) and e or traceback(tostring(e))
        end, self, t)
        if not ok and not errors.is_error(err) and not self.over then
            self:violated("crash", tostring(err))
        end
    end)
    self.tasks[t.id], p.tasks[#p.tasks + 1] = t, t
    self.open_tasks = self.open_tasks + 1
    self:later(self:below(200 * MS), function() resume(self, t) end, p)
    return t
end

local function new_process(self, i)
    local p = { number = i, lane = "client " .. i, tasks = {}, stopped_us = 0, runs_since_us = 0,
        concurrent = self:chance(70), eager = self:chance(60), died_at = huge, forked_at = -1 }
    p.rate = 1 + (self:below(2001) - 1000) / 1000 * self.drift
    p.index = C.sim_process(self:below(1e9), p.rate, p.eager and 1 or 0)
    local o = self.config
    local nodes = {}
    for k = 1, self.n do
        nodes[k] = { host = "127.0.0.1", port = k }
        C.sim_path(p.index, k - 1, o.delay_us, o.spread_us)
    end
    p.client = redlock.new {
        nodes = nodes, lease = o.lease, max_lease = o.max_lease, timeout = o.timeout,
        connect_timeout = o.connect_timeout, retry_delay = o.retry_delay,
        fallback = o.fallback, patience = o.patience, max_hold = o.max_hold,
        wake = o.wake, fence_ttl = o.fence_ttl, restart_guard = self.guarded,
        handover = o.handover,
    }
    return p
end

-- ---- the host (see lua/redlock/host/plain.lua) -----------------------------------

local host = { name = "sim" }

function host.owner()
    return task.id
end

function host.can_wait()
    return true
end

function host.defer(fn)
    fn()
end

function host.log(text)
    error(text, 0)
end

function host.alive(owner)
    local t = sim.tasks[owner]
    return not (t.done or t.gone)
end

function host.concurrent()
    return task.process.concurrent
end

function host.wait(round)
    local outcome = C.rl_round_outcome(round)
    if outcome ~= 0 then
        return tonumber(outcome)
    end
    return rounds.suspend(round)
end

-- ---- pauses between any two calls into the core ----------------------------------

local function pause()
    local t = task
    if t and sim.pauses > 0 and not sim.calm_at and C.sim_random(1000) < sim.pauses then
        local us = C.sim_random(sim:chance(50) and 30 * MS or sim.config.lease * 1.5 * SECOND)
        t.paused_us = t.paused_us + us
        sim:log(t.lane, "note", "pauses in mid-call", { ms = us / MS })
        sim:sleep(us, sim:chance(70))
    end
end

local PAUSABLE = { "rl_release", "rl_extend", "rl_keep", "rl_round_free", "rl_round_outcome" }

local function wrap_core(lib)
    raw_now = lib.rl_now_ms
    local raw_acquire = lib.rl_acquire
    local free = {}
    C.rl_acquire = function(...)
        local round = raw_acquire(...)
        local lease = select(10, ...)[0]
        if lease ~= nil then
            local _, prim = ...
            new_attempt(sim, lease, tonumber((select(7, ...))), prim.confirm >= 0)
        end
        pause()
        return round
    end
    local raw_handover = lib.rl_handover
    C.rl_handover = function(old, lease_ms, out)
        local before = sim.attempts[_M.value_of(old)]
        local round = raw_handover(old, lease_ms, out)
        if round ~= nil then
            new_attempt(sim, out[0], tonumber(lease_ms), before.witnesses ~= nil, before)
        end
        pause()
        return round
    end
    for _, name in ipairs(PAUSABLE) do
        free[name] = lib[name]
    end
    free.rl_now_ms = raw_now
    local paused = {}
    for _, name in ipairs(PAUSABLE) do
        local raw = lib[name]
        paused[name] = function(...)
            pause()
            return raw(...)
        end
    end
    paused.rl_now_ms = function()
        local now = raw_now()
        pause()
        return now
    end
    return function(on)
        for name, fn in pairs(on and paused or free) do
            C[name] = fn
        end
    end
end

--- Tells of holds that are offered to the next one in the line.
local function watch_passing(acquire)
    local pass = acquire.pass
    function acquire.pass(lock, hold)
        local passed = pass(lock, hold)
        if passed then
            local attempt = sim.attempts[_M.value_of(hold.lease)]
            attempt.offered = true
            sim.count.passed = sim.count.passed + 1
            sim:tell("passed", attempt)
        end
        return passed
    end
end

local switch_pauses

--- Loads the library, once.
function _M.load(opts)
    opts = opts or {}
    local lib
    opts.host = host
    C, redlock, lib = vm.load(opts)
    rounds, errors = require "redlock.rounds", require "redlock.errors"
    rounds.load()
    step = C.sim_record()
    words = step.argv
    _M.C = C
    local sha1 = require "spec.sim.sha1"
    local guard, scripts = require "redlock.restart_guard", require "redlock.scripts"
    prims = { require "redlock.plain_lock", require "redlock.fenced_lock" }
    for _, prim in ipairs(prims) do
        for _, role in ipairs { "acquire", "confirm", "extend", "heal", "release", "handover",
            "seed" } do
            local script = prim[role .. "_script"]
            if script then
                roles[sha1.hex(script)] = role
            end
        end
        roles[sha1.hex(guard.wrap(prim.acquire_script))] = "acquire"
    end
    roles[sha1.hex(scripts.read "redlock.restart_guard.mark")] = "mark"
    switch_pauses = wrap_core(lib)
    watch_passing(require "redlock.acquire")
end

-- ---- a schedule ------------------------------------------------------------------

--- Faults stop: a majority of the servers is well, and everybody runs again.
local function calm(self)
    self.calm_at, self.trap = C.sim_now(), nil
    self:log("resource", "note", "faults stop")
    for _, server in ipairs(self.servers) do
        server.refuses = nil
        if math.abs(server.rate - 1) > self.drift then     -- else it has no vote for ever
            server.offset = server.offset + C.sim_now() * (server.rate - 1)
            server.rate = 1
        end
        if not (server.stays_down and server.state == C.SIM_DOWN) then
            self:start_server(server, server.saved)
            self:set_server(server, C.SIM_UP, 0)
        end
        for _, p in ipairs(self.processes) do
            if p.stays_stopped then
                self:kill_process(p)
            end
            C.sim_silence(p.index, server.index, 0, 0)
            C.sim_window(p.index, server.index, 0)
            C.sim_path(p.index, server.index, self.config.delay_us, self.config.spread_us)
        end
    end
    C.sim_crumble(0)
end

local function on_command(self)
    local n = step.argc
    for i = 1, n do
        argv[i] = ffi_string(words[i - 1].data, words[i - 1].len)
    end
    for i = n + 1, #argv do
        argv[i] = nil
    end
    local server = self.servers[step.server + 1]
    server:execute(step.conn, argv, n)
    if self.repeats and argv[1] == "EVALSHA" and REPEATED[roles[argv[2]]]
        and C.sim_random(1000) < self.repeats then
        self:execute_again(server, n)
    end
end

--- Executes the command in argv once more, a little later, for nobody.
function Sim:execute_again(server, n)
    local copy, runs = {}, server.runs
    for i = 1, n do
        copy[i] = argv[i]
    end
    self:later(self:below(self.repeats_us), function()
        if server.runs == runs and server.state == C.SIM_UP then
            server.repeats = true
            server:execute(0, copy, n)
            server.repeats = false
        end
    end)
end

--- Lets so much time pass, or less: until(self) is true.
local function run_for(self, us, done)
    local over, steps, at = false, 0, 0
    self:later(us, function() over = true end)
    local NOTHING, TIMER, COMMAND, ROUND = C.SIM_NOTHING, C.SIM_TIMER, C.SIM_COMMAND, C.SIM_ROUND
    while not (over or self.violation or done and done(self)) do
        local why = C.sim_run()
        steps = steps + 1
        if step.now_us > at then
            steps, at = 0, step.now_us
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
            on_hold(self)
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
            if server:look(name) then
                return false
            end
        end
    end
    return true
end

--- Ends all coroutines, and frees everything.
local function dispose(self)
    self.over, self.checks = true, {}
    for _, t in ipairs(self.tasks) do
        for _ = 1, 100 do
            if coroutine.status(t.co) ~= "suspended" then
                break
            end
            C.sim_enter(t.process.index)
            task = t
            coroutine.resume(t.co, errors.new("cancelled", "the world"))
        end
    end
    task = nil
    for _, p in ipairs(self.processes) do
        p.client.core = nil
    end
    vm.finalize()
end

local function choose_config(self, opts)
    local lease = self:pick { 0.15, 0.3, 0.5, 1, 1, 2, 5, 20 }
    -- Quarantines, of max_lease * 1.01 + 1 s, are to end within the schedule.
    lease = opts.lease or self.guarded and min(lease, 2) or lease
    local max_lease = (self.guarded or self:chance(50)) and lease * 2 or 60
    local timeout = self:pick { 0.03, 0.05, 0.1, 0.25 }
    return {
        lease = lease,
        max_lease = max_lease,
        guard_us = (max_lease * 1.01 + 1) * SECOND,
        fence_ttl = max_lease * self:pick { 1, 3, 1000 },
        handover = self:pick { 0, 1, 3, 16, 16 },
        timeout = timeout,
        connect_timeout = max(timeout, self:pick { 0.1, 0.3, 1 }),
        retry_delay = max(0.02, lease * self:pick { 0.05, 0.2 }),
        fallback = max(0.2, lease * self:pick { 0.1, 0.5 }),
        patience = self:pick { 1, 3, 10 },
        max_hold = self:chance(30) and lease * self:pick { 1.5, 4 } or 3600,
        wake = self:chance(85) and "push" or "poll",
        delay_us = self:pick { 50, 100, 1000 },
        spread_us = self:pick { 20, 200, 2000 },
    }
end

local function choose_kind(self, opts)
    self.guarded, self.fenced = self:chance(35), self:pick { 0, 0, 0, 50, 100 }
    if opts.guarded ~= nil then
        self.guarded = opts.guarded
    end
    self.fenced = opts.fenced or self.fenced
    self.new_cluster = self.guarded and self:chance(75)      -- to be admitted by init()
end

--- Runs the schedule of a seed.
-- @param opts  log: keep the events; faults, invariants, workload: the tables; only: a list of
--   names of faults (nil: as the seed will have it); n: servers; breaking: percent of
--   schedules in which an assumption is broken; guarded: whether the restart guard is on;
--   fenced: percent of the locks that have tokens; lease: seconds
-- @return sim, with violation = { name, text, at } or nil, events, count
function _M.run(seed, opts)
    C.sim_reset(seed, 9)
    local self = setmetatable({
        seed = seed, timer = {}, timers = 0, waiting = {}, attempts = {}, held = {},
        processes = {}, tasks = {}, servers = {}, open_tasks = 0, messages = 0, pauses = 0,
        events = opts.log and {} or nil, checks = {}, broken = {}, faults = {},
        count = { grants = 0, announced = 0, passed = 0, calls = 0, faults = 0 },
    }, Sim)
    sim = self
    self.n = opts.n or self:pick { 1, 2, 3, 3, 3, 3, 3, 3, 4, 5, 5, 5, 7 }
    self.quorum = floor(self.n / 2) + 1
    self.drift = self:chance(50) and 0 or 0.0045
    choose_kind(self, opts)
    self.config = choose_config(self, opts)
    self.horizon_us = (0.5 + self:below(1000) / 250) * SECOND
        * min(max(self.config.lease, 0.3), 3)
    if self.guarded then
        self.horizon_us = self.horizon_us + self:pick { 0, 1, 1.5 } * self.config.guard_us
    end
    opts.faults.choose(self, opts)
    opts.invariants.choose(self, opts.ignore)
    for i = 1, self.n do
        self.servers[i] = new_server(self, i)
    end
    opts.workload.names(self)
    for i = 1, self:pick { 1, 2, 2, 3, 3, 4 } do
        local p = new_process(self, i)
        self.processes[i] = p
        for _ = 1, self:pick { 1, 1, 2, 3 } do
            _M.new_task(self, p, opts.workload.run)
        end
    end
    switch_pauses(self.pauses > 0)
    opts.faults.begin(self)
    run_for(self, self.horizon_us)
    if not self.violation then
        calm(self)
        run_for(self, opts.workload.patience_us(self), all_done)
        run_for(self, CLEAN_US, all_clean)
    end
    if not self.violation then
        self:tell("finish")
    end
    self.count.calls = self.calls or 0
    self.count.messages = self.messages
    self.count.virtual = C.sim_now() / SECOND
    switch_pauses(false)
    dispose(self)
    return self
end

--- The schedule that runs, or ran last.
function _M.current()
    return sim
end

return _M
