-- make bench: how far the library is from the floor (see floor.c), on this machine, now. README.md
-- lists the parts and the settings, which are variables of the environment.
--
-- Absolute times depend on the machine and on what else it does. So the competitors take
-- turns, a short batch each, and what counts is the ratio within one round of turns.
-- Left alone, the scheduler decides whether client and server share a core, which may
-- make a factor of 5 in either's favour; so the processes are told where to run. All on
-- one core, a ratio is that of the work done; with the client on a core of its own, it
-- is that of the time waited.
local support = require "spec.support"
local turns = require "spec.bench.turns"

local function setting(name, default)
    return tonumber(os.getenv(name)) or default
end

local ROUNDS, CYCLES = setting("ROUNDS", 20), setting("CYCLES", 150)
local HELD = setting("HELD", 100000)
local WARM_UP = 300           -- cycles: compile, fill pools
local LONG = 60               -- batches in one

local cores = turns.split_cores() or {}
local floor, ours, goal = turns.floor, turns.ours, turns.goal
local print_batches = turns.print_batches

-- ---- a row -----------------------------------------------------------------------

local function cluster_on(where, n)
    turns.run_on(where)
    return support.cluster(n)
end

local function print_header(title)
    print ""
    turns.print_row("N", title, "p50", "p99", "cycles/s", "user", "system", "servers",
        "/ script floor", "/ guarded floor")
end

local function list_of(batches, field)
    local list = {}
    for i, batch in ipairs(batches) do
        list[i] = batch[field]
    end
    return list
end

--- a - b within each round.
local function differences(a, b, field)
    local list = {}
    for i = 1, #a do
        list[i] = a[i][field] - b[i][field]
    end
    return list
end

--- Warms the workers up, has them take turns, and stops them.
-- @param with_long  also a long batch of each: the kernel splits CPU time into user and system by
--   samples, some hundred in a second
-- @return for each the list of its batches, and `long`
local function batches_of(workers, at_once, with_long)
    at_once = at_once or 1
    for _, w in ipairs(workers) do
        w:run(at_once * math.ceil(WARM_UP / at_once), at_once, 600)     -- it may have much to hold
    end
    local cycles = at_once == 1 and CYCLES or at_once * math.ceil(CYCLES / 5 / (at_once / 64))
    local batches = turns.take(workers, ROUNDS, cycles, at_once)
    for i, w in ipairs(workers) do
        batches[i].long = with_long and w:run(LONG * cycles, at_once)
        w:stop()
    end
    return batches
end

local function no_keys(cluster)
    if cluster:keys() ~= 0 then
        error("the bench left keys behind", 0)
    end
end

-- ---- one at a time ---------------------------------------------------------------

local ALONE = { [1] = 3.7, [3] = 9.5, [5] = 13.5 }      -- CPU beyond the floor's, in us

