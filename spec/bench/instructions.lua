-- How many instructions of its own the client executes for a lock and its release, and for 1,000
-- futures of each, whatever else the machine does: without those of system calls. Five servers.
--
--     luajit spec/bench/instructions.lua            prints and compares
--     luajit spec/bench/instructions.lua accept     writes instructions.txt; make instructions
--
-- In LuaJIT's interpreter this is the same each time, within 1 %, as answers come together or
-- apart; that is what tests compare. Where a key is in a table depends on a seed that LuaJIT draws,
-- and on how many strings there were before, so on the paths of files. The seed is given
-- (seedshim.c); the paths matter only if a table of each call grows, which costs 3 %: give it all
-- its fields at first, none of them nil. The collector would come two or three times, so it comes
-- once, at the end. instructions.txt has a line for each LuaJIT and compiler that was counted with.
--
-- With Lua compiled, the seed also decides what LuaJIT compiles, and a cycle has 44,000 to 70,000
-- instructions. So this is the median of some seeds, and no test compares it.
local root = arg and arg[0] and arg[0]:match "^(.*)/spec/bench/[^/]*$" or "."
local ffi = require "ffi"
package.path = ("%/lua/?.lua;%/lua/?/init.lua;%/build/?.lua;%/?.lua;%/?/init.lua;")
    :gsub("%%", root) .. package.path

local _M = {}

_M.TOLERANCE = 0.05
local FILE = root .. "/spec/bench/instructions.txt"
local SERVERS, CYCLES, FUTURES, MARK = 5, 1000, 1000, "getppid"
local WARM, WARM_COMPILED, SEEDS = 100, 1000, 5
local CYCLES_OF_WORLD = 250          -- where each is like the others, and costs ten times as much

-- ---- what is counted, in a process of its own --------------------------------------

-- Ends what is counted in one file, and begins another.
local function mark()
    ffi.C.getppid()
end

--- Counts what fn does, and one whole collection after it: how often the collector would come by
-- itself depends on what else there is.
local function measure(fn, ...)
    collectgarbage()
    collectgarbage "stop"
    mark()
    fn(...)
    mark()
    collectgarbage()
    mark()
end

local work = {}

local function cycles(client, count)
    for _ = 1, count do
        local lock = client:getLock "count"
        assert(lock:tryLock(30, 50))
        assert(lock:unlock())
    end
end

local function connected(uris)
    return require("redlock").new { nodes = uris, cluster = "spec", timeout = 60,
        connect_timeout = 60 }
end

local function warm_cycles(warm)
    return function(uris)
        local client = connected(uris)
        cycles(client, warm)
        measure(cycles, client, CYCLES)
    end
end

work.cycles, work.compiled = warm_cycles(WARM), warm_cycles(WARM_COMPILED)

local function futures_of(locks, method, ...)
    local futures = {}
    for i, lock in ipairs(locks) do
        futures[i] = lock[method](lock, ...)
    end
    assert(require("redlock").wait_all(futures))
    for _, future in ipairs(futures) do
        assert(future:get())
    end
end

function work.futures(uris)
    local client, locks = connected(uris), {}
    for i = 1, FUTURES do
        locks[i] = client:getLock("count" .. i)
    end
    cycles(client, WARM)
    measure(function()
        futures_of(locks, "tryLockAsync", 0, 50)
        futures_of(locks, "unlockAsync")
    end)
end

-- The oldest of some holds is released, and one with a new name is taken.
function work.held(args)
    local client, held, first = connected { args[2] }, tonumber(args[1]), 1
    local function take(i)
        assert(client:getLock("held" .. i):tryLock(30, 50))
    end
    local function turn(count)
        for _ = 1, count do
            take(first + held)
            assert(client:getLock("held" .. first):unlock())
            first = first + 1
        end
    end
    for i = 1, held do
        take(i)
    end
    turn(WARM)
    measure(turn, CYCLES)
end

-- In a world, where no answers come together or apart by chance, and without the collector.
function work.metered()
    local world = require("redlock").testing.new { nodes = 1, seed = 1, round_trip = 0.0005 }
    local bare = world:client { max_waiting = 1000 }       -- a core of its own
    local metered = world:client { metrics = require("redlock.metrics").new() }
    cycles(bare, 10)
    cycles(metered, 10)
    collectgarbage "stop"
    mark()
    cycles(bare, CYCLES_OF_WORLD)
    mark()
    cycles(metered, CYCLES_OF_WORLD)
    mark()
