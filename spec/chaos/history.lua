-- Judges a history of marks. Knows locks, time and tokens; nothing of servers and quorums.
--
-- A mark is { k = kind, c = process, s = slot, l = lock, n = number of the hold, ... }; times
-- are ms of one clock that all processes share.
--   call      a: about to ask; wait (s) or nil: for ever
--   fail      a to b: did not get it; code
--   got       a to b: got it. Between `at` and `by`, `left` ms of validity; lease (ms); token,
--             if fenced; how: "read", "write", "fair", "permit" and so on, nil: as a lock; place:
--             the slot of a permit
--   valid     between `at` and `by`, `left` ms of validity
--   extended  a to b; ok
--   lost      a: was told of the loss; why
--   wrote     a: changed the resource
--   accepted, refused   a to b: by a resource that looks at tokens; token, value: that it wrote
--             (nil: it only read), highest: the token that was seen there before
--   exit      a: leaves the resource, will release
--   released  a to b; ok, or code
--   began, settled   a: fds, rss (KiB), lua (KiB) of the process
--   broken    a to b: request r of slot s got no answer from any process of the client; call
--             has the r of its request
--   bad       a: the client itself saw what must not be; text
-- and from whoever causes the faults: died, stopped, continued, suspended (c, a).
--
-- Every bound is taken such that doubt is in favour of the accused: what is reported is wrong.
local in_order = require("spec.chaos.marks").in_order
local processes = require "spec.chaos.processes"
local tokens = require "spec.chaos.tokens"

local _M = {}

-- A remaining time is a difference of whole milliseconds.
local ROUNDING_MS = 1
local TELL_MS = 1000            -- how long after a look that shows it a loss may be told

local function key_of(m)
    return ("%s/%s/%s"):format(m.c, m.s, m.n)
end

-- ---- from marks to holds ---------------------------------------------------------

local on = {}

local function hold_of(h, m)
    local key = key_of(m)
    local hold = h.by_key[key]
    if not hold then
        hold = { c = m.c, s = m.s, n = m.n, lock = m.l, samples = {}, losses = {} }
        h.by_key[key] = hold
    end
    return hold
end

