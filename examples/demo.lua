-- The library in ten seconds: two processes contend for one lock on five servers, and one server is
-- killed in the middle. Run it with `make demo`.

local support = require "spec.support"

local SECONDS, HOLD_MS = 3, 20      -- per phase; how long each holds the lock
local START = support.now()

-- One contender. It prints what it does, and records when it acquired and released the lock
-- in a file that both share.
local WORKER = [[
local support = require "spec.support"
local redlock = require "redlock"
local name, journal, uris = arg[1], assert(io.open(arg[2], "a")), { unpack(arg, 3) }
journal:setvbuf "no"

local client = redlock.new { nodes = uris }
local lock = client:getLock "demo:invoice:42"
print "ready"
io.read()
local finish = support.now() + tonumber(io.read())
while support.now() < finish do
    local asked = support.now()
    local ok, err = lock:tryLock(5)
    if not ok then
        print("error " .. tostring(err))
        os.exit(1)
    end
    local got = support.now()
    support.sleep(]] .. HOLD_MS / 1000 .. [[)
    lock:check()
    journal:write(("%s %.6f %.6f %.6f\n"):format(name, asked, got, support.now()))
    assert(lock:unlock())
    support.sleep(]] .. HOLD_MS / 2000 .. [[)      -- does something else
end
print "done"
]]

local function say(...)
    print(("%6.2f s  "):format(support.now() - START) .. string.format(...))
end

local function median_us(client)
    local lock, times = client:getLock "demo:timing", {}
    for i = 1, 1000 do
        local t = support.now()
        assert(lock:tryLock())
        assert(lock:unlock())
        times[i] = (support.now() - t) * 1e6
    end
    table.sort(times)
    return times[500]
end

-- Who held it how often and how long they waited; raises when two held it at once.
local function read_journal(path, from)
    local spans, count, waits = {}, {}, {}
    for line in io.lines(path) do
        local name, asked, got, gone = line:match "(%S+) (%S+) (%S+) (%S+)"
        local span = { name = name, from = tonumber(got), to = tonumber(gone) }
        spans[#spans + 1] = span
        if span.from >= from then
            count[name] = (count[name] or 0) + 1
            waits[#waits + 1] = (span.from - tonumber(asked)) * 1000
        end
    end
    table.sort(spans, function(a, b) return a.from < b.from end)
    for i = 2, #spans do
        assert(spans[i].from >= spans[i - 1].to, "two holders at once")
    end
    table.sort(waits)
    return count, waits[math.ceil(#waits / 2)] or 0
end

local function report(phase, path, from)
    local count, wait = read_journal(path, from)
    say("%s: A held it %d times, B %d times, never both at once; median wait %.1f ms", phase,
        count.A or 0, count.B or 0, wait)
end


local cluster = support.cluster(5, { new = true })
say("five redis-servers on %s", table.concat(cluster:uris(), " "))

local redlock = require "redlock"
local client = redlock.new { nodes = cluster:uris() }
assert(client:init { force = true })     -- nobody can hold a lock there yet: no quarantine
median_us(client)
local before = median_us(client)
say("lock + unlock without contention: median %.0f us", before)

local journal = support.tmpdir() .. "/journal"
local workers = {}
for i, name in ipairs { "A", "B" } do
    workers[i] = support.lua(WORKER, { args = { name, journal, unpack(cluster:uris()) } })
    assert(workers[i]:read_line(60) == "ready")
end
say("two processes contend for one lock, each holds it for %d ms", HOLD_MS)
for _, worker in ipairs(workers) do
    worker:write("\n" .. 2 * SECONDS .. "\n")
end
support.sleep(SECONDS)
report("all five up", journal, 0)

local killed = support.now()
cluster[3]:kill()
say("killed %s", cluster[3].uri)
for _, worker in ipairs(workers) do
    local line = worker:read_line(SECONDS + 60)
    assert(line == "done", line)
end
report("one down", journal, killed)
say("lock + unlock without contention, one down: median %.0f us", median_us(client))

cluster[1]:kill()
cluster[2]:kill()
local _, err = client:getLock("demo:invoice:42"):tryLock()
say("three down, as an error says it:")
for _, row in ipairs(err.nodes) do
    print(("            %s  %s: %s"):format(row.node, row.code, row.message))
end

client:close()
support.cleanup()
print "demo: the lock worked throughout; everything is cleaned up"
