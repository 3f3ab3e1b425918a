-- From events to lanes of bars and marks, in milliseconds: what is drawn, not how.
--
-- A bar is { t, u, kind, text } and lasts from t to u; a wedge is a bar that shrinks to nothing
-- at u. A mark is { t, kind, text, label } at one moment.

local _M = {}

-- How many bars one lane shows one by one. Beyond, neighbours closer than `merge_ms` become
-- one bar that says what it stands for, except near a violation.
local MAX_BARS = 600
local PIXELS = 1400           -- width of the whole record, for what "close" means
local NEAR_MS = 400           -- around a violation nothing is merged

local CLIENT_STATES = { waiting = true, holding = true, lost = true, released = true,
    idle = true }
local SERVER_STATES = { up = true, frozen = true, down = true, slow = true }
local MARKS = { lost = true, clock = true, violation = true, note = true, token = true,
    released = true }

-- ---- lanes in order --------------------------------------------------------------

local GROUPS = { "client", "resource", "server" }

local function group_of(name)
    for i, group in ipairs(GROUPS) do
        if name:find(group, 1, true) == 1 then
            return group, i
        end
    end
    return "other", 0         -- whoever causes the faults: above all
end

-- "client 10" comes after "client 2".
local function sort_key(name)
    return (name:gsub("%d+", function(digits)
        return ("%09d"):format(tonumber(digits))
    end))
end

local function by_group_and_name(a, b)
    if a.rank ~= b.rank then
        return a.rank < b.rank
    end
    return a.key < b.key
end