local function sample(hold, m)
    if m.left > 0 then
        local till = m.at + m.left - ROUNDING_MS
        hold.till = math.max(hold.till or till, till)
        hold.till_at_most = math.max(hold.till_at_most or 0, m.by + m.left)
    elseif not hold.over then
        hold.over = m.at
    end
    hold.samples[#hold.samples + 1] = m
end

function on.call(h, m)
    hold_of(h, m).called = m
end

function on.broken(h, m)
    h.broken[#h.broken + 1] = m
end

function on.fail(h, m)
    h.counts.failed = h.counts.failed + 1
    hold_of(h, m).failed = m
    h.calls[#h.calls + 1] = m
end

function on.got(h, m)
    local hold = hold_of(h, m)
    hold.got, hold.from, hold.token, hold.how = m, m.b, m.token, m.how
    hold.lock = m.place and ("%s/%d"):format(m.l, m.place) or hold.lock
    h.holds[#h.holds + 1] = hold
    h.calls[#h.calls + 1] = m
    h.counts.acquired = h.counts.acquired + 1
    sample(hold, m)
end

function on.valid(h, m)
    sample(hold_of(h, m), m)
end

function on.lost(h, m)
    local hold = hold_of(h, m)
    hold.losses[#hold.losses + 1] = m
    h.counts.lost = h.counts.lost + 1
end

function on.exit(h, m)
    hold_of(h, m).exit = m.a
end

function on.released(h, m)
    hold_of(h, m).released = m
    h.calls[#h.calls + 1] = m
    h.counts.released = h.counts.released + (m.ok and 1 or 0)
end

function on.extended(h, m)
    h.calls[#h.calls + 1] = m
    h.counts.extended = h.counts.extended + (m.ok and 1 or 0)
end

function on.wrote(h, m)
    h.writes[m.l] = (h.writes[m.l] or 0) + 1
end

function on.accepted(h, m)
    h.visits[#h.visits + 1] = m
    h.counts.accepted = h.counts.accepted + 1
end

function on.refused(h, m)
    h.visits[#h.visits + 1] = m
    h.counts.refused = h.counts.refused + 1
end

function on.bad(h, m)
    h:violation(m.a, m.l, ("%s: %s"):format(m.c, m.text))
end

function on.began(h, m)
    h.processes[m.c] = { began = m, pauses = {}, stopped = {} }
end

function on.settled(h, m)
    h.processes[m.c].settled = m
end

function on.died(h, m)
    h.deaths[m.c] = m.a
end

local function pauses_of(h, c)
    h.pauses[c] = h.pauses[c] or {}
    return h.pauses[c]
end

function on.stopped(h, m)
    local list = pauses_of(h, m.c)
    list[#list + 1] = { from = m.a, to = math.huge }
end

function on.continued(h, m)
    local list = pauses_of(h, m.c)
    list[#list].to = m.a
end

-- Its clock went ahead by so much in no time of ours: its holds end that much earlier, now at
-- the earliest. It may let them go at once, and tell its user later.
function on.suspended(h, m)
    h.suspended[m.c] = true
    for _, hold in ipairs(h.holds) do
        if hold.c == m.c and hold.till and hold.till > m.a then
            hold.till = math.max(hold.till - m.by, m.a)
            hold.till_at_most = math.max(hold.till_at_most - m.by, m.a)
        end
    end
end

local function paused_ms(h, c, from, to)
    local sum = 0
    for _, pause in ipairs(h.pauses[c] or {}) do
        sum = sum + math.max(0, math.min(to, pause.to) - math.max(from, pause.from))
    end
    return sum
end

local History = { hold_of = hold_of }
History.__index = History

function History:violation(t, lock, text)
    self.violations[#self.violations + 1] = { t = t, lock = lock, text = text }
end

local function read(marks)
    local h = setmetatable({
        holds = {}, by_key = {}, calls = {}, processes = {}, deaths = {}, pauses = {},
        suspended = {}, writes = {}, visits = {}, broken = {}, violations = {},
        counts = { acquired = 0, failed = 0, lost = 0, released = 0, extended = 0,
            accepted = 0, refused = 0, orphaned = 0 },
    }, History)
    for _, m in ipairs(in_order(marks)) do
        if on[m.k] then
            on[m.k](h, m)
        end
    end
    return h
end

-- ---- at most one inside its validity ---------------------------------------------

local function who(hold)
    return ("client %s.%s"):format(hold.c, hold.s)
end

-- For a lock the linearizability of its history comes down to this: the times for which
-- holders were entitled to act do not overlap. Calls whose outcome is unknown (their process
-- died) entitle nobody; a refusal is always allowed, for a quorum may be split.
local function claim_end(h, hold)
    local till = hold.till or hold.from
    for _, bound in ipairs { hold.exit or math.huge, hold.over or math.huge,
        h.deaths[hold.c] or math.huge, hold.losses[1] and hold.losses[1].a or math.huge } do
        till = math.min(till, bound)
    end
    return till
end

local function by_from(a, b)
    return a.from < b.from
end

-- Calls each(later, earlier, overlap) for holds of one lock that overlap by their `to`. Readers
-- may; a slot of a permit is a lock of its own.
local function overlaps(holds, each)
    local readers, others = {}, {}
    table.sort(holds, by_from)
    for _, hold in ipairs(holds) do
        local reads = hold.how == "read"
        for _, last in ipairs { others, not reads and readers or nil } do
            local before = last[hold.lock]
            if before and hold.from < math.min(before.to, hold.to) then
                each(hold, before, math.min(before.to, hold.to) - hold.from)
            end
        end
        local last = reads and readers or others
        if not last[hold.lock] or hold.to > last[hold.lock].to then
            last[hold.lock] = hold
        end
    end
end

local function check_exclusion(h)
    for _, hold in ipairs(h.holds) do
        hold.to = claim_end(h, hold)
    end
    overlaps(h.holds, function(later, earlier, ms)
        h:violation(later.from, later.lock, ("%s has '%s' while it is %s's for %.1f ms more, "
            .. "by its validity (for %.1f ms already)"):format(who(later), later.lock,
            who(earlier), ms, later.from - earlier.from))
    end)
end

-- How often somebody entered while another had not left, whatever the validity: what a
-- resource without tokens would have suffered.
local function count_intrusions(h)
    local inside = {}
    for i, hold in ipairs(h.holds) do
        inside[i] = { lock = hold.lock, how = hold.how, from = hold.from,
            to = math.min(hold.exit or math.huge, h.deaths[hold.c] or math.huge) }
        if inside[i].to == math.huge then
            inside[i].to = hold.till or hold.from
        end
    end
    local counts = {}
    overlaps(inside, function(later)
        counts[later.lock] = (counts[later.lock] or 0) + 1
    end)
    return counts
end

-- ---- what the library says about a hold ------------------------------------------

local function check_validity(h, hold, opts)
    local got = hold.got
    local most = got.lease * (1 - opts.drift) - 2
    if got.left > most + ROUNDING_MS then
        h:violation(got.at, hold.lock, ("%s: %.1f ms of validity of a lease of %g ms")
            :format(who(hold), got.left, got.lease))
    end
    -- A success that is not valid any more: only when the process did not run meanwhile.
    local since = got.at - got.a
    if got.left <= 0 and not h.suspended[hold.c] and since < most - 2 * ROUNDING_MS then
        h:violation(got.at, hold.lock, ("%s: got it without any validity, %.1f ms after it "
            .. "asked"):format(who(hold), since))
    end
end

local function check_losses(h, hold)
    if #hold.losses > 1 then
        h:violation(hold.losses[2].a, hold.lock, who(hold) .. ": told of the loss twice")
    end
    local lost = hold.losses[1]
    local late = hold.over and lost and lost.a - hold.over
        - paused_ms(h, hold.c, hold.over, lost.a)
    if hold.over and hold.over > hold.got.at and not (late and late <= TELL_MS) then
        h:violation(hold.over, hold.lock, who(hold) .. ": not valid any more, and not told of "
            .. "the loss")
    end
    if lost and lost.why == "expired" and hold.till and not h.suspended[hold.c]
        and lost.a < hold.till - ROUNDING_MS then
        h:violation(lost.a, hold.lock, ("%s: told that it expired %.1f ms before it did")
            :format(who(hold), hold.till - lost.a))
    end
    for _, m in ipairs(hold.samples) do
        if lost and m.left > 0 and m.at > lost.a then
            h:violation(m.at, hold.lock, who(hold) .. ": valid again after it was lost")
            return
        end
    end
end

-- A watchdog may have renewed since the last look: then the end is not known.
local function check_release(h, hold)
    local r = hold.released
    if r and r.ok and not hold.got.kept and not hold.extended and hold.till
        and r.a > hold.till_at_most + ROUNDING_MS then
        h:violation(r.a, hold.lock, ("%s: released in time, it says, %.1f ms after its end")
            :format(who(hold), r.a - hold.till_at_most))
    end
    if r and r.ok and hold.losses[1] and hold.losses[1].a < r.a then
        h:violation(r.a, hold.lock, who(hold) .. ": released in time what was lost before")
    end
end

local function check_holds(h, opts)
    for _, m in ipairs(h.calls) do
        if m.k == "extended" then
            hold_of(h, m).extended = true
        end
    end
    for _, hold in ipairs(h.holds) do
        check_validity(h, hold, opts)
        check_losses(h, hold)
        check_release(h, hold)
    end
end

-- ---- calls return in time --------------------------------------------------------

local CALLS = { got = "acquire", fail = "acquire", released = "release", extended = "extend" }

local function check_duration(h, m, opts)
    local bound
    if m.k == "released" or m.k == "extended" then
        bound = opts.timeout_ms + (m.k == "extended" and opts.max_lease_ms or 0)
    elseif m.wait then
        bound = m.wait * 1000 + opts.connect_timeout_ms + opts.timeout_ms
    else
        return
    end
    local took = m.b - m.a - paused_ms(h, m.c, m.a, m.b)
    if took > bound + opts.slack_ms then
        h:violation(m.a, m.l, ("client %s.%s: %s took %.0f ms, %.0f were allowed"):format(m.c,
            m.s, CALLS[m.k], took, bound))
    end
end

-- ---- everybody who waits is served, or told why not ------------------------------

-- Processes of one client have one number: "9#1234" is one of client 9.
local function request_of(c, s, r)
    return ("%s/%s/%s"):format(c:match "^%d+", s, r)
end

local function check_answers(h)
    local served_by = {}
    for _, hold in pairs(h.by_key) do
        local call = hold.called
        if call and call.r then
            served_by[request_of(call.c, call.s, call.r)] = hold
        end
        if call and not hold.got and not hold.failed then
            if h.deaths[hold.c] then
                h.counts.orphaned = h.counts.orphaned + 1
            else
                h:violation(call.a, hold.lock, who(hold) .. ": was never answered")
            end
        end
    end
    for _, m in ipairs(h.broken) do
        local hold = served_by[request_of(m.c, m.s, m.r)]
        if hold and not h.deaths[hold.c] then
            h:violation(m.b, hold.lock, who(hold) .. ": its request was dropped, and its process "
                .. "is alive")
        end
    end
end

-- ---- all -------------------------------------------------------------------------

_M.defaults = {
    claim = true,            -- whether exclusion is demanded, or only counted
    tokens = true,           -- whether tokens must be unique and grow
    drift = 0.01, timeout_ms = 250, connect_timeout_ms = 1000, max_lease_ms = 1000,
    slack_ms = 2000,         -- a loaded machine is late
    max_fds = 30, max_rss_kib = 16384, max_lua_kib = 4096,
}

--- @param marks  a list, in any order
-- @param opts   see defaults
-- @return { violations = { { t, lock, text }, ... } in order of time, overlaps: how many
--   times two were valid at once, counts, writes by lock, intrusions by lock, growth: of clients
--   that lived to the end (seconds at most): fds, rss and lua, in KiB, at most }
function _M.check(marks, opts)
    opts = setmetatable(opts or {}, { __index = _M.defaults })
    local h = read(marks)
    local before = #h.violations
    check_exclusion(h)
    local overlapped = #h.violations - before
    if not opts.claim then
        for _ = 1, overlapped do
            table.remove(h.violations)
        end
    end
    tokens.check(h, opts)
    check_holds(h, opts)
    for _, m in ipairs(h.calls) do
        check_duration(h, m, opts)
    end
    check_answers(h)
    processes.check(h, opts)
    table.sort(h.violations, function(a, b)
        return a.t < b.t
    end)
    return { violations = h.violations, overlaps = overlapped, counts = h.counts,
        writes = h.writes, intrusions = count_intrusions(h), holds = h.holds,
        growth = processes.growth(h) }
end

return _M
