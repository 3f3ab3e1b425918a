-- What `make bench` printed, as one HTML file with a chart for each table, and as SVG files.
--
--     luajit spec/bench/report.lua BENCH.TXT DIR
--
-- A bar is a ratio, the line across its end the quartiles. Or as a module: parse, svg, page.

local format, concat = string.format, table.concat
local max, min, log10 = math.max, math.min, math.log10

local _M = {}

-- ---- what was printed --------------------------------------------------------------

local RATIO = "(%d+%.%d+) %((%d+%.%d+)%-(%d+%.%d+)%)"

local function add(chart, label, value, low, high)
    chart[#chart + 1] = { label = label, value = tonumber(value), low = tonumber(low),
        high = tonumber(high) }
end

-- Of the tables: what the ratios are of.
local FLOOR = "compared with a C loop that sends the same, or with the case after the slash"
local TIME, RATE = "time, " .. FLOOR .. "; shorter is better",
    "cycles per second, " .. FLOOR .. "; longer is better"
local PEER = "compared with redlock; "
local TITLES = {
    ["PEERS ONE AT A TIME"] = { "Other locks, one lock at a time",
        "time, " .. PEER .. "logarithmic; shorter is better", log = true },
    ["PEERS MANY AT ONCE"] = { "Other locks, 64 at once from one process",
        "cycles per second, " .. PEER .. "longer is better" },
    ["PEERS HAND OVER"] = { "Other locks, from one process to the next",
        "milliseconds from the start of a release, logarithmic; shorter is better", log = true,
        no_line = true },
    ["PEERS ONE FROZEN"] = { "Other locks, one server frozen",
        "time, compared with before, logarithmic; shorter is better", log = true },
    ["PEERS ONE KILLED"] = { "Other locks, one server killed",
        "time, compared with before, logarithmic; shorter is better", log = true },
    ["PEERS LOSS"] = { "Other locks: when the holder learns of a loss",
        "seconds after the end of validity, below 0: before it; median (quartiles)",
        no_line = true },
    ["ONE CORE"] = { "Lock and unlock, everything on one core", TIME },
    ["CLIENT ON ITS OWN CORE"] = { "Lock and unlock, the client on its own core", TIME },
    ["MUCH IS HELD"] = { "While many locks are held", TIME },
    ["MANY ARE KEPT"] = { "Next to a process that keeps very many locks",
        "time, compared with the same process alone; shorter is better" },
    ["MANY AT ONCE"] = { "Many locks at once, from one process", RATE },
    ["THE FAMILY"] = { "Kinds of lock, 5 servers",
        "time, compared with the plain lock; shorter is better" },
}