local function lane_of(model, name)
    local lane = model.by_name[name]
    if not lane then
        local group, rank = group_of(name)
        lane = { name = name, group = group, rank = rank, key = sort_key(name), bars = {},
            wedges = {}, marks = {}, open = {} }
        model.by_name[name] = lane
        model.lanes[#model.lanes + 1] = lane
    end
    return lane
end

-- ---- text ------------------------------------------------------------------------

local function describe(e)
    local parts = { e.kind }
    for _, field in ipairs { "lock", "client", "token", "step_ms", "until" } do
        if e[field] ~= nil then
            local value = e[field]
            if type(value) == "number" then
                value = ("%.14g"):format(value)
            end
            parts[#parts + 1] = field:gsub("_", " ") .. " " .. tostring(value)
        end
    end
    local text = table.concat(parts, ", ")
    return e.text and e.text ~= "" and text .. ": " .. e.text or text
end

local function add_mark(lane, e, label)
    local mark = { t = e.t, kind = e.kind, text = describe(e), label = label }
    lane.marks[#lane.marks + 1] = mark
    return mark
end

-- ---- clients ---------------------------------------------------------------------

-- A hold that goes on after its validity is what a picture must show.
local function close_hold(lane, bar, t)
    local deadline = bar.deadline
    bar.u = t
    if deadline and deadline < t then
        bar.u = math.max(deadline, bar.t)
        lane.bars[#lane.bars + 1] = { t = bar.u, u = t, kind = "overdue", lock = bar.lock,
            text = ("past its validity: %s"):format(bar.text) }
    end
end

local function close_bar(lane, key, t)
    local bar = lane.open[key]
    lane.open[key] = nil
    if not bar then
        return
    end
    if bar.kind == "holding" then
        close_hold(lane, bar, t)
    else
        bar.u = t
    end
    if bar.wedge then
        bar.wedge.cut = math.min(bar.wedge.u, t)
    end
end

local function open_bar(lane, key, e)
    local bar = { t = e.t, kind = e.kind, lock = e.lock, text = describe(e) }
    lane.bars[#lane.bars + 1] = bar
    lane.open[key] = bar
    return bar
end

-- From here the validity shrinks towards `until`.
local function start_wedge(lane, bar, e)
    if bar.wedge then
        bar.wedge.cut = math.min(bar.wedge.u, e.t)
    end
    bar.deadline = e["until"]
    bar.wedge = { t = e.t, u = e["until"], kind = "validity", lock = bar.lock,
        text = ("validity until %.0f ms: %s"):format(e["until"], describe(e)) }
    lane.wedges[#lane.wedges + 1] = bar.wedge
end

local function on_client(lane, e)
    local key = e.lock or ""
    if e.kind == "validity" then
        local bar = lane.open[key]
        if bar and bar.kind == "holding" and e["until"] then
            start_wedge(lane, bar, e)
        end
        return
    end
    close_bar(lane, key, e.t)
    if e.kind == "waiting" or e.kind == "holding" then
        local bar = open_bar(lane, key, e)
        if e["until"] then
            start_wedge(lane, bar, e)
        end
    elseif e.kind == "lost" then
        add_mark(lane, e)
    end
end

-- ---- resources and servers -------------------------------------------------------

local function visit_key(e)
    return (e.lock or "") .. "\0" .. tostring(e.client or "")
end

local function on_resource(lane, e)
    if e.kind == "enter" then
        local bar = open_bar(lane, visit_key(e), e)
        bar.kind, bar.lock = "inside", e.lock
        if e.token then
            local mark = add_mark(lane, e, ("%.14g"):format(e.token))
            mark.kind, mark.bar = "token", bar
        end
    elseif e.kind == "exit" then
        close_bar(lane, visit_key(e), e.t)
    elseif e.kind == "token" then
        add_mark(lane, e, e.token and ("%.14g"):format(e.token))
    else
        add_mark(lane, e)
    end
end

-- The state of a process. A client's is only shown while it is not up.
local PROCESS = "\1"

local function on_process(lane, e)
    if SERVER_STATES[e.kind] then
        close_bar(lane, PROCESS, e.t)
        if e.kind ~= "up" or lane.group == "server" then
            open_bar(lane, PROCESS, e)
        end
    elseif e.kind == "clock" then
        add_mark(lane, e, ("%+.14g ms"):format(e.step_ms or 0))
    end
end

-- ---- rows ------------------------------------------------------------------------

-- Bars that overlap go into rows below each other: two inside at once must be seen.
local function stack(lane)
    local ends = {}
    table.sort(lane.bars, function(a, b)
        return a.t < b.t
    end)
    for _, bar in ipairs(lane.bars) do
        local row = 1
        while ends[row] and ends[row] > bar.t do
            row = row + 1
        end
        ends[row], bar.row = bar.u, row
        if bar.wedge then
            bar.wedge.row = row
        end
    end
    for _, wedge in ipairs(lane.wedges) do       -- earlier validities of one bar
        wedge.row = wedge.row or 1
    end
    lane.rows = math.max(#ends, 1)
end

-- ---- thousands of events ---------------------------------------------------------

-- Violations are in order of time: is the first that is not long before the bar near it?
local function near_violation(model, bar)
    local times = model.bad_times
    local low, high = 1, #times + 1
    while low < high do
        local middle = math.floor((low + high) / 2)
        if times[middle] < bar.t - NEAR_MS then
            low = middle + 1
        else
            high = middle
        end
    end
    return times[low] ~= nil and times[low] <= bar.u + NEAR_MS
end

local function summary(run)
    local names, parts = {}, {}
    for kind in pairs(run.counts) do
        names[#names + 1] = kind
    end
    table.sort(names)
    for _, kind in ipairs(names) do
        parts[#parts + 1] = ("%d x %s"):format(run.counts[kind], kind)
    end
    return "merged: " .. table.concat(parts, ", ")
end

local MERGES = { waiting = true, holding = true, inside = true, idle = true }

-- Joins short bars that follow each other closely into one; the rest stays.
local function merge(model, lane)
    local close = (model.t1 - model.t0) / PIXELS * 2
    local bars, run = {}, nil
    for _, bar in ipairs(lane.bars) do
        local small = MERGES[bar.kind] and bar.u - bar.t < close
            and not near_violation(model, bar)
        if small and run and bar.row == run.row and bar.t - run.u < close / 2 then
            run.u = math.max(run.u, bar.u)
            run.counts[bar.kind] = (run.counts[bar.kind] or 0) + 1
            run.n = run.n + 1
        elseif small then
            run = { t = bar.t, u = bar.u, kind = "merged", row = bar.row, n = 1,
                counts = { [bar.kind] = 1 }, only = bar }
            bars[#bars + 1] = run
        else
            run = nil
            bars[#bars + 1] = bar
        end
    end
    for i, bar in ipairs(bars) do
        if bar.n == 1 then
            bars[i] = bar.only
        elseif bar.n then
            bar.text = summary(bar)
            model.merged = model.merged + bar.n
        end
    end
    lane.bars = bars
    local wedges = {}
    for _, wedge in ipairs(lane.wedges) do
        if wedge.cut - wedge.t >= close or near_violation(model, wedge) then
            wedges[#wedges + 1] = wedge
        end
    end
    lane.wedges = wedges
end

-- Tokens are as many as holds: thinned out, except near a violation.
local function thin_marks(model, lane)
    local close = (model.t1 - model.t0) / PIXELS * 4
    local marks, last = {}, -math.huge
    for _, mark in ipairs(lane.marks) do
        mark.u = mark.t
        if mark.kind ~= "token" or mark.t - last >= close or near_violation(model, mark) then
            last = mark.kind == "token" and mark.t or last
            marks[#marks + 1] = mark
        else
            model.thinned = model.thinned + 1
        end
    end
    lane.marks = marks
end

-- ---- all -------------------------------------------------------------------------

local ROUTINE = { waiting = true, holding = true, validity = true, released = true,
    idle = true, enter = true, exit = true, token = true }

local function feed(model, e)
    local lane = lane_of(model, e.lane)
    if e.kind == "note" or e.kind == "violation" then
        local mark = add_mark(lane, e)
        if e.kind == "violation" then
            mark.lane = lane
            model.violations[#model.violations + 1] = mark
            model.bad_times[#model.bad_times + 1] = e.t
        end
    elseif SERVER_STATES[e.kind] or e.kind == "clock" then
        on_process(lane, e)
    elseif lane.group == "client" then
        on_client(lane, e)
    elseif lane.group == "resource" then
        on_resource(lane, e)
    end
    if not ROUTINE[e.kind] then
        model.log[#model.log + 1] = { t = e.t, lane = e.lane, text = describe(e),
            kind = e.kind }
    end
    model.counts[e.kind] = (model.counts[e.kind] or 0) + 1
end

local KNOWN = { validity = true, enter = true, exit = true }
for _, set in ipairs { CLIENT_STATES, SERVER_STATES, MARKS } do
    for kind in pairs(set) do
        KNOWN[kind] = true
    end
end

--- Checks one event; raises a text that names what is wrong.
function _M.check(e)
    if type(e) ~= "table" then
        error("an event is an object", 0)
    elseif type(e.t) ~= "number" or e.t ~= e.t or math.abs(e.t) == math.huge then
        error("an event needs t, a number of ms", 0)
    elseif type(e.lane) ~= "string" or e.lane == "" then
        error("an event needs a lane", 0)
    elseif not KNOWN[e.kind] then
        error(("unknown kind '%s'"):format(tostring(e.kind)), 0)
    elseif e["until"] ~= nil and type(e["until"]) ~= "number" then
        error("until is a number of ms", 0)
    end
end

--- @param events  a list, in any order
-- @return { t0, t1, lanes, violations, log, counts, merged, thinned, events }
function _M.build(events)
    local model = { lanes = {}, by_name = {}, violations = {}, bad_times = {}, log = {},
        counts = {}, merged = 0, thinned = 0, events = #events, t0 = 0, t1 = 1 }
    local sorted = {}
    for i, e in ipairs(events) do
        _M.check(e)
        sorted[i] = { e = e, i = i }
    end
    table.sort(sorted, function(a, b)        -- stable: order within a moment tells
        if a.e.t ~= b.e.t then
            return a.e.t < b.e.t
        end
        return a.i < b.i
    end)
    if sorted[1] then
        model.t0, model.t1 = sorted[1].e.t, sorted[#sorted].e.t
    end
    for _, item in ipairs(sorted) do
        feed(model, item.e)
    end
    model.t1 = math.max(model.t1, model.t0 + 1)
    table.sort(model.lanes, by_group_and_name)
    for _, lane in ipairs(model.lanes) do
        for key in pairs(lane.open) do
            close_bar(lane, key, model.t1)
        end
        for _, wedge in ipairs(lane.wedges) do
            wedge.cut = math.min(wedge.cut or wedge.u, model.t1)
        end
        stack(lane)
        if #lane.bars > MAX_BARS then
            merge(model, lane)
        end
        thin_marks(model, lane)
    end
    return model
end

return _M
