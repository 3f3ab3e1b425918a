-- The library's side of make bench-peers, with its default options.
--
--     luajit redlock.lua URI...
--
-- Takes the lines of peer.js, and answers in the same way. Many in flight are futures.
local redlock = require "redlock"
local support = require "spec.support"

local LEASE = 30
local nodes = { unpack(arg) }
local client = redlock.new { nodes = nodes, cluster = support.CLUSTER }
local held

local function now_us()
    return support.now() * 1e6
end

-- A window of futures, each of which is followed by another. A cycle that fails, because a server
-- of a busy machine answers late, is tried again as in peer.js.
local function sliding(cycles, in_flight, samples)
    local locks, futures, from, locked, begun = {}, {}, {}, {}, 0
    local function lock(i)
        futures[i], locked[i] = locks[i]:tryLockAsync(60, LEASE), false
    end
    local function begin(i)
        begun, from[i] = begun + 1, now_us()
        lock(i)
    end
    for i = 1, math.min(in_flight, cycles) do
        locks[i] = client:getLock("bench:" .. i)
        begin(i)
    end
    while #samples < cycles do
        for i = 1, #locks do
            local ok = futures[i] and futures[i]:get()
            if futures[i] and not ok then
                lock(i)
            elseif ok and not locked[i] then
                futures[i], locked[i] = locks[i]:unlockAsync(), true
            elseif ok then
                samples[#samples + 1], futures[i] = now_us() - from[i], nil
                if begun < cycles then
                    begin(i)
                end
            end
        end
    end
end

local commands = {}

function commands.run(cycles, in_flight)
    cycles, in_flight = tonumber(cycles), tonumber(in_flight) or 1
    local samples, cpu, from = {}, os.clock(), now_us()
    if in_flight > 1 then
        sliding(cycles, in_flight, samples)
    else
        for i = 1, cycles do
            local begun = now_us()
            repeat
                local lock = client:getLock "bench:1"
                local ok = lock:tryLock(60, LEASE) and lock:unlock()
            until ok
            samples[i] = now_us() - begun
        end
    end
    local took = now_us() - from
    cpu = (os.clock() - cpu) * 1e6
    table.sort(samples)
    return ("%.3f %.3f %.3f %.3f"):format(samples[math.floor(cycles / 2) + 1],
        samples[math.floor(cycles * 0.99) + 1], cycles / took * 1e6, cpu / cycles)
end

function commands.take(name)
    held = client:getLock(name)
    assert(held:tryLock(60, LEASE))
    return ("%.3f"):format(now_us())
end

function commands.give()
    local from = now_us()
    held:unlock()                          -- without an answer the client repeats it
    return ("%.3f"):format(from)
end

-- In an event loop, as that of peer.js; no line is read after this one.
function commands.hold(name, term_ms)
    local other = redlock.new { nodes = nodes, cluster = support.CLUSTER,
        lease = tonumber(term_ms) / 1000, host = require "redlock.host.luv" }
    local holder = coroutine.create(function()
        local lock = other:getLock(name)
        assert(lock:tryLock(60))
        lock:onLost(function()
            print(("lost %.3f"):format(now_us()))
        end)
        print "held"
        coroutine.yield()                  -- a holder that ends gives its locks back
    end)
    assert(coroutine.resume(holder))
    require("luv").run()
    return holder
end

io.stdout:setvbuf "line"
for line in io.lines() do
    local command, first, second = line:match "^(%a+) ?(%S*) ?(%S*)$"
    print(commands[command](first, second))
end
client:close()
