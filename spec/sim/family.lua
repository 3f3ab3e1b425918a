--- What the coroutines of the clients do with the members of the family, and what they are told.
--
-- In a schedule of the family there are one or more kinds of objects, each with acts. An act is
-- fn(sim, t, must): does something with an object; must: in the calm, where it has to get what it
-- wants. It returns whether it did. The invariants are in sharing.lua.

local base = require "spec.sim.sim"
local workload = require "spec.sim.workload"

local error, ipairs, pairs, pcall = error, ipairs, pairs, pcall
local floor, max, min = math.floor, math.max, math.min
local MS, SECOND = base.MS, base.SECOND

local _M = {}

local CODES = {}
for _, code in ipairs { "held", "no_quorum", "expired", "lost", "not_held", "not_found", "unknown",
    "cancelled", "closed", "deadlock", "overload", "timeout" } do
    CODES[code] = true
end

-- What the coroutine holds is extended by its own word, from now on; also by taking it again.
local function note_extension(sim, t)
    for _, hold in ipairs(sim.held) do
        hold.extended = hold.extended or hold.attempt ~= nil and hold.attempt.task == t
    end
end

-- Calls a method, and tells the invariants of an error.
-- @return what it returned
local function call(sim, t, object, method, ...)
    local errors = require "redlock.runtime.errors"
    t.calling, t.began_us = method, sim.now()
    local token, began_us = nil, t.began_us
    if method == "extend" or method == "lock" or method == "tryLock" then
        note_extension(sim, t)
    end
    if method == "extend" then
        token = sim.has_tokens and object.token and object:token()
    end
    local done, ok, err = pcall(object[method], object, ...)
    if not done then
        if sim.over or not errors.is_error(ok) then
            error(ok, 0)
        end
        ok, err = nil, ok        -- cancelled
    end
    t.calling = nil
    sim.calls = (sim.calls or 0) + 1
    local code = ok == nil and err and err.code or nil
    sim:tell("call", { task = t, method = method, ok = ok, code = code, err = err, codes = CODES,
        attempts = 0, took_us = 0, held_token = token or nil, name = object.name,
        began_us = began_us })
    return ok, err
end

-- Takes something by lock() or tryLock(), or what is called like them.
local function take(sim, t, object, kind, must, patient, trying)
    t.kind = kind
    sim:log(t.lane, "waiting", kind)
    local lease = workload.some_lease(sim)
    local got
    if must or sim:chance(30) then
        got = call(sim, t, object, patient or "lock", lease)
    else
        local wait = sim:chance(30) and 0 or sim:below(1000) / 1000 * (0.05 + sim.config.lease)
        got = call(sim, t, object, trying or "tryLock", wait, lease)
    end
    if not got then
        sim:log(t.lane, "idle", kind)
        return false
    end
    return got
end

-- Holds it for a while, and lets it go.
local function use(sim, t, lock, letting_go)
    for _ = 1, sim:pick { 1, 1, 2 } do
        sim:sleep(workload.hold_us(sim))
        if sim:chance(30) and not sim.calm_at then
            call(sim, t, lock, sim:pick { "extend", "remaining" })
        end
    end
    call(sim, t, lock, letting_go or "unlock")
    sim:log(t.lane, "released", t.kind)
end

local function some_name(sim)
    return sim:pick(sim.names)
end

local function take_and_use(sim, t, lock, kind, must)
    local ok = take(sim, t, lock, kind, must)
    if ok then
        use(sim, t, lock)
    end
    return ok
end

-- ---- kinds -------------------------------------------------------------------------

local acts = {}
_M.acts = acts

function acts.plain(sim, t, must)
    return take_and_use(sim, t, t.process.client:getLock(some_name(sim)), "plain", must)
end

function acts.read(sim, t, must)
    local pair = t.process.client:getReadWriteLock(some_name(sim))
    return take_and_use(sim, t, pair:readLock(), "read", must)
end

--- Some writers go on as readers.
function acts.write(sim, t, must)
    local pair = t.process.client:getReadWriteLock(some_name(sim))
    local writer, reader = pair:writeLock(), pair:readLock()
    if not take(sim, t, writer, "write", must) then
        return false
    end
    local goes_on = sim:chance(50)
    t.kind = goes_on and "read" or t.kind    -- of its own, where its writing is over by then
    if goes_on and call(sim, t, reader, "tryLock", 0) then
        sim:sleep(workload.hold_us(sim))
        call(sim, t, writer, "unlock")
        use(sim, t, reader)
        return true
    end
    use(sim, t, writer)
    return true
end

function acts.token_write(sim, t, must)
    local pair = t.process.client:getReadWriteLock(some_name(sim), { fenced = true })
    return take_and_use(sim, t, pair:writeLock(), "token write", must)
end

function acts.fenced(sim, t, must)
    return take_and_use(sim, t, t.process.client:getFencedLock(some_name(sim)), "fenced", must)
end

