-- make bench-peers: the library beside other locks, each used as its own users do.
--
--     luajit spec/bench/peers.lua DIR [rounds] [cycles] [only]
--
-- DIR has been filled by peers/fetch. Each system has servers of its own; the systems take turns, a
-- short batch each. Who shares a core with whom would make a factor of 5, so that is fixed.
-- `only`: names of peers, with commas between them.
local root = arg[0]:match "^(.*)/spec/bench/[^/]*$" or "."
package.path = ("%/lua/?.lua;%/lua/?/init.lua;%/build/?.lua;%/?.lua;%/?/init.lua;")
    :gsub("%%", root) .. package.path

local support = require "spec.support"
local systems = require "spec.bench.peers.systems"
local turns = require "spec.bench.turns"

local DIR = assert(arg[1], "peers.lua DIR [rounds] [cycles] [only]")
local ROUNDS, CYCLES = tonumber(arg[2]) or 20, tonumber(arg[3]) or 100
local ONLY = arg[4] ~= "" and arg[4] or nil
local IN_FLIGHT, WARM_UP = 64, 300
local PATIENCE = 24           -- seconds without an answer
local SLOW_US = 200000        -- a cycle after a fault that is measured alone
local LOSSES, TERM_MS = 5, 2000

local cores = turns.split_cores() or {}
local quantile, median_of = turns.quantile, turns.median_of
local not_first = {}          -- a line for each table in which somebody else is

-- ---- systems and their workers -----------------------------------------------------

local function worker(system)
    local argv, stop = system.argv(system.members)
    local w = turns.worker(argv)
    w.stop_server = stop
    return w
end

local function end_of(w)
    w.proc:kill "KILL"
    w.proc:wait()
    if w.stop_server then
        w.stop_server()
    end
end

-- A new worker, connected to a member that does not lead: the last one does.
local function renew(system)
    if system.worker then
        end_of(system.worker)
    end
    systems.leader_last(system.members)
    system.worker = worker(system)
    system.worker:run(WARM_UP)
end

-- Ours is on as many servers as each of the others.
local function is_ours(system)
    return system.name == "redlock"
end

