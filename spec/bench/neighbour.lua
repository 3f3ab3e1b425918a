-- A part of make bench: a neighbour of somebody who keeps very many locks, on five servers.
--
-- One process takes `kept` locks, which the watchdog renews, each once in two thirds of `seconds`.
-- Another one locks and unlocks a name of its own every millisecond, in turns: for `seconds` alone,
-- then for as long beside it.
local support = require "spec.support"
local turns = require "spec.bench.turns"

local _M = {}

-- Says how many it has; then for each line how many renewals there were since, what one took of
-- this process in us, and how many were lost.
local KEEPER = [[
local ffi, redlock = require "ffi", require "redlock"
local support = require "spec.support"
local lease, kept, nodes = 2 * tonumber(arg[1]), tonumber(arg[2]), { unpack(arg, 3) }
local client = redlock.new { nodes = nodes, cluster = "spec",
    lease = lease, timeout = 10, max_waiting = 1000 }
for first = 1, kept, 500 do
    local futures = {}
    for i = first, math.min(first + 499, kept) do
        futures[#futures + 1] = client:getLock("kept:" .. i, { owner = "bench" }):tryLockAsync(10)
    end
    redlock.wait_all(futures)
end
print(client:stats().acquired)
local renewals, cpu = client:stats().renewals, os.clock()
for _ in io.lines() do
    local now = client:stats().renewals
    print(("%d %.2f %d"):format(now - renewals, (os.clock() - cpu) * 1e6 / (now - renewals),
        client:stats().lost))
    renewals, cpu = now, os.clock()
end
os.exit(0, false)
]]

-- For each line, a number of seconds: "p50 p99 longest", in us.
local NEIGHBOUR = [[
local support = require "spec.support"
local client = support.warm_client { unpack(arg) }
local l = client:getLock "neighbour"
local function cycles(seconds)
    local times, finish = {}, support.now() + seconds
    while support.now() < finish do
        local from = support.now()
        assert(l:tryLock(0, 10))
        assert(l:unlock())
        times[#times + 1] = (support.now() - from) * 1e6
        support.sleep(0.001)
    end
    table.sort(times)
    return times[math.ceil(#times / 2)], times[math.ceil(#times * 0.99)], times[#times]
end
cycles(0.5)
print "ready"
for line in io.lines() do
    print(("%.1f %.1f %.1f"):format(cycles(tonumber(line))))
end
]]

local function start(code, ...)
    return support.lua(code, { args = { ... } })
end

--- The numbers of the next line that the process prints.
local function ask(process, line, seconds)
    if line then
        process:write(line .. "\n")
    end
    local said = process:read_line(seconds or 60)
    if not said then
        error("a process of the bench has failed", 0)
    end
    local numbers = {}
    for n in said:gmatch "%S+" do
        numbers[#numbers + 1] = tonumber(n)
    end
    return numbers
end

function _M.run(rounds, seconds, kept)
    local cluster = support.cluster(5)
    local neighbour = start(NEIGHBOUR, unpack(cluster:uris()))
    ask(neighbour)
    local ratios, client, quiet = { p50 = {}, p99 = {} }, {}, {}
    print(("\n%-3s %-24s"):format("N", "MANY ARE KEPT"))
    for round = 1, rounds do
        local alone = ask(neighbour, seconds)
        local keeper = start(KEEPER, seconds, kept, unpack(cluster:uris()))
        assert(ask(keeper, nil, 300)[1] == kept)
        support.sleep(seconds)               -- all are renewed at some time of their own now
        ask(keeper, "")
        local beside = ask(neighbour, seconds)
        local renewals, cpu, lost = unpack(ask(keeper, ""))
        assert(lost == 0 and renewals > 0)
        ratios.p50[round], ratios.p99[round] = beside[1] / alone[1], beside[2] / alone[2]
        client[round], quiet[round] = cpu, alone[1]
        print(("    alone p50 %.0f, p99 %.0f, longest %.0f us; beside %d kept, %.0f renewals/s: "
            .. "%.0f, %.0f, %.0f"):format(alone[1], alone[2], alone[3], kept, renewals / seconds,
            beside[1], beside[2], beside[3]))
        keeper:close_stdin()
        keeper:wait(30)
        cluster:flush()
    end
    for _, name in ipairs { "p50", "p99" } do
        print(("    a neighbour's %s beside %d kept / alone: %s"):format(name, kept,
            turns.spread(ratios[name])))
    end
    print(("    the client takes %.1f us for a renewal"):format(turns.quantile(client, 0.5)))
    turns.goal(("a neighbour's p99 beside %d kept / alone"):format(kept), ratios.p99, "<= 1.3",
        quiet)
    neighbour:close_stdin()
    neighbour:wait(30)
    cluster:stop()
end

return _M
