--- What the coroutines of the clients do with the library, and what they are told.

local base = require "spec.sim.sim"
local tokens = require "spec.sim.tokens"

local error, ipairs, pcall, max, min = error, ipairs, pcall, math.max, math.min
local MS, SECOND = base.MS, base.SECOND
local how_many, value_of = require("spec.sim.attempts").count,
    require("spec.sim.attempts").value_of

local _M = {}

local CLOSE_US = 60 * MS      -- 50 ms, and what its sleeps are late

local function is_error(value)
    return require("redlock.runtime.errors").is_error(value)
end

local function set(...)
    local t = {}
    for _, code in ipairs { ... } do
        t[code] = true
    end
    return t
end

local TAKING = set("held", "no_quorum", "expired", "lost", "deadlock", "closed", "cancelled")
local CODES = {
    lock = set("no_quorum", "expired", "lost", "deadlock", "closed", "cancelled"),
    tryLock = TAKING,
    unlock = set("expired", "held", "not_held", "unknown", "closed", "cancelled"),
    extend = set("lost", "no_quorum", "not_held", "closed", "cancelled"),
    isLocked = set("no_quorum", "closed", "cancelled"),
    token = set("lost", "not_held", "closed"),
    stillMine = set("lost", "no_quorum", "not_held", "closed", "cancelled"),
    settle = set("expired", "held", "unknown", "lost", "not_held", "closed", "cancelled"),
    export = set("lost", "unknown", "expired", "not_held", "closed", "cancelled"),
    import = set("lost", "unknown", "expired", "config", "closed", "cancelled"),
    checkSequencer = set("no_quorum", "closed", "cancelled"),
    init = set("config", "no_quorum", "closed", "cancelled"),
}

-- What may extend a hold: also taking it again.
local EXTENDS = set("extend", "lock", "tryLock")

--- The names that are contended for in this schedule.
function _M.names(sim)
    local all = { "a", "b", "c" }
    sim.names, sim.parcels, sim.gives, sim.closes = {}, {}, sim:chance(20), sim:chance(12)
    sim.writes_late, sim.settles = sim:chance(30), sim.seed % 8 == 3
    for i = 1, sim:pick { 1, 1, 1, 2, 3 } do
        sim.names[i] = all[i]
    end
    tokens.names(sim)
    local lease_ms = sim.config.lease * 1000
    sim.max_lease_ms, sim.min_lease_ms = lease_ms * 2, max(lease_ms * 0.3, 20)
    sim.delay_ms = (sim.config.lock_delay or 0) * 1000
end

--- How long it may take until everybody is served, once faults have stopped.
function _M.patience_us(sim)
    local o = sim.config
    -- A server whose clock seemed to step gives no votes for max_lease * 1.01 + 1 s.
    return (12 + 62) * SECOND + 3 * sim.max_lease_ms * MS + (sim.stepped_us or 0)
        + #sim.tasks * #sim.names * ((o.fallback * 1.5 + o.timeout * 2) * SECOND
            + 3 * sim.delay_ms * MS)
end

--- A lease for an operation, in seconds; nil: the watchdog keeps it.
local function some_lease(sim)
    if sim:chance(40) then
        return nil
    end
    return max(sim.config.lease * sim:pick { 0.3, 0.5, 1, 1, 2 }, 0.02)
end

--- The value of what the library believes to hold; nil: nothing.
local function value_here(t, lock)
    local hold = t.process.client.holds:get(t.id, lock.id)
    return hold and value_of(hold.lease)
end

--- The hold that the servers and the core know of, by its lock.
local function hold_of(sim, t, lock)
    return sim:hold_of(value_here(t, lock))
end

--- Calls a method of a lock, and tells the invariants of it.
-- @return what it returned
local function call(sim, t, lock, method, info, a, b)
    local c = info or {}
    local paused, stopped = t.paused_us, t.process.stopped_us
    local attempts, grants = t.attempts, sim.count.grants + sim.count.announced
    local held = hold_of(sim, t, lock)
    c.task, c.method, c.name = t, method, lock:getName()
    c.codes = CODES[method]
    c.began_us, t.calling = sim.now(), method
    c.began_ms = sim.local_ms()
    c.closed = lock.client and lock.client.closed
    c.held_token = c.held_token or held and held.token
    if held then
        held.releasing = held.releasing or method == "unlock" or method == "export"
        held.extended = held.extended or EXTENDS[method]
    end
    local done, ok, err = pcall(lock[method], lock, a, b)
    if not done then
        if sim.over or not is_error(ok) then
            error(ok, 0)
        end
        ok, err = nil, ok    -- cancelled
    end
    t.calling = nil
    sim.calls = (sim.calls or 0) + 1
    c.ok, c.err, c.code = ok, ok == nil and err, ok == nil and err and err.code or nil
    c.took_us = (sim.local_ms() - c.began_ms) * MS
    local away = t.paused_us - paused + (t.process.stopped_us - stopped)
    c.paused = away > 0
    c.attempts, c.grants = t.attempts - attempts,
        sim.count.grants + sim.count.announced - grants
    if c.within_us then
        c.within_us = c.within_us + 2.5 * away
    end
    c.live = t.process.forked_at < c.began_us and held or nil
    c.hold = c.hold or hold_of(sim, t, lock) or held
    sim:tell("call", c)
    return ok, err