--- @return the systems that run here, ours on three servers first; a line is printed for each other
local function start()
    local list = {}
    for _, system in ipairs(systems.list(DIR)) do
        if is_ours(system) or not ONLY
            or ("," .. ONLY .. ","):find("," .. system.name .. ",", 1, true) then
            local ok, err = pcall(function()
                turns.run_on(cores.rest)
                system.members = system.start()
                turns.run_on(cores.one)
                renew(system)
            end)
            if ok then
                list[#list + 1] = system
            else
                print(("not compared: %s: %s"):format(system.name, tostring(err)))
            end
        end
    end
    assert(list[2] and is_ours(list[2]), "the library itself does not run")
    return list
end

local function workers_of(list)
    local workers = {}
    for i, system in ipairs(list) do
        workers[i] = system.worker
    end
    return workers
end

-- ---- the tables --------------------------------------------------------------------

local function cells(p50, p99, rate, cpu, ratio)
    return p50, p99 or "", rate or "", cpu or "", "", "", ratio
end

local function header(title, ...)
    print ""
    turns.print_row("N", title, cells(...))
end

local function print_row(system, ...)
    turns.print_row(#system.members, system.name, cells(...))
end

local function cell(batches, field)
    return ("%.0f"):format(median_of(batches, field))
end

-- Which one of the list is ours on as many servers.
local function rival_of(system, list)
    for i, one in ipairs(list) do
        if is_ours(one) and #one.members == #system.members then
            return i
        end
    end
end

--- Notes who is first, if we are not.
-- @param values  by system; less is better
local function note(title, list, values)
    local ahead = {}
    for i = 1, #list do
        local us = values[rival_of(list[i], list)]
        if values[i] and (not us or values[i] < us) then
            ahead[#ahead + 1] = ("%s, N = %d (%.4g beside %.4g)"):format(list[i].name,
                #list[i].members, values[i], us or 0 / 0)
        end
    end
    if #ahead > 0 then
        not_first[#not_first + 1] = title .. ": " .. table.concat(ahead, "; ")
    end
end

local function one_at_a_time(list)
    header("PEERS ONE AT A TIME", "p50", "p99", "cycles/s", "cpu", "/ redlock")
    local batches, p50 = turns.take(workers_of(list), ROUNDS, CYCLES), {}
    for i, system in ipairs(list) do
        local b = batches[i]
        print_row(system, cell(b, "p50"), cell(b, "p99"), cell(b, "rate"), cell(b, "cpu"),
            turns.ratio(b, batches[rival_of(system, list)], "p50"))
        p50[i] = median_of(b, "p50")
    end
    note("one at a time, us", list, p50)
end

local function many_at_once(list)
    header("PEERS MANY AT ONCE", "p50", "p99", "cycles/s", "cpu", "/ redlock")
    local workers = workers_of(list)
    turns.take(workers, 1, IN_FLIGHT * 2, IN_FLIGHT)
    local batches = turns.take(workers, ROUNDS, IN_FLIGHT * math.ceil(CYCLES / 20), IN_FLIGHT)
    local time = {}
    for i, system in ipairs(list) do
        local b = batches[i]
        print_row(system, cell(b, "p50"), cell(b, "p99"), cell(b, "rate"), cell(b, "cpu"),
            turns.ratio(b, batches[rival_of(system, list)], "rate"))
        time[i] = 1e6 / median_of(b, "rate")
    end
    note("64 at once, us for each", list, time)
end

-- From the start of a release by one process until the other, which waits, has the lock: in ms.
local function passed(from, to)
    from:send("take", "bench:hand")
    assert(from:receive(), "a lock that nobody holds is not granted")
    to:send("take", "bench:hand")
    support.sleep(0.05 + math.random() * 0.2)         -- a wait begins unseen; polls drift
    from:send "give"
    local gave, got = tonumber(from:receive()), tonumber(to:receive())
    to:send "give"
    assert(to:receive())
    return (got - gave) / 1000
end

local function hand_over(list)
    header("PEERS HAND OVER", "", "", "", "", "ms")
    local times, others, p50 = {}, {}, {}
    for i, system in ipairs(list) do
        times[i], others[i] = {}, worker(system)
        others[i]:run(WARM_UP)
    end
    for round = 1, ROUNDS do
        for i, system in ipairs(list) do
            times[i][2 * round - 1] = passed(system.worker, others[i])
            times[i][2 * round] = passed(others[i], system.worker)
        end
    end
    for i, system in ipairs(list) do
        print_row(system, "", "", "", "", turns.spread(times[i]))
        p50[i] = quantile(times[i], 0.5)
        end_of(others[i])
    end
    note("owner change, ms", list, p50)
end

-- ---- faults ------------------------------------------------------------------------

--- Hurts the last member, which leads where one does: how long the next cycle takes, and what
-- cycles take then beside the same before.
local function one_hurt(title, list, hurt, heal)
    header(title, "p50", "p99", "first ms", "", "/ before")
    for _, system in ipairs(list) do
        renew(system)
    end
    local before = turns.take(workers_of(list), ROUNDS, CYCLES)
    for _, system in ipairs(list) do
        hurt(system.members[#system.members])
        system.worker:send "run 1"
    end
    local deadline, first, after, p50 = support.now() + PATIENCE, {}, {}, {}
    for i, system in ipairs(list) do
        first[i], after[i] = system.worker:result(math.max(0.1, deadline - support.now())), {}
    end
    for round = 1, ROUNDS do
        for i, system in ipairs(list) do
            local last = after[i][round - 1] or first[i]
            after[i][round] = last and system.worker:run(last.p50 > SLOW_US and 1 or CYCLES)
        end
    end
    for i, system in ipairs(list) do
        local b = after[i]
        if first[i] then
            print_row(system, cell(b, "p50"), cell(b, "p99"),
                ("%.1f"):format(first[i].p50 / 1000), "", turns.ratio(b, before[i], "p50"))
            p50[i] = median_of(b, "p50")
        else
            print_row(system, ("  no cycle within %d s"):format(PATIENCE))
        end
        heal(system.members[#system.members])
    end
    note(title:lower():gsub("^peers ", "") .. ", us", list, p50)
end

-- When less than a majority of Redis servers has the key of a lock, in us.
local function end_of_keys(servers, name)
    local ends = {}
    for i, server in ipairs(servers) do
        local longest = 0
        for _, key in ipairs(assert(server:call("KEYS", "*" .. name .. "*"))) do
            longest = math.max(longest, (assert(server:call("PTTL", key))))
        end
        ends[i] = support.now() * 1e6 + longest * 1000
    end
    table.sort(ends)
    return ends[math.ceil(#ends / 2)]
end

local function hurt_all(servers, how)
    for _, server in ipairs(servers) do
        server[how](server)
    end
end

--- A holder whose lock is renewed hears from no server any more, as all are frozen.
-- @return by system: seconds from the end of its lock until it is told, below 0 before that;
--   nil: it is not; false: this was no trial, as it had lost the lock before
local function lose(list, name)
    local holders, ends, frozen, late = {}, {}, {}, {}
    for i, system in ipairs(list) do
        holders[i] = worker(system)
        holders[i]:send("hold", name, TERM_MS)
        assert(holders[i]:receive() == "held", system.name)
    end
    support.sleep(TERM_MS / 1000 * (1.5 + math.random()))       -- some renewals
    for i, system in ipairs(list) do
        -- Where it cannot be seen from outside: as if it had been renewed just now.
        ends[i] = system.members[1].call and end_of_keys(system.members, name)
            or support.now() * 1e6 + TERM_MS * 1000
        hurt_all(system.members, "freeze")
        frozen[i] = support.now() * 1e6
    end
    local deadline = support.now() + PATIENCE / 2
    for i, system in ipairs(list) do
        local line = holders[i]:receive(math.max(0.1, deadline - support.now()))
        local at, ended = (line or ""):match "^lost (%S+) ?(%S*)"
        if ends[i] <= frozen[i] or at and tonumber(at) <= frozen[i] then
            late[i] = false
        elseif at then
            late[i] = (tonumber(at) - (tonumber(ended) or ends[i])) / 1e6
        end
        hurt_all(system.members, "thaw")
        end_of(holders[i])
    end
    return late
end

local function losses(all)
    header("PEERS LOSS", "", "", "", "", "s from the end of validity until told; < 0: before")
    local list, late, trials, p50 = {}, {}, {}, {}
    for _, system in ipairs(all) do
        if system.told == true then
            list[#list + 1], late[#late + 1], trials[#trials + 1] = system, {}, 0
        else
            print_row(system, "", "", "", "", "not told: " .. system.told)
        end
    end
    for round = 1, math.min(ROUNDS, LOSSES) do
        local seconds = lose(list, "lost" .. round)
        for i = 1, #list do
            trials[i] = trials[i] + (seconds[i] == false and 0 or 1)
            late[i][#late[i] + 1] = seconds[i] or nil
        end
    end
    for i, system in ipairs(list) do
        p50[i] = late[i][1] and quantile(late[i], 0.5)
        local told = p50[i] and ("%.3f (%.3f to %.3f), "):format(p50[i],
            quantile(late[i], 0.25), quantile(late[i], 0.75)) or ""
        print_row(system, "", "", "", "", told .. ("told within %d s in %d of %d trials"):format(
            PATIENCE / 2, #late[i], trials[i]))
    end
    note("told of a loss, s", list, p50)
end

-- ---- the whole ---------------------------------------------------------------------

local function main()
    print(turns.describe())
    print(cores.one and "servers on the other cores, clients and this bench on one"
        or "all on one core")
    print(("%d rounds of %d cycles; microseconds unless said, median (quartiles); the numbers of a "
        .. "short run, or beside other load, are provisional"):format(ROUNDS, CYCLES))
    local list, several = start(), {}
    for _, system in ipairs(list) do
        several[#several + 1] = #system.members > 1 and system or nil
    end
    one_at_a_time(list)
    many_at_once(list)
    hand_over(list)
    losses(list)
    one_hurt("PEERS ONE FROZEN", several, function(m) m:freeze() end, function(m) m:thaw() end)
    one_hurt("PEERS ONE KILLED", several, function(m) m:kill() end, function() end)
    print ""
    for _, line in ipairs(not_first) do
        print("redlock is not first, " .. line)
    end
    for _, system in ipairs(list) do
        end_of(system.worker)
        hurt_all(system.members, "kill")
    end
end

io.stdout:setvbuf "line"
math.randomseed(os.time())
local ok, err = pcall(main)
support.cleanup()
if not ok then
    io.stderr:write("bench: ", tostring(err), "\n")
    os.exit(1)
end
