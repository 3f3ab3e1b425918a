-- Locks taken while much is held already, in a process of its own.
--
--     luajit held.lua plain|dropped|loop HELD URI...
--
-- plain: lock and unlock; dropped: locks whose lease runs out soon, and which nobody lets go;
-- loop: both in luv, where somebody is to be told of all losses, and of all that happens.
-- HELD others are held all the time, with a lease that is not renewed.
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
local MAX_LEASE, LONG, SHORT = 86400, 80000, 0.1
local AT_ONCE = 100

local t = ffi.new "struct bench_timespec"

local function clock_us(id)
    C.bench_clock_gettime(id, t)
    return tonumber(t.sec) * 1e6 + tonumber(t.nsec) / 1e3
end

local kind, held = table.remove(arg, 1), tonumber(table.remove(arg, 1))
local uv = kind == "loop" and require "luv"
local told, happened = 0, 0
local client = redlock.new { cluster = "spec",
    nodes = { unpack(arg) }, max_lease = MAX_LEASE, restart_guard = "ignore", timeout = 10,
    max_waiting = 2 * AT_ONCE, prefix = held .. ":",
    host = uv and require "redlock.host.luv" or nil,
    on_event = uv and function() happened = happened + 1 end or false,
}

--- Runs fn where it may wait.
local function in_host(fn)
    if not uv then
        return fn()
    end
    coroutine.wrap(function()
        local ok, err = xpcall(fn, debug.traceback)
        if not ok then
            error(err, 0)
        end
        uv.stop()
    end)()
    uv.run()
end

local function tell()
    told = told + 1
end

local function take(name, lease)
    local l = client:getLock(name, { owner = name })
    assert(l:tryLock(10, lease))
    if uv then
        l:onLost(tell)
    end
end

in_host(function()
    for first = 1, held, AT_ONCE do
        local futures = {}
        for i = first, math.min(first + AT_ONCE - 1, held) do
            local l = client:getLock("held:" .. i, { owner = i })
            futures[#futures + 1] = l:tryLockAsync(10, LONG)
        end
        redlock.wait_all(futures)
    end
    for i = 1, uv and held or 0 do
        assert(client:getLock("held:" .. i, { owner = i }):onLost(tell))
    end
end)

local number = 0

local function cycle()
    local l = client:getLock "cycle"
    if kind ~= "dropped" then
        assert(l:tryLock(0, 30))
        assert(l:unlock())
    end
    if kind ~= "plain" then
        number = number + 1
        take("dropped:" .. number, SHORT)
    end
end

local function run(cycles)
    local samples = {}
    local cpu = clock_us(CLOCK_PROCESS_CPUTIME_ID)
    local from = clock_us(CLOCK_MONOTONIC)
    local last = from
    for i = 1, cycles do
        cycle()
        local now = clock_us(CLOCK_MONOTONIC)
        samples[i] = now - last
        last = now
    end
    cpu = clock_us(CLOCK_PROCESS_CPUTIME_ID) - cpu
    table.sort(samples)
    io.write(("%.2f %.2f %.1f %.3f\n"):format(samples[math.floor(cycles / 2) + 1],
        samples[math.floor(cycles * 0.99) + 1], cycles / (last - from) * 1e6, cpu / cycles))
end

io.stdout:setvbuf "line"
for line in io.lines() do
    local cycles = tonumber(line:match "^run (%d+)$")
    if not cycles or cycles < 1 then
        error("cannot do: " .. line)
    end
    in_host(function() run(cycles) end)
end
if kind == "loop" and told == 0 then
    error "nothing ran out, or nobody was told"
end
os.exit(0)                    -- what is left to the servers ends with the cluster
