-- What measures for minutes runs for a moment: every row is there, with numbers.
-- Nightly, all of it: what users call is tested elsewhere
local support = require "spec.support"
local build = require "spec.support.build"
local report = require "spec.bench.report"
local sys = require "spec.support.sys"

local function make(...)
    return support.spawn { "make", "-s", "-C", build.root, stdout = "pipe", stderr = "stdout",
        env = { MAKEFLAGS = false, MFLAGS = false, MAKELEVEL = false }, ... }
end

local function output(p, seconds)
    local text = p:read_all(seconds or 120)
    assert.equal(0, p:wait(20), text)
    return text
end

-- `pattern` is found so many times, and all its captures are numbers above 0.
local function rows(text, times, pattern)
    local found = 0
    local function check(...)
        found = found + 1
        for _, number in ipairs { ... } do
            assert.is_true(tonumber(number) > 0, pattern .. " in:\n" .. text)
        end
    end
    text:gsub(pattern, check)
    assert.equal(times, found, pattern .. " in:\n" .. text)
end

-- N, what, p50, p99, cycles/s; user and system may be 0 in a short run; servers
local ROW = "\n%s +%s +(%%d+%%.%%d) +(%%d+%%.%%d) +(%%d+) +%%d+%%.%%d +%%d+%%.%%d +(%%d+%%.%%d)"
local RATIO = " +(%d+%.%d+) %(%S+%)"

-- N, what, p50, p99, cycles/s, cpu
local ROW_OF_PEER = "\n%d +%s +(%%d+%%.?%%d*) +(%%d+%%.?%%d*) +(%%d+) +(%%d+%%.?%%d*) +"
    .. "%%d+%%.%%d+ %%("

