-- make bench, second part: from one holder to the next, on five servers.
--
--     luajit spec/bench/handoff.lua [seconds]
--
-- Two processes that pass a lock to and fro: the time from the release until the other
-- has it. Then eight that want it all the time and hold it for 5 ms each.
local root = arg[0]:match "^(.*)/spec/bench/[^/]*$" or "."
package.path = ("%/lua/?.lua;%/lua/?/init.lua;%/build/?.lua;%/?.lua;%/?/init.lua;")
    :gsub("%%", root) .. package.path

local support = require "spec.support"

local SECONDS = tonumber(arg[1]) or 10

-- Holds for 5 ms, pauses for `arg[2]` s, and writes down when it asked, had and gave.
local WORKER = [[
local support = require "spec.support"
local client = support.warm_client({ unpack(arg, 3) }, { retry_delay = 0.2 })
local l, pause = client:getLock "bench", tonumber(arg[2])
print "ready"
io.read()
local finish = support.now() + tonumber(arg[1])
while support.now() < finish do
    local asked = support.now()
    assert(l:tryLock(60, 30))
    local got = support.now()
    support.sleep(0.005)
    local gave = support.now()
    assert(l:unlock())
    print(("%.7f %.7f %.7f"):format(asked, got, gave))
    if pause > 0 then
        support.sleep(pause)
    end
end
print "done"
]]

local function run(cluster, count, pause)
    local workers, spans = {}, {}
    for i = 1, count do
        workers[i] = support.lua(WORKER, { args = { SECONDS, pause, unpack(cluster:uris()) } })
        assert(workers[i]:read_line(10) == "ready")
    end
    for _, w in ipairs(workers) do
        w:write "\n"
    end
    for i, w in ipairs(workers) do
        for line in function() return w:read_line(SECONDS + 60) end do
            if line == "done" then
                break
            end
            local asked, got, gave = line:match "(%S+) (%S+) (%S+)"
            spans[#spans + 1] = { who = i, asked = tonumber(asked), got = tonumber(got),
                gave = tonumber(gave) }
        end
    end
    table.sort(spans, function(a, b) return a.got < b.got end)
    return spans
end

-- Sorted times from a release to the next holder who was waiting for it already, in us.
local function handoffs(spans)
    local times = {}
    for i = 2, #spans do
        local before, span = spans[i - 1], spans[i]
        assert(span.got >= before.gave, "two holders at once")
        if span.asked < before.gave and span.who ~= before.who then
            times[#times + 1] = (span.got - before.gave) * 1e6
        end
    end
    table.sort(times)
    return times
end

local function at(times, share)
    return times[math.max(1, math.ceil(#times * share))] or 0 / 0
end

local cluster = support.cluster(5)
local times = handoffs(run(cluster, 2, 0.003))
print(("\nhand-off, 2 processes: p50 %.0f us, p99 %.0f us, max %.0f us (%d)"):format(
    at(times, 0.5), at(times, 0.99), at(times, 1), #times))

local spans = run(cluster, 8, 0)
times = handoffs(spans)
local count, least, most, longest = {}, math.huge, 0, 0
for _, span in ipairs(spans) do
    count[span.who] = (count[span.who] or 0) + 1
    longest = math.max(longest, span.got - span.asked)
end
for i = 1, 8 do
    least, most = math.min(least, count[i] or 0), math.max(most, count[i] or 0)
end
print(("8 contenders: %.0f holds/s of 200 possible, each %d to %d times (%.2f, >= 0.5), longest "
    .. "wait %.0f ms (<= 250), hand-off p50 %.0f us, p99 %.0f us"):format(
    #spans / (spans[#spans].gave - spans[1].got), least, most, least / most, longest * 1000,
    at(times, 0.5), at(times, 0.99)))
support.cleanup()
