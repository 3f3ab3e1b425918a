-- One chaos run: a world, a schedule of faults, clients that want locks, and a judge.
-- main.lua is the command; see README.md.
local cjson = require "cjson"
local history = require "spec.chaos.history"
local marks = require "spec.chaos.marks"
local schedule = require "spec.chaos.schedule"
local scope = require "spec.support.scope"
local sys = require "spec.support.sys"
local world = require "spec.chaos.world"

local _M = {}

-- Seconds where nothing else is said. The leases are short, so that much happens.
_M.defaults = {
    seed = 1,
    seconds = 60,
    nodes = 5,
    clients = 8,
    -- Of clients, in turn.
    kinds = { "blocking", "futures", "fenced", "family", "blocking", "line", "fenced", "family" },
    nginx = 1,                  -- how many of that come after them
    claim = true,               -- false: also what no algorithm survives; less is demanded
    rate = 1,                   -- times as many faults as faults.lua says
    locks = { "a", "b", "c", "d" },
    careless = "careless",      -- the lock of the control
    lease = 0.5, leases = { 0.2, 0.5, 1 }, max_lease = 1,
    timeout = 0.1, connect_timeout = 0.3, fallback = 0.2,
    restart_guard = true,       -- false: the schedule keeps servers that forgot away
    bare = false,               -- true: each client is cut off from one of the servers
    only = nil,                 -- a set of the only faults that happen
    late_permille = 3,          -- chunks that come up to two leases late
    reset_permille = 1,         -- chunks that break their connection
    hold_s = 0.015,             -- the mean of how long a lock is held
    settle_s = 30,              -- for a lock, after all faults were over
    out = "build/chaos",
    library = nil,              -- another checkout to take the library from
    report = function() end,    -- gets lines of text
}

-- A server that forgot its locks is away for longer than any of them lasts. The library's
-- guard adds a second, and begins when a client notices.
local GUARD_S_PER_LEASE, GUARD_S, LIBRARY_S = 1.01, 0.25, 1

local LOOK_S = 0.5              -- how often the keys of a server are looked at
local LATE_FACTOR = 4           -- how much later a client may be than we were ourselves

-- ---- doing what the schedule says ------------------------------------------------

