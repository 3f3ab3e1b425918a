-- What benches share: workers that take turns, medians with quartiles, rows.
local ffi = require "ffi"
local bit = require "bit"
local support = require "spec.support"

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

--- @return p50, p99, rate, cpu of a batch, as floor.c has them; nil: not in that time
function Worker:result(seconds)
    local line = self:receive(seconds)
    if not line then
        return nil
    end
    local p50, p99, rate, cpu = line:match "^(%S+) (%S+) (%S+) (%S+)$"
    return { p50 = tonumber(p50), p99 = tonumber(p99), rate = tonumber(rate),
        cpu = tonumber(cpu) }
end

function Worker:run(cycles, in_flight, seconds)
    self:send("run", cycles, in_flight)
    return self:result(seconds) or error("a worker of the bench does not answer", 0)
end

function Worker:stop()
    self.proc:close_stdin()
    if self.proc:wait(30) ~= 0 then
        error("a worker of the bench did not end well", 0)
    end
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
            batches[i][round] = workers[i]:run(cycles, at_once)
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

--- The median of a/b within one round, and its quartiles.
function _M.ratio(a, b, field)
    local list = {}
    for i = 1, math.min(#a, #b) do
        list[i] = a[i][field] / b[i][field]
    end
    return _M.spread(list)
end

local ROW = "%-3s %-24s %7s %7s %9s %6s   %-18s %-18s"

--- @param ...  the cells of a row; those left out at the end are empty
function _M.print_row(...)
    local cells = { ... }
    for i = #cells + 1, 8 do
        cells[i] = ""
    end
    print((ROW:format(unpack(cells)):gsub("%s+$", "")))
end

--- @param first, second  batches of what they are compared with; may be nil
function _M.print_batches(n, what, batches, first, second)
    local function cell(format, field)
        return format:format(_M.median_of(batches, field))
    end
    _M.print_row(n, what, cell("%.1f", "p50"), cell("%.1f", "p99"), cell("%.0f", "rate"),
        cell("%.1f", "cpu"), first and _M.ratio(batches, first, "p50") or "",
        second and _M.ratio(batches, second, "p50") or "")
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
