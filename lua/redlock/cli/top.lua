--- redlock top: watches the locks.
local args = require "redlock.cli.args"
local config = require "redlock.cli.config"
local health = require "redlock.servers.health"
local json = require "redlock.text.json"
local process = require "redlock.cli.process"
local report = require "redlock.cli.report"
local stay = require "redlock.cli.stay"
local terminal = require "redlock.cli.terminal"

local _M = { usage = "top [PATTERN]", summary = "watch locks and servers in a terminal",
    flags = {
        { "--every", "S", "scan every S seconds (default: 2), or less often if there are many "
            .. "names", short = "-e" },
        { "--count", "N", "end after N scans (default: never)" },
    } }

_M.help = [[
redlock top [PATTERN] [--every S] [--count N] [--json]

Shows the held locks and the servers until you press q:
  - how many names are held on a majority of the servers, how many callers wait, and how many locks
    were acquired and released per second. It compares one scan with the next, so it misses locks
    that come and go between them
  - each server's round trip and clock, and whether it may vote
  - the names: first those with the most waiters, then those held for the longest
Without a terminal it prints one line per scan. PATTERN is as for redlock ls.

redlock reads at most 50 pages of names a second from each server, and uses at most 3 % of a
processor. With many names it therefore scans less often.

FLAGS

STATUSES]]

local FAILED = 125
local EVERY = 2
local RATE = 2500             -- locks per second, 50 to a page
local SHARE = 0.03            -- of a processor
local SLICE = 0.1             -- seconds until it notices a key or a signal
local QUIT = {}

-- ---- waiting ---------------------------------------------------------------------

-- Waits; raises QUIT when the user or a signal ends the command.
local function pause(self, seconds)
    local ends = process.now() + seconds
    repeat
        local left = math.max(ends - process.now(), 0)
        if self.terminal then
            local key = terminal.key(math.min(left, SLICE))
            if key == "q" or key == "Q" or key == "" then
                error(QUIT, 0)
            end
            left = 0
        end
        self.signo = stay.pause(math.min(left, SLICE))
        if self.signo then
            error(QUIT, 0)
        end
    until process.now() >= ends
end

-- ---- looking ---------------------------------------------------------------------

-- By name, a value that differs between two holds; for readers and permits their number.
local function holds_of(list)
    local holds = {}
    for _, row in ipairs(list) do
        holds[(row.count and row.kind or "lock") .. " " .. row.name] = row.hold or row.count
    end
    return holds
end

-- Compares two scans: how many locks were taken and released per second.
local function rates(was, holds, seconds)
    local taken, left = 0, 0
    for name, hold in pairs(holds) do
        taken = taken + (was[name] ~= hold and 1 or 0)
    end
    for name, hold in pairs(was) do
        left = left + (holds[name] ~= hold and 1 or 0)
    end
    return taken / seconds, left / seconds
end

local function sample(self)
    local client, seen = self.client, { time = os.time() }
    local servers, why = client:open()
    if servers then
        servers, why = health.check(client)
    end
    seen.servers, seen.error = servers or {}, why
    if self.terminal and not self.at then        -- many names take a while
        seen.reading = true
        self.show(self, seen)
        seen.reading = nil
    end
    local list, err = client:locks(self.pattern, { rate = RATE, pause = function(_, seconds)
        pause(self, seconds)
    end })
    seen.error = err or why
    if not list then
        return seen
    end
    local now, holds = process.now(), holds_of(list)
    seen.list, seen.held, seen.waiting, seen.more = list, #list, 0, list.more
    for _, row in ipairs(list) do
        seen.waiting = seen.waiting + math.max(row.waiting, row.queue)
    end
    if self.holds then
        seen.taken, seen.let_go = rates(self.holds, holds, now - self.at)
    end
    self.holds, self.at = holds, now
    return seen
end

-- ---- showing ---------------------------------------------------------------------

local function rate(n)
    return n and ("%.1f/s"):format(n) or "-"
end

local function waiting_of(row)
    return math.max(row.waiting, row.queue)
end

-- Whether a comes before b on the screen.
local function above(a, b)
    local x, y = waiting_of(a), waiting_of(b)
    if x ~= y then
        return x > y
    end
    local since, other = a.holder and a.holder.since or math.huge,
        b.holder and b.holder.since or math.huge
    return since < other or since == other and a.name < b.name
end

-- The first `most` elements of a list, in that order.
local function first(list, most)
    local best = {}
    for _, row in ipairs(list) do
        if #best < most or above(row, best[#best]) then
            local at = #best + 1
            while at > 1 and above(row, best[at - 1]) do
                at = at - 1
            end
            table.insert(best, at, row)
            best[most + 1] = nil
        end
    end
    return best
