--- The clients: processes, their coroutines, and the host that the library runs under.

local ffi = require "ffi"
local base = require "spec.sim.sim"
local attempts = require "spec.sim.attempts"
local vm = require "spec.sim.vm"

local coroutine, tonumber, type, ipairs, pairs, traceback = coroutine, tonumber, type, ipairs,
    pairs, debug.traceback
local huge, max, cast = math.huge, math.max, ffi.cast
local MS, SECOND = base.MS, base.SECOND
local C, Sim, now = base.C, base.Sim, base.Sim.now

local _M = {}

local redlock, rounds, errors, step
local switch_pauses
local sim                    -- the schedule that runs; sim.task: the coroutine that runs

-- ---- processes and their coroutines ----------------------------------------------

local function key_of(round)
    return tonumber(cast("intptr_t", round))
end

local resume

--- Those whose turn came while another coroutine of the process was stopped in mid-call.
local function resume_others(self, p)
    while p.others[1] and not p.in_call do
        local other = table.remove(p.others, 1)
        resume(self, other.t, other.value)
        C.sim_waiting(p.index, 0)
    end
end

--- Runs a coroutine until it waits or ends.
function resume(self, t, value)
    local p = t.process
    if p.dead or t.done then
        return
    elseif p.in_call and p.in_call ~= t then
        p.others[#p.others + 1] = { t = t, value = value }
        return
    end
    p.in_call = nil
    C.sim_enter(p.index)
    self.task = t
    if self.writes_late and p.client then        -- as the tasks of futures do
        C.rl_hold(p.client.core, 1)
    end
    local ok, what = coroutine.resume(t.co, value)
    self.task = nil
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
            C.sim_stop(p.index, now() + what.us, 0)
            p.runs_since_us = now() + what.us
            p.stopped_us = p.stopped_us + what.us
            p.in_call = t
        end
        t.sleep = what
        if what.us then
            self:later(what.us, function()
                if t.sleep == what then
                    self:wake(t)
                end
            end, p)
        end
    end
    resume_others(self, p)
end

--- A client of all servers; one of them may have two addresses.
local function new_client(self, index)
    local o, nodes, other = self.config, {}, index == 0 and self.other or {}
    for i = 1, self.n do
        nodes[i] = { host = "127.0.0." .. i, port = self.twin and i == self.n and self.twin or i }
    end
    return redlock.new {
        nodes = nodes, lease = o.lease, max_lease = other.max_lease or o.max_lease,
        timeout = o.timeout, connect_timeout = o.connect_timeout, fallback = o.fallback,
        patience = o.patience, max_hold = o.max_hold, handover = o.handover,
        restart_guard = self.guarded and not other.unguarded,
        lock_delay = o.lock_delay, drift_factor = other.drift_factor,
        label = index % 3 > 0 and "process " .. index,
    }
end

--- The process has closed its client, and goes on with a new one.
function Sim:reopen(p)
    p.client, p.closed_at = new_client(self, p.index), now()
    self:later(0, function()
        for _, t in ipairs(p.tasks) do       -- as a loop that looks what is done
            local outcome = t.round ~= nil and tonumber(C.rl_round_outcome(t.round)) or 0
            if outcome ~= 0 then
                self.waiting[key_of(t.round)], t.round = nil, nil
                C.sim_waiting(p.index, -1)
                resume(self, t, outcome)
            end
        end
    end, p)
end

--- A coroutine that sleeps goes on.
function Sim:wake(t)
    t.sleep = nil
    resume(self, t)
    C.sim_waiting(t.process.index, 0)        -- it may have woken others
end

--- A round is done: step has it.
function _M.on_round(self)
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
    t.round, t.cancelled_at = nil, now()
    C.sim_waiting(t.process.index, -1)
    resume(self, t, errors.new(code or "cancelled", "a call"))
    C.sim_waiting(t.process.index, 0)        -- it may have woken others
    return true
end

--- The running coroutine sleeps. whole: its process is stopped meanwhile.
function Sim.sleep(_, us, whole)
    rounds.suspend({ us = us, whole = whole })
end

--- It sleeps until somebody calls wake().
function Sim.park()
    rounds.suspend {}
end

--- Stops a process for so long.
-- @return false: it is dead, or stopped already
function Sim.stop_process(self, p, us, suspended)
    if p.dead or C.sim_stopped(p.index) ~= 0 then
        return false
    end
    p.stopped_us = p.stopped_us + us
    p.runs_since_us = now() + us
    self:log(p.lane, "note", suspended and "its machine is suspended" or "is stopped",
        now() + us)
    C.sim_stop(p.index, now() + us, suspended and 1 or 0)
    return true
end

function Sim:kill_process(p)
    if p.dead then
        return
    end
    p.dead, p.died_at = true, now()
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
    p.forked_at = now()
    self:log(p.lane, "note", "goes on as the child of a fork")
    C.sim_enter(p.index)
    C.sim_fork(p.index)
end

local function new_task(self, p, fn)
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
    local p = { number = i, lane = "client " .. i, tasks = {}, others = {}, stopped_us = 0,
        froze_us = 0,            -- for so long its clock stood still
        runs_since_us = 0, concurrent = self:chance(70), eager = self:chance(60),
        died_at = huge, forked_at = -1, refused_at = -huge, had_at = -huge }
    local prefix = self.prefix or {}
    p.eager = p.eager or self.prefix ~= nil
    if prefix.concurrent ~= nil then
        p.concurrent = prefix.concurrent
    end
    p.rate = 1 + (self:below(2001) - 1000) / 1000 * self.drift
    p.index = C.sim_process(1e9 + self:below(1e9), p.rate, p.eager and 1 or 0)
    for k = 1, #self.servers do
        C.sim_path(p.index, k - 1, self.config.delay_us, self.config.spread_us)
    end
    p.client = new_client(self, p.index)
    return p
end

-- ---- the host (see lua/redlock/host/plain.lua) -----------------------------------

local host = { name = "sim" }
_M.host = host

function host.owner()
    return sim.task.id
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
    local t = sim.tasks[owner]               -- of an object that is its own owner there is none
    return not (t and (t.done or t.gone))
end

function host.concurrent()
    return sim.task.process.concurrent
end

function host.wait(round)
    local outcome = C.rl_round_outcome(round)
    if outcome ~= 0 then
        return tonumber(outcome)
    end
    return rounds.suspend(round)
end

-- ---- pauses between any two calls into the core ----------------------------------

--- How long the next call pauses, in microseconds, if at all.
local function drawn_pause()
    return sim:below(1000) < sim.pauses
        and sim:below(sim:chance(50) and 30 * MS or sim.config.lease * 1.5 * SECOND) or nil
end

-- looked: at the clock, just before.
local function pause(looked)
    local t = sim.task
    if t and looked then
        t.looked_us = now()
    end
    local us = t and sim.pauses > 0 and not sim.calm_at and sim:apart("pauses", drawn_pause)
    if us then
        t.paused_us = t.paused_us + us
        sim:log(t.lane, "note", "pauses in mid-call", now() + us)
        sim:sleep(us, true)
    end
end

local PAUSABLE = { "rl_release", "rl_extend", "rl_keep", "rl_round_free", "rl_round_outcome" }

-- In a schedule of the family: what the running coroutine tries to take.
local function note_kind(keys, nkeys)
    if not sim.family then
        return
    end
    local attempt, list = sim.task.attempt, {}
    for i = 1, nkeys do
        list[i] = ffi.string(keys[i - 1].data, keys[i - 1].len)
    end
    attempt.kind, attempt.keys = sim.task.kind, list
    attempt.forced = (sim.forcing[list[1]] or 0) > 0
end

-- In the core no time passes: who would wait there waits in the host.
local function no_wait(lib, how)
    return how == lib.RL_WAIT and lib.RL_BEGIN or how
end

local function wrap_core(lib)
    local raw_now, raw_look, raw_acquire = lib.rl_now_ms, lib.rl_look, lib.rl_acquire
    local free = {}
    C.rl_acquire = function(core, prim, keys, nkeys, args, nargs, label, lease_ms, within_ms,
        gate, how, out)
        local round = raw_acquire(core, prim, keys, nkeys, args, nargs, label, lease_ms,
            within_ms, gate, no_wait(lib, how), out)
        if out[0] ~= nil then
            attempts.new(sim, out[0], lease_ms, prim.rule == lib.RL_RULE_LARGEST)
            note_kind(keys, nkeys)
        end
        pause()
        return round
    end
    local raw_import = lib.rl_import
    C.rl_import = function(core, prim, keys, nkeys, args, nargs, old, label, lease_ms, token, once,
        out)
        local before = sim.attempts[ffi.string(old[0].data, old[0].len)]
        local round = raw_import(core, prim, keys, nkeys, args, nargs, old, label, lease_ms, token,
            once, out)
        if out[0] ~= nil then
            attempts.new(sim, out[0], lease_ms, prim.rule == lib.RL_RULE_LARGEST, before)
            -- In the family: a writer who becomes a reader.
            sim.task.attempt.kind, sim.task.attempt.keys = sim.family and "read", before.keys
            sim.task.attempt.forced, sim.task.attempt.given = before.forced, once ~= 0
            before.exported = before.exported or once ~= 0
        end
        pause()
        return round
    end
    for _, name in ipairs(PAUSABLE) do
        free[name] = lib[name]
    end
    free.rl_release = function(lease, how) return lib.rl_release(lease, no_wait(lib, how)) end
    free.rl_now_ms, free.rl_look = raw_now, raw_look
    local paused = {}
    for _, name in ipairs(PAUSABLE) do
        local raw = free[name]
        paused[name] = function(...)
            pause()
            return raw(...)
        end
    end
    paused.rl_now_ms = function()
        local now_ms = raw_now()
        pause(true)
        return now_ms
    end
    paused.rl_look = function(...)
        local now_ms = raw_look(...)
        pause(true)
        return now_ms
    end
    return function(on)
        for name, fn in pairs(on and paused or free) do
            C[name] = fn
        end
    end
end

--- Tells of holds that are offered to the next one in the queue, and of those that pass on as
-- they are.
local function watch_passing(handover, holds)
    local pass = handover.pass
    function handover.pass(lock, hold)
        local passed = pass(lock, hold)
        if passed then
            local attempt = sim.attempts[attempts.value_of(hold.lease)]
            attempt.offered = true
            sim.count.passed = sim.count.passed + 1
            sim:tell("passed", attempt)
        end
        return passed
    end
    local new = holds.new
    function holds.new(client)
        local self = new(client)
        local set = self.set
        function self.set(...)
            local _, _, _, hold = ...
            local attempt = sim.attempts[attempts.value_of(hold.lease)]
            if attempt and attempt.offered then
                sim:took_over(attempt, hold)
            end
            return set(...)
        end
        return self
    end
end

-- Which coroutine a waiter in the line of a fair lock is: another one may ask for it.
local function watch_waits(hooks)
    local new_wait = assert(hooks.new_wait)
    function hooks.new_wait()
        local wait = new_wait()
        sim.waits[#sim.waits + 1] = { wait = wait, task = sim.task, began_us = sim.now() }
        return wait
    end
end

-- ---- loading, beginning, ending --------------------------------------------------

-- @param library  redlock
-- @param lib      the core as it is
function _M.load(library, lib)
    redlock = library
    rounds, errors = require "redlock.runtime.rounds", require "redlock.runtime.errors"
    rounds.load()
    step = C.sim_record()
    switch_pauses = wrap_core(lib)
    switch_pauses(false)
    watch_passing(require "redlock.lock.handover", require "redlock.lock.holds")
    watch_waits(require "redlock.lock.hooks")
end

--- Makes the processes and their coroutines.
-- @param fn  function(sim, t): the life of a coroutine
function _M.begin(self, fn)
    sim, self.waits = self, {}
    local prefix = self.prefix or {}
    local processes = self.small and { 1, 2, 2, 3 } or { 1, 2, 2, 3, 3, 4 }
    local tasks = self.small and { 1, 1, 2 } or { 1, 1, 2, 3 }
    if self.takers then
        processes, tasks = { self.takers }, { 1 }
    end
    for i = 1, max(self:pick(processes), prefix.processes or 1) do
        local p = new_process(self, i)
        self.processes[i] = p
        for _ = 1, max(self:pick(tasks), prefix.tasks or 1) do
            new_task(self, p, fn)
        end
    end
end

--- Calls into the core may be followed by pauses from now on, if that is a fault.
function _M.pause_at_times(self)
    switch_pauses(self.pauses > 0)
end

--- Ends all coroutines, and frees everything.
function _M.finish(self)
    switch_pauses(false)
    self.over, self.checks = true, {}
    for _, t in ipairs(self.tasks) do
        for _ = 1, 100 do
            if coroutine.status(t.co) ~= "suspended" then
                break
            end
            C.sim_enter(t.process.index)
            self.task = t
            coroutine.resume(t.co, errors.new("cancelled", "the world"))
        end
    end
    self.task = nil
    for _, p in ipairs(self.processes) do
        p.client.core = nil
    end
    vm.finalize()
end

return _M