local function steps_of(list)
    local steps = {}
    for _, f in ipairs(list) do
        local fault = schedule.fault(f)
        local function add(t, rank, what, run)
            steps[#steps + 1] = { t = t, rank = rank, f = f, what = what, run = run }
        end
        if f.door then
            add(f.t, 1, "shut", function(w) w:shut(f.server) end)
        end
        add(f.t, 2, "start", function(w) fault.start(w, f) end)
        if fault.stop then
            add(f.t + f.lasts, 3, "stop", function(w) fault.stop(w, f) end)
        end
        if f.door then
            add(f.opens, 4, "open", function(w) w:open(f.server) end)
        end
    end
    table.sort(steps, function(a, b)
        if a.t ~= b.t then
            return a.t < b.t
        elseif a.f ~= b.f then
            return a.f.order < b.f.order
        end
        return a.rank < b.rank
    end)
    return steps
end

-- How long a key lasts at most. A place in the line of a fair lock is kept for 3 fallbacks, and for
-- twice that where a clock was set back (scripts/fair/queue.lua).
local PLACE = 3
local LINE = { queue = true, living = true, standing = true }
local function longest_ms(w, key)
    local kind, o = key:match "}:(%l+)$", w.opts
    return (LINE[kind] and math.max(2 * PLACE * o.fallback, o.max_lease) or o.max_lease) * 1000
end

-- A key that lasts longer than any lease was not set by a lease. (A clock that is stepped
-- back makes it last longer than it was set to.)
local function look_at_keys(w, s)
    for key, ms in pairs(w:keys(s)) do
        if ms > longest_ms(w, key) + w.skew_ms then
            w:violation(("server %d: key '%s' lasts %d ms more"):format(s, key, ms))
        elseif ms == -1 then
            w:violation(("server %d: key '%s' lasts for ever"):format(s, key))
        end
    end
end

-- Whether something happens to a server then.
local function is_hit(list, s, t)
    for _, f in ipairs(list) do
        if f.server == s and f.t - 0.1 <= t and t <= f.ends + 0.1 then
            return true
        end
    end
    return false
end

-- Follows the schedule. A step that is late, or takes its time, delays all that come after it:
-- whoever must be away for so long is. @return by how much a sleep was late at most, in ms
local function follow(w, list, opts)
    local steps, started = steps_of(list), sys.now()
    local late, next_look, s = 0, LOOK_S, 1
    for _, step in ipairs(steps) do
        while sys.now() - started < step.t do
            local now = sys.now() - started
            if now >= next_look and step.t - now > 0.05 then
                next_look = now + LOOK_S
                s = s % opts.nodes + 1
                if not is_hit(list, s, now) then
                    look_at_keys(w, s)
                end
                w:look_after_clients()
                w:start_nginx()
            else
                local nap = math.min(step.t - now, 0.05)
                sys.sleep(math.max(nap, 0))
                late = math.max(late, (sys.now() - started - now - nap) * 1000)
            end
        end
        step.run(w)
        started = math.max(started, sys.now() - step.t)
        if step.what == "start" then
            local name = step.f.name
            w.done[name] = (w.done[name] or 0) + 1
        end
    end
    while sys.now() - started < opts.seconds do
        sys.sleep(0.05)
    end
    return late
end

-- ---- what is left behind ---------------------------------------------------------

local function leaks(w)
    for s in ipairs(w.servers) do
        for key, ms in pairs(w:keys(s)) do
            w:violation(("server %d: key '%s' is left behind, for %d ms more"):format(s, key,
                ms))
        end
    end
end

-- ---- the judgement ---------------------------------------------------------------

local function judge(w, list, late, opts)
    local verdict = history.check(list, {
        claim = opts.claim,
        -- Where all floors are lost tokens go on from the servers' clocks, which are stepped.
        tokens = opts.claim,
        timeout_ms = opts.timeout * 1000,
        connect_timeout_ms = opts.connect_timeout * 1000,
        max_lease_ms = opts.max_lease * 1000,
        slack_ms = history.defaults.slack_ms + late * LATE_FACTOR,
        -- A connection for commands and one for messages to each node, one of each being
        -- replaced; epoll, timers, the wake-up.
        max_fds = 3 * opts.nodes + 6,
    })
    for _, v in ipairs(w.violations) do
        table.insert(verdict.violations, v)
    end
    table.sort(verdict.violations, function(a, b)
        return a.t < b.t
    end)
    local resource = marks.shared(w.resource)
    verdict.lost_updates = {
        careless = (verdict.writes[opts.careless] or 0) - tonumber(resource[0]),
        careful = 0,
    }
    for i, name in ipairs(opts.locks) do
        verdict.lost_updates.careful = verdict.lost_updates.careful
            + (verdict.writes[name] or 0) - tonumber(resource[i])
    end
    if verdict.lost_updates.careless == 0 and (verdict.writes[opts.careless] or 0) > 20 then
        table.insert(verdict.violations, { t = marks.now(), text = "those who ignore their "
            .. "validity did no harm: this run proves nothing" })
    end
    return verdict
end

-- Writes what happened, a line each, in order of time. @return the path
local function save(list, verdict, opts)
    os.execute(("mkdir -p '%s'"):format(opts.out))
    local path = ("%s/%s.jsonl"):format(opts.out, opts.seed)
    local file = assert(io.open(path, "wb"))
    for _, v in ipairs(verdict.violations) do
        list[#list + 1] = { k = "violation", a = v.t, l = v.lock, text = v.text }
    end
    for _, m in ipairs(marks.in_order(list)) do
        file:write(cjson.encode(m), "\n")
    end
    file:close()
    return path
end

local function rehearse(opts)
    local guard_s = opts.max_lease * GUARD_S_PER_LEASE + GUARD_S
        + (opts.restart_guard and LIBRARY_S or 0)
    local list = schedule.new { seed = opts.seed, seconds = opts.seconds, nodes = opts.nodes,
        clients = opts.clients, nginx = opts.nginx, claim = opts.claim, guard_s = guard_s,
        rate = opts.rate,
        guard = opts.restart_guard, only = opts.only }
    for _, f in ipairs(list) do
        opts.report(schedule.describe(f))
    end
    return list
end

local function perform(w, list, opts)
    local t0 = marks.now()
    local late = follow(w, list, opts)
    w:heal()
    w:log("network", "note", "all faults are over")
    w:await_nginx()
    w:look_after_clients()
    w:settle_clients(opts.settle_s * 2)
    w:quit_clients()
    -- Also what the dead left ends with its lease.
    local left = opts.max_lease + 1 + w.skew_ms / 1000
    local free = sys.now() + left
    while sys.now() < free do
        local any = false
        for s in ipairs(w.servers) do
            any = any or next(w:keys(s)) ~= nil
        end
        if not any then
            break
        end
        sys.sleep(0.1)
    end
    leaks(w)
    local all = w:collect()
    local verdict = judge(w, all, late, opts)
    verdict.t0, verdict.faults, verdict.late_ms = t0, w.done, late
    verdict.path = save(all, verdict, opts)
    return verdict
end

--- One run.
-- @param opts  see defaults
-- @return the verdict of history.check, with lost_updates, faults (how many of each kind),
--   t0 (when the schedule began), late_ms and path (of what happened)
function _M.run(opts)
    opts = setmetatable(opts or {}, { __index = _M.defaults })
    local list = rehearse(opts)
    local w = world.new(opts)
    w.done = {}
    local ok, verdict = xpcall(perform, debug.traceback, w, list, opts)
    scope.cleanup()
    if not ok then
        error(verdict, 0)
    end
    return verdict
end

return _M
