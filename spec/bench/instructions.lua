-- How many instructions of its own the client executes for a lock and its release, and for 1,000
-- futures of each: the same each time, whatever else the machine does, in the interpreter, without
-- those of system calls. Five servers.
--
--     luajit spec/bench/instructions.lua            prints and compares
--     luajit spec/bench/instructions.lua accept     writes instructions.txt; make instructions
--
-- instructions.txt has a line for each LuaJIT and compiler that was counted with.
local root = arg and arg[0] and arg[0]:match "^(.*)/spec/bench/[^/]*$" or "."
package.path = ("%/lua/?.lua;%/lua/?/init.lua;%/build/?.lua;%/?.lua;%/?/init.lua;")
    :gsub("%%", root) .. package.path

local _M = {}

_M.TOLERANCE = 0.05
local FILE = root .. "/spec/bench/instructions.txt"
-- From FEW cycles to MANY the collector is through several times: not never, or twice, by chance.
local SERVERS, FEW, MANY, FUTURES = 5, 100, 2100, 1000

-- ---- what is counted, in a process of its own --------------------------------------

local function work(mode, count, uris)
    local redlock = require "redlock"
    local client = redlock.new { nodes = uris, timeout = 60, connect_timeout = 60,
        metrics = mode == "metered" and require("redlock.metrics").new() or nil }
    local function cycle()
        local lock = client:getLock "count"
        assert(lock:tryLock(30, 50))
        assert(lock:unlock())
    end
    cycle()
    if mode == "bare" or mode == "metered" then
        collectgarbage "stop"    -- which would be at another place of its own cycle
    end
    if mode ~= "futures" then
        for _ = 1, count do
            cycle()
        end
    else
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
    os.exit(0)
end

-- ---- counting ------------------------------------------------------------------------

local function counted(cluster, mode, count)
    local support = require "spec.support"
    local argv = { "valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
        "luajit", "-joff", root .. "/spec/bench/instructions.lua", mode, count }
    argv.stdout, argv.stderr, argv.env = "pipe", "stdout", support.lua_env()
    for _, uri in ipairs(cluster:uris()) do
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
    local few, many = counted(cluster, "cycles", FEW), counted(cluster, "cycles", MANY)
    local none, all = counted(cluster, "futures", 0), counted(cluster, "futures", FUTURES)
    cluster:stop()
    return math.floor((many - few) / (MANY - FEW) + 0.5), all - none
end

-- Instructions of a cycle with one server, and without the collector.
local function bare_cycle(cluster, mode)
    return (counted(cluster, mode, MANY) - counted(cluster, mode, FEW)) / (MANY - FEW)
end

--- What metrics cost: side by side, and with one server, of which no answers come together or apart
-- by chance; the medians of several counts of each, as single ones are off by a few hundredths.
-- @return instructions that they add to a cycle; and those of a cycle of five servers
function _M.count_metered()
    local support = require "spec.support"
    local cluster, bare, metered = support.cluster(1), {}, {}
    for k = 1, 5 do
        bare[k], metered[k] = bare_cycle(cluster, "bare"), bare_cycle(cluster, "metered")
    end
    cluster:stop()
    table.sort(bare)
    table.sort(metered)
    return metered[3] - bare[3], (_M.count())
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

local MODES = { cycles = true, futures = true, bare = true, metered = true }

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
    if MODES[arg[1]] then
        work(arg[1], tonumber(arg[2]), { unpack(arg, 3) })
    end
    main(arg[1])
    require "spec.support".cleanup()
end

return _M
