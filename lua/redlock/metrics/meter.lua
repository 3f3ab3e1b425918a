--- Counts calls as they end, for each group of names.
--
-- Each cycle of a lock calls three of these functions: they are short, and allocate nothing for a
-- name seen recently. They are fields of the object itself, as LuaJIT's interpreter takes ten
-- times as long to find them through a metatable.

local errors = require "redlock.runtime.errors"
local layout = require "redlock.metrics.layout"
local printable = require("redlock.text.encoding").printable

local pairs, pcall, type = pairs, pcall, type
local ceil, log, min = math.ceil, math.log, math.min

local _M = {}

local GROUPS = 64            -- at most; the last one, OTHER, takes all further names
local NAMES = 1000           -- remembered with their groups
local OTHER = "other"
local RECENT = 50            -- losses that are remembered

local group = layout.group
local WAIT, WAIT_SUM = group.wait.from, group.wait.sum
local HOLD, HOLD_SUM = group.hold.from, group.hold.sum
local BOUNDS = group.wait.count
local ACQUIRES, RELEASES, LOSSES = group.acquires, group.releases, group.losses
local RELEASED = RELEASES.released
local SHORT = 0.00101        -- seconds: a millisecond, and a rounding error
local CONTENDED, RENEWALS = group.contended, group.renewals
local PER_OCTAVE = 1 / log(2)

local Meter = {}

local function up_to_colon(name)
    return name:match "^([^:]+)" or OTHER
end

--- group_of(name): the group of a name; nil: the part before its first colon. say(text) is called
-- with problems.
function _M.new(group_of, say)
    local self = {
        group_of = group_of or up_to_colon,
        say = say,
        groups = {},             -- label -> array
        count = 0,
        known = {},              -- name -> array
        names = 0,
        failed_once = false,
        recent = {},             -- losses: { time (of day), name (printable), reason }
    }
    for name, method in pairs(Meter) do
        self[name] = method
    end
    return self
end

--- How many calls acquired their lock, how many failed, and how many locks were lost, in all.
function _M.totals(self)
    local got, failed, lost = 0, 0, 0
    for _, array in pairs(self.groups) do
        for i = WAIT, WAIT + BOUNDS do
            got = got + array[i]
        end
        for _, place in pairs(ACQUIRES) do
            failed = failed + array[place]
        end
        for _, place in pairs(LOSSES) do
            lost = lost + array[place]
        end
    end
    return { got = got, failed = failed, lost = lost }
end

--- Has fn called after each later call of the meter.
function _M.follow(self, fn)
    for name, method in pairs(Meter) do
        self[name] = function(...)
            method(...)
            fn()
        end
    end
end

local function label_of(self, name)
    local ok, label = pcall(self.group_of, name)
    local why = not ok and errors.failed("the group function", label)
    if why and not self.failed_once then
        self.failed_once = true
        self.say(why)
    end
    return ok and type(label) == "string" and label ~= "" and printable(label) or OTHER
end

-- Finds the group of a name.
local function learn(self, name)
    local label = label_of(self, name)
    local array = self.groups[label]
    if not array and label ~= OTHER and self.count >= GROUPS - 1 then
        label = OTHER
        array = self.groups[label]
    end
    if not array then
        array = layout.array("group", label)
        self.groups[label] = array
        self.count = self.count + (label == OTHER and 0 or 1)
    end
    if self.names >= NAMES then
        self.known, self.names = {}, 0
    end
    self.known[name] = array
    self.names = self.names + 1
    return array
end

-- The place of a time of more than a millisecond. Times are whole milliseconds, but for the
-- rounding errors of adding and subtracting seconds: hence 0.01.
local function place_of(seconds)
    return min(ceil(log(seconds * 1000 - 0.01) * PER_OCTAVE), BOUNDS)
end

function Meter.acquired(self, name, waited)
    local array = self.known[name] or learn(self, name)
    local i = waited < SHORT and WAIT or WAIT + place_of(waited)
    array[i] = array[i] + 1
    array[WAIT_SUM] = array[WAIT_SUM] + waited
end

-- Counts a hold that lasted `held` seconds.
local function let_go(array, held)
    local i = held < SHORT and HOLD or HOLD + place_of(held)
    array[i] = array[i] + 1
    array[HOLD_SUM] = array[HOLD_SUM] + held
end

--- A hold was released after `held` seconds.
function Meter.released(self, name, held)
    local array = self.known[name] or learn(self, name)
    array[RELEASED] = array[RELEASED] + 1
    let_go(array, held)
end

-- Counts one at a place. Returns the array of the name's group.
local function count(self, name, place)
    local array = self.known[name] or learn(self, name)
    array[place] = array[place] + 1
    return array
end

--- A release after `held` seconds failed; code: of the error.
function Meter.not_released(self, name, held, code)
    let_go(count(self, name, RELEASES[code] or RELEASES.other), held)
end

--- A call ended without its lock; code: of its error.
function Meter.failed(self, name, code)
    count(self, name, ACQUIRES[code] or ACQUIRES.other)
end

--- A call did not acquire its lock at the first attempt.
function Meter.contended(self, name)
    count(self, name, CONTENDED)
end

function Meter.lost(self, name, reason)
    count(self, name, LOSSES[reason] or LOSSES.other)
    local recent = self.recent
    if #recent >= RECENT then
        table.remove(recent, 1)
    end
    recent[#recent + 1] = { time = os.time(), name = printable(name), reason = reason }
end

function Meter.renewed(self, name)
    count(self, name, RENEWALS)
end

return _M