end

local function state_of(row)
    if not row.ready then
        return row.code
    elseif row.guard_left or row.suspect_left > 0 then
        return ("%s, no votes for %.0f s"):format(row.why,
            math.max(row.guard_left or 0, row.suspect_left))
    end
    return row.verdict == "error" and "no vote: " .. row.guard or row.guard
end

local function round_trip(row)
    return row.round_trip and row.ready and ("%.0f ms"):format(row.round_trip * 1000) or "-"
end

local function clock(row)
    return row.clock_offset and row.ready and ("%+.3f s"):format(row.clock_offset) or "-"
end

local function totals(seen)
    if not seen.held then
        return seen.reading and "reading the names of locks ..."
            or "no majority of the servers lists its names"
    end
    return ("held %d%s  waiting %d  acquired %s  released %s"):format(seen.held,
        seen.more and " or more" or "", seen.waiting, rate(seen.taken), rate(seen.let_go))
end

local function votes(seen)
    return ("%d of %d servers vote"):format(seen.servers.voting or 0, #seen.servers)
end

local function append(lines, text)
    for line in text:gmatch "[^\n]+" do
        lines[#lines + 1] = line
    end
end

-- The screen as lines; most: how many fit; width: characters in each.
local function screen(seen, most, width)
    local lines = { ("redlock top  %s  %s  q: quit"):format(report.time(seen.time), votes(seen)),
        totals(seen), "" }
    local servers = { { "SERVER", "STATE", "ROUND TRIP", "CLOCK" } }
    for i, row in ipairs(seen.servers) do
        servers[i + 1] = { row.node, state_of(row), round_trip(row), clock(row) }
    end
    append(lines, report.columns(servers))
    if seen.error then
        append(lines, report.error(seen.error))
    end
    local names = first(seen.list or {}, math.max(most - #lines - 2, 0))
    lines[#lines + 1] = ""
    append(lines, names[1] and report.locks(names, width) or "")
    return lines
end

local function line(seen)
    local parts = {}
    for i, row in ipairs(seen.servers) do
        parts[i] = ("%s %s %s %s"):format(row.node, round_trip(row), clock(row), state_of(row))
    end
    return ("%s  %s  %s  %s"):format(report.time(seen.time), totals(seen), votes(seen),
        table.concat(parts, "; "))
end

local function as_json(seen)
    local servers = {}
    for i, row in ipairs(seen.servers) do
        servers[i] = { node = row.node, code = row.code, guard = row.guard,
            round_trip = row.round_trip, clock_offset = row.clock_offset, verdict = row.verdict }
    end
    return json.encode { time = seen.time, held = seen.held, waiting = seen.waiting,
        taken = seen.taken, let_go = seen.let_go, error = seen.error and seen.error.code,
        voting = seen.servers.voting, servers = servers }
end

local function show(self, seen)
    if self.terminal then
        terminal.show(screen(seen, terminal.size()))
        return
    end
    print(self.json and as_json(seen) or line(seen))
    io.stdout:flush()
end

-- ----------------------------------------------------------------------------------

-- @return the last scan
local function go_on(self)
    local seen
    for n = 1, self.count do
        local cpu = os.clock()
        seen = sample(self)
        show(self, seen)
        cpu = os.clock() - cpu
        if n < self.count then
            pause(self, math.max(self.every, cpu / SHARE))
        end
    end
    return seen
end

local function count_of(text)
    local n = text and tonumber(text)
    if text and not (n and n >= 1 and n % 1 == 0) then
        args.fail "--count needs a whole number, at least 1"
    end
    return n or math.huge
end

function _M.main(given, names)
    local self = { pattern = args.pattern(names, "top"), every = given["--every"] or EVERY,
        count = count_of(given["--count"]), json = given["--json"],
        client = config.client(given), show = show }
    self.terminal = not self.json and terminal.is_here()
    process.catch()
    if self.terminal then
        terminal.enter()
    end
    local ok, err = pcall(function()
        config.connect(self.client)
        return go_on(self)
    end)
    if self.terminal then
        terminal.restore()
    end
    self.client:close()
    if not ok and err ~= QUIT then
        report.note((tostring(err):gsub("^.-redlock: ", "")))
        return FAILED
    elseif ok and not err.list then
        report.note(report.error(err.error))
        return FAILED
    end
    return self.signo and 128 + self.signo or 0
end

return _M
