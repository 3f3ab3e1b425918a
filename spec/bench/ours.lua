-- The library's side of the bench: lock and unlock, in a process of its own.
--
--     luajit ours.lua MODE HELD URI...
--
-- fixed: with a lease of 30 s; kept: with the watchdog's; fenced: with a fencing token.
-- luv, cqueues: in that loop, in as many coroutines as there are cycles at once.
-- waves: as many futures of tryLock, wait for all, then of unlock, wait for all; slide: a window
-- of as many futures, each followed by another.
-- held: beside HELD other locks that are held, whose lease is long and not renewed.
--
-- Reads from stdin the lines that floor.c reads, and answers as it does: "run CYCLES [IN_FLIGHT]"
-- -> "p50 p99 cycles_per_s user system", in microseconds; for futures both times are the mean.
local ffi = require "ffi"
local redlock = require "redlock"

ffi.cdef [[
struct bench_time { long sec, part; };
struct bench_usage { struct bench_time user, system; long rest[14]; };
int bench_clock_gettime(int, struct bench_time *) __asm__("clock_gettime");
int bench_getrusage(int, struct bench_usage *) __asm__("getrusage");
]]

local C = ffi.C
local MONOTONIC, LEASE, MOST = 1, 30, 1024
local MAX_LEASE, LONG, AT_ONCE = 86400, 80000, 100

local mode, held = table.remove(arg, 1), tonumber(table.remove(arg, 1))
local host = (mode == "luv" or mode == "cqueues") and mode or nil
local loop = host and require(host)
local options = { cluster = "spec", nodes = { unpack(arg) }, timeout = 10,
    host = host and require("redlock.host." .. host) }
if mode == "held" then
    options.max_lease, options.restart_guard, options.max_waiting = MAX_LEASE, false, 2 * AT_ONCE
    options.prefix = held .. ":"
end
local client = redlock.new(options)

-- ---- where it runs ---------------------------------------------------------------------

--- Runs functions side by side where they may wait, and returns when all have ended.
local function run_all(fns)
    local controller, left = host == "cqueues" and loop.new(), #fns
    local function run(fn)
        local ok, err = xpcall(fn, debug.traceback)
        if not ok then
            io.stderr:write(err, "\n")
            os.exit(1)
        end
        left = left - 1
        if left == 0 and host == "luv" then
            loop.stop()
        end
    end
    for _, fn in ipairs(fns) do
        if controller then
            controller:wrap(run, fn)
        elseif loop then
            coroutine.wrap(run)(fn)
        else
            run(fn)
        end
    end
    if controller then
        assert(controller:loop())
    elseif loop then
        loop.run()
    end
end

-- ---- what it does ----------------------------------------------------------------------

local function hold(number)
    for first = 1, number, AT_ONCE do
        local futures = {}
        for i = first, math.min(first + AT_ONCE - 1, number) do
            futures[#futures + 1] = client:getLock("held:" .. i, { owner = i })
                :tryLockAsync(10, LONG)
        end
        redlock.wait_all(futures)
    end
end

local locks = {}
for i = 1, MOST do
    locks[i] = client:getLock("bench:many:" .. i)
end

local function cycle(i)
    -- A new object each time, as in a request handler; but with many at once what counts is that.
    local lock = host and locks[i] or mode == "fenced" and client:getFencedLock "bench:fenced"
        or client:getLock "bench:redlock"
    assert(lock:tryLock(0, mode ~= "kept" and LEASE or nil))
    assert(lock:unlock())
end

local function now_us()
    local t = ffi.new "struct bench_time"
    C.bench_clock_gettime(MONOTONIC, t)
    return tonumber(t.sec) * 1e6 + tonumber(t.part) / 1e3
end

--- @return the time of each cycle
local function one_after_another(cycles, in_flight)
    local samples, fns, left = {}, {}, cycles
    for i = 1, in_flight do
        fns[i] = function()
            local last = now_us()
            while left > 0 do
                left = left - 1
                cycle(i)
                local now = now_us()
                samples[#samples + 1], last = now - last, now
            end
        end
    end
    run_all(fns)
    return samples
end

local function waves(cycles, in_flight)
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

local function slide(cycles, in_flight)
    local futures, is_held, begun, done = {}, {}, 0, 0
    local function begin(i)
        begun = begun + 1
        futures[i], is_held[i] = locks[i]:tryLockAsync(0, LEASE), false
    end
    for i = 1, in_flight do
        begin(i)
    end
    while done < cycles do
        for i = 1, in_flight do
            local future = futures[i]
            if future then
                assert(future:get())
                if not is_held[i] then
                    futures[i], is_held[i] = locks[i]:unlockAsync(), true
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

-- ---- asked by lines --------------------------------------------------------------------

local RUN = { waves = waves, slide = slide }

local function usage_us()
    local usage = ffi.new "struct bench_usage"
    C.bench_getrusage(0, usage)
    return tonumber(usage.user.sec) * 1e6 + tonumber(usage.user.part),
        tonumber(usage.system.sec) * 1e6 + tonumber(usage.system.part)
end

local function measure(cycles, in_flight)
    local user, system = usage_us()
    local from = now_us()
    local samples = (RUN[mode] or one_after_another)(cycles, in_flight)
    local took = now_us() - from
    local user_then, system_then = usage_us()
    samples = samples or { took / cycles }
    table.sort(samples)
    return samples[math.floor(#samples / 2) + 1], samples[math.floor(#samples * 0.99) + 1],
        cycles / took * 1e6, (user_then - user) / cycles, (system_then - system) / cycles
end

if held > 0 then
    run_all { function() hold(held) end }
end
io.stdout:setvbuf "line"
for line in io.lines() do
    local cycles, in_flight = line:match "^run (%d+) ?(%d*)$"
    cycles, in_flight = tonumber(cycles), tonumber(in_flight) or 1
    if not cycles or cycles < in_flight or in_flight < 1 or in_flight > MOST then
        error("cannot do: " .. line)
    end
    io.write(("%.2f %.2f %.1f %.3f %.3f\n"):format(measure(cycles, in_flight)))
end
os.exit(0)                   -- what is left to the servers ends with them
