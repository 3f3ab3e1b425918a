-- A part of make bench: from one holder to the next, on five servers.
--
-- Two processes that pass a lock to and fro: the time from the release until the other
-- has it. Then eight that want it all the time and hold it for 5 ms each.
local support = require "spec.support"
local turns = require "spec.bench.turns"

local _M = {}

-- Holds for 5 ms, pauses for `arg[2]` s, and writes down when it asked, had and gave.
local WORKER = [[
local support = require "spec.support"
local client = support.warm_client({ unpack(arg, 3) })
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

local function spans_of(cluster, count, pause, seconds)
    local workers, spans = {}, {}
    for i = 1, count do
        workers[i] = support.lua(WORKER, { args = { seconds, pause, unpack(cluster:uris()) } })
        assert(workers[i]:read_line(10) == "ready")
    end
    for _, w in ipairs(workers) do
        w:write "\n"
    end
    for i, w in ipairs(workers) do
        for line in function() return w:read_line(seconds + 60) end do
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

--- @param seconds  of each of the two
function _M.run(seconds)
    local cluster = support.cluster(5)
    local times = handoffs(spans_of(cluster, 2, 0.003, seconds))
    print(("\nhand-off, 2 processes: p50 %.0f us, p99 %.0f us, max %.0f us (%d)"):format(
        at(times, 0.5), at(times, 0.99), at(times, 1), #times))
    turns.goal("hand-off between 2 processes, p50, us", { at(times, 0.5) }, "<= 550")
    turns.goal("hand-off between 2 processes, p99, us", { at(times, 0.99) }, "<= 1100")

    local spans = spans_of(cluster, 8, 0, seconds)
    times = handoffs(spans)
    local count, least, most, longest = {}, math.huge, 0, 0
    for _, span in ipairs(spans) do
        count[span.who] = (count[span.who] or 0) + 1
        longest = math.max(longest, span.got - span.asked)
    end
    for i = 1, 8 do
        least, most = math.min(least, count[i] or 0), math.max(most, count[i] or 0)
    end
    print(("8 contenders: %.0f holds/s of 200 possible, each %d to %d times, longest wait %.0f ms, "
        .. "hand-off p50 %.0f us, p99 %.0f us"):format(
        #spans / (spans[#spans].gave - spans[1].got), least, most, longest * 1000,
        at(times, 0.5), at(times, 0.99)))
    turns.goal("8 contenders, least / most holds", { least / most }, ">= 0.8")
    turns.goal("8 contenders, longest wait, s", { longest }, "<= 0.25")
    cluster:stop()
end

return _M