-- A row of a table: "5   redlock   213.0 ...   1.22 (1.20-1.28)   1.19 (1.18-1.24)"; beside other
-- locks also words, such as "3   etcd   no cycle within 24 s".
local function row(chart, line)
    local n, what = line:match "^(%d+)   (%S.-)  "
    -- The last one: of two floors the guarded one is the second, and sends what redlock sends.
    local value, low, high = line:match(".*%s" .. RATIO)
    local label = n and format("%d %s, %s", n, n == "1" and "server" or "servers",
        chart.name:find "^peers" and what
        or what:gsub("^redlock$", "lock + unlock"):gsub("^redlock, ", ""))
    if n and value and not what:find "^floor" then
        add(chart, label, value, low, high)
    elseif n and chart.name:find "^peers" then
        chart[#chart + 1] = { label = label, words = line:match "^%d+   %S.-  +(.*)" }
    end
end

-- Ratios between rows: "    fenced / plain: 1.34 (1.31-1.35)", some of them on one line.
local function between(chart, line)
    for what, value, low, high in line:gmatch("([^;:]+): " .. RATIO) do
        add(chart, (what:gsub("^%s+", "")), value, low, high)
    end
end

--- @return a list of charts, lists of { label, value, low, high } or { label, words }
-- with a name, a title, and what the values are of; and lines about the whole
function _M.parse(text)
    local charts, lines, chart = {}, {}, nil
    local function begin(name)
        chart = { name = name:lower():gsub("%W+", "-"), title = TITLES[name][1],
            what = TITLES[name][2], log = TITLES[name].log, no_line = TITLES[name].no_line }
        charts[#charts + 1] = chart
    end
    text = text:gsub("\nGOALS\n.*", ""):gsub("\nA compiled cycle has .*", "")
    for line in (text .. "\n"):gmatch "(.-)\n" do
        local title = line:match "^N   (%u[%u ]+%u)  "
        local kind, ratio = line:match "^(.-) +p50 .-/ lock (%d+%.%d+)"
        if title or line:find "^THE FAMILY" then
            begin(title or "THE FAMILY")
        elseif kind then
            add(chart, kind, ratio)
        elseif line:find "^    " and chart then
            between(chart, line)
        elseif chart and line:find "^%d+   %S" then
            row(chart, line)
        elseif line ~= "" then
            lines[#lines + 1] = line
        end
    end
    return charts, lines
end

-- ---- what is drawn -----------------------------------------------------------------

local STYLE = [[
<style>
  .page { fill: #ffffff; stroke: #d1d9e0; }
  .bar { fill: #2da44e; }
  .line { stroke: #1f2328; stroke-width: 1.5; fill: none; }
  .one { stroke: #59636e; stroke-dasharray: 4 4; }
  text { fill: #1f2328; }
  text.pale { fill: #59636e; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; stroke: #3d444d; }
    .line { stroke: #f0f6fc; }
    .one { stroke: #9198a1; }
    text { fill: #f0f6fc; }
    text.pale { fill: #9198a1; }
  }
</style>
]]

local LEFT, WIDTH, ROW, TOP = 320, 860, 24, 58

local function escape(text)
    return (text:gsub("[&<>\"]", { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;",
        ['"'] = "&quot;" }))
end

--- @return a function from a value to the width of its bar; a logarithmic one begins at a power of
-- ten below all values
local function scale_of(chart)
    local least, most = 1, 1.2
    for _, item in ipairs(chart) do
        least = min(least, item.low or item.value or least)
        most = max(most, item.high or item.value or most)
    end
    local room = WIDTH - LEFT - 70
    if not chart.log then
        return function(value) return value * room / most end
    end
    local from = math.floor(log10(max(least, 0.001)) - 0.01)
    return function(value)
        return (log10(max(value, 0.001)) - from) * room / (log10(most) - from)
    end
end

--- @return the picture of a chart
function _M.svg(chart)
    local out, width = {}, scale_of(chart)
    local height = TOP + #chart * ROW + 16
    local function put(...)
        out[#out + 1] = format(...)
    end
    put([[<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d"
     role="img" aria-label="%s"
     font-family="system-ui, sans-serif" font-size="13">]], WIDTH, height, WIDTH, height,
        escape(chart.title))
    out[#out + 1] = STYLE
    put('<rect class="page" x="0.5" y="0.5" width="%d" height="%d" rx="10"/>', WIDTH - 1,
        height - 1)
    put('<text x="16" y="26" font-size="15" font-weight="600">%s</text>', escape(chart.title))
    put('<text class="pale" x="16" y="46">%s</text>', escape(chart.what))
    for i, item in ipairs(chart) do
        local y = TOP + (i - 1) * ROW
        put('<text x="%d" y="%d" text-anchor="end">%s</text>', LEFT - 10, y + 15,
            escape(item.label))
        if item.words then
            put('<text class="pale" x="%d" y="%d">%s</text>', LEFT, y + 15, escape(item.words))
        else
            put('<rect class="bar" x="%d" y="%d" width="%.1f" height="14" rx="2"/>', LEFT, y + 4,
                width(item.value))
            local at = LEFT + width(item.high or item.value)
            if item.low then
                put('<path class="line" d="M%.1f %d H%.1f"/>', LEFT + width(item.low), y + 11, at)
            end
            put('<text x="%.1f" y="%d">%.2f</text>', at + 8, y + 15, item.value)
        end
    end
    if not chart.no_line then
        put('<path class="line one" d="M%.1f %d V%d"/>', LEFT + width(1), TOP - 4, height - 12)
    end
    put "</svg>\n"
    return concat(out, "\n")
end

local PAGE = [[
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>redlock: make bench</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
  body { font-family: system-ui, sans-serif; max-width: 860px; margin: 2em auto; padding: 0 1em;
         color: #1f2328; background: #fff; }
  svg { max-width: 100%; height: auto; margin: 0.5em 0; }
  pre { overflow-x: auto; font-size: 12px; }
  @media (prefers-color-scheme: dark) { body { color: #f0f6fc; background: #010409; } }
</style></head><body>
<h1>redlock: make bench</h1>
]]

--- @return one HTML file with all charts, and below them what was printed
function _M.page(text)
    local charts, lines = _M.parse(text)
    local out = { PAGE }
    for _, line in ipairs(lines) do
        out[#out + 1] = "<p>" .. escape(line) .. "</p>\n"
    end
    for _, chart in ipairs(charts) do
        out[#out + 1] = _M.svg(chart)
    end
    out[#out + 1] = "<h2>As it was printed</h2>\n<pre>" .. escape(text) .. "</pre>\n"
    return concat(out) .. "</body></html>\n"
end

-- ---- the command -------------------------------------------------------------------

local function write(path, text)
    local file = assert(io.open(path, "w"))
    file:write(text)
    file:close()
end

if arg and arg[0] and arg[0]:find "bench/report%.lua$" then
    local file = assert(io.open(assert(arg[1], "report.lua BENCH.TXT DIR")))
    local text = file:read "*a"
    file:close()
    local dir = assert(arg[2], "report.lua BENCH.TXT DIR")
    write(dir .. "/index.html", _M.page(text))
    for _, chart in ipairs(_M.parse(text)) do
        write(format("%s/%s.svg", dir, chart.name), _M.svg(chart))
    end
end

return _M