describe("a bench", function()
    local fencing

    -- It waits most of the time.
    setup(function()
        fencing = make("bench-fencing", "N=300", "SECONDS=10")
    end)

    teardown(support.cleanup)

    -- Every ratio that was printed is a bar in a chart of the report.
    local function draws(text)
        local charts, lines = report.parse(text)
        local bars = 0
        for _, chart in ipairs(charts) do
            local svg = report.svg(chart)
            local drawn = select(2, svg:gsub('<rect class="bar"', ""))
            bars = bars + drawn
            for _, item in ipairs(chart) do
                local words = item.words and item.words:gsub("<", "&lt;")
                drawn = drawn - (words and 0 or 1)
                assert.truthy(svg:find(">" .. (words or ("%.2f"):format(item.value)) .. "<", 1,
                    true), item.label)
                assert.is_true(not item.low or item.low <= item.value and item.value <= item.high)
            end
            assert.equal(0, drawn)
        end
        local printed = 0
        for line in text:gmatch "[^\n]+" do
            local row = line:find "^%d+   %S" and not line:find "^%d+   floor"
                and line:find "%d %(%d+%.%d+%-"
            local _, between = line:gsub("[^;:]+: %d+%.%d+ %(%d+%.%d+%-", "")
            printed = printed + (row and 1 or line:find "^    " and between
                or line:find "p50 .* / lock %d" and 1 or 0)
        end
        assert.equal(printed, bars)
        local page = report.page(text)
        for _, line in ipairs(lines) do
            assert.truthy(page:find("<p>" .. line:gsub("<", "&lt;"):gsub(">", "&gt;"), 1, true))
        end
        return charts
    end

    it("of the plain host has all its rows", function()
        local dir = support.tmpdir()
        local said = output(make("bench-report", "ROUNDS=2", "CYCLES=5", "SECONDS=1", "HELD=500",
            "KEPT=500", "BENCH=" .. dir), 600)
        assert.equal(dir .. "/index.html\n", said)
        local text = sys.read_file(dir .. "/bench.txt")
        assert.equal(report.page(text), sys.read_file(dir .. "/index.html"))
        local charts = draws(text)
        local tables = text:find("CLIENT ON ITS OWN CORE", 1, true) and 2 or 1
        assert.equal(tables > 1, tonumber(io.popen("nproc"):read "*n") > 1)
        assert.equal(4 + tables, #charts)
        assert.equal(report.svg(charts[1]), sys.read_file(dir .. "/one-core.svg"))
        for _, n in ipairs { 1, 3, 5 } do
            rows(text, tables + (n == 5 and 4 or 0), ROW:format(n, "floor, script"))
            rows(text, tables, ROW:format(n, "floor, guarded") .. RATIO)
            rows(text, tables, ROW:format(n, "redlock") .. RATIO .. RATIO)
        end
        for _, what in ipairs { "luv", "cqueues", "fixed lease", "kept", "fenced", "1 frozen" } do
            rows(text, 1, ROW:format(5, "redlock, " .. what))
        end
        rows(text, 3, "    ()CPU beyond the guarded floor's: user %-?%d+%.%d, system %-?%d")
        for _, what in ipairs { "    kept / fixed lease", "; fenced / plain",
            "    1 of 5 frozen / all healthy" } do
            rows(text, 1, what .. ": (%d+%.%d+) %(")
        end
        for _, at_once in ipairs { 64, 256 } do
            rows(text, 1, ROW:format(5, "floor, script, " .. at_once))
            rows(text, 1, ROW:format(5, "floor, guarded, " .. at_once) .. RATIO)
            for _, what in ipairs { "futures in waves", "futures, sliding", "luv", "cqueues" } do
                rows(text, 1, ROW:format(5, what .. ", " .. at_once) .. RATIO .. RATIO)
            end
        end
        for _, what in ipairs { "lock %+ unlock", "leases that run out" } do
            rows(text, 2, ROW:format(5, what) .. RATIO)
            rows(text, 2, ROW:format(5, what .. " %+") .. RATIO)
            for _, many in ipairs { 50, 500 } do
                rows(text, 1, what .. ", growth of its ratio to the floor beside " .. many
                    .. " held:" .. RATIO)
            end
        end
        rows(text, 1, "\nhand%-off, 2 processes: p50 (%d+) us, p99 (%d+) us, max (%d+) us "
            .. "%((%d+)%)")
        rows(text, 2, "a neighbour's p%d+ beside 500 kept / alone: (%d+%.%d+) %(")
        rows(text, 1, "the client takes (%d+%.%d) us for a renewal")
        rows(text, 1, "\n8 contenders: (%d+) holds/s .* to (%d+) times, "
            .. "longest wait (%d+) ms, hand%-off p50 (%d+) us, p99 (%d+) us")
        for _, what in ipairs { "lock", "read", "write", "write with a token", "fair",
            "permit of 8", "permit with a token", "permit of 64, 60 taken",
            "start of a rate", "100 names", "arrival", "who leads" } do
            rows(text, 1, "\n" .. what .. " +p50 +(%d+%.%d) us, / lock (%d+%.%d+), "
                .. "server +(%d+%.%d) us")
        end
        rows(text, 1, "\nA compiled cycle has (%d+) instructions")
        rows(text, 20, "\n| (%d+) | [^|]+ | [^|]* |")
        local written = sys.read_file(dir .. "/goals.txt")
        assert.equal(text:sub(-#written), written)
        for goal, times in pairs { ["one at a time / floor"] = 5,
            ["CPU beyond the floor's, us"] = 3,
            ["fenced %- plain, us"] = 1, ["in flight, rate / floor"] = 8,
            ["CPU with 256 in flight / 64"] = 4, ["held, growth of ours / floor"] = 2,
            ["a neighbour's p99 beside 500 kept / alone"] = 1, ["one of five frozen / all up"] = 1,
            ["hand%-off between 2 processes, p%d+, us"] = 2, ["8 contenders, [^ ]+ [^<>%d]+"] = 2,
            ["instructions of a compiled cycle, N = 5, 1,000"] = 1 } do
            rows(written, times, goal .. " +%-?%d+%.%d+[^\n]* [<>]= (%d+%.?%d*) +%a+")
        end
    end)

    it("of nginx has all its rows", function()
        local text = output(make("bench-nginx", "CYCLES=40", "SECONDS=1"))
        for _, what in ipairs { "64 at once, cycles/s +rate", "one at a time, p50 +p50" } do
            rows(text, 1, what .. " of the floor: redlock (%d+%.%d+), "
                .. "with worker_cpu_affinity (%d+%.%d+), lua%-resty%-redis (%d+%.%d+) ")
        end
        rows(text, 1, "/ping beside 1000 waiting requests: p50 (%d+%.%d+)%a+, p99 (%d+%.%d+)%a+ .* "
            .. "sees %d+%.%d calls/s")
        rows(text, 1, "1000 requests on one name: (%d+) holds/s, .* waited (%d+) times: "
            .. "p50 (%d+%.%d+) ms, p99 (%d+%.%d+) ms")
        assert.matches("\nno errors in the log\n", text, 1, true)
    end)

    -- One of them needs nothing that is fetched. The other may be missing, which is a line.
    it("of other locks starts with two of them, and draws them", function()
        local dir = support.tmpdir()
        local text = output(make("bench-peers", "ROUNDS=1", "CYCLES=5", "BENCH=" .. dir,
            "PEERS=lua-resty-redis,redis-py Lock"), 600)
        local python = text:find("\nnot compared: redis-py Lock: ", 1, true) and 0 or 1
        for name, times in pairs { ["redlock"] = 1, ["lua%-resty%-redis"] = 1,
            ["redis%-py Lock"] = python } do
            local n = name:find "^redis" and 1 or 3
            rows(text, times * 2, ROW_OF_PEER:format(n, name))
            rows(text, times, ("\n%d +%s +(%%d+%%.%%d+) %%(%%d+%%.%%d+%%-"):format(n, name))
        end
        assert.truthy(text:find "\n3 +redlock +[^\n]*told within 12 s in %d of %d trials\n")
        rows(text, 2, "\n3 +redlock +(%d+) +(%d+) +(%d+%.%d) +(%d+%.%d+) %(")
        local charts = draws(sys.read_file(dir .. "/peers.txt"))
        assert.equal(6, #charts)
        assert.equal(report.svg(charts[3]), sys.read_file(dir .. "/peers-hand-over.svg"))
    end)

    it("of fenced names has a row for each server", function()
        local text = output(fencing)
        rows(text, 3, "server %d: (%d+) counters, (%d+) bytes per name %((%d+) of them the "
            .. "counter's%); (%d+) floors, (%d+) bytes; after fence_ttl: 0 counters")
    end)
end)
