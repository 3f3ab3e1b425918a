-- Many calls in flight from one process, each of a name of its own.
--
--     luajit flight.lua waves|slide|luv|cqueues GUARD URI...
--
-- waves: so many futures of tryLock, wait for all, then of unlock, wait for all; slide: a window
-- of as many futures, each followed by another; luv, cqueues: as many coroutines of that loop.
-- GUARD: on, off: the restart guard.
--
-- Takes lines from stdin as floor.c, "run CYCLES IN_FLIGHT", and answers in the same way:
-- "p50 p99 cycles_per_s cpu", in microseconds; it measures no single cycle: p50 and p99 are the
-- mean.
local ffi = require "ffi"
local redlock = require "redlock"

ffi.cdef [[
struct bench_timespec { long sec, nsec; };
int bench_clock_gettime(int, struct bench_timespec *) __asm__("clock_gettime");
]]

local C = ffi.C
local CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID = 1, 2
local LEASE, MOST = 30, 1024

local t = ffi.new "struct bench_timespec"

local function clock_us(id)
    C.bench_clock_gettime(id, t)
    return tonumber(t.sec) * 1e6 + tonumber(t.nsec) / 1e3
end

local mode, guard = table.remove(arg, 1), table.remove(arg, 1)
local loop = (mode == "luv" or mode == "cqueues") and require(mode)
local client = redlock.new { cluster = "spec",
    nodes = { unpack(arg) }, timeout = 10, restart_guard = guard == "on" and "auto" or "ignore",
    host = loop and require("redlock.host." .. mode) or nil,
}
local locks = {}
for i = 1, MOST do
    locks[i] = client:getLock("bench:flight:" .. i)
end

local run = {}

function run.waves(cycles, in_flight)
    local futures = {}
    for _ = 1, cycles / in_flight do
        for i = 1, in_flight do
            futures[i] = locks[i]:tryLockAsync(0, LEASE)
        end
        redlock.wait_all(futures)
        for i = 1, in_flight do
            assert(futures[i]:get())
            futures[i] = locks[i]:unlockAsync()
        end
        redlock.wait_all(futures)
        for i = 1, in_flight do
            assert(futures[i]:get())
        end
    end
end

function run.slide(cycles, in_flight)
    local futures, held, begun, done = {}, {}, 0, 0
    local function begin(i)
        begun = begun + 1
        futures[i], held[i] = locks[i]:tryLockAsync(0, LEASE), false
    end
    for i = 1, in_flight do
        begin(i)
    end
    while done < cycles do
        for i = 1, in_flight do
            local future = futures[i]
            if future then
                assert(future:get())
                if not held[i] then
                    futures[i], held[i] = locks[i]:unlockAsync(), true
                else
                    done, futures[i] = done + 1, nil
                    if begun < cycles then
                        begin(i)
                    end
                end
            end
        end
    end
end

-- The body of a coroutine that does one cycle after the other, while there are any left.
local function cycles_of(i, count)
    return function()
        while count.left > 0 do
            count.left = count.left - 1
            assert(locks[i]:tryLock(0, LEASE))
            assert(locks[i]:unlock())
        end
    end
end

function run.luv(cycles, in_flight)
    local count = { left = cycles }
    for i = 1, in_flight do
        assert(coroutine.resume(coroutine.create(cycles_of(i, count))))
    end
    loop.run()
end

function run.cqueues(cycles, in_flight)
    local count, controller = { left = cycles }, loop.new()
    for i = 1, in_flight do
        controller:wrap(cycles_of(i, count))
    end
    assert(controller:loop())
end

io.stdout:setvbuf "line"
for line in io.lines() do
    local cycles, in_flight = line:match "^run (%d+) (%d+)$"
    cycles, in_flight = tonumber(cycles), tonumber(in_flight)
    if not cycles or cycles < in_flight or in_flight < 1 or in_flight > MOST then
        error("cannot do: " .. line)
    end
    local cpu, from = clock_us(CLOCK_PROCESS_CPUTIME_ID), clock_us(CLOCK_MONOTONIC)
    run[mode](cycles, in_flight)
    local took = clock_us(CLOCK_MONOTONIC) - from
    cpu = clock_us(CLOCK_PROCESS_CPUTIME_ID) - cpu
    io.write(("%.2f %.2f %.1f %.3f\n"):format(took / cycles, took / cycles, cycles / took * 1e6,
        cpu / cycles))
end
os.exit(0)                   -- a loop that is not run cannot wait for a close
