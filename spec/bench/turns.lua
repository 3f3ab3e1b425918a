-- What benches share: workers that take turns, medians with quartiles, rows, goals.
local ffi = require "ffi"
local bit = require "bit"
local build = require "spec.support.build"
local plain_lock = require "redlock.kinds.plain_lock"
local restart_guard = require "redlock.servers.restart_guard"
local support = require "spec.support"
local sys = require "spec.support.sys"

local _M = {}

-- ---- workers: processes that answer a line with a line -----------------------------

local Worker = {}
Worker.__index = Worker

function _M.worker(argv)
    argv.stdin, argv.stdout = "pipe", "pipe"
    return setmetatable({ proc = support.spawn(argv) }, Worker)
end

function Worker:send(...)
    assert(self.proc:write(table.concat({ ... }, " ") .. "\n"))
end

--- @return a line; nil if none has come in that time
function Worker:receive(seconds)
    local deadline = support.now() + (seconds or 60)
    repeat
        -- Below 5 s the support takes a limit literally.
        local line = self.proc:read_line(math.max(0.001,
            math.min(4, deadline - support.now())))
        if line then
            return line
        elseif not self.proc:alive() then
            error("a worker of the bench has failed", 0)
        end
    until support.now() >= deadline
end

--- @return p50, p99, rate, user, system of a batch, as floor.c has them, and cpu, their sum, which
-- is all that some peers know; nil: not in that time
function Worker:result(seconds)
    local line = self:receive(seconds)
    if not line then
        return nil
    end
    local p50, p99, rate, user, system = line:match "^(%S+) (%S+) (%S+) (%S+) ?(%S*)$"
    local result = { p50 = tonumber(p50), p99 = tonumber(p99), rate = tonumber(rate),
        user = tonumber(user), system = tonumber(system) or 0 }
    result.cpu = result.user + result.system
    return result
end

function Worker:run(cycles, in_flight, seconds)
    self:send("run", cycles, in_flight)
    return self:result(seconds) or error("a worker of the bench does not answer", 0)
end

-- CPU time of the cluster's servers so far, in us.
local function used_by(cluster)
    local sum = 0
    for _, server in ipairs(cluster) do
        sum = sum + tonumber(sys.read_file(("/proc/%d/schedstat"):format(server.pid)):match "^%d+")
    end
    return sum / 1000
end

--- @return the CPU time of a process so far, in us, and how often its threads have waited
function _M.used_by(pid)
    local cpu, switches = 0, 0
    local tasks = io.popen(("cd /proc/%d/task && cat */schedstat */status"):format(pid))
    for line in tasks:lines() do
        cpu = cpu + (line:match "^(%d+) %d+ %d+$" or 0) / 1000
        switches = switches + (line:match "^voluntary_ctxt_switches:%s*(%d+)" or 0)
    end
    tasks:close()
    return cpu, switches
end

--- As run(), and with `servers`: what the servers of its cluster took for a cycle.
function Worker:batch(cycles, in_flight)
    local before = self.cluster and used_by(self.cluster)
    local result = self:run(cycles, in_flight)
    result.servers = before and (used_by(self.cluster) - before) / cycles
    return result
end

function Worker:stop()
    self.proc:close_stdin()
    if self.proc:wait(30) ~= 0 then
        error("a worker of the bench did not end well", 0)
    end
end

