-- make bench: how far the library is from the floor (see floor.c), on this machine, now.
--
--     luajit spec/bench/run.lua [rounds] [cycles] [held]
--
-- Absolute times depend on the machine and on what else it does. So the competitors take
-- turns, a short batch each, and what counts is the ratio within one round of turns.
-- Left alone, the scheduler decides whether client and server share a core, which may
-- make a factor of 5 in either's favour; so the processes are told where to run. All on
-- one core, a ratio is that of the work done; with the client on a core of its own, it
-- is that of the time waited.
local root = arg[0]:match "^(.*)/spec/bench/[^/]*$" or "."
package.path = ("%/lua/?.lua;%/lua/?/init.lua;%/build/?.lua;%/?.lua;%/?/init.lua;")
    :gsub("%%", root) .. package.path

local support = require "spec.support"
local turns = require "spec.bench.turns"

local ROUNDS = tonumber(arg[1]) or 30
local CYCLES = tonumber(arg[2]) or 150
local HELD = tonumber(arg[3]) or 100000
local WARM_UP = 300           -- cycles: compile, fill pools
local IN_FLIGHT = { 64, 256 }

local worker, median_of, ratio = turns.worker, turns.median_of, turns.ratio
local print_row, print_batches = turns.print_row, turns.print_batches

-- ---- workers ---------------------------------------------------------------------

