-- How many instructions of its own the client executes for a lock and its release, and for 1,000
-- futures of each: the same each time, whatever else the machine does, in the interpreter, without
-- those of system calls. Five servers.
--
--     luajit spec/bench/instructions.lua            prints and compares
--     luajit spec/bench/instructions.lua accept     writes instructions.txt; make instructions
--
-- instructions.txt has a line for each LuaJIT and compiler that was counted with.
local root = arg and arg[0] and arg[0]:match "^(.*)/spec/bench/[^/]*$" or "."
local ffi = require "ffi"
package.path = ("%/lua/?.lua;%/lua/?/init.lua;%/build/?.lua;%/?.lua;%/?/init.lua;")
    :gsub("%%", root) .. package.path

local _M = {}

_M.TOLERANCE = 0.05
local FILE = root .. "/spec/bench/instructions.txt"
-- From FEW cycles to MANY the collector is through several times: not never, or twice, by chance.
local SERVERS, FEW, MANY, FUTURES = 5, 100, 2100, 1000
local CYCLES, MARK = 500, "getppid"

-- ---- what is counted, in a process of its own --------------------------------------

local work = {}

local function cycles(client, count)
    for _ = 1, count do
        local lock = client:getLock "count"
        assert(lock:tryLock(30, 50))
        assert(lock:unlock())
    end
end

local function connected(uris)
    local client = require("redlock").new { nodes = uris, cluster = "spec",
        timeout = 60, connect_timeout = 60 }
    cycles(client, 1)
    return client
end

function work.cycles(count, uris)
    cycles(connected(uris), count)
end

function work.futures(count, uris)
    local redlock, client = require "redlock", connected(uris)
    local locks, futures = {}, {}
    for i = 1, count do
        locks[i] = client:getLock("count" .. i)
        futures[i] = locks[i]:tryLockAsync(0, 50)
    end
    assert(redlock.wait_all(futures))
    for i = 1, count do
        assert(futures[i]:get())
        futures[i] = locks[i]:unlockAsync()
    end
    assert(redlock.wait_all(futures))
end

-- In a world, where no answers come together or apart by chance, and without the collector. What
-- lies between two calls of MARK is counted by itself: then both ways hash their strings alike.
function work.metered(count)
    ffi.cdef "int getppid(void);"
    local world = require("redlock").testing.new { nodes = 1, seed = 1, round_trip = 0.0005 }
    local bare = world:client { client_name = "bare" }
    local metered = world:client { metrics = require("redlock.metrics").new() }
    cycles(bare, 10)
    cycles(metered, 10)
    collectgarbage "stop"
    ffi.C.getppid()
    cycles(bare, count)
    ffi.C.getppid()
    cycles(metered, count)
    ffi.C.getppid()
end

-- ---- counting ------------------------------------------------------------------------

local function counted(uris, mode, count, file)
    local support = require "spec.support"
    local argv = { "valgrind", "--tool=callgrind", "--dump-before=" .. MARK,
        "--callgrind-out-file=" .. (file or "/dev/null"), "luajit", "-joff",
        root .. "/spec/bench/instructions.lua", mode, count }
    argv.stdout, argv.stderr, argv.env = "pipe", "stdout", support.lua_env()
    for _, uri in ipairs(uris) do
        argv[#argv + 1] = uri
    end
    local p = support.spawn(argv)
    local text = p:read_all(120)
    local number = tonumber(text:match "Collected : (%d+)")
    if p:wait(10) ~= 0 or not number then
        error("nothing was counted:\n" .. text, 0)
    end
    return number
end

--- @return instructions of a cycle; and of 1,000 futures that lock and as many that unlock
function _M.count()
    local support = require "spec.support"
    local cluster = support.cluster(SERVERS)
    local uris = cluster:uris()
    local few, many = counted(uris, "cycles", FEW), counted(uris, "cycles", MANY)
    local none, all = counted(uris, "futures", 0), counted(uris, "futures", FUTURES)
    cluster:stop()
    return math.floor((many - few) / (MANY - FEW) + 0.5), all - none
end

local function total(file)
    for line in io.lines(file) do
        local number = line:match "^totals: (%d+)"
        if number then
            return tonumber(number)
        end
    end
end

--- @return instructions that metrics add to a cycle: the least of three counts, as LuaJIT hashes
-- strings by a seed of each process
function _M.count_metered()
    local file, least = require("spec.support").tmpdir() .. "/counted", math.huge
    for _ = 1, 3 do
        counted({}, "metered", CYCLES, file)  -- FILE.2 ends at the second mark, FILE.3 at the third
        least = math.min(least, (total(file .. ".3") - total(file .. ".2")) / CYCLES)
    end
    return least
end

-- ---- what was counted before -----------------------------------------------------------

local function first_line(command)
    local pipe = assert(io.popen(command))
    local line = pipe:read "*l"
    pipe:close()
    return line or "?"
end

--- What the numbers depend on: LuaJIT, the compiler and how it was called.
function _M.here()
    local flags = first_line("cat " .. root .. "/build/flags")
    return ("%s, %s, %s%s%s"):format(first_line "luajit -v":match "^LuaJIT %S+" or "?",
        first_line((flags:match "^%S+" or "cc") .. " --version"),
        table.concat({ flags:match " (%-O%S*)" }), flags:find("libhiredis.a", 1, true)
        and ", static" or ", shared", flags:find("TLS=yes", 1, true) and ", TLS" or "")
end

--- @return the numbers that are known for that; or nil
function _M.known(what)
    for line in io.lines(FILE) do
        local cycle, futures, rest = line:match "^(%d+) +(%d+) +(.*)$"
        if rest == what then
            return tonumber(cycle), tonumber(futures)
        end
    end
end

local function accept(what, cycle, futures)
    local lines = {}
    for line in io.lines(FILE) do
        if not line:match "^%d+ +%d+ +(.*)$" or line:match "^%d+ +%d+ +(.*)$" ~= what then
            lines[#lines + 1] = line
        end
    end
    lines[#lines + 1] = ("%d %d %s"):format(cycle, futures, what)
    local file = assert(io.open(FILE, "w"))
    file:write(table.concat(lines, "\n"), "\n")
    file:close()
end

local function main(how)
    local what = _M.here()
    local cycle, futures = _M.count()
    local cycle_before, futures_before = _M.known(what)
    print(("%s: a cycle has %d instructions (%s before), 1,000 futures %d (%s before)"):format(
        what, cycle, cycle_before or "?", futures, futures_before or "?"))
    local added = _M.count_metered()
    print(("metrics add %.0f: %.2f %%"):format(added, added / cycle * 100))
    if how == "accept" then
        accept(what, cycle, futures)
    end
end

if arg and arg[0] and arg[0]:find "bench/instructions.lua$" then
    if work[arg[1]] then
        work[arg[1]](tonumber(arg[2]), { unpack(arg, 3) })
        os.exit(0)
    end
    main(arg[1])
    require "spec.support".cleanup()
end

return _M
