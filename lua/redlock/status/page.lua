--- The status page: self-contained HTML from what redlock.status has found. All text that others
-- chose, names above all, goes through text_of().
--
-- This folder has the page (page), its script and its style. It only formats: it must not read
-- clients or the dictionary.

local duration = require("redlock.text.encoding").duration
local script = require "redlock.status.script"
local style = require "redlock.status.style"

local ipairs, tostring, type = ipairs, tostring, type
local concat, format, gsub = table.concat, string.format, string.gsub
local ceil, floor, max, date = math.ceil, math.floor, math.max, os.date

local _M = {}

local REFRESH_MS = 5000
local TICK = 120             -- seconds between two times at the chart
local ENTITIES = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;",
    ["'"] = "&#39;" }

local function text_of(value)
    return (gsub(tostring(value), "[&<>\"']", ENTITIES))
end

local function marked(class, text)
    return format('<span class="%s">%s</span>', class, text_of(text))
end

-- Columns whose cells stay in one line, however long the others are.
local SHORT = {}
for _, column in ipairs { "Server", "State", "Latency", "Clock", "Guard", "Kind", "Held for",
    "Ends in", "Worker", "Calls", "When (UTC)", "Why" } do
    SHORT[column] = ' class="short"'
end

-- A table of cells: texts, numbers, or { HTML }. On narrow screens each cell shows its column.
local function table_of(columns, rows, nothing)
    if #rows == 0 then
        return '<p class="muted">' .. nothing .. "</p>"
    end
    local out = { "<table><thead><tr>" }
    for _, column in ipairs(columns) do
        out[#out + 1] = '<th scope="col">' .. column .. "</th>"
    end
    out[#out + 1] = "</tr></thead><tbody>"
    for _, row in ipairs(rows) do
        out[#out + 1] = "<tr>"
        for c, cell in ipairs(row) do
            out[#out + 1] = format('<td data-label="%s"%s>%s</td>', columns[c],
                SHORT[columns[c]] or "", type(cell) == "table" and cell[1] or text_of(cell))
        end
        out[#out + 1] = "</tr>"
    end
    out[#out + 1] = "</tbody></table>"
    return concat(out)
end

local function section(title, html)
    return format('<section aria-label="%s"><h2>%s</h2>%s</section>', title, title, html)
end

-- ---- the parts ---------------------------------------------------------------------

local function servers(found)
    local rows = {}
    for i, s in ipairs(found.servers) do
        local state = s.connected == 0 and marked("bad", "down")
            or s.voting < found.clients and marked("bad", format("no vote in %d of %d",
                found.clients - s.voting, found.clients))
            or s.remedy and marked("odd", "votes") or marked("good", "votes")
        rows[i] = { s.server, { state }, duration(s.round_trip), s.clock_offset
            and format("%+.3f s", s.clock_offset) or "-", s.guard or "-", s.remedy or "-" }
    end
    return section("Servers", table_of({ "Server", "State", "Latency", "Clock", "Guard",
        "What to do" }, rows, "No client of this host is connected yet."))
end

local function tiles(found)
    local now = found.chart[1]
    local list = { { "held", found.held }, { "waiting", found.waiting },
        { "acquired a second", format("%.1f", now.got / found.chart.seconds) },
        { "failed a second", format("%.1f", now.failed / found.chart.seconds) },
        { "lost in ten minutes", found.lost }, { "workers", #found.workers } }
    local out = {}
    for i, tile in ipairs(list) do
        out[i] = format("<div><dt>%s</dt><dd>%s</dd></div>", tile[1], tile[2])
    end
    return section("Now", "<dl>" .. concat(out) .. "</dl>")
end

-- The least of 1, 2, 5, 10, 20 ... that is not below n.
local function scale_of(n)
    local power = 1
    while true do
        for _, step in ipairs { 1, 2, 5 } do
            if step * power >= n then
                return step * power
            end
        end
        power = power * 10
    end
end

-- A line through the values of all slots, the newest at the right. top: a second, at the upper end.
local function line(chart, word, top)
    local points = {}
    for i = #chart, 1, -1 do
        points[#points + 1] = format("%d,%.1f", #chart - i,
            100 - 100 * chart[i][word] / chart.seconds / top)
    end
    return format('<polyline class="line-%s" points="%s"/>', word, concat(points, " "))
end

local function grid(x, x2, y, y2)
    return format('<line class="grid" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>', x, x2, y, y2)
end

-- The times at the lower axis, every two minutes: their lines in the chart; and their texts.
local function times(found)
    local seconds, last = found.chart.seconds, #found.chart - 1
    local from = floor(found.time / seconds) * seconds - #found.chart * seconds
    local lines, texts = {}, {}
    for time = ceil(from / TICK) * TICK, found.time, TICK do
        local x = (time - from) / seconds
        if x < 0.97 * last then          -- else the text would be cut
            lines[#lines + 1] = grid(x, x, 0, 100)
            texts[#texts + 1] = format('<span style="left:%.1f%%">%s</span>', 100 * x / last,
                date("!%H:%M", time))
        end
    end
    return concat(lines), concat(texts)
end

local function chart_of(found)
    local chart, got, failed, marks = found.chart, 0, 0, {}
    for i, slot in ipairs(chart) do
        got, failed = max(got, slot.got), max(failed, slot.failed)
        if slot.lost > 0 then
            marks[#marks + 1] = format('<line class="line-lost" x1="%d" x2="%d" y1="88" y2="100"/>',
                #chart - i, #chart - i)
        end
    end
    local top = scale_of(max(got, failed, 1) / chart.seconds)
    local lines, texts = times(found)
    local said = format("The last ten minutes: at most %.1f locks a second acquired, %.1f calls a "
        .. "second failed, %d locks lost.", got / chart.seconds, failed / chart.seconds, found.lost)
    return section("The last ten minutes (UTC)", concat {
        '<div class="chart"><div class="numbers" aria-hidden="true"><span>', top, "/s</span><span>",
        top / 2, "</span><span>0</span></div>",
        '<svg role="img" viewBox="0 0 119 100" preserveAspectRatio="none" aria-label="', said, '">',
        grid(0, 119, 50, 50), lines, line(chart, "got", top), line(chart, "failed", top),
        concat(marks), '</svg><div class="times" aria-hidden="true">', texts, "</div></div><p>",
        '<span class="key-got">acquired</span>, at most ', format("%.1f", got / chart.seconds),
        ' a second; <span class="key-failed">failed</span> (dashed), at most ',
        format("%.1f", failed / chart.seconds),
        ' a second; <span class="key-lost">lost</span> (marks below): ', found.lost, "</p>" })
end

local function holds(found)
    local rows = {}
    for i, h in ipairs(found.holds) do
        rows[i] = { h.name, h.kind, duration(h.held), duration(h.left), h.label ~= "" and h.label
            or "-", h.worker }
    end
    local html = table_of({ "Name", "Kind", "Held for", "Ends in", "Holder", "Worker" }, rows,
        "None.")
    if found.held > #rows then
        html = html .. format('<p class="muted">And %d more.</p>', found.held - #rows)
    end
    return section("Locks held by this host", html)
end

local function queues(found)
    local rows = {}
    for i, q in ipairs(found.queues) do
        rows[i] = { q.name, q.kind, q.calls, q.worker, q.label ~= "" and q.label or "-",
            duration(q.held) }
    end
    return section("Waiting on this host", table_of({ "Name", "Kind", "Calls", "Worker", "Held by",
        "Held for" }, rows, "No call waits."))
end

local function losses(found)
    local rows = {}
    for i, loss in ipairs(found.losses) do
        rows[i] = { date("!%Y-%m-%d %H:%M:%S", loss.time), loss.name, loss.reason, loss.worker }
    end
    return section("Lost", table_of({ "When (UTC)", "Name", "Why", "Worker" }, rows, "None."))
end

local PARTS = { tiles, servers, chart_of, holds, queues, losses }

-- ---- the whole ---------------------------------------------------------------------

-- Whether the servers vote, in one line.
local function verdict(found)
    local voting = 0
    for _, s in ipairs(found.servers) do
        voting = voting + (s.voting == found.clients and 1 or 0)
    end
    if found.clients == 0 then
        return marked("odd", "no client is connected yet")
    elseif voting == #found.servers then
        return marked("good", format("all %d servers vote", voting))
    elseif voting > #found.servers / 2 then
        return marked("odd", format("%d of %d servers vote", voting, #found.servers))
    end
    return marked("bad", format("%d of %d servers vote: no majority", voting, #found.servers))
end

--- HTML of what status.lua has found. nonce: for the script, as in the header
-- Content-Security-Policy; pause() lets other work run.
function _M.render(found, nonce, pause)
    local host = text_of(found.host)
    local out = { '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<title>redlock on ', host, '</title><link rel="icon" href="data:,"><style>', style,
        '</style></head><body><header><h1>redlock on ', host, '</h1><nav>',
        '<a href="?format=json">JSON</a><a href="?format=prometheus">Prometheus</a>',
        '<label><input type="checkbox" id="live" checked> refresh</label>',
        '<span id="state" role="status" class="bad"></span></nav></header><main id="main">',
        "<p>", verdict(found), ' <span class="muted">at ',
        date("!%H:%M:%S", found.time), " UTC</span></p>" }
    for _, part in ipairs(PARTS) do
        out[#out + 1] = part(found)
        pause()
    end
    out[#out + 1] = '</main><script nonce="' .. nonce .. '">'
        .. gsub(script, "EVERY", REFRESH_MS) .. "</script></body></html>\n"
    return concat(out)
end

return _M
