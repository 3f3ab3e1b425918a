-- The library's side of the bench: lock and unlock, in a process of its own.
--
--     luajit cycle.lua fixed|kept|beside|fenced URI...
--
-- fixed: with a lease of 30 s; kept: with the watchdog's; beside: fixed, while the process
-- holds another lock with the watchdog; fenced: fixed, with a fencing token.
--
-- Takes the same lines from stdin as floor.c, and answers in the same way:
-- "run CYCLES" -> "p50 p99 cycles_per_s cpu", in microseconds.
local ffi = require "ffi"
local redlock = require "redlock"

ffi.cdef [[
struct bench_timespec { long sec, nsec; };
int bench_clock_gettime(int, struct bench_timespec *) __asm__("clock_gettime");
]]

local C = ffi.C
local CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID = 1, 2
local LEASE = 30

local t = ffi.new "struct bench_timespec"

local function clock_us(id)
    C.bench_clock_gettime(id, t)
    return tonumber(t.sec) * 1e6 + tonumber(t.nsec) / 1e3
end

local mode = table.remove(arg, 1)
local client = redlock.new { nodes = { unpack(arg) }, cluster = "spec" }
local lease = mode ~= "kept" and LEASE or nil

if mode == "beside" then
    assert(client:getLock("bench:beside"):tryLock(5))
end

local function run(cycles)
    local samples = {}
    local cpu = clock_us(CLOCK_PROCESS_CPUTIME_ID)
    local from = clock_us(CLOCK_MONOTONIC)
    local last = from
    for i = 1, cycles do
        -- A new object each time: that is how a request handler does it.
        local lock = mode == "fenced" and client:getFencedLock "bench:fenced"
            or client:getLock "bench:redlock"
        assert(lock:tryLock(0, lease))
        assert(lock:unlock())
        local now = clock_us(CLOCK_MONOTONIC)
        samples[i] = now - last
        last = now
    end
    cpu = clock_us(CLOCK_PROCESS_CPUTIME_ID) - cpu
    table.sort(samples)
    return samples[math.floor(cycles / 2) + 1], samples[math.floor(cycles * 0.99) + 1],
        cycles / (last - from) * 1e6, cpu / cycles
end

io.stdout:setvbuf "line"
for line in io.lines() do
    local cycles = tonumber(line:match "^run (%d+)$")
    if not cycles or cycles < 1 then
        error("cannot do: " .. line)
    end
    io.write(("%.2f %.2f %.1f %.3f\n"):format(run(cycles)))
end
client:close()