-- Beside both floors; with five servers also in the loops, and where the bench asks for goals.
local function compare(n, cluster, with_goals)
    local workers = { floor(cluster, "script"), floor(cluster, "guarded"), ours(cluster, "fixed") }
    local names = { "floor, script", "floor, guarded", "redlock" }
    for _, loop in ipairs(n == 5 and with_goals and { "luv", "cqueues" } or {}) do
        names[#names + 1], workers[#workers + 1] = "redlock, " .. loop, ours(cluster, loop)
    end
    local batches = batches_of(workers, 1, with_goals)
    local guarded = batches[2]
    for i, name in ipairs(names) do
        print_batches(n, name, batches[i], i > 1 and batches[1], i > 2 and guarded)
    end
    if with_goals then
        print(("    CPU beyond the guarded floor's: user %.1f, system %.1f us"):format(
            batches[3].long.user - guarded.long.user, batches[3].long.system - guarded.long.system))
        local p50 = list_of(guarded, "p50")
        goal(("N = %d, one at a time / floor"):format(n), turns.ratios(batches[3], guarded, "p50"),
            "<= 1.12", p50)
        goal(("N = %d, CPU beyond the floor's, us"):format(n),
            differences(batches[3], guarded, "cpu"), "<= " .. ALONE[n], p50)
        for i = 4, #names do
            goal(("N = %d, %s, one at a time / floor"):format(n, names[i]:match "%l+$"),
                turns.ratios(batches[i], guarded, "p50"), "<= 1.45", p50)
        end
    end
    no_keys(cluster)
end

--- What the watchdog costs, and a fencing token.
local function kept_and_fenced(n, cluster)
    local batches = batches_of { ours(cluster, "fixed"), ours(cluster, "kept"),
        ours(cluster, "fenced") }
    print_batches(n, "redlock, fixed lease", batches[1])
    print_batches(n, "redlock, kept", batches[2])
    print_batches(n, "redlock, fenced", batches[3])
    print(("    kept / fixed lease: %s; fenced / plain: %s"):format(
        turns.ratio(batches[2], batches[1], "p50"), turns.ratio(batches[3], batches[1], "p50")))
    goal(("N = %d, fenced - plain, us"):format(n), differences(batches[3], batches[1], "p50"),
        "<= 40", list_of(batches[1], "p50"))
    cluster:flush()          -- counters stay for a day
end

--- The library with one server frozen against itself with all of them: on a second
-- cluster, `lame`, as both have to take turns.
local function freeze_one(n, cluster, lame)
    local workers = { ours(cluster, "fixed"), ours(lame, "fixed") }
    for _, w in ipairs(workers) do
        w:run(WARM_UP)
    end
    lame[n]:freeze()
    local batches = turns.take(workers, ROUNDS, CYCLES)
    lame[n]:thaw()
    print_batches(n, "redlock, 1 frozen", batches[2])
    print(("    1 of %d frozen / all healthy: %s"):format(n,
        turns.ratio(batches[2], batches[1], "p50")))
    goal("one of five frozen / all up", turns.ratios(batches[2], batches[1], "p50"), "<= 0.95",
        list_of(batches[1], "p50"))
    -- A plain client pays what it owes while it works.
    support.eventually(function()
        workers[2]:run(10)
        return lame:keys() == 0
    end, 40, "the thawed server to be cleaned up")
    for _, w in ipairs(workers) do
        w:stop()
    end
    no_keys(cluster)
    lame:stop()
end

local function one_at_a_time(title, server_cores, client_cores, with_goals)
    print_header(title)
    for _, n in ipairs { 1, 3, 5 } do
        local cluster = cluster_on(server_cores, n)
        turns.run_on(client_cores)
        compare(n, cluster, with_goals)
        if n == 5 and with_goals then
            kept_and_fenced(n, cluster)
            local lame = cluster_on(server_cores, n)
            turns.run_on(client_cores)
            freeze_one(n, cluster, lame)
        end
        cluster:stop()
    end
    turns.run_on(cores.all)
end

-- ---- beside what is held ---------------------------------------------------------

--- What a cycle costs while much is held, beside the same while nothing is: on servers of their
-- own, as the floor's cycle costs more there, too.
local function held(n, many)
    local empty, full = support.cluster(n, { new = true }), support.cluster(n, { new = true })
    local batches = batches_of { floor(empty, "script"), ours(empty, "held", 0),
        floor(full, "script"), ours(full, "held", many) }
    print_batches(n, "floor, script", batches[1])
    print_batches(n, "lock + unlock", batches[2], batches[1])
    print_batches(n, "floor, script +", batches[3])
    print_batches(n, "lock + unlock +", batches[4], batches[3])
    local growth, alone = {}, turns.ratios(batches[2], batches[1], "p50")
    for i, beside in ipairs(turns.ratios(batches[4], batches[3], "p50")) do
        growth[i] = beside / alone[i]
    end
    goal(("beside %d held, growth of ours / floor"):format(many), growth, "<= 1.05",
        list_of(batches[3], "p50"))
    empty:stop()
    full:stop()
end

local function much_is_held()
    print_header "MUCH IS HELD"
    held(5, math.ceil(HELD / 10))
    held(5, HELD)
end

-- ---- many at once ----------------------------------------------------------------

local MANY = {
    { "waves", "futures in waves", 0.72, 0.65 },
    { "slide", "futures, sliding", 0.70, 0.60 },
    { "luv", "luv", 0.65, 0.55 },
    { "cqueues", "cqueues", 0.65, 0.55 },
}

--- Many at once from one process, each of another name; the ratios are those of the rates.
local function in_flight(n, cluster, at_once, cpu)
    local workers = { floor(cluster, "script"), floor(cluster, "guarded") }
    for i, row in ipairs(MANY) do
        workers[2 + i] = ours(cluster, row[1])
    end
    local batches = batches_of(workers, at_once)
    local steady = list_of(batches[2], "rate")
    print_batches(n, ("floor, script, %d"):format(at_once), batches[1])
    print_batches(n, ("floor, guarded, %d"):format(at_once), batches[2], batches[1], nil, "rate")
    for i, row in ipairs(MANY) do
        local b = batches[2 + i]
        print_batches(n, ("%s, %d"):format(row[2], at_once), b, batches[1], batches[2], "rate")
        goal(("%s, %d in flight, rate / floor"):format(row[2], at_once),
            turns.ratios(b, batches[2], "rate"), ">= " .. row[at_once == 64 and 3 or 4], steady)
        if cpu[i] then
            goal(("%s, CPU with %d in flight / 64"):format(row[2], at_once),
                turns.ratios(b, cpu[i], "cpu"), "<= 1.1", steady)
        end
        cpu[i] = cpu[i] or b
    end
    cluster:flush()
end

local function many_at_once()
    print_header "MANY AT ONCE"
    local cluster, cpu = support.cluster(5), {}
    in_flight(5, cluster, 64, cpu)
    in_flight(5, cluster, 256, cpu)
    cluster:stop()
end

-- ---- the whole -------------------------------------------------------------------

local PARTS = {
    { "one", function() one_at_a_time("ONE CORE", cores.one, cores.one, true) end },
    { "apart", function()
        if cores.rest then
            one_at_a_time("CLIENT ON ITS OWN CORE", cores.rest, cores.one)
        end
    end },
    { "held", much_is_held },
    { "many", many_at_once },
    { "handoff", function() require("spec.bench.handoff").run(setting("SECONDS", 10)) end },
    { "family", function() require("spec.bench.family").run(ROUNDS, CYCLES) end },
    { "neighbour", function()
        require("spec.bench.neighbour").run(math.ceil(ROUNDS / 4), setting("SECONDS", 8),
            setting("KEPT", 50000))
    end },
    { "command", function() require("spec.bench.command").run(math.ceil(ROUNDS / 4)) end },
    { "instructions", function() require("spec.bench.instructions").compiled() end },
}

local function main()
    local only = os.getenv "ONLY" or ""
    print(turns.describe())
    print(("a cycle is lock + unlock; microseconds, medians of %d batches of %d cycles; user,")
        :format(ROUNDS, CYCLES))
    print "system: CPU of the client for a cycle, servers: of all servers, means of the batches;"
    print "ratios of p50, with many at once of cycles/s: median (quartiles)"
    for _, part in ipairs(PARTS) do
        if only == "" or (" " .. only .. " "):find(" " .. part[1] .. " ", 1, true) then
            part[2]()
        end
    end
    turns.print_goals(os.getenv "BENCH" .. "/goals.txt")
end

io.stdout:setvbuf "line"
local ok, err = pcall(main)
support.cleanup()
if not ok then
    io.stderr:write("bench: ", tostring(err), "\n")
    os.exit(1)
end
