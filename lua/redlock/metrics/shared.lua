--- Adds up the numbers of several nginx workers in a dictionary that they share.
--
-- A worker adds the growth of its numbers; the sums outlive workers and reloads. It writes its
-- present state under a key of its own, which expires.
--
--   redlock:KIND:n             how many groups (servers) exist
--   redlock:KIND:n:NUMBER      the label of each
--   redlock:KIND:is:LABEL      the label under which LABEL is counted
--   redlock:KIND:LABEL:PLACE   a number of an array
--   redlock:now:PLACE          the present state of a worker
--   redlock:chart:TIME:WORD    how often in a slot of the chart
--   redlock:losses, redlock:loss:NUMBER   how many, and the last ones

local layout = require "redlock.metrics.layout"

local ipairs, pairs, select, setmetatable, tonumber, tostring =
    ipairs, pairs, select, setmetatable, tonumber, tostring
local floor, max = math.floor, math.max
local concat, format = table.concat, string.format

local _M = {}

local MOST = 64              -- labels of a kind
local WORKERS = 128          -- places
local STAYS = 10             -- seconds after which a worker's present state expires
local OTHER = "other"
local SLOT, SLOTS = 5, 120   -- seconds; the chart has ten minutes
local LOSSES = 50            -- that are remembered

local Shared = {}
Shared.__index = Shared

--- The part of the worker `me` in a dictionary of ngx.shared; say(text) is called with problems.
function _M.new(dict, me, say)
    return setmetatable({ dict = dict, me = me, say = say, full = false,
        written = {},            -- array -> the part of it that is in the sums
        labels = {},             -- key ...:is:LABEL -> its value, once known
    }, Shared)
end

local function complain(self, err)
    if not self.full then
        self.full = true
        self.say("the dictionary for metrics is too small (" .. err .. "); what does not fit is "
            .. "added later, if it can be")
    end
end

-- The label of an array in the dictionary: its own, or OTHER once there are MOST; nil: not known
-- yet.
local function shared_label(self, array)
    local dict, prefix = self.dict, "redlock:" .. array.kind .. ":"
    if array.label == OTHER then         -- always at place MOST
        dict:safe_add(prefix .. "n:" .. MOST, OTHER)
        return OTHER
    end
    local name = prefix .. "is:" .. array.label
    if self.labels[name] then
        return self.labels[name]
    end
    local ok, err = dict:safe_add(name, "")
    if not ok and err ~= "exists" then
        return complain(self, err)
    end
    if ok then
        local n = dict:incr(prefix .. "n", 1, 0)
        if n and n >= MOST then
            dict:safe_set(name, OTHER)
            dict:safe_add(prefix .. "n:" .. MOST, OTHER)
        elseif n then
            dict:safe_add(prefix .. "n:" .. n, array.label)
            dict:safe_set(name, array.label)
        end
    end
    local label = dict:get(name)
    if label == "" or not label then     -- another worker is about to set it
        return nil
    end
    self.labels[name] = label
    return label
end

local function grow(self, key, by)
    local new, err = self.dict:incr(key, by)
    if not new and err == "not found" then
        local ok
        ok, err = self.dict:safe_add(key, 0)
        new = (ok or err == "exists") and self.dict:incr(key, by)
    end
    if not new then
        complain(self, err)
    end
    return new ~= nil and new ~= false
end

--- Adds the growth of an array of layout.lua since the last call. pause() lets other work run.
function Shared:add(array, pause)
    local label = shared_label(self, array)
    if not label then
        return
    end
    local written = self.written[array]
    if not written then
        written = {}
        self.written[array] = written
    end
    local key = format("redlock:%s:%s:", array.kind, label)
    for i = 1, #array do
        local by = array[i] - (written[i] or 0)
        if by ~= 0 and grow(self, key .. i, by) then
            written[i] = (written[i] or 0) + by
        end
    end
    pause()
end

-- ---- the sums ----------------------------------------------------------------------

local function sums_of(self, kind, label, pause)
    local array = layout.array(kind, label)
    local key = format("redlock:%s:%s:", kind, label)
    for i = 1, #array do
        array[i] = self.dict:get(key .. i) or 0
    end
    pause()
    return array
end

--- @return label -> the array of sums, for all arrays of a kind
function Shared:sums(kind, pause)
    local found, prefix = {}, "redlock:" .. kind .. ":n"
    for i = 1, MOST do
        local label = self.dict:get(prefix .. ":" .. i)
        if label then
            found[label] = sums_of(self, kind, label, pause)
        end
    end
    return found
end

-- ---- the present -------------------------------------------------------------------

local function text_of(value)
    return value == nil and "" or (tostring(value):gsub("[\t\n]", " "))
end

local function line_of(kind, ...)
    local parts = { kind, ... }
    for i = 1, select("#", ...) do
        parts[i + 1] = text_of((select(i, ...)))
    end
    return concat(parts, "\t")
end