end

-- ---- counting ------------------------------------------------------------------------

local function total(file)
    for line in io.lines(file) do
        local number = line:match "^totals: (%d+)"
        if number then
            return tonumber(number)
        end
    end
end

--- Runs that work below callgrind.
-- @return what was counted from the first mark to the second, and from there to the third
local function counted(uris, mode, seed)
    local support = require "spec.support"
    local file = support.tmpdir() .. "/counted"
    local argv = { "valgrind", "--tool=callgrind", "--dump-before=" .. MARK,
        "--callgrind-out-file=" .. file, "luajit", mode == "compiled" and "-jon" or "-joff",
        root .. "/spec/bench/instructions.lua", mode }
    argv.stdout, argv.stderr, argv.env = "pipe", "stdout", support.lua_env()
    argv.env.LD_PRELOAD = require("spec.support.build").program "seedshim.so"
    argv.env.SEED = seed or 1
    for _, uri in ipairs(uris) do
        argv[#argv + 1] = uri
    end
    local p = support.spawn(argv)
    local text = p:read_all(120)
    if p:wait(10) ~= 0 then
        error("nothing was counted:\n" .. text, 0)
    end
    return total(file .. ".2"), total(file .. ".3")
end

local function with_servers(fn)
    local cluster = require("spec.support").cluster(SERVERS)
    local result = { fn(cluster:uris()) }
    cluster:stop()
    return unpack(result)
end

--- @return instructions of a cycle; and of 1,000 futures that lock and as many that unlock
function _M.count()
    return with_servers(function(uris)
        local cycle, collected = counted(uris, "cycles")
        local futures, theirs = counted(uris, "futures")
        return math.floor((cycle + collected) / CYCLES + 0.5), futures + theirs
    end)
end

--- @return instructions of a cycle beside `n` held locks, on one server
function _M.count_beside(n)
    local cluster = require("spec.support").cluster(1)
    local cycle = counted({ n, cluster:uris()[1] }, "held")
    cluster:stop()
    return cycle / CYCLES
end

--- @return instructions that metrics add to a cycle
function _M.count_metered()
    local bare, metered = counted({}, "metered")
    return (metered - bare) / CYCLES_OF_WORLD
end

--- Counts a compiled cycle with some seeds, for the table of goals.
function _M.compiled()
    local turns = require "spec.bench.turns"
    if not io.popen("command -v valgrind"):read() then
        print "\ninstructions were not counted: valgrind is missing"
        return
    end
    local thousands = with_servers(function(uris)
        local list = {}
        for seed = 1, SEEDS do
            local cycles_of, collected = counted(uris, "compiled", seed)
            list[seed] = (cycles_of + collected) / CYCLES / 1000
        end
        return list
    end)
    turns.goal("instructions of a compiled cycle, N = 5, 1,000", thousands, "<= 35")
    print("\na compiled cycle has, in 1,000 instructions: " .. turns.spread(thousands))
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

local function write(path, text)
    local file = assert(io.open(path, "w"))
    file:write(text)
    file:close()
end

local function accept(what, cycle, futures)
    local lines = {}
    for line in io.lines(FILE) do
        if not line:match "^%d+ +%d+ +(.*)$" or line:match "^%d+ +%d+ +(.*)$" ~= what then
            lines[#lines + 1] = line
        end
    end
    lines[#lines + 1] = ("%d %d %s"):format(cycle, futures, what)
    write(FILE, table.concat(lines, "\n") .. "\n")
end

local function main(how)
    local what = _M.here()
    local cycle, futures = _M.count()
    local cycle_before, futures_before = _M.known(what)
    print(("%s: interpreted, a cycle has %d instructions (%s before), 1,000 futures %d (%s before)")
        :format(what, cycle, cycle_before or "?", futures, futures_before or "?"))
    local added = _M.count_metered()
    print(("metrics add %.0f: %.2f %%"):format(added, added / cycle * 100))
    _M.compiled()
    if how == "accept" then
        accept(what, cycle, futures)
    end
end

if arg and arg[0] and arg[0]:find "bench/instructions.lua$" then
    if work[arg[1]] then
        ffi.cdef "int getppid(void);"
        work[arg[1]]({ unpack(arg, 2) })
        os.exit(0)
    end
    main(arg[1])
    require "spec.support".cleanup()
end

return _M
