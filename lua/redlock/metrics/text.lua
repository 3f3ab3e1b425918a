--- Writes the numbers in the two text formats that Prometheus reads.

local layout = require "redlock.metrics.layout"

local ipairs, pairs, setmetatable = ipairs, pairs, setmetatable
local concat, sort = table.concat, table.sort
local format, gsub, floor, max = string.format, string.gsub, math.floor, math.max

local _M = {}

--- The Content-Type of each format.
_M.types = {
    prometheus = "text/plain; version=0.0.4; charset=utf-8",
    openmetrics = "application/openmetrics-text; version=1.0.0; charset=utf-8",
}

local function quoted(value)
    return '"' .. gsub(gsub(gsub(value, "\\", "\\\\"), '"', '\\"'), "\n", "\\n") .. '"'
end

-- { "a", "1", "b", "2" }: a="1",b="2"; without values that are false.
local function labels_of(list)
    local parts = {}
    for i = 1, #list, 2 do
        if list[i + 1] then
            parts[#parts + 1] = list[i] .. "=" .. quoted(list[i + 1])
        end
    end
    return concat(parts, ",")
end

-- The labels of a server, with OpenTelemetry's names.
local function server_labels(label)
    local path = label:match "^unix://([^?]*)"
    local host, port = label:match "^%w+://%[(.-)%]:(%d+)"
    if not host then
        host, port = label:match "^%w+://([^/]*):(%d+)"
    end
    return labels_of { "server_address", path or host or label, "server_port", port or false,
        "db_namespace", label:match "%d/(%d+)$" or label:match "%?db=(%d+)$" or false }
end

-- The output is a list of texts and numbers, which concat() writes as "%.14g": there are thousands
-- of lines, and making a text of each would cost more than all else.
local Writer = {}
Writer.__index = Writer

-- Adds a line of four parts.
local function add(w, a, b, value)
    local parts = w.parts
    local n = #parts
    parts[n + 1], parts[n + 2], parts[n + 3], parts[n + 4] = a, b, value, "\n"
end

function Writer:line(name, labels, value)
    add(self, name, labels ~= "" and "{" .. labels .. "} " or " ", value)
end

--- Begins a family: all its samples follow.
function Writer:family(name, kind, help, unit)
    local bare = self.open and gsub(name, "_total$", "") or name
    add(self, "# HELP ", bare, " " .. help)
    add(self, "# TYPE ", bare, " " .. kind)
    if self.open and unit then
        add(self, "# UNIT ", bare, " " .. unit)
    end
end

--- Lets other work run.
function Writer:flush()
    self.chunks[#self.chunks + 1] = concat(self.parts)
    self.parts = {}
    self.pause()
end

-- The number of times in a histogram.
local function count_of(array, of)
    local n = 0
    for i = of.from, of.from + of.count do
        n = n + array[i]
    end
    return n
end

-- The ends of a histogram's lines, for each bound.
local function ends_of(of)
    local list, bound = {}, of.first
    for i = 0, of.count - 1 do
        list[i] = format('le="%.14g"} ', bound)
        bound = bound * 2
    end
    list[of.count] = 'le="+Inf"} '
    return list
end

local ENDS = {}
for _, of in ipairs { layout.group.wait, layout.group.hold, layout.rounds.acquire,
    layout.rounds.release } do
    ENDS[of] = ends_of(of)
end

function Writer:histogram(name, labels, array, of)
    local start = name .. "_bucket{" .. (labels ~= "" and labels .. "," or "")
    local ends, count = ENDS[of], 0
    for i = 0, of.count do
        count = count + array[of.from + i]
        add(self, start, ends[i], count)
    end
    -- In whole microseconds, as sums in floating point would end in 999999.
    self:line(name .. "_sum", labels, floor(array[of.sum] * of.unit * 1e6 + 0.5) / 1e6)
    self:line(name .. "_count", labels, count)
end

local function sorted(map)
    local list = {}
    for label in pairs(map) do
        list[#list + 1] = label
    end
    sort(list)
    return list
end

-- ---- families ----------------------------------------------------------------------

local HISTOGRAMS = {
    { "wait", "redlock_wait_duration_seconds", "Seconds from the call to the acquired lock." },
    { "hold", "redlock_hold_duration_seconds", "Seconds that locks were held until released." },
}
local OUTCOMES = {
    { "acquires", "redlock_acquires_total", "outcome",
        "Finished calls for a lock, by outcome." },
    { "releases", "redlock_releases_total", "outcome",
        "Released locks, by the outcome of the release." },
    { "losses", "redlock_losses_total", "reason", "Locks that were lost while held." },
}
local COUNTS = {
    { "contended", "redlock_contended_total", "Calls that failed at the first attempt." },
    { "renewals", "redlock_renewals_total", "Leases that the watchdog renewed." },
}
local SERVERS = {
    requests = "Requests sent to a server.",
    replies = "Replies from a server.",
    errors = "Replies from a server that were errors.",
    timeouts = "Votes of a server that were missing because its reply was late.",
    connects = "Connections made to a server.",
    disconnects = "Connections to a server that were lost or failed.",
}

local GAUGES = {                     -- of servers: name, field of collect.lua, help, unit
    { "connected", "connected", "Clients that are connected to a server." },
    { "voting", "voting", "Clients for whom a server may vote." },
    { "changing", "changing", "Clients that see an unfinished change of servers." },
    { "clock_offset_seconds", "clock_offset", "Seconds that a server's clock is ahead of this one.",
        "seconds" },
    { "round_trip_seconds", "round_trip", "Seconds that a server took to tell its time.",
        "seconds" },
    { "certificate_end_timestamp_seconds", "certificate_ends", "When the first certificate of a "
        .. "server's connection ends.", "seconds" },
}

for _, o in ipairs(OUTCOMES) do      -- with the ends of its lines
    o.ends = { acquired = labels_of { o[3], "acquired" } .. "} " }
    for _, name in ipairs(layout[o[1]]) do
        o.ends[name] = labels_of { o[3], name } .. "} "
    end
end

local function write_outcomes(w, o, labels, array)
    local start = o[2] .. "{" .. labels .. ","
    if o[1] == "acquires" then
        add(w, start, o.ends.acquired, count_of(array, layout.group.wait))
    end
    for _, name in ipairs(layout[o[1]]) do
        add(w, start, o.ends[name], array[layout.group[o[1]][name]])
    end
end

local function write_groups(w, found)
    local groups = {}
    for i, label in ipairs(sorted(found.groups)) do
        groups[i] = { labels = labels_of { "group", label }, array = found.groups[label] }
    end
    local function each(fn)
        for _, group in ipairs(groups) do
            fn(group.labels, group.array)
            w:flush()
        end
    end
    for _, h in ipairs(HISTOGRAMS) do
        w:family(h[2], "histogram", h[3], "seconds")
        each(function(labels, array)
            w:histogram(h[2], labels, array, layout.group[h[1]])
        end)
    end
    for _, o in ipairs(OUTCOMES) do
        w:family(o[2], "counter", o[4])
        each(function(labels, array) write_outcomes(w, o, labels, array) end)
    end
    for _, c in ipairs(COUNTS) do
        w:family(c[2], "counter", c[3])
        each(function(labels, array) w:line(c[2], labels, array[layout.group[c[1]]]) end)
    end
end

local function write_rounds(w, found)
    for _, name in ipairs { "acquire", "release" } do
        local family = "redlock_" .. name .. "_duration_seconds"
        w:family(family, "histogram", name == "acquire"
            and "Seconds that the servers took to grant a lock." or
            "Seconds that the servers took to confirm a release.", "seconds")
        w:histogram(family, "", found.rounds, layout.rounds[name])
    end
end

local function write_servers(w, found)
    for _, name in ipairs(layout.counters) do
        local family = "redlock_server_" .. name .. "_total"
        w:family(family, "counter", SERVERS[name])
        for _, label in ipairs(sorted(found.servers)) do
            w:line(family, server_labels(label), found.servers[label][layout.server.counters[name]])
        end
    end
    w:flush()
end

local function write_now(w, found)
    local now = found.now
    w:family("redlock_locks_held", "gauge", "Locks that are held now.")
    w:line("redlock_locks_held", "", now.held)
    w:family("redlock_calls_waiting", "gauge", "Calls that wait for a lock now.")
    w:line("redlock_calls_waiting", "", now.waiting)
    w:family("redlock_clients", "gauge", "Clients that are in use.")
    w:line("redlock_clients", "", now.clients)
    local terms = {}             -- clients with several prefixes may lead under one name
    for _, leader in ipairs(now.leaders) do
        local labels = labels_of { "election", leader.name, "leader", leader.id }
        terms[labels] = max(terms[labels] or 0, leader.term)
    end
    w:family("redlock_leader_term", "gauge", "The term in which a candidate leads.")
    for _, labels in ipairs(sorted(terms)) do
        w:line("redlock_leader_term", labels, format("%.0f", terms[labels]))
    end
    for _, g in ipairs(GAUGES) do
        local family = "redlock_server_" .. g[1]
        w:family(family, "gauge", g[3], g[4])
        for _, label in ipairs(sorted(now.servers)) do
            local value = now.servers[label][g[2]]
            if value then
                w:line(family, server_labels(label), value)
            end
        end
    end
end

--- The text of { groups, servers (label -> array), rounds (an array), now (of collect.lua) }. how:
-- "prometheus" or "openmetrics"; pause() lets other work run.
function _M.render(found, how, pause)
    local w = setmetatable({ parts = {}, chunks = {}, open = how == "openmetrics",
        pause = pause }, Writer)
    write_groups(w, found)
    write_rounds(w, found)
    write_servers(w, found)
    write_now(w, found)
    w:flush()
    return concat(w.chunks) .. (w.open and "# EOF\n" or "")
end

return _M
