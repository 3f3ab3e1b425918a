-- From marks and the story of the faults to a timeline (spec/timeline).
local in_order = require("spec.chaos.marks").in_order
local render = require "spec.timeline.render"

local _M = {}

local CHANGED_MS = 5            -- a validity that moved by less is the same one

local function lane_of(m, slots)
    local number = m.c:match "^%d+"
    return slots[tonumber(number)] > 1 and ("client %s.%d"):format(number, m.s)
        or "client " .. number
end

local function key_of(m)
    return ("%s/%s/%s"):format(m.c, m.s, m.n)
end

-- In which way of the family it is held.
local function how_of(m)
    return m.place and ("%s %d, "):format(m.how, m.place) or m.how and m.how .. ", " or ""
end

local on = {}

function on.call(m, p)
    local how = m.how and m.how .. ": " or ""
    p:client(m, m.a, "waiting", { text = how .. (m.wait and ("tryLock(%g%s)"):format(m.wait,
        m.lease and (", %g"):format(m.lease) or "") or "lock()") })
end

function on.fail(m, p)
    p:client(m, m.b, "idle", { text = m.code })
end

function on.got(m, p)
    p.till[key_of(m)] = m.at + m.left
    p:client(m, m.b, "holding", { ["until"] = p:time(m.at + m.left), text = ("%safter %.1f ms, "
        .. "%s"):format(how_of(m), m.b - m.a, m.kept and "kept by the watchdog" or "fixed lease") })
    p:resource(m, m.b, "enter")
end

function on.valid(m, p)
    local key = key_of(m)
    local till = m.at + m.left
    if m.left > 0 and till > (p.till[key] or 0) + CHANGED_MS then
        p.till[key] = till
        p:client(m, m.at, "validity", { ["until"] = p:time(till) })
    end
end

function on.refused(m, p)
    p:resource(m, m.b, "note", ("client %s.%d refused with token %.14g, %.14g was seen"):format(
        m.c, m.s, m.token, m.highest))
end

function on.lost(m, p)
    p:client(m, m.a, "lost", { text = m.why })
end

function on.exit(m, p)
    p:resource(m, m.a, "exit")
end

function on.released(m, p)
    p:client(m, m.b, "released", { text = m.ok and "released" or m.code })
end

local Picture = {}
Picture.__index = Picture

function Picture:time(t)
    return t - self.t0
end

function Picture:add(t, lane, kind, more)
    more.t, more.lane, more.kind = self:time(t), lane, kind
    self.events[#self.events + 1] = more
end

function Picture:client(m, t, kind, more)
    more.lock = m.l
    self:add(t, lane_of(m, self.slots), kind, more)
    self.open[m.c] = self.open[m.c] or {}
    self.open[m.c][m.s] = (kind == "holding" or kind == "waiting") and m or nil
end

function Picture:resource(m, t, kind, text)
    if m.l:find "^own " then
        return
    end
    self:add(t, "resource " .. m.l, kind,
        { lock = m.l, client = ("%s.%d"):format(m.c, m.s), token = m.token, text = text })
end

-- What a process was at ends with it.
local function end_process(p, death)
    for _, m in pairs(p.open[death.c] or {}) do
        p:add(death.a, lane_of(m, p.slots), "idle", { lock = m.l, text = "kill -9" })
        p:resource(m, death.a, "exit")
    end
    p.open[death.c] = nil
end

--- @param marks  see history.lua
-- @param opts   t0; slots: of each client; story: events with true times;
--   violations: { t, lock, text }
-- @return a list of events for render.page
function _M.events(marks, opts)
    local p = setmetatable({ events = {}, open = {}, till = {}, t0 = opts.t0,
        slots = opts.slots }, Picture)
    local function when(m)
        return m.b or m.a or m.at
    end
    for _, m in ipairs(in_order(marks, when)) do
        if m.k == "died" then
            end_process(p, m)
        elseif on[m.k] then
            on[m.k](m, p)
        end
    end
    for _, e in ipairs(opts.story) do
        p:add(e.t, e.lane, e.kind, { text = e.text, step_ms = e.step_ms })
    end
    for _, v in ipairs(opts.violations) do
        p:add(v.t, v.lock and "resource " .. v.lock or "resource", "violation",
            { text = v.text, lock = v.lock })
    end
    return p.events
end

--- Writes the picture. @return its path
function _M.write(events, path, title)
    os.execute(("mkdir -p '%s'"):format(path:match "^(.*)/" or "."))
    local html = render.page(events, title)
    local file = assert(io.open(path, "wb"))
    file:write(html)
    file:close()
    return path
end

return _M