end

--- How long it may take to give servers floors.
local function seeding_us(sim, lock)
    local o = sim.config
    return lock.token and (max(o.connect_timeout, o.timeout) * 2 + 0.05) * SECOND or 0
end

--- Takes it, by lock() or tryLock().
-- @return whether, and the hold
local function take(sim, t, lock, wait, lease)
    local o = sim.config
    local info = { wait = wait }
    sim:log(t.lane, "waiting", lock:getName())
    local ok, token
    if wait then
        local answer = max(o.connect_timeout, o.timeout)
        -- Split votes: two more attempts, of an eighth each (votes.lua).
        info.within_us = (wait + answer + 1.25 * o.timeout + 0.05) * SECOND
        ok, token = call(sim, t, lock, "tryLock", info, wait, lease)
    else
        ok, token = call(sim, t, lock, "lock", info, lease)
    end
    if not ok then
        sim:log(t.lane, "idle", info.code)
        return false, nil, token
    end
    local hold = hold_of(sim, t, lock)
    sim:tell("call", { task = t, method = info.method, took = true, paused = info.paused,
        hold = hold, token = lock.token and token or nil, attempts = 0, took_us = 0,
        left = hold and hold.until_us - sim.now() or 0 })
    return true, hold
end

--- How long it is held.
local function hold_us(sim)
    local lease = sim.config.lease * SECOND
    if sim.calm_at then
        return sim:below(10 * MS)
    end
    local kind = sim:below(100)
    return kind < 65 and sim:below(20 * MS) or kind < 85 and sim:below(lease)
        or kind < 96 and sim:below(lease * 1.6) or sim:below(lease * 3)
end

--- What may be done with a lock that has tokens while it is held.
local fenced_acts = {
    function(sim, t, lock)
        call(sim, t, lock, "stillMine", { within_us = (sim.config.connect_timeout
            + sim.config.timeout * 4 + 0.05) * SECOND })
    end,
    function(sim, t, lock)
        local ok, err = lock:token()
        sim:tell("call", { task = t, method = "token", token = ok, hold = hold_of(sim, t, lock),
            code = err and err.code, codes = CODES.token, attempts = 0, took_us = 0 })
    end,
    function(_, t, lock)
        t.sequencer, t.sequencer_token, t.sequencer_of = lock:sequencer(), lock:token(), lock
        t.sequencer_value = value_here(t, lock)
    end,
}

--- Asks whether a hold from before is still current.
local function check_sequencer(sim, t)
    local text, lock, client = t.sequencer, t.sequencer_of, t.process.client
    local asked = { id = lock.id, getName = function() return lock:getName() end,
        checkSequencer = function() return client:checkSequencer(text) end }
    local attempt = sim.attempts[t.sequencer_value]
    call(sim, t, asked, "checkSequencer", { held_token = t.sequencer_token,
        let_go = attempt and how_many(attempt.release.yes) >= sim.quorum
            and not (attempt.late or attempt.straggler) })
    t.sequencer = nil
end

--- What may be done with a lock while it is held.
local acts = {
    function(sim, t, lock)
        local lease = sim:chance(50) and some_lease(sim) or nil
        call(sim, t, lock, "extend", { within_us = (sim.config.connect_timeout
            + sim.config.timeout * 4 + 0.05) * SECOND }, lease)
    end,
    function(sim, t, lock)
        call(sim, t, lock, "isLocked", { within_us = (sim.config.connect_timeout
            + sim.config.timeout * 4 + 0.05) * SECOND })
    end,
    function(sim, t, lock)
        local before = hold_of(sim, t, lock)
        local count = call(sim, t, lock, "getHoldCount")
        if call(sim, t, lock, "tryLock", nil, 0) then
            local expected = before and hold_of(sim, t, lock) == before and count + 1 or nil
            call(sim, t, lock, "getHoldCount", { expected = expected })
            local entered = t.process.client.holds:get(t.id, lock.id)
            if entered and entered.count > 1 then
                call(sim, t, lock, "unlock", { inner = true })
            end
            t.hold = hold_of(sim, t, lock)       -- another one, if the first was lost
        end
    end,
    function(sim, t, lock)
        call(sim, t, lock, "isValid")
    end,
}