-- The state from collect.lua as text: a line for the worker, and one for each server, hold, queue
-- and leader.
local function packed(self, now)
    local lines = { line_of(self.me, now.held, now.waiting, now.clients) }
    for label, s in pairs(now.servers) do
        lines[#lines + 1] = line_of("S", label, s.connected, s.voting, s.clock_offset, s.round_trip,
            s.guard, s.remedy, s.certificate_ends, s.changing)
    end
    for _, h in ipairs(now.holds) do
        lines[#lines + 1] = line_of("H", h.name, h.kind, h.held, h.left,
            (h.label:gsub("%%p", self.me)))
    end
    for _, q in ipairs(now.queues) do
        lines[#lines + 1] = line_of("Q", q.name, q.kind, q.calls, q.label or "", q.held)
    end
    for _, l in ipairs(now.leaders) do
        lines[#lines + 1] = line_of("L", l.name, l.id, format("%.0f", l.term))
    end
    return concat(lines, "\n")
end

local function fields_of(line)
    local fields = {}
    for field in (line .. "\t"):gmatch "([^\t]*)\t" do
        fields[#fields + 1] = field
    end
    return fields
end

local UNPACK = {}

function UNPACK.S(now, f)
    local s = now.servers[f[2]] or { server = f[2], connected = 0, voting = 0, changing = 0 }
    now.servers[f[2]] = s
    s.connected, s.voting, s.changing = s.connected + f[3], s.voting + f[4], s.changing + f[10]
    s.clock_offset, s.round_trip = tonumber(f[5]) or s.clock_offset, tonumber(f[6]) or s.round_trip
    s.guard = f[7] ~= "" and f[7] or s.guard
    s.remedy = f[8] ~= "" and f[8] or s.remedy
    s.certificate_ends = tonumber(f[9]) or s.certificate_ends
end

function UNPACK.H(now, f, worker)
    now.holds[#now.holds + 1] = { name = f[2], kind = f[3], held = tonumber(f[4]),
        left = tonumber(f[5]), label = f[6], worker = worker }
end

function UNPACK.Q(now, f, worker)
    now.queues[#now.queues + 1] = { name = f[2], kind = f[3], calls = tonumber(f[4]),
        label = f[5], held = tonumber(f[6]), worker = worker }
end

function UNPACK.L(now, f)
    now.leaders[#now.leaders + 1] = { name = f[2], id = f[3], term = tonumber(f[4]) }
end

local function unpack_into(now, text)
    local first, rest = text:match "^([^\n]*)\n?(.*)$"
    local worker = fields_of(first)
    now.held, now.waiting = now.held + worker[2], now.waiting + worker[3]
    now.clients = now.clients + worker[4]
    now.workers[#now.workers + 1] = worker[1]
    for line in rest:gmatch "[^\n]+" do
        UNPACK[line:sub(1, 1)](now, fields_of(line), worker[1])
    end
end

-- The place of this worker; it keeps the first that it got.
local function place_of(self)
    local mine = "^" .. self.me:gsub("%p", "%%%0") .. "\t"
    local text = self.place and self.dict:get(self.place)
    if text and text:find(mine) then
        return self.place
    end
    for i = 1, WORKERS do
        local key = "redlock:now:" .. i
        if self.dict:safe_add(key, self.me .. "\t0\t0\t0", STAYS) then
            self.place = key
            return key
        end
    end
end

--- Writes the present state of this worker; nil: removes it, as the worker exits.
function Shared:publish(now)
    local place = place_of(self)
    if place and now then
        local ok, err = self.dict:safe_set(place, packed(self, now), STAYS)
        if not ok then
            complain(self, err)
        end
    elseif place then
        self.dict:delete(place)
    end
end

--- @return the present state of all workers, as from collect.lua, with `workers`, a list
function Shared:now(pause)
    local now = { held = 0, waiting = 0, clients = 0, servers = {}, holds = {}, queues = {},
        leaders = {}, workers = {} }
    for i = 1, WORKERS do
        local text = self.dict:get("redlock:now:" .. i)
        if text then
            unpack_into(now, text)
            pause()
        end
    end
    return now
end

-- ---- the last minutes --------------------------------------------------------------

local WORDS = { "got", "failed", "lost" }

local function chart_key(slot, word)
    return format("redlock:chart:%d:%s", slot, word)
end

--- Adds the outcomes of calls (totals of meter.lua) since the last time to the chart of the last
-- minutes, at a time of day in seconds.
function Shared:draw(totals, time)
    local before, slot = self.drawn or { got = 0, failed = 0, lost = 0 }, floor(time / SLOT)
    self.drawn = totals
    for _, word in ipairs(WORDS) do
        local by = totals[word] - before[word]
        if by > 0 then
            self.dict:safe_add(chart_key(slot, word), 0, SLOT * (SLOTS + 2))
            self.dict:incr(chart_key(slot, word), by)
        end
    end
end

--- @return { seconds, { got, failed, lost }, ... }: how often in each of the last slots of
-- `seconds`, the newest first, without the current one
function Shared:chart(time, pause)
    local list, slot = { seconds = SLOT }, floor(time / SLOT)
    for i = 1, SLOTS do
        list[i] = {}
        for _, word in ipairs(WORDS) do
            list[i][word] = self.dict:get(chart_key(slot - i, word)) or 0
        end
        pause()
    end
    return list
end

--- Writes losses (meter.recent) for all workers to read.
function Shared:note_losses(list)
    for _, loss in ipairs(list) do
        local n = self.dict:incr("redlock:losses", 1, 0)
        if n then
            self.dict:safe_set("redlock:loss:" .. n % LOSSES, line_of(loss.time, loss.name,
                loss.reason, self.me))
        end
    end
end

--- @return the last losses, the newest first: { { time, name, reason, worker }, ... }
function Shared:losses()
    local list, n = {}, self.dict:get "redlock:losses" or 0
    for i = n, max(n - LOSSES + 1, 1), -1 do
        local text = self.dict:get("redlock:loss:" .. i % LOSSES)
        if text then
            local f = fields_of(text)
            list[#list + 1] = { time = tonumber(f[1]), name = f[2], reason = f[3], worker = f[4] }
        end
    end
    return list
end

return _M
