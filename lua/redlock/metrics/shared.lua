--- Numbers of several workers of nginx, added up in a dictionary that they share.
--
-- A worker adds what its numbers have grown by; the sums outlive workers, and reloads. What a
-- worker tells of the present it writes into a place of its own, which ends by itself.
--
--   redlock:KIND:n          how many groups (servers) there are
--   redlock:KIND:n:NUMBER   the label of each
--   redlock:KIND:is:LABEL   that it is one
--   redlock:KIND:LABEL:PLACE   a number of an array
--   redlock:now:PLACE       of a worker

local layout = require "redlock.metrics.layout"

local pairs, setmetatable, tonumber, tostring = pairs, setmetatable, tonumber, tostring
local concat, format = table.concat, string.format

local _M = {}

local MOST = 64              -- labels of a kind
local WORKERS = 128          -- places
local STAYS = 10             -- seconds that a worker's word on the present is believed
local PIECE = 200            -- accesses between two pauses
local OTHER = "other"

local Shared = {}
Shared.__index = Shared

--- @param dict  of ngx.shared
-- @param me     what tells this worker from all others
-- @param say    function(text), of what goes wrong
function _M.new(dict, me, say)
    return setmetatable({ dict = dict, me = me, say = say, full = false,
        written = {},            -- array -> what of it is in the sums
        labels = {},             -- what was found to be the label of an array there
    }, Shared)
end

local function complain(self, err)
    if not self.full then
        self.full = true
        self.say("the dictionary for metrics is too small (" .. err .. "); what does not fit is "
            .. "added later, if it can be")
    end
end

-- Which label an array has in the dictionary: its own, or that of all that are too many; nil: not
-- known yet.
local function shared_label(self, array)
    local dict, prefix = self.dict, "redlock:" .. array.kind .. ":"
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
        if n and n >= MOST and array.label ~= OTHER then
            dict:safe_set(name, OTHER)
            dict:safe_add(prefix .. "n:" .. MOST, OTHER)
        elseif n then
            dict:safe_add(prefix .. "n:" .. n, array.label)
            dict:safe_set(name, array.label)
        end
    end
    local label = dict:get(name)
    if label == "" or not label then     -- another worker is about to decide it
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

--- Adds what an array has grown by since the last time.
-- @param array  of layout.lua
-- @param pause  function(): lets others have their turn
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
    local key, n = format("redlock:%s:%s:", array.kind, label), 0
    for i = 1, #array do
        local by = array[i] - (written[i] or 0)
        if by ~= 0 and grow(self, key .. i, by) then
            written[i] = (written[i] or 0) + by
            n = n + 1
        end
        if n == PIECE then
            n = 0
            pause()
        end
    end
end

-- ---- the sums ----------------------------------------------------------------------

local function sums_of(self, kind, label, pause)
    local array = layout.array(kind, label)
    local key = format("redlock:%s:%s:", kind, label)
    for i = 1, #array do
        array[i] = self.dict:get(key .. i) or 0
        if i % PIECE == 0 then
            pause()
        end
    end
    pause()
    return array
end

--- @return label -> the array of sums, of all that is of a kind
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

-- As of collect.lua, and who says so.
local function packed(self, now)
    local lines = { concat({ self.me, now.held, now.waiting, now.clients }, "\t") }
    for label, s in pairs(now.servers) do
        lines[#lines + 1] = concat({ label, s.ready, s.voting, text_of(s.offset),
            text_of(s.round_trip), text_of(s.guard), text_of(s.remedy) }, "\t")
    end
    return concat(lines, "\n")
end

local SERVER = "^(.-)\t(.-)\t(.-)\t(.-)\t(.-)\t(.-)\t(.*)$"

-- Adds what a worker said.
local function unpack_into(now, text)
    local first, rest = text:match "^([^\n]*)\n?(.*)$"
    local held, waiting, clients = first:match "\t(%d+)\t(%d+)\t(%d+)$"
    now.held, now.waiting = now.held + held, now.waiting + waiting
    now.clients = now.clients + clients
    for line in rest:gmatch "[^\n]+" do
        local label, ready, voting, offset, round_trip, guard, remedy = line:match(SERVER)
        local s = now.servers[label] or { label = label, ready = 0, voting = 0 }
        now.servers[label] = s
        s.ready, s.voting = s.ready + ready, s.voting + voting
        s.offset, s.round_trip = tonumber(offset) or s.offset, tonumber(round_trip) or s.round_trip
        s.guard = guard ~= "" and guard or s.guard
        s.remedy = remedy ~= "" and remedy or s.remedy
    end
end

-- The place of this worker, which it keeps.
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

--- Says how things stand in this worker; nil: it ends.
function Shared:tell(now)
    local place = place_of(self)
    if place and now then
        self.dict:safe_set(place, packed(self, now), STAYS)
    elseif place then
        self.dict:delete(place)
    end
end

--- @return how things stand in all workers, as of collect.lua
function Shared:now()
    local now = { held = 0, waiting = 0, clients = 0, servers = {} }
    for i = 1, WORKERS do
        local text = self.dict:get("redlock:now:" .. i)
        if text then
            unpack_into(now, text)
        end
    end
    return now
end

return _M
