-- make bench, fourth part: a neighbour of somebody who keeps very many locks, on five servers.
--
--     luajit spec/bench/neighbour.lua [rounds] [seconds] [kept]
--
-- One process takes `kept` locks, which the watchdog renews, each once in two thirds of `seconds`;
-- another one locks and unlocks a name of its own every millisecond, for so many seconds alone and
-- beside it, in turns.
local root = arg[0]:match "^(.*)/spec/bench/[^/]*$" or "."
package.path = ("%/lua/?.lua;%/lua/?/init.lua;%/build/?.lua;%/?.lua;%/?/init.lua;")
    :gsub("%%", root) .. package.path

local support = require "spec.support"

local ROUNDS, SECONDS = tonumber(arg[1]) or 5, tonumber(arg[2]) or 8
local KEPT = tonumber(arg[3]) or 50000

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

local function quantile(list, q)
    table.sort(list)
    return list[math.floor((#list - 1) * q + 1.5)]
end

local function main()
    local cluster = support.cluster(5)
    local neighbour = start(NEIGHBOUR, unpack(cluster:uris()))
    ask(neighbour)
    local ratios, client = { p50 = {}, p99 = {} }, {}
    print(("\n%-3s %-24s"):format("N", "MANY ARE KEPT"))
    for round = 1, ROUNDS do
        local alone = ask(neighbour, SECONDS)
        local keeper = start(KEEPER, SECONDS, KEPT, unpack(cluster:uris()))
        assert(ask(keeper, nil, 300)[1] == KEPT)
        support.sleep(SECONDS)               -- all are renewed at some time of their own now
        ask(keeper, "")
        local beside = ask(neighbour, SECONDS)
        local renewals, cpu, lost = unpack(ask(keeper, ""))
        assert(lost == 0 and renewals > 0)
        ratios.p50[round], ratios.p99[round] = beside[1] / alone[1], beside[2] / alone[2]
        client[round] = cpu
        print(("    alone p50 %.0f, p99 %.0f, longest %.0f us; beside %d kept, %.0f renewals/s: "
            .. "%.0f, %.0f, %.0f"):format(alone[1], alone[2], alone[3], KEPT, renewals / SECONDS,
            beside[1], beside[2], beside[3]))
        keeper:close_stdin()
        keeper:wait(30)
        cluster:flush()
    end
    for _, name in ipairs { "p50", "p99" } do
        local list = ratios[name]
        print(("    a neighbour's %s beside %d kept / alone: %.2f (%.2f-%.2f)"):format(name, KEPT,
            quantile(list, 0.5), quantile(list, 0.25), quantile(list, 0.75)))
    end
    print(("    the client takes %.1f us for a renewal"):format(quantile(client, 0.5)))
end

local ok, err = pcall(main)
support.cleanup()
if not ok then
    io.stderr:write("bench: ", tostring(err), "\n")
    os.exit(1)
end
