-- luajit spec/timeline/render.lua IN.jsonl OUT.html [TITLE]
--
-- Draws what happened as one HTML file that needs nothing else. Each line of the input is one
-- event: {"t": ms, "lane": "client 1", "kind": "...", "text": "words for hover", ...}
--   lane "client ..."    waiting, holding (until: ms, lock), validity (a new until), lost,
--                        released, idle
--   lane "resource ..."  enter, exit (client, lock, token), token, violation
--   lane "server ..."    up, frozen, down, slow, clock (step_ms); clients may be that, too
--   any lane             note, violation
-- Events may come in any order. A client may hold several locks at once: `lock` tells them
-- apart. Or as a module: require("spec.timeline.render").page(events, title).

local here = debug.getinfo(1, "S").source:match "^@(.*/)" or "./"
if not ... or arg and arg[0] and arg[0]:find "render%.lua$" then
    package.path = here .. "../../?.lua;" .. package.path
end

local lanes = require "spec.timeline.lanes"

local format, concat, floor = string.format, table.concat, math.floor

local _M = {}

local LEFT, WIDTH = 130, 1400     -- without a script; with one it fits the window
local ROW, GAP = 16, 6            -- one row of bars, and between two lanes
local MAX_LOG = 1000

local function escape(s)
    return (tostring(s):gsub("[&<>\"]", {
        ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }))
end

local function ms(t)
    return (format("%.3f", t):gsub("%.?0+$", ""))
end

local function title(lane, t, u, text)
    local when = u and u > t and format("%s ms to %s ms (%s ms)", ms(t), ms(u), ms(u - t))
        or ms(t) .. " ms"
    return format("<title>%s\n%s\n%s</title>", escape(lane.name), when, escape(text))
end

-- ---- shapes ----------------------------------------------------------------------

-- Bars of different kinds differ in height, not in colour alone: { from, height } of a row.
local HEIGHTS = { up = { 0.40, 0.2 }, slow = { 0.15, 0.7 }, waiting = { 0.3, 0.4 },
    merged = { 0.2, 0.6 } }

local function draw_bar(out, lane, bar)
    local h = HEIGHTS[bar.kind] or { 0, 1 }
    local y = lane.y + (bar.row - 1) * ROW
    out[#out + 1] = format('<rect class="bar %s" x="%s" y="%.1f" width="%s" height="%.1f">%s'
        .. "</rect>\n", bar.kind, ms(bar.t), y + h[1] * ROW, ms(bar.u - bar.t), h[2] * ROW,
        title(lane, bar.t, bar.u, bar.text))
end

-- Full height when the validity begins, nothing when it ends.
local function draw_wedge(out, lane, w)
    if w.cut <= w.t then
        return
    end
    local bottom = lane.y + w.row * ROW
    local left = 1 - (w.cut - w.t) / (w.u - w.t)
    out[#out + 1] = format('<path class="wedge validity" d="M%s %.1fV%.1fL%s %.1fV%.1fZ">%s'
        .. "</path>\n", ms(w.t), bottom, bottom - ROW, ms(w.cut), bottom - left * ROW, bottom,
        title(lane, w.t, w.u, w.text))
end

local SHAPES = {
    lost = '<path d="M-4 -5L4 5M4 -5L-4 5"/>',
    violation = '<circle r="8"/><path d="M-4 -4L4 4M4 -4L-4 4"/>',
    clock = '<path d="M0 -6L5 0L0 6L-5 0Z"/>',
    note = '<circle r="3"/>',
    token = '<path d="M0 -7V7"/>',
}

local function draw_mark(out, lane, mark, id)
    local label = mark.label and format('<text class="small" x="%d" y="4">%s</text>',
        mark.kind == "token" and 3 or 8, escape(mark.label)) or ""
    local row = mark.bar and mark.bar.row or 1
    out[#out + 1] = format('<g class="mark %s"%s data-t="%s" data-y="%.1f">%s<circle '
        .. 'class="reach" r="9"/>%s%s</g>\n', mark.kind, id and ' id="' .. id .. '"' or "",
        ms(mark.t), lane.y + (row - 0.5) * ROW, title(lane, mark.t, nil, mark.text),
        SHAPES[mark.kind] or SHAPES.note, label)
end

local function place_lanes(model)
    local y, group = 4, nil
    for _, lane in ipairs(model.lanes) do
        if group and group ~= lane.group then
            y = y + 12
        end
        group = lane.group
        lane.y = y
        y = y + lane.rows * ROW + GAP
    end
    return y + 4
