--- What clients try and hold, as the servers and the cores say.

local bit = require "bit"
local ffi = require "ffi"
local base = require "spec.sim.sim"

local ipairs, max, tonumber, type = ipairs, math.max, tonumber, type
local ffi_string = ffi.string
local MS = base.MS
local C, Sim, now = base.C, base.Sim, base.Sim.now

local _M = {}

local LATE_US = 1e6        -- behind a release: later than any that is sent again by itself

local step

function _M.load()
    step = C.sim_record()
end

-- ---- what scripts did: the attempts ----------------------------------------------

--- How many servers are in a set, a bit each.
function _M.count(set)
    local n = 0
    while set ~= 0 do
        set = bit.band(set, set - 1)
        n = n + 1
    end
    return n
end

--- How often each server executed a script for it, and which said what, a bit each.
local function counter()
    return { [0] = 0, 0, 0, 0, 0, 0, 0, 0, 0, yes = 0, foreign = 0 }
end

--- Counts what a server said, for the attempt whose value it was asked about.
local function count_vote(attempt, server, role, vote)
    local counts = attempt[role] or counter()
    attempt[role] = counts
    counts[server.index] = counts[server.index] + 1
    if type(vote) ~= "number" then           -- an error: it was asked, and did nothing
        return
    end
    -- A write of a connection that broke, executed after a release, is released once more; or
    -- the release is held back for a while, and comes once: that is as much as the library does.
    -- The library counts keys as gone a lease after it gave a connection up. What that executes
    -- later may last longer, and whoever releases after that owes nothing.
    local given_up_us = C.sim_given_up_us()
    if role ~= "release" and given_up_us > 0 then
        attempt.gone_us = now() - given_up_us + 0.98 * attempt.lease_ms * MS
    end
    if role == "release" then
        attempt.released_us = attempt.released_us or {}
        attempt.released_us[server.index] = now()
        attempt.straggler = attempt.straggler or (attempt.gone_us or now()) < now()
    elseif role == "acquire" or role == "import" then
        local released_us = attempt.released_us and attempt.released_us[server.index]
        attempt.late = attempt.late or attempt.release[server.index] >= 1
        attempt.straggler = attempt.straggler or attempt.release[server.index] >= 2
            or released_us and max(now() - released_us, released_us - attempt.at) > LATE_US
            or given_up_us > 0.98 * attempt.lease_ms * MS
    end
    if vote <= 0 and (role == "acquire" or role == "confirm") then
        attempt.refused, attempt.process.refused_at = attempt.refused + 1, now()
    end
    if vote > 0 then
        counts.yes = bit.bor(counts.yes, 2 ^ server.index)
    elseif vote < 0 then
        counts.foreign = bit.bor(counts.foreign, 2 ^ server.index)
    end
end

local GUARDED, UNSEEDED = 3, -2      -- RL_VOTE_*: none

function Sim:on_script(server, role, key, args, result)
    local vote, info = result, nil
    if type(result) == "table" then
        vote, info = result.err or result[1], result[2]
    elseif role == "acquire" and result > GUARDED then
        vote, info = 1, result - GUARDED       -- with a token
    end
    local attempt = self.attempts[args[1]]
    if vote == GUARDED or vote == UNSEEDED then
        vote = "none"
    elseif attempt and server.repeats then
        attempt.straggler = true
    elseif attempt then
        count_vote(attempt, server, role, vote)
        server.voted = server.voted or vote == 1 and role == "acquire"
        -- It kept others out, as a hold does: a clock that stepped had no vote, say.
        if role == "release" and info and not (attempt.held or attempt.announced)
            and _M.count(attempt.acquire.yes) >= self.quorum then
            attempt.announced, self.count.announced = true, self.count.announced + 1
        end
    end
    self.messages = self.messages + 1
    local list = self.checks.script
    for i = 1, list and #list or 0 do
        local text = list[i].on.script(self, server, role, key, args, vote, attempt, info)
        if text then
            self:violated(list[i].name, text)
        end
    end
    if self.trap then
        self:trap(server, role, attempt, args)
    end
end

local whole = ffi.new "char[256]"

--- The value of a lease, with its card.
function _M.value_of(lease)
    return ffi_string(whole, C.rl_lease_text(lease, 0, whole))
end

-- @param before  the attempt whose hold is imported, or nil
function _M.new(self, lease, lease_ms, fenced, before)
    local value = _M.value_of(lease)
    local task = self.task
    local attempt = { value = value, task = task, process = task.process, at = now(),
        began_us = task.began_us,        -- when its call did; the task may be at another one later
        at_ms = self.local_ms(), lease_ms = lease_ms, acquire = counter(),
        extend = counter(), release = counter(), refused = 0, passed = 0,
        took = {} }                      -- servers that gave what was asked for, and no stray
    if before then
        attempt.import, attempt.from = counter(), before
    end
    if fenced then
        attempt.confirm, attempt.heal, attempt.witnesses = counter(), counter(), {}
    end
    task.attempt = attempt
    self:tell("attempt", attempt, self.attempts[value])
    self.attempts[value] = attempt
    task.attempts = task.attempts + 1
end

-- ---- holds -----------------------------------------------------------------------

-- Kinds of the family whose votes name a slot, which a majority agrees upon.
local OF_SLOTS = { permit = true, limiter = true }

--- A hold began, changed or ended: step has it.
function _M.on_hold(self)
    local h = step.hold
    local value = ffi_string(h.value, h.value_len)
    local process = self.processes[step.process + 1]
    local hold, at = nil, 0
    for i, other in ipairs(self.held) do
        if other.value == value then
            hold, at = other, i
        end
    end
    local attempt = self.attempts[value]
    if h.what == 3 then
        if hold then
            table.remove(self.held, at)
            process.had_at = now()
            self:tell("ended", hold)
        end
        return
    end
    if not hold then
        hold = { value = value, process = process,
            name = ffi_string(h.key.data, h.key.len),
            at = now(), attempt = attempt, token = tonumber(h.token),
            lane = attempt and attempt.task.lane or process.lane }
        self.held[#self.held + 1] = hold
        self.count.grants = self.count.grants + 1
        if attempt then
            hold.releasing = attempt.given       -- as soon as its process has it
            attempt.held, attempt.since = true, attempt.since or hold.at
            attempt.token = hold.token
            attempt.number = OF_SLOTS[attempt.kind] and hold.token or nil
        end
    end
    local before = hold.until_us
    hold.deadline_ms, hold.until_us = tonumber(h.deadline_ms), h.until_us
    hold.now_ms = self.local_ms()
    self:log(hold.lane, before and "validity" or "holding", hold.name, h.until_us)
    self:tell("hold", hold, before)
end

--- What is held with that value; nil: nothing.
function Sim:hold_of(value)
    for _, hold in ipairs(self.held) do
        if hold.value == value then
            return hold
        end
    end
end

--- The running coroutine has got a hold of its process as it is.
-- @param mine  as the library has it (holds.lua)
function Sim:took_over(attempt, mine)
    self:tell("took over", attempt, mine)
    local task, hold = self.task, self:hold_of(attempt.value)
    attempt.task, attempt.offered, attempt.passed = task, nil, attempt.passed + 1
    self.count.grants = self.count.grants + 1
    if hold then
        hold.lane, hold.releasing, hold.extended = task.lane, nil, nil
        self:log(hold.lane, "holding", hold.name, hold.until_us)
    end
end

return _M