function acts.multi(sim, t, must)
    local names = {}
    for _, name in ipairs(sim.names) do
        names[#names + 1] = sim:chance(70) and name or nil
    end
    names[1] = names[1] or sim.names[1]
    return take_and_use(sim, t, t.process.client:getMultiLock(names), "multi", must)
end

function acts.fair(sim, t, must)
    return take_and_use(sim, t, t.process.client:getFairLock(some_name(sim)), "fair", must)
end

function acts.permit(sim, t, must)
    local fenced = sim:chance(50)
    local semaphore = t.process.client:getSemaphore("s", sim.permits, { fenced = fenced })
    local began_us = sim.now()
    local permit = take(sim, t, semaphore, "permit", must, "acquire", "tryAcquire")
    if permit then
        local slot, token = permit:slot(), permit:token()
        if fenced and slot and token then
            sim:tell("permit's token", { slot = slot, token = token, began_us = began_us,
                task = t })
        end
        sim.kept[#sim.kept + 1] = permit         -- chance does not collect it
        use(sim, t, permit, "release")
    end
    return permit and true
end

--- A start of a rate limiter, from when it was asked for.
function acts.limiter(sim, t, must)
    local period = sim.period
    local limiter = t.process.client:getRateLimiter("r", sim.permits, period)
    t.kind = "limiter"
    local ok = call(sim, t, limiter, "acquire", not must and sim:below(1000) / 1000 * period or nil)
    if ok then
        sim:tell("start", { task = t, at = t.attempt.at, had = t.attempt.since,
            period_us = period * SECOND })
    end
    return ok
end

--- A job of a period.
function acts.once(sim, t, must)
    local name, before, start = some_name(sim), sim:chance(60), nil
    local began_us = sim.now()
    t.kind = "once"
    local ok = call(sim, t, t.process.client, "once", name, sim.period, function()
        start = { task = t, name = name, at = began_us, period_us = sim.period * SECOND,
            sure = before, looked_us = t.looked_us or sim.now(), ran_us = sim.now() }
        sim:tell("job", start)
        sim:sleep(workload.hold_us(sim))
    end, { before = before })
    if ok and start then
        start.sure = true
    end
    return ok ~= nil or not must
end

function acts.election(sim, t, must)
    local id = "c" .. t.id
    local election = t.election
    if not election or t.elected_by ~= t.process.client then
        election = t.process.client:getElection(some_name(sim), { id = id })
        t.election, t.elected_by = election, t.process.client
    end
    t.kind = "election"
    if not must and sim:chance(40) then
        local leader = call(sim, t, election, "leader")
        if leader then
            sim:tell("leader", leader, election:getName())
        end
        return true
    end
    local began_us = sim.now()
    local term = call(sim, t, election, "campaign", not must and sim:below(1000) / 1000 or nil)
    if not term then
        return false
    end
    sim:tell("elected", { id = id, term = term, name = election:getName(), began_us = began_us })
    sim:sleep(workload.hold_us(sim))
    call(sim, t, election, "resign")
    return true
end

-- Whoever had it, or asked for it, when it was forced open may lose it to others.
local function note_forced(sim, key)
    for _, attempt in pairs(sim.attempts) do
        attempt.forced = attempt.forced or attempt.keys ~= nil and attempt.keys[1] == key
    end
end

-- Some of what the running call sends to servers soon comes late.
local function send_late(sim, p)
    for i = 0, sim.n - 1 do
        local us = sim:below(sim.config.lease * 2 * SECOND)
        if sim:chance(30) and not sim.calm_at then
            sim:later(sim:below(4 * sim.config.delay_us + 2 * sim.config.spread_us), function()
                base.C.sim_silence(p.index, i, sim.calm_at and 0 or sim.now() + us, 0)
            end)
        end
    end
end

--- Opens a lock, or all permits, whoever has them.
function acts.force(sim, t)
    local client, name = t.process.client, some_name(sim)
    local object, key = client:getLock(name), name
    if sim:chance(30) then
        object, key = { forceUnlock = function()
            return require("redlock.kinds.semaphore").open(client, "s")
        end }, "redlock:{s}:slots"
    end
    t.kind = "force"
    sim.forcing[key] = (sim.forcing[key] or 0) + 1
    note_forced(sim, key)
    send_late(sim, t.process)
    call(sim, t, object, "forceUnlock")
    sim.forcing[key] = sim.forcing[key] - 1
    return true
end

local LATCHES = 3            -- at a time, and so long after the last arrival:
local FOR_LONG = 3600

local function latch_of(t, i)
    return t.process.client:getCountDownLatch("l" .. i, { ttl = FOR_LONG })
end

local function note_called(known, who)
    known.n_called = known.n_called + (known.called[who] and 0 or 1)
    known.called[who] = true
end

-- Makes a latch. One that could not be made for sure is not used any more.
-- before: the latch of that name, which was deleted; arrivals that are under way count in either
local function make_latch(sim, t, before)
    local known = { i = before and before.i or sim.made, count = sim:between(1, 15), called = {},
        acked = {}, n_called = 0, n_acked = 0, under_way = before and before.under_way or {} }
    sim.made = sim.made + (before and 0 or 1)
    for _, who in pairs(known.under_way) do
        note_called(known, who)
    end
    if call(sim, t, latch_of(t, known.i), "trySetCount", known.count) then
        sim.latches[#sim.latches + 1] = known
    end
end

-- Deletes a latch, and makes one of the same name.
local function use_name_again(sim, t, known)
    for i, other in ipairs(sim.latches) do
        if other == known then
            table.remove(sim.latches, i)
        end
    end
    known.deleted = true
    if call(sim, t, latch_of(t, known.i), "delete") ~= nil then
        make_latch(sim, t, known)
    end
end

--- Something with a latch.
function acts.latch(sim, t)
    t.kind = "latch"
    if #sim.latches < LATCHES and (#sim.latches == 0 or sim:chance(20)) then
        make_latch(sim, t)
        return true
    end
    local known = sim:pick(sim.latches)
    local latch = latch_of(t, known.i)
    local kind, acked = sim:below(100), known.n_acked
    local ok, err
    if known.open and sim:chance(40) then
        use_name_again(sim, t, known)
        return true
    elseif kind < 60 then
        local who = ("p%d"):format(sim:below(known.count + 2))
        note_called(known, who)
        known.under_way[t] = who
        ok, err = call(sim, t, latch, "countDown", who)
        known.under_way[t] = nil
        if ok and not known.acked[who] then
            known.acked[who], known.n_acked = true, known.n_acked + 1
        end
    elseif kind < 90 then
        local open = known.open
        ok, err = call(sim, t, latch, "getCount")
        if ok and not known.deleted then
            sim:tell("count", { known = known, n = ok, acked = acked, open = open, task = t })
        end
    else
        ok, err = call(sim, t, latch, "await", sim:below(1000) / 2000)
        if ok and not known.deleted then
            sim:tell("count", { known = known, n = 0, acked = acked, task = t })
        end
    end
    if err and err.code == "not_found" and not known.deleted then
        sim:tell("no latch", known, t)
    end
    return true
end

-- ---- schedules -----------------------------------------------------------------------

-- Kinds that are there together; those of a name exclude each other.
local TOGETHER = {
    rw = { "read", "read", "write" },
    mixed = { "read", "write", "multi", "plain", "fair" },
    permit = { "permit" },
    fair = { "fair", "fair", "plain" },
    latch = { "latch" },
    election = { "election", "election", "plain" },
    multi = { "multi", "multi", "plain" },
    once = { "once" },
    limiter = { "limiter" },
    tokens = { "read", "read", "token_write", "fenced" },
    forced = { "plain", "plain", "read", "write", "permit", "permit", "force" },
}
local KINDS = {}
for kind in pairs(TOGETHER) do
    KINDS[#KINDS + 1] = kind
end
table.sort(KINDS)

-- Only when asked for: three processes, which take the two permits of a semaphore on 2 to 7
-- servers.
TOGETHER.takers = { "permit" }

--- Whether the schedule is of the family: if that is asked for, or by the number of the seed. Draws
-- nothing, so that the others are what they are without this.
-- @param opts  family: a kind, or "none"; nil: every 16th seed has one, unless something is asked
--   for that is about locks
function _M.choose(sim, opts)
    local wanted, seed = opts.family, sim.seed
    if not (wanted or opts.fenced or opts.ignore) and seed % 16 == 5 then
        wanted = KINDS[floor(seed / 16) % #KINDS + 1]
    end
    if wanted and wanted ~= "none" and not sim.prefix then
        sim.family = TOGETHER[wanted] or error("no such kind: " .. wanted)
        sim.has_tokens = wanted == "tokens"
        if wanted == "takers" then
            sim.takers, sim.n = 3, 2 + seed % 6
            sim.quorum = floor(sim.n / 2) + 1
        end
    end
end

--- What is contended for.
function _M.names(sim)
    sim.permits = sim:pick { 1, 2, 2, 3 }
    sim.permits = sim.takers and 2 or sim.permits
    sim.period = max(sim.config.lease * sim:pick { 0.5, 1, 2 }, 0.1)
    sim.kept, sim.latches, sim.made, sim.forcing = {}, {}, 0, {}
end

--- How much longer it may take until everybody is served: a rate leaves no more in a period, nor
-- does a job that runs once in it.
function _M.patience_us(sim)
    local each = sim.family == TOGETHER.limiter or sim.family == TOGETHER.once
    return each and #sim.tasks * sim.period * SECOND or 0
end

--- The life of a coroutine.
function _M.run(sim, t)
    if t.id == 1 and sim.new_cluster then
        workload.init(sim, t)
    end
    for _ = 1, sim:between(3, 10) * (acts.latch == acts[sim.family[1]] and 3 or 1) do
        if sim.calm_at then
            break
        end
        acts[sim:pick(sim.family)](sim, t)
        if sim.guarded and sim:chance(20) then
            sim:sleep(sim:below(sim.config.guard_us * 0.6))
        elseif sim:chance(60) then
            sim:sleep(sim:below(30 * MS))
        end
    end
    while not sim.calm_at do
        sim:sleep(min(SECOND, sim.horizon_us / 10))
    end
    for _, kind in ipairs(sim.family) do
        while not acts[kind](sim, t, true) do
            sim:sleep(sim.rest_us)
        end
    end
end

return _M