local function floor(mode, cluster)
    local scripts = root .. "/lua/redlock/scripts/lock/"
    local argv = { root .. "/build/spec/floor", mode, scripts .. "acquire.lua",
        scripts .. "release.lua" }
    for _, server in ipairs(cluster) do
        argv[#argv + 1] = server.port
    end
    return worker(argv)
end

--- @param mode  see cycle.lua; default: fixed
local function ours(cluster, mode)
    local argv = { arg[-1] or "luajit", root .. "/spec/bench/cycle.lua", mode or "fixed" }
    argv.env = support.lua_env()
    for _, uri in ipairs(cluster:uris()) do
        argv[#argv + 1] = uri
    end
    return worker(argv)
end

--- @param mode, guard  see flight.lua
local function flight(cluster, mode, guard)
    local argv = { arg[-1] or "luajit", root .. "/spec/bench/flight.lua", mode, guard }
    argv.env = support.lua_env()
    for _, uri in ipairs(cluster:uris()) do
        argv[#argv + 1] = uri
    end
    return worker(argv)
end

--- Locks taken beside so many that are held already.
local function beside(cluster, kind, held)
    local argv = { arg[-1] or "luajit", root .. "/spec/bench/held.lua", kind, held }
    argv.env = support.lua_env()
    for _, uri in ipairs(cluster:uris()) do
        argv[#argv + 1] = uri
    end
    return worker(argv)
end

-- ---- the rows --------------------------------------------------------------------

local function no_keys(cluster)
    if cluster:keys() ~= 0 then
        error("the bench left keys behind", 0)
    end
end

local function take_turns(workers, rounds, cycles, at_once)
    return turns.take(workers, rounds, cycles or CYCLES, at_once)
end

local function compare(n, cluster)
    local workers = { floor("set", cluster), floor("evalsha", cluster), ours(cluster) }
    for _, w in ipairs(workers) do
        w:run(WARM_UP)
    end
    local batches = take_turns(workers, ROUNDS)
    print_batches(n, "floor, SET", batches[1])
    print_batches(n, "floor, acquire script", batches[2], batches[1])
    print_batches(n, "redlock", batches[3], batches[1], batches[2])
    for _, w in ipairs(workers) do
        w:stop()
    end
    no_keys(cluster)
end

--- What the watchdog costs: held beside the cycle, and in the cycle.
local function watchdog(n, cluster)
    local workers = { ours(cluster), ours(cluster, "beside"), ours(cluster, "kept") }
    for _, w in ipairs(workers) do
        w:run(WARM_UP)
    end
    local batches = take_turns(workers, ROUNDS)
    print_batches(n, "redlock, fixed lease", batches[1])
    print_batches(n, "redlock, one kept beside", batches[2])
    print_batches(n, "redlock, kept", batches[3])
    print(("    one kept beside / none: %s; kept / fixed lease: %s"):format(
        ratio(batches[2], batches[1], "p50"), ratio(batches[3], batches[1], "p50")))
    for _, w in ipairs(workers) do
        w:stop()
    end
    no_keys(cluster)
end

--- What a fencing token costs.
local function fenced(n, cluster)
    local workers = { ours(cluster), ours(cluster, "fenced") }
    for _, w in ipairs(workers) do
        w:run(WARM_UP)
    end
    local batches = take_turns(workers, ROUNDS)
    print_batches(n, "redlock, fenced", batches[2])
    print(("    fenced / plain: %s"):format(ratio(batches[2], batches[1], "p50")))
    for _, w in ipairs(workers) do
        w:stop()
    end
    cluster:flush()          -- counters stay for a day
end

--- The library with one server frozen against itself with all of them: on a second
-- cluster, `lame`, as both have to take turns.
local function freeze_one(n, cluster, lame)
    local workers = { ours(cluster), ours(lame) }
    for _, w in ipairs(workers) do
        w:run(WARM_UP)
    end
    lame[n]:freeze()
    local batches = take_turns(workers, math.ceil(ROUNDS / 2))
    lame[n]:thaw()
    print_batches(n, "redlock, 1 frozen", batches[2])
    print(("    1 of %d frozen / all healthy: %s"):format(n,
        ratio(batches[2], batches[1], "p50")))
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

--- What a cycle costs while much is held, that does not run out or does, beside the same while
-- nothing is.
local function held(n, cluster, many)
    for _, row in ipairs {
        { "plain", "lock + unlock" },
        { "dropped", "leases that run out" },
        { "loop", "both, loop, listened to" },
    } do
        local workers = { beside(cluster, row[1], 0), beside(cluster, row[1], many) }
        for _, w in ipairs(workers) do
            w:run(WARM_UP, nil, 600)         -- it waits until all is held
        end
        local batches = take_turns(workers, ROUNDS)
        for i, w in ipairs(workers) do
            print_batches(n, ("%s%s"):format(row[2], i == 2 and " +" or ""), batches[i])
            w:stop()
        end
        print(("    + beside %d held / none: %s; cpu %s"):format(many,
            ratio(batches[2], batches[1], "p50"), ratio(batches[2], batches[1], "cpu")))
        cluster:flush()
    end
end

--- Many at once from one process, each of another name; the ratios are those of the rates.
local function in_flight(n, cluster, at_once)
    local names = { "floor, SET", "floor, script" }
    local workers = { floor("set", cluster), floor("evalsha", cluster) }
    local function add(name, mode, guard)
        names[#names + 1], workers[#workers + 1] = name, flight(cluster, mode, guard)
    end
    add("futures in waves", "waves", "on")
    add("futures, sliding", "slide", "on")
    add("luv", "luv", "on")
    add("cqueues", "cqueues", "on")
    if n == 5 then
        add("waves, no guard", "waves", "off")
    end
    for _, w in ipairs(workers) do
        w:run(at_once * math.ceil(WARM_UP / at_once), at_once)
    end
    local batches = take_turns(workers, ROUNDS, at_once * math.ceil(CYCLES / 5), at_once)
    for i, w in ipairs(workers) do
        print_row(n, ("%s, %d"):format(names[i], at_once), "", "",
            ("%.0f"):format(median_of(batches[i], "rate")),
            ("%.1f"):format(median_of(batches[i], "cpu")),
            i > 1 and ratio(batches[i], batches[1], "rate") or "",
            i > 2 and ratio(batches[i], batches[2], "rate") or "")
        w:stop()
    end
    cluster:flush()
end

-- ---- the whole -------------------------------------------------------------------

local function print_header(title)
    print ""
    print_row("N", title, "p50", "p99", "cycles/s", "cpu", "/ floor", "/ script floor")
end

local function measure(title, server_cores, client_cores)
    local function cluster_of(n)
        turns.run_on(server_cores)
        local cluster = support.cluster(n)
        turns.run_on(client_cores)
        return cluster
    end
    print_header(title)
    for _, n in ipairs { 1, 3, 5 } do
        local cluster = cluster_of(n)
        compare(n, cluster)
        if n == 5 then
            watchdog(n, cluster)
            fenced(n, cluster)
            freeze_one(n, cluster, cluster_of(n))
        end
        cluster:stop()
    end
end

local function main()
    print(turns.describe())
    print(("a cycle is lock + unlock; microseconds, medians of %d batches of %d cycles;")
        :format(ROUNDS, CYCLES))
    print "ratios of p50: median (quartiles)"
    local cores = turns.split_cores() or {}
    measure("ONE CORE", cores.one, cores.one)
    if cores.rest then
        measure("CLIENT ON ITS OWN CORE", cores.rest, cores.one)
    end
    turns.run_on(cores.all)
    print_header "ALL CORES"
    local cluster = support.cluster(5)
    fenced(5, cluster)
    print_header "MUCH IS HELD"
    held(5, cluster, math.ceil(HELD / 10))
    held(5, cluster, HELD)
    cluster:stop()
    print_header "MANY AT ONCE"
    for _, n in ipairs { 1, 3, 5, 7, 9 } do
        cluster = support.cluster(n)
        for _, at_once in ipairs(IN_FLIGHT) do
            in_flight(n, cluster, at_once)
        end
        cluster:stop()
    end
end

io.stdout:setvbuf "line"
local ok, err = pcall(main)
support.cleanup()
if not ok then
    io.stderr:write("bench: ", tostring(err), "\n")
    os.exit(1)
end
