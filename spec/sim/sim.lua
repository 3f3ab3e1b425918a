--- What all of the simulator shares: `sim`, one schedule, which faults, invariants and
-- workloads get. This file has its chance, its time, its log and its verdict; servers.lua,
-- attempts.lua and processes.lua add what they know.

local fnv = require "spec.support.fnv"

local setmetatable = setmetatable

local Sim = {}
Sim.__index = Sim

local C = {}                 -- the core and its world: filled by load()
local MS, SECOND = 1000, 1e6
local now_us, local_ms = 0, nil

local _M = { Sim = Sim, C = C, MS = MS, SECOND = SECOND }

--- @param lib  the core as it is: pauses never hit what asks it
function _M.load(lib)
    local_ms = lib.sim_local_ms
end

function _M.new(fields)
    now_us, fields.streams = 0, {}
    return setmetatable(fields, Sim)
end

--- It is so late now.
function _M.advance(us)
    now_us = us
end

-- ---- chance ----------------------------------------------------------------------

-- Of each name: its hash, a part of where its stream begins.
local hashes = setmetatable({}, { __index = function(t, name)
    t[name] = fnv(name)
    return t[name]
end })

--- Calls fn(...), which draws from a stream of random numbers of its own: by the seed of the
-- schedule and a name. What it draws, more or less than before, moves no other stream; so a
-- changed fault leaves the seeds alone in which it does not happen. Timers that fn sets draw
-- from that stream, too. fn must not yield.
function Sim:apart(name, fn, ...)
    local outer = self.stream
    if outer == name then
        return fn(...)
    end
    local state = self.streams[name] or hashes[name] + self.seed * 0xD1342543DE82EF95ULL
    state = C.sim_swap_chance(state)
    self.stream = name
    local result = fn(...)
    self.stream, self.streams[name] = outer, C.sim_swap_chance(state)
    return result
end

--- fn, as a function that draws from the stream that is current now, whenever it is called.
function Sim:bound(fn)
    local name = self.stream
    return name and function(...)
        return self:apart(name, fn, ...)
    end or fn
end

function Sim.below(_, n)
    return C.sim_random(n)
end

function Sim.chance(_, percent)
    return C.sim_random(100) < percent
end

--- A whole number from a to b.
function Sim.between(_, a, b)
    return a + C.sim_random(b - a + 1)
end

function Sim.pick(_, list)
    return list[C.sim_random(#list) + 1]
end

-- ---- time, log, violations -------------------------------------------------------

function Sim.now()
    return now_us
end

--- Milliseconds on the clock of the process that runs.
function Sim.local_ms()
    return local_ms()
end

--- Calls fn after so many microseconds; for a process: not while it is stopped.
function Sim:later(us, fn, process)
    local id = self.timers + 1
    self.timers = id
    self.timer[id] = self:bound(fn)
    C.sim_at(now_us + us, id, process and process.index or -1)
end

--- An event for the log (make sim SEED=n).
-- @param till_us  until when that is so
function Sim:log(lane, kind, text, till_us)
    local log = self.events
    if log then
        log[#log + 1] = { t = now_us / MS, lane = lane, kind = kind, text = text,
            till_us = till_us }
    end
end

--- An invariant does not hold.
function Sim:violated(name, text)
    if not self.violation then
        self.violation = { name = name, text = text, at = now_us / MS }
        self:log("resource", "violation", name .. ": " .. text)
    end
end

--- Tells the invariants; the first that returns a text is violated.
-- @param what, more  of the event
function Sim:tell(event, what, more)
    local list = self.checks[event]
    for i = 1, list and #list or 0 do
        local text = list[i].on[event](self, what, more)
        if text then
            self:violated(list[i].name, text)
        end
    end
end

return _M