local function of_cluster(cluster, argv, name)
    for _, server in ipairs(cluster) do
        argv[#argv + 1] = server[name]
    end
    local worker = _M.worker(argv)
    worker.cluster = cluster
    return worker
end

--- @param mode  script, or guarded: what the library sends. A single server has no guard, so
--   nothing but the script is sent to one.
function _M.floor(cluster, mode)
    mode = #cluster > 1 and mode or "script"
    local acquire, files = plain_lock.acquire_script, support.tmpdir()
    acquire = mode == "guarded" and restart_guard.wrap(acquire) or acquire
    sys.write_file(files .. "/acquire", acquire)
    sys.write_file(files .. "/release", plain_lock.release_script)
    return of_cluster(cluster, { build.root .. "/build/spec/floor", mode, files .. "/acquire",
        files .. "/release" }, "port")
end

--- @param mode, held  see ours.lua
function _M.ours(cluster, mode, held)
    return of_cluster(cluster, { "luajit", build.root .. "/spec/bench/ours.lua", mode, held or 0,
        env = support.lua_env() }, "uri")
end

--- Lets the workers take turns; who goes first changes, as the turn before may matter.
-- @param cycles, at_once  of a batch; at_once by default: one at a time
-- @return for each worker the list of its batches
function _M.take(workers, rounds, cycles, at_once)
    local batches = {}
    for i = 1, #workers do
        batches[i] = {}
    end
    for round = 1, rounds do
        for k = 0, #workers - 1 do
            local i = (round + k) % #workers + 1
            batches[i][round] = workers[i]:batch(cycles, at_once)
        end
    end
    return batches
end

-- ---- numbers ---------------------------------------------------------------------

function _M.quantile(list, q)
    local sorted = {}
    for i, value in ipairs(list) do
        sorted[i] = value
    end
    table.sort(sorted)
    local at = 1 + (#sorted - 1) * q
    local low = math.floor(at)
    local high = sorted[low + 1] or sorted[low]
    return sorted[low] + (high - sorted[low]) * (at - low)
end

local quantile = _M.quantile

function _M.median_of(batches, field)
    local list = {}
    for i, batch in ipairs(batches) do
        list[i] = batch[field]
    end
    return quantile(list, 0.5)
end

--- The median of a list, and its quartiles.
function _M.spread(list)
    return ("%.2f (%.2f-%.2f)"):format(quantile(list, 0.5), quantile(list, 0.25),
        quantile(list, 0.75))
end

--- a/b within each round.
function _M.ratios(a, b, field)
    local list = {}
    for i = 1, math.min(#a, #b) do
        list[i] = a[i][field] / b[i][field]
    end
    return list
end

--- The median of a/b within one round, and its quartiles.
function _M.ratio(a, b, field)
    return _M.spread(_M.ratios(a, b, field))
end

-- ---- rows ------------------------------------------------------------------------

local ROW = "%-3s %-24s %7s %7s %9s %6s %6s %7s   %-18s %-18s"

--- @param ...  the cells of a row; those left out at the end are empty
function _M.print_row(...)
    local cells = { ... }
    for i = #cells + 1, 10 do
        cells[i] = ""
    end
    print((ROW:format(unpack(cells)):gsub("%s+$", "")))
end

local function mean(batches, field)
    local sum = 0
    for _, batch in ipairs(batches) do
        sum = sum + (batch[field] or 0)
    end
    return sum / #batches
end

--- @param first, second  batches of what they are compared with; may be nil
--- @param field  what is compared: p50 by default
function _M.print_batches(n, what, batches, first, second, field)
    local function cell(format, of)
        return format:format(_M.median_of(batches, of))
    end
    -- The kernel splits a process's time into these two by samples, which takes many batches.
    local function part(of)
        return ("%.1f"):format(mean(batches, of))
    end
    _M.print_row(n, what, cell("%.1f", "p50"), cell("%.1f", "p99"), cell("%.0f", "rate"),
        part "user", part "system", part "servers",
        first and _M.ratio(batches, first, field or "p50") or "",
        second and _M.ratio(batches, second, field or "p50") or "")
end

-- ---- goals -----------------------------------------------------------------------

local STEADY = 0.05           -- of the median: so far away are the floor's quartiles at most
local goals = {}

--- Notes a number for the table of goals.
-- @param list   one for each round
-- @param goal   such as "<= 1.12"
-- @param floor  a list of the floor's numbers in those rounds; may be nil
function _M.goal(what, list, goal, floor)
    goals[#goals + 1] = { what = what, list = list, goal = goal, floor = floor }
end

-- How far the quartiles are from the median, as a part of it.
local function unsteadiness(list)
    local middle = quantile(list, 0.5)
    return math.max(quantile(list, 0.75) - middle, middle - quantile(list, 0.25)) / middle
end

local GOAL = "%-46s %-26s %-9s %-6s %s"

local function goal_row(...)
    return (GOAL:format(...):gsub("%s+$", ""))
end

--- Prints the table of goals, and writes it to a file.
function _M.print_goals(file)
    local lines, shaky = { "", "GOALS", _M.describe(), goal_row("median (quartiles)", "now", "goal",
        "", "quartiles of the floor") }, 0
    for _, g in ipairs(goals) do
        local now, sign, limit = quantile(g.list, 0.5), g.goal:match "^(%S+) (%S+)$"
        limit = tonumber(limit)
        local met = sign == "<=" and now <= limit or sign == ">=" and now >= limit
        local away = g.floor and unsteadiness(g.floor)
        shaky = shaky + (away and away > STEADY and 1 or 0)
        lines[#lines + 1] = goal_row(g.what, #g.list > 1 and _M.spread(g.list)
            or ("%.2f"):format(now), g.goal, met and "met" or "short", away
            and ("%.1f %%, %s"):format(away * 100, away <= STEADY and "steady" or "NOT STEADY")
            or "")
    end
    lines[#lines + 1] = shaky == 0 and "The floor was steady: quartiles within 5 % of the median."
        or ("The floor was not steady in %d rows: measure again on an idle machine."):format(shaky)
    local text = table.concat(lines, "\n") .. "\n"
    io.write(text)
    sys.write_file(file, text)
end

-- ---- the machine -----------------------------------------------------------------

--- @return the first line that a command prints, or "?"
function _M.first_line(command)
    local pipe = assert(io.popen(command))
    local line = pipe:read "*l"
    pipe:close()
    return line or "?"
end

function _M.describe()
    local model, cores = "?", 0
    for line in io.lines "/proc/cpuinfo" do
        cores = cores + (line:find "^processor" and 1 or 0)
        model = line:match "^model name%s*:%s*(.*)" or model
    end
    local server = _M.first_line "redis-server --version":match "v=(%S+)" or "?"
    return ("%d cores (%s), Linux %s, redis-server %s, %s"):format(cores, model,
        _M.first_line "uname -r", server, jit.version)
end

ffi.cdef [[
int bench_getaffinity(int, size_t, uint8_t *) __asm__("sched_getaffinity");
int bench_setaffinity(int, size_t, const uint8_t *) __asm__("sched_setaffinity");
]]

local CPU_SET = 128           -- bytes: 1024 cores

local function cpu_set()
    return ffi.new("uint8_t[?]", CPU_SET)
end

--- @return { all = cores, one = one of them, rest = the others }, as sets; nil: there is
--   only one
function _M.split_cores()
    local all, one, rest = cpu_set(), cpu_set(), cpu_set()
    if ffi.C.bench_getaffinity(0, CPU_SET, all) ~= 0 then
        return nil
    end
    local cores, last = 0, nil
    for i = 0, CPU_SET * 8 - 1 do
        if bit.band(all[bit.rshift(i, 3)], bit.lshift(1, i % 8)) ~= 0 then
            cores, last = cores + 1, i
        end
    end
    if cores < 2 then
        return nil
    end
    local byte, this = bit.rshift(last, 3), bit.lshift(1, last % 8)
    ffi.copy(rest, all, CPU_SET)
    one[byte], rest[byte] = this, bit.bxor(rest[byte], this)
    return { all = all, one = one, rest = rest }
end

--- Where what this process starts from now on is to run.
function _M.run_on(cores)
    if cores then
        ffi.C.bench_setaffinity(0, CPU_SET, cores)
    end
end

return _M
