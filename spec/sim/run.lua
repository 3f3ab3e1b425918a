--- Runs schedules (make sim), or replays one. Environment:
--   SEED  the first seed, instead of one that changes with the commit (seeds.lua); alone: that
--         schedule is replayed, with a log of its events
--   N     how many schedules (5000)
--   T     for how many seconds, instead of N
--   J     on how many cores (as many as there are)
--   SIM_CPATH, SIM_LUA   where the simulated core and the library are (see mutate.lua)
--   SIM_FAULTS           names of faults, instead of those of the seed
--   PREFIX               how all schedules begin (prefixes.lua)
--   SIM_GUARD, SIM_FENCED  0 or 1: the restart guard; percent of locks with tokens
--   SIM_FAMILY           schedules of the family: which kind of objects (family.lua)
--   SIM_LEASE            the lease of the clients, in seconds
--   SIM_IGNORE           an invariant that is checked alone, whatever it needs
--
-- Without SEED and without settings of schedules, the seeds of seeds.txt are run first.
--
-- The exit status is 1 when an invariant was violated.

package.path = "./?.lua;./lua/?.lua;" .. package.path

-- Many short functions that call each other, and coroutines that switch all the time.
jit.opt.start("maxtrace=8000", "maxmcode=65536", "sizemcode=64", "maxside=20",
    "hotloop=200", "hotexit=100")

-- Between two schedules hardly anything is alive: garbage is collected there, all at once.
-- Within one, only if it makes ten times as much as all that lives.
collectgarbage("setpause", 1000)
local GARBAGE_KB = 128 * 1024

io.stdout:setvbuf "line"

local env = os.getenv
local jobs = require "spec.sim.jobs"
local seeds = require "spec.sim.seeds"
local first, whence = seeds.first()
local count, seconds = tonumber(env "N" or 5000), tonumber(env "T")
local SUMS = { "grants", "calls", "messages", "faults", "virtual", "cpu" }

local function tables()
    local only
    for name in (env "SIM_FAULTS" or ""):gmatch "[^,]+" do
        only = only or {}
        only[#only + 1] = name
    end
    local schedule = require "spec.sim.schedule"
    schedule.load { cpath = env "SIM_CPATH", lua = env "SIM_LUA" }
    return schedule, {
        faults = require "spec.sim.faults",
        prefixes = require "spec.sim.prefixes",
        prefix = env "PREFIX",
        invariants = require "spec.sim.invariants",
        workload = require "spec.sim.workload",
        only = only,
        guarded = ({ ["0"] = false, ["1"] = true })[env "SIM_GUARD" or ""],
        fenced = tonumber(env "SIM_FENCED"),
        lease = tonumber(env "SIM_LEASE"),
        family = env "SIM_FAMILY",
        ignore = env "SIM_IGNORE",
    }
end

local function verdict(sim)
    local v = sim.violation
    return v and ("%s: %s (at %.3f ms)"):format(v.name, v.text, v.at)
end

-- ---- many ------------------------------------------------------------------------

--- One process of several: n seeds, every `step`-th. The last line is for the parent.
local function work(from, step, n)
    local schedule, opts = tables()
    local sums, bad, done, began = {}, 0, 0, os.time()
    for seed = from, from + (n - 1) * step, step do
        if seconds and os.time() - began >= seconds then
            break
        end
        local sim = schedule.run(seed, opts)
        if collectgarbage "count" > GARBAGE_KB then
            collectgarbage()
        end
        done = done + 1
        for _, name in ipairs(SUMS) do
            sums[name] = (sums[name] or 0) + (sim.count[name] or 0)
        end
        if sim.violation then
            bad = bad + 1
            print(("seed %d: %s"):format(seed, verdict(sim)))
            if bad == 20 or env "SIM_STOP" then
                break
            end
        end
    end
    sums.cpu = os.clock()
    local line = { "=", done, bad }
    for _, name in ipairs(SUMS) do
        line[#line + 1] = sums[name] or 0
    end
    print(table.concat(line, " "))
end

--- Adds up what the processes say; prints their other lines.
-- @return the sums, and whether one of them did not end as it should
local function gather(pipes)
    local sums, failed = { 0, 0, 0, 0, 0, 0, 0, 0 }, false
    for _, pipe in ipairs(pipes) do
        local complete = false
        for line in pipe:lines() do
            if line:sub(1, 1) == "=" then
                complete = true
                local i = 0
                for number in line:gmatch "[%d.e+]+" do
                    i = i + 1
                    sums[i] = (sums[i] or 0) + tonumber(number)
                end
            else
                print(line)
            end
        end
        failed = failed or not complete
        pipe:close()
    end
    return sums, failed
end

--- Runs the seeds that once found something, `j` at a time.
-- @return how many passed, and how many failed
local function remembered(j)
    local passed, failed, pipes = 0, 0, {}
    local function finish()
        local sums, broken = gather(pipes)
        passed, failed = passed + sums[1] - sums[2], failed + sums[2] + (broken and 1 or 0)
        pipes = {}
    end
    for _, one in ipairs(seeds.remembered()) do
        pipes[#pipes + 1] = io.popen(("%s SIM_WORK='%s 1 1' luajit spec/sim/run.lua"):format(
            one.settings, one.seed))
        if #pipes == j then
            finish()
        end
    end
    finish()
    return passed, failed
end

local function share(n, j)
    local passed, failed = 0, 0
    if whence then
        passed, failed = remembered(j)
        print(("%d remembered seeds; then from seed %d (%s): SEED=%d repeats these"):format(
            passed + failed, first, whence, first))
    end
    local pipes, began = {}, jobs.now()
    for k = 0, j - 1 do
        pipes[k + 1] = io.popen(("SIM_WORK='%d %d %d' luajit spec/sim/run.lua"):format(first + k,
            j, seconds and 1e9 or math.ceil((n - k) / j)))
    end
    local sums, broken = gather(pipes)
    local done, took = sums[1], jobs.now() - began
    print(("%d schedules from seed %d in %.1f s on %d cores, %.0f in a minute of one processor; "
        .. "%.0f virtual seconds"):format(done, first, took, j, done / sums[8] * 60, sums[7]))
    print(("each: %.1f holds, %.1f calls, %.1f scripts executed, %.1f strikes of faults"):format(
        sums[3] / done, sums[4] / done, sums[5] / done, sums[6] / done))
    passed, failed = passed + done - sums[2], failed + sums[2] + (broken and 1 or 0)
    print(("%d passed, %d failed"):format(passed, failed))
    return failed == 0
end

-- ---- one -------------------------------------------------------------------------

local function replay()
    local schedule, opts = tables()
    opts.log = true
    local sim = schedule.run(first, opts)
    for _, e in ipairs(sim.events) do
        local till = e.till_us and (" until %.3f"):format(e.till_us / 1000) or ""
        print(("%12.3f  %-11s %-9s %s%s"):format(e.t, e.lane, e.kind, e.text or "", till))
    end
    local faults = {}
    for i, fault in ipairs(sim.faults) do
        faults[i] = fault.name
    end
    print(("seed %d: %d servers; faults: %s"):format(first, sim.n, table.concat(faults, ", ")))
    print(verdict(sim) or "no violation")
    return not sim.violation
end

if env "SIM_WORK" then
    local from, step, n = env("SIM_WORK"):match "(%d+) (%d+) (%d+)"
    work(tonumber(from), tonumber(step), tonumber(n))
elseif env "SEED" and not env "N" and not env "T" then
    os.exit(replay() and 0 or 1)
else
    os.exit(share(count, tonumber(env "J" or jobs.cores())) and 0 or 1)
end
