--- What is counted: arrays of numbers, and the place of each number.
--
-- Each group of names has an array, each server has one, and the servers' times share one. The
-- numbers only grow, so the arrays of several processes can be added up. A histogram takes
-- consecutive places: for each bound the times up to it and above the previous one, then the
-- times above all bounds, then the sum of the times.

local _M = {}

local function places(names, from)
    local of = {}
    for i, name in ipairs(names) do
        of[name] = from + i - 1
    end
    return of, from + #names
end

-- count bounds from `first` seconds on, each twice the one before; unit: of its sum, in seconds;
-- from: its first place.
local function histogram(first, count, unit, from)
    return { first = first, count = count, unit = unit, from = from, sum = from + count + 1 },
        from + count + 2
end

-- ---- a group -----------------------------------------------------------------------

-- The clock that Lua uses has milliseconds: 1 ms to 70 minutes.
local BOUNDS = 23
local at

--- How calls end without the lock, mostly codes of errors. `wait` counts those that acquire it.
_M.acquires = { "held", "no_quorum", "expired", "deadlock", "overload", "closed",
    "config", "cancelled", "nomem", "other" }
_M.releases = { "released", "expired", "held", "unknown", "closed", "other" }
_M.losses = { "expired", "taken", "forgotten", "max_hold", "suspended", "closed", "other" }

_M.group = {}
_M.group.wait, at = histogram(0.001, BOUNDS, 1, 1)
_M.group.hold, at = histogram(0.001, BOUNDS, 1, at)
_M.group.acquires, at = places(_M.acquires, at)
_M.group.releases, at = places(_M.releases, at)
_M.group.losses, at = places(_M.losses, at)
_M.group.contended, _M.group.renewals, _M.group.size = at, at + 1, at + 1

-- ---- the servers' times, and a server ----------------------------------------------

--- Number of bounds of the core's times: RL_TIMES_BOUNDS. The first is 100 us.
_M.TIMES_BOUNDS = 17

_M.rounds = {}
_M.rounds.acquire, at = histogram(1e-4, _M.TIMES_BOUNDS, 1e-6, 1)
_M.rounds.release = histogram(1e-4, _M.TIMES_BOUNDS, 1e-6, at)
_M.rounds.size = _M.rounds.release.sum

--- Fields of client:stats().nodes.
_M.counters = { "requests", "replies", "errors", "timeouts", "connects", "disconnects" }

_M.server = { counters = places(_M.counters, 1), size = #_M.counters }

--- An array of zeros; kind: group, rounds or server; label: its name, in printable characters.
function _M.array(kind, label)
    local array = {}
    for i = 1, _M[kind].size do
        array[i] = 0
    end
    array.kind, array.label = kind, label
    return array
end

return _M