end

local function draw_backgrounds(out, model)
    local group
    for i, lane in ipairs(model.lanes) do
        local y, h = lane.y - GAP / 2, lane.rows * ROW + GAP
        if i % 2 == 0 then
            out[#out + 1] = format('<rect class="stripe" x="0" y="%.1f" width="%d" '
                .. 'height="%.1f"/>\n', y, LEFT + WIDTH, h)
        end
        if group and group ~= lane.group then
            out[#out + 1] = format('<line class="divide" x1="0" x2="%d" y1="%.1f" y2="%.1f"/>\n',
                LEFT + WIDTH, y - 6, y - 6)
        end
        group = lane.group
        out[#out + 1] = format('<text class="lane" x="%d" y="%.1f" text-anchor="end">%s</text>\n',
            LEFT - 10, lane.y + ROW / 2 + 4, escape(lane.name))
    end
end

local function draw_picture(model)
    local height = place_lanes(model)
    local out, t0, t1 = {}, model.t0, model.t1
    out[#out + 1] = format('<svg id="picture" role="img" aria-label="timeline" width="%d" '
        .. 'height="%d" data-t0="%s" data-t1="%s">\n', LEFT + WIDTH, height, ms(t0), ms(t1))
    draw_backgrounds(out, model)
    out[#out + 1] = format('<svg x="%d" width="100%%" height="%d"><g id="grid"></g></svg>\n',
        LEFT, height)
    out[#out + 1] = format('<svg id="plot" x="%d" width="%d" height="%d" viewBox="%s 0 %s %d" '
        .. 'preserveAspectRatio="none">\n', LEFT, WIDTH, height, ms(t0), ms(t1 - t0), height)
    for _, lane in ipairs(model.lanes) do
        for _, bar in ipairs(lane.bars) do
            draw_bar(out, lane, bar)
        end
        for _, wedge in ipairs(lane.wedges) do
            draw_wedge(out, lane, wedge)
        end
    end
    for _, v in ipairs(model.violations) do
        out[#out + 1] = format('<line class="badline" x1="%s" x2="%s" y1="0" y2="%d"/>\n',
            ms(v.t), ms(v.t), height)
    end
    out[#out + 1] = format('</svg>\n<svg id="points" x="%d" width="%d" height="%d">\n', LEFT,
        WIDTH, height)
    for i, v in ipairs(model.violations) do
        v.id = "v" .. i
    end
    for _, lane in ipairs(model.lanes) do
        for _, mark in ipairs(lane.marks) do
            draw_mark(out, lane, mark, mark.id)
        end
    end
    out[#out + 1] = "</svg>\n</svg>\n"
    return concat(out)
end

-- ---- words -----------------------------------------------------------------------

local LEGEND = {
    { "bar", "waiting", "waiting" },
    { "bar", "holding", "holding" },
    { "wedge", "validity", "validity left" },
    { "bar", "overdue", "goes on after its validity" },
    { "mark", "lost", "lease lost" },
    { "bar", "inside", "inside the resource" },
    { "mark", "token", "fencing token" },
    { "mark", "violation", "violation" },
    { "bar", "up", "server up" },
    { "bar", "frozen", "frozen" },
    { "bar", "down", "down" },
    { "bar", "slow", "slow" },
    { "mark", "clock", "clock step" },
    { "mark", "note", "note" },
    { "bar", "merged", "many short ones" },
}

local function legend()
    local out = {}
    for i, item in ipairs(LEGEND) do
        local shape, kind, text = item[1], item[2], item[3]
        local h = HEIGHTS[kind] or { 0, 1 }
        local drawing = shape == "wedge" and '<path class="validity" d="M0 16V0L26 16Z"/>'
            or shape == "mark" and format('<g class="mark %s" transform="translate(13 8)">%s</g>',
                kind, SHAPES[kind])
            or format('<rect class="%s" x="0" y="%.1f" width="26" height="%.1f"/>', kind,
                h[1] * ROW, h[2] * ROW)
        out[i] = format('<li><svg width="26" height="16">%s</svg>%s</li>', drawing, text)
    end
    return '<ul class="legend">' .. concat(out) .. "</ul>\n"
end

local function link(t)
    return format('<a href="#t=%s">%s ms</a>', ms(t), ms(floor(t * 10 + 0.5) / 10))
end

local function verdict(model)
    local n = #model.violations
    if n == 0 then
        return '<p class="verdict">No violation.</p>\n'
    end
    local out = { format('<p class="verdict bad">%d violation%s</p>\n<ol id="violations">\n',
        n, n == 1 and "" or "s") }
    for i, v in ipairs(model.violations) do
        if i > MAX_LOG then
            out[#out + 1] = format("<li>and %d more</li>\n", n - MAX_LOG)
            break
        end
        out[#out + 1] = format("<li>%s %s: %s</li>\n", link(v.t), escape(v.lane.name),
            escape(v.text:gsub("^violation[,:]? ?", "")))
    end
    out[#out + 1] = "</ol>\n"
    return concat(out)
end

local function honesty(model)
    local text = format("%d events in %s ms.", model.events, ms(model.t1 - model.t0))
    if model.merged > 0 then
        text = text .. format(" There are too many to draw one by one: %d short bars are joined "
            .. "into grey ones that say what they stand for (zoom does not separate them), "
            .. "except near violations.", model.merged)
    end
    if model.thinned > 0 then
        text = text .. format(" %d tokens that would lie on each other are not drawn.",
            model.thinned)
    end
    return "<p>" .. text .. "</p>\n"
end

local function log(model)
    local out = { "<details><summary>Faults, losses and notes in order</summary>\n",
        '<table id="log">\n' }
    for i, entry in ipairs(model.log) do
        if i > MAX_LOG then
            out[#out + 1] = format("<tr><td></td><td></td><td>and %d more</td></tr>\n",
                #model.log - MAX_LOG)
            break
        end
        out[#out + 1] = format('<tr class="%s"><td>%s</td><td>%s</td><td>%s</td></tr>\n',
            entry.kind, link(entry.t), escape(entry.lane), escape(entry.text))
    end
    out[#out + 1] = "</table></details>\n"
    return concat(out)
end

-- ---- the page --------------------------------------------------------------------

local function read(name)
    local file = assert(io.open(name, "rb"))
    local text = file:read "*a"
    file:close()
    return text
end

--- @param events  a list of events as above
-- @param name    the heading, default "Timeline"
-- @return the text of an HTML file, and the model it was made from (see lanes.lua)
function _M.page(events, name)
    local model = lanes.build(events)
    local picture = draw_picture(model)
    name = escape(name or "Timeline")
    return concat {
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>', name,
        "</title>\n<style>\n", read(here .. "page.css"), "</style>\n</head>\n<body>\n",
        "<header>\n<h1>", name, "</h1>\n", verdict(model), honesty(model), legend(),
        "</header>\n",
        '<div id="bar"><div id="tools"><button id="in">+</button> <button id="out">\226\136\146'
            .. '</button> <button id="whole">all</button> drag to move, double-click or wheel '
            .. "on the axis to zoom; keys + \226\136\146 0 \226\134\144 \226\134\146</div>\n",
        format('<svg id="axis" width="%d" height="26"><g id="ticks"></g></svg></div>\n',
            LEFT + WIDTH),
        picture, log(model), '<div id="tip"></div>\n<script>\n', read(here .. "page.js"),
        "</script>\n</body>\n</html>\n",
    }, model
end

--- Reads events, one JSON object a line.
-- @return a list; raises with the number of a line that is wrong
function _M.read(name)
    local cjson = require "cjson"
    local events, n = {}, 0
    for line in assert(io.lines(name)) do
        n = n + 1
        if line:find "%S" then
            local ok, e = pcall(cjson.decode, line)
            local good, why = true, nil
            if ok then
                for key, value in pairs(type(e) == "table" and e or {}) do
                    if value == cjson.null then
                        e[key] = nil
                    end
                end
                good, why = pcall(lanes.check, e)
            end
            if not ok or not good then
                error(format("%s:%d: %s", name, n, tostring(why or e)), 0)
            end
            events[#events + 1] = e
        end
    end
    return events
end

--- Writes the picture of a file of events.
-- @return the model it was made from
function _M.file(input, output, name)
    local html, model = _M.page(_M.read(input), name)
    local file = assert(io.open(output, "wb"))
    assert(file:write(html))
    file:close()
    return model
end

if arg and arg[0] and arg[0]:find "spec/timeline/render%.lua$" and not _G.busted then
    if not arg[2] then
        io.stderr:write "usage: luajit spec/timeline/render.lua IN.jsonl OUT.html [TITLE]\n"
        os.exit(2)
    end
    local ok, why = pcall(_M.file, arg[1], arg[2], arg[3])
    if not ok then
        io.stderr:write(tostring(why), "\n")
        os.exit(1)
    end
end

return _M