--- Gives the keys less time than the hold has left, which must not matter.
local function settle(sim, t, lock)
    local seconds = sim:apart("settles", sim.below, sim, 1000) / 1000 * lock:remaining()
    call(sim, t, lock, "settle", { within_us = (sim.config.connect_timeout
        + sim.config.timeout * 4 + 0.05) * SECOND }, max(seconds, 0.001), { keep = true })
end

--- Exports the hold.
-- @return a parcel, for import(); or nil
local function export(sim, t, lock, hold)
    local text = call(sim, t, lock, "export")
    sim.attempts[hold.value].given = true        -- what its messages leave ends with its lease
    if text then
        return { text = text, name = lock:getName(), fenced = lock.token ~= nil, at = sim.now() }
    end
end

--- Gives the hold away, to whoever looks for one.
local function give_away(sim, t, lock, hold)
    local parcel = export(sim, t, lock, hold)
    sim.parcels[#sim.parcels + 1] = parcel
    return parcel ~= nil
end

--- Tries to take it with a token that it has not, as somebody who made up the text.
local function import_forged(sim, t, parcel, lock)
    local forged_text, client = require "spec.support.forged", t.process.client
    local token = sim:pick { "1", "99999999999999" }
    local text = forged_text(parcel.text, { token = token })
    local forged = { id = lock.id, getName = function() return parcel.name end,
        import = function() return client:import(text) end }
    if call(sim, t, forged, "import") then
        sim:violated("a forged token is refused", t.lane .. " takes " .. parcel.name
            .. " over with token " .. token)
    end
end

--- Takes over what was exported. The lock and its hold; or nil.
local function import(sim, t, parcel)
    local client = t.process.client
    local lock = parcel.fenced and client:getFencedLock(parcel.name)
        or client:getLock(parcel.name)
    local parcels = { id = lock.id, getName = function() return parcel.name end,
        import = function() return client:import(parcel.text) end }
    local info = {}
    if parcel.fenced and not sim.calm_at and sim:chance(20) then
        import_forged(sim, t, parcel, lock)
    end
    if client.holds:get(t.id, lock.id) or not call(sim, t, parcels, "import", info) then
        return nil
    end
    local hold = hold_of(sim, t, lock)
    sim:tell("imported", parcel, t)
    sim:tell("call", { task = t, method = "import", took = true, paused = info.paused,
        hold = hold, attempts = 0, took_us = 0, left = hold and hold.until_us - sim.now() or 0 })
    return lock, hold
end

--- Takes what somebody gave away, and sometimes is delivered twice. As import().
local function take_parcel(sim, t)
    local parcel = table.remove(sim.parcels, 1)
    if not sim.calm_at and sim:chance(40) then
        sim.parcels[#sim.parcels + 1] = parcel
    end
    return import(sim, t, parcel)
end

--- Lets it go.
-- @param told  what onLost has told, or nil
local function let_go(sim, t, lock, hold, told)
    -- What it held may have been lost, and taken again by re-entering, and that may be over.
    local now = hold_of(sim, t, lock) or t.hold or hold
    call(sim, t, lock, "unlock", { value = value_here(t, lock) or now and now.value,
        hold = now, last = true, told = told, within_us = (sim.config.connect_timeout
            + sim.config.timeout * 4 + 0.05) * SECOND + seeding_us(sim, lock) })
    t.hold = nil
    sim:log(t.lane, "released", lock:getName())
end

--- Holds it for a while, and lets it go.
local function use(sim, t, lock, hold)
    local told = { times = 0, hold = hold }
    t.hold = hold
    if hold and lock:onLost(function(_, reason)
        told.times, told.reason = told.times + 1, reason
        sim:log(t.lane, "lost", lock:getName())
    end) then
        local other = t.process.client:getLock "other"
        for _ = 1, sim:pick { 1, 1, 2, 3 } do
            sim:sleep(hold_us(sim))
            -- Any call tells of losses, also one that is about another lock.
            local began_us = sim.now()
            other:isValid()
            sim:tell("call", { task = t, method = "other", attempts = 0, told = told,
                began_us = began_us, took_us = 0 })
            call(sim, t, lock, "isValid", { told = told })
            if sim.settles and not sim.calm_at then
                settle(sim, t, lock)
            end
            if sim:chance(40) and not sim.calm_at then
                sim:pick(lock.token and sim:chance(50) and fenced_acts or acts)(sim, t, lock)
            end
        end
    end
    -- Nobody finds what the watchdog keeps for it in a process without a loop.
    local known = t.hold and t.process.client.holds:get(t.id, lock.id)
    if sim:chance(2) and not sim.calm_at and known
        and (t.process.concurrent or not known.kept) then
        t.gone = true        -- the coroutine ends without letting go
        sim:log(t.lane, "note", "is gone, and has " .. lock:getName())
        return
    end
    if sim.gives and t.hold and sim:chance(20) and not sim.calm_at
        and hold_of(sim, t, lock) == t.hold and give_away(sim, t, lock, t.hold) then
        t.hold = nil
        return
    end
    let_go(sim, t, lock, hold, told)
end

--- What the timer of an event loop does.
local function look_for_gone(sim, t)
    local client = t.process.client
    local seconds = t.process.concurrent and client.holds:patrol()
    while seconds and not client.closed do
        sim:sleep(seconds * SECOND)
        seconds = client.holds:patrol()
    end
end

--- Admits the servers of a new cluster, or sees that it is new no more. Not when somebody
-- can hold a lock: after a grant, or the first quarantine; nor where it may be stopped in
-- between, until somebody does.
local function init(sim, t)
    local client = t.process.client
    local cluster = { getName = function() return "" end,
        init = function() return client:init() end }
    while sim.count.grants == 0 and sim.pauses == 0
        and sim.now() < sim.config.guard_us / 2 do
        local ok, err = call(sim, t, cluster, "init")
        if ok or err.code == "config" and err.message:find("not new", 1, true) then
            return
        end
        sim:sleep(sim:below(50 * MS))
    end
end

--- Closes the client of the process, whatever its coroutines do with it, and opens another.
local function close(sim, t)
    local p, client = t.process, t.process.client
    local view = { client = {}, getName = function() return "" end,
        close = function() return client:close() end }
    if client.closed then
        return
    end
    sim:log(t.lane, "note", "closes its client")
    p.closing = sim.now()
    call(sim, t, view, "close", { within_us = CLOSE_US })
    p.closing = nil
    sim:reopen(p)
end

local function some_lock(sim, client, name)
    return sim:chance(sim.fenced) and client:getFencedLock(name) or client:getLock(name)
end

_M.call, _M.take, _M.use, _M.init, _M.close = call, take, use, init, close
_M.export, _M.import = export, import
_M.some_lease, _M.hold_us = some_lease, hold_us

--- Takes a lock, uses it, and looks at what others left.
local function live_on(sim, t)
    local lock = some_lock(sim, t.process.client, sim:pick(sim.names))
    local kind, lease = sim:below(100), some_lease(sim)
    local wait = kind < 20 and 0 or kind < 70 and sim:below(1000) / 1000
        * (0.05 + sim.config.lease * 1.5) or nil
    local ok, hold = take(sim, t, lock, wait, lease)
    if ok then
        use(sim, t, lock, hold)
    end
    if not t.gone and #sim.parcels > 0 and sim.parcels[1].at < sim.now() and sim:chance(70) then
        local given, hold_given = take_parcel(sim, t)
        if given then
            use(sim, t, given, hold_given)
        end
    end
    if t.gone then
        return
    end
    if t.sequencer and sim:chance(50) then
        check_sequencer(sim, t)
    end
    if sim.closes and sim:chance(10) then
        close(sim, t)
    end
    if sim.guarded and sim:chance(20) then
        sim:sleep(sim:below(sim.config.guard_us * 0.6))
    elseif sim:chance(50) then
        sim:sleep(sim:below(30 * MS))
    end
end

--- The life of a coroutine.
function _M.run(sim, t)
    if t.id == 1 and sim.new_cluster then
        init(sim, t)
    end
    for _ = 1, sim:between(3, 10) do
        if sim.calm_at or t.gone then
            break
        end
        live_on(sim, t)
    end
    if t.gone then
        look_for_gone(sim, t)
        return
    end
    while not sim.calm_at do
        sim:sleep(min(SECOND, sim.horizon_us / 10))
    end
    for _, name in ipairs(sim.names) do
        while true do
            local lock = some_lock(sim, t.process.client, name)
            local ok, hold, err = take(sim, t, lock, nil, some_lease(sim))
            if ok then
                use(sim, t, lock, hold)
                break
            elseif sim.broken.configuration and err.code == "config" then
                break            -- it is refused as long as options differ
            end
            sim:sleep(sim.rest_us)
        end
    end
end

return _M
