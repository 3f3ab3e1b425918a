--- Scripted beginnings of schedules: what chance alone rarely arranges. The rest of the
-- schedule is as any other. Each is an entry of one table:
--
--   often     percent of the schedules that begin with it
--   n, guarded, fenced, lease, processes, tasks, concurrent, config   of its schedules;
--             absent: as the seed will have them
--   breaks    as for a fault: a list of what it breaks
--   play      function(stage): the script, a coroutine of its own. It tells the first
--             coroutines of the processes (stage[1], ...) what to do, and waits for what
--             the servers have executed
--
-- Those about fencing tokens are in counterexamples.lua.

local base = require "spec.sim.sim"
local counterexamples = require "spec.sim.counterexamples"
local stage = require "spec.sim.stage"
local workload = require "spec.sim.workload"

local error, ipairs, tostring, unpack = error, ipairs, tostring, unpack
local C, MS, SECOND = base.C, base.MS, base.SECOND

local _M = { life = stage.life, play = stage.play }

-- ---- the scripts -----------------------------------------------------------------

local OTHERS = {
    -- A's release was executed, B has it since, and A sends the release again.
    { name = "a release sent again", often = 0.3, n = 3, processes = 2,
        lease = 5, play = function(s)
            local a, b = s[1], s[2]
            s:await_done(s:take(a))
            for i = 1, 3 do
                s:silent(a, i, 2, 20)
            end
            local releasing = s:release(a)
            s:await_did(a, "release", 1, 2, 3)
            s:await_done(s:take(b))
            for i = 1, 3 do
                C.sim_cut(a.process.index, i - 1, 1, 1, 0)
            end
            s:await_done(releasing)
        end },

    -- B has the vote of the first server, which forgets it, and is healed for A; A's key on the
    -- second ends, and B's message comes there: it was late, or B stood still.
    { name = "half a majority from before a loss", often = 0.5, n = 3, guarded = true,
        breaks = { "memory" }, processes = 2, lease = 0.5, config = { max_lease = 3,
            timeout = 0.25, connect_timeout = 0.3 }, play = function(s)
            local a, b, sim = s[1], s[2], s.sim
            sim.max_lease_ms = 2800
            sim.config.guard_us = 4.03 * SECOND
            s:silent(a, 1, 3, 30)
            s:await_done(s:take(a))
            local at = sim.now()
            local function await(ms)
                s:have(a, function() sim:sleep(at + ms * MS - sim.now()) end)
            end
            s:silent(b, 2, 1, 2300)
            s:silent(b, 3, 1, 4000)
            s:take(b, 0, 2.8)
            s:await_did(b, "acquire", 1)
            await(60)
            sim:stop_process(b.process, at + 2360 * MS - sim.now())
            sim:restart_server(sim.servers[1], {}, MS)
            local ms, cut = 0, sim:between(1300, 1700)      -- A's key there ends 0.5 s later
            repeat
                ms = ms + 100
                await(ms)
                if ms > cut then
                    s:silent(a, 2, 1, 4000)
                end
            until not s:extend(a) or ms >= 2400
            await(2400)
            s:silent(a, 2, 1, 0)
            s:silent(b, 3, 1, 0)
        end },

    -- An attempt was executed, its answers are lost, and it is sent again.
    { name = "an attempt sent again", often = 0.3, n = 3, guarded = false, fenced = 0,
        processes = 1, concurrent = false, lease = 5, play = function(s)
            local a = s[1]
            for i = 1, 3 do
                s:silent(a, i, 2, 20)
            end
            local taking = s:take(a)
            s:await_did(a, "acquire", 1, 2, 3)
            for i = 1, 3 do
                C.sim_cut(a.process.index, i - 1, 1, 1, 0)
            end
            s:await_done(taking)
        end },

    -- Who is offered what the other lets go is cancelled before he wakes.
    { name = "an offer to the dead", often = 0.3, n = 3, processes = 1, tasks = 2,
        concurrent = true, lease = 5, config = { handover = 16, max_hold = 3600 },
        play = function(s)
            local a, sim = s[1], s.sim
            local other = a.process.tasks[2]
            s:await_done(s:take(a, 0, false))
            local attempt = a.attempt
            s:take(other, 4, false)
            s:await(function() return other.round ~= nil end)
            s:have(a, function() sim:sleep(10 * MS) end)
            local releasing = s:release(a)
            s:await(function() return attempt.offered or releasing.done end)
            if attempt.offered then
                sim:cancel(other)
            end
        end },

    -- The client is closed while one coroutine holds a lock, one waits for it, and one tries
    -- to take it, as far as there are so many; a server may hang. Somebody else gets it.
    { name = "a close under fire", often = 0.5, n = 3, guarded = false, processes = 2,
        tasks = 3, lease = 5, config = { max_hold = 3600, retry_delay = 0.05, fallback = 0.2 },
        play = function(s)
            local b, sim = s[2], s.sim
            local holder, other, closer = unpack(s[1].process.tasks)
            local trying, began = sim:chance(50), sim.now()
            if sim:chance(30) then
                sim:set_server(sim.servers[3], C.SIM_FROZEN)
            end
            if trying then
                s:silent(holder, 1, 2, 40)
                s:silent(holder, 2, 2, 40)
                s:take(holder)
                s:await_did(holder, "acquire", 1, 2)
            else
                s:await_done(s:take(holder, 0, false))
                s:take(other, 4)
                s:await(function() return other.round ~= nil end)
            end
            s:have(closer, workload.close)
            s:await_done(s:take(b, 1))
            if not b.taken or sim.now() - began > SECOND then
                sim:violated("a close lets go", "a closed client keeps " .. s.name)
            end
            sim:set_server(sim.servers[3], C.SIM_UP)
        end },

    -- What is tried before the close, or while it waits for answers, is not granted.
    { name = "a close that waits", often = 0.3, n = 3, guarded = false, processes = 1,
        tasks = 3, lease = 5, config = { max_hold = 3600 }, play = function(s)
            local p, sim = s[1].process, s.sim
            local holder, other, closer = unpack(p.tasks)
            s:await_done(s:take(holder, 0, false))
            local function late(ms)
                for i = 1, 3 do
                    s:silent(holder, i, 2, ms)
                end
            end
            late(20)
            local before = s:take(other, 0, nil, "before")
            s:await_did(other, "acquire", 1, 2, 3)
            late(40)
            local closing = s:tell(closer, workload.close)
            s:await(function() return p.closing end)
            local meanwhile = s:take(holder, 0, nil, "meanwhile")
            s:await_done(before)
            s:await_done(meanwhile)
            s:await_done(closing)
            if before[1] or meanwhile[1] then
                sim:violated("closed is closed", "a client that is being closed takes a lock")
            end
        end },

    -- Two of three addresses lead to one server, and the third server is away.
    { name = "one server twice", often = 0.3, n = 3, twin = 2, guarded = false, processes = 1,
        lease = 1, play = function(s)
            local a, sim = s[1], s.sim
            s:silent(a, 1, 1, 400)
            s:await_done(s:take(a, 0))
            local named = false
            for i, row in ipairs(a.err and a.err.nodes or {}) do
                named = named or row.code == "config" and row.message:find("127.0.0."
                    .. (i == 2 and 3 or 2), 1, true) and not a.process.client:stats().nodes[i].ready
            end
            if not named then
                sim:violated("one server, one vote", "the second address is not refused by name")
            end
        end },

    -- It may not be asked who it is: then its second vote on one attempt tells.
    { name = "one server twice, in secret", often = 0.3, n = 3, twin = 2, guarded = false,
        fenced = 0, processes = 1, lease = 1, secret = true, play = function(s)
            local a, sim = s[1], s.sim
            s:silent(a, 1, 1, 400)
            s:await_done(s:take(a, 0))
            sim.servers[2].secret = nil
            sim:restart_server(sim.servers[2], nil, MS)
        end },

    -- A queue delivers the text twice: two processes import it at one instant, each beside a server
    -- of its own, and the third server may be away.
    { name = "delivered twice", often = 0.5, n = 3, processes = 3, concurrent = false, lease = 20,
        config = { max_hold = 3600 }, play = function(s)
            local a, sim, orders, got, away = s[1], s.sim, {}, 0, s.sim:chance(30)
            s:await_done(s:take(a))
            if not a.taken then
                return
            end
            local text = s:have(a, function() return workload.export(sim, a, a.lock,
                a.taken.hold) end)
            a.taken = nil
            if away then
                sim:set_server(sim.servers[3], C.SIM_FROZEN)
            end
            for p = 2, 3 do
                for i = 1, 3 do
                    s:silent(s[p], i, i == p - 1 and 0 or 1, sim:between(1, 4))
                end
            end
            for p = 2, 3 do
                orders[p] = s:tell(s[p], function(_, t)
                    local lock, hold = workload.import(sim, t, text)
                    t.lock, t.taken = lock, lock and { hold = hold }
                    return lock ~= nil
                end)
            end
            for p = 2, 3 do
                s:await_done(orders[p])
                got = got + (orders[p][1] and 1 or 0)
            end
            sim:set_server(sim.servers[3], C.SIM_UP)
            if got > 1 or got == 0 and not away then
                sim:violated("imported once", got .. " of two imports got " .. s.name)
            end
        end },

    -- The exporter's heal of the third server comes late: after it was healed by another
    -- connection, and after an import, which has not reached the second one.
    { name = "a late heal after an export", often = 0.5, n = 3, processes = 3, tasks = 1,
        concurrent = false, lease = 20, guarded = false, breaks = { "keys" },
        config = { max_hold = 3600 }, play = function(s)
            local a, b, c, sim, till, got = s[1], s[2], s[3], s.sim, nil, 0
            local function import(t, parcel)
                return s:have(t, function()
                    t.lock = workload.import(sim, t, parcel)
                    got = got + (t.lock and 1 or 0)
                    return t.lock and workload.call(sim, t, t.lock, "unlock", { last = true })
                end)
            end
            s:await_done(s:take(a))
            s:await_did(a, "acquire", 1, 2, 3)
            s:expire(3)
            sim.trap = function(_, server, role)
                if role == "extend" and server.index == 2 and not till then
                    till = sim.now() + 900 * MS
                    s:silent(a, 3, 1, 900)
                end
            end
            s:extend(a)
            s:have(a, function() sim:sleep(10 * MS) end)
            sim.trap = nil
            C.sim_cut(a.process.index, 2, 1, 1, 0)
            C.sim_silence(a.process.index, 2, 0, 0)
            repeat
                s:extend(a)
                s:have(a, function() sim:sleep(10 * MS) end)
            until sim.servers[3]:entry(s.name) or sim.now() > till
            local parcel = s:have(a, function() return workload.export(sim, a, a.lock,
                a.taken.hold) end)
            a.taken = nil
            s:silent(b, 2, 3, 2000)
            if parcel and sim.now() < till and import(b, parcel) then
                s:await(function() return sim.now() > till + 50 * MS end)
                import(c, parcel)
            end
            if got > 1 then
                sim:violated("imported once", "both imports got " .. s.name)
            end
        end },

    -- A server has told who holds it, and then the message that removes him is late: another one
    -- holds it by then.
    { name = "a late force", often = 0.3, n = 3, processes = 3, lease = 20, guarded = false,
        breaks = { "keys" }, config = { max_hold = 3600 }, play = function(s)
            local a, b, c, sim, till = s[1], s[2], s[3], s.sim, nil
            s:await_done(s:take(a))
            s:await_did(a, "acquire", 1, 2, 3)
            sim.trap = function(_, server, role)
                if role == "force" and server.index == 1 and not till then
                    till = sim.now() + 400 * MS
                    s:silent(b, 2, 1, 400)
                end
            end
            local opened = s:have(b, function(_, t)
                return t.process.client:getLock(s.name):forceUnlock()
            end)
            sim.trap = nil
            s:await_done(s:release(a))
            s:await_free()
            s:await_done(s:take(c))
            s:await_did(c, "acquire", 2)
            local value = c.attempt.value
            s:await(function() return sim.now() > till + 50 * MS end)
            local entry = sim.servers[2]:entry(s.name)
            if not opened or not (entry and entry.value == value) then
                sim:violated("only who was told is removed", s.name .. " was opened again")
            end
        end },

    -- An arrival at a latch comes late to one server, and counts in no later latch of the name.
    { name = "a late arrival", often = 0.3, n = 3, processes = 3, lease = 20, guarded = false,
        breaks = { "keys" }, fenced = 0, play = function(s)
            local a, b, c, sim = s[1], s[2], s[3], s.sim
            local function say(t, method, ...)
                local args = { ... }
                return s:have(t, function()
                    local latch = t.process.client:getCountDownLatch(s.name)
                    return latch[method](latch, unpack(args))
                end)
            end
            local made, till = say(a, "trySetCount", 2), sim.now() + 400 * MS
            s:silent(b, 3, 1, 400)
            local ok = made and say(b, "countDown", "one") and say(c, "countDown", "two")
                and say(a, "delete") and say(a, "trySetCount", 2) and say(c, "countDown", "two")
            s:await(function() return sim.now() > till + 50 * MS end)
            local left = ok and say(a, "getCount")
            if ok and left ~= 1 then
                sim:violated("a latch never opens early", tostring(left) .. " are missing of 2, "
                    .. "and one has arrived")
            end
        end },

    -- Kept by the watchdog for as long as it may, and its holder goes on.
    { name = "held beyond max_hold", often = 0.3, n = 3, guarded = false, processes = 2,
        lease = 1, config = { max_hold = 3 }, play = function(s)
            local a = s[1]
            s:await_done(s:take(a, 0, false))
            s:have(a, function() s.sim:sleep(6 * SECOND) end)
            s:await_done(s:release(a))
        end },

    -- Kept by the watchdog for some leases, in good health, and others beside it.
    { name = "kept for long", often = 0.3, n = 3, guarded = false, processes = 2, tasks = 2,
        lease = 2, config = { max_hold = 3600 }, play = function(s)
            local a, b = s[1], s[2]
            s:await_done(s:take(a, 0, false))
            s:await_done(s:take(b, 0, false, "beside"))
            s:have(a, function() s.sim:sleep(7 * SECOND) end)
            s:have(a, function(sim, t) return workload.call(sim, t, t.lock, "isValid", {
                kept = true, hold = t.taken and t.taken.hold }) end)
            s:await_done(s:release(b))
            s:await_done(s:release(a))
        end },

    -- Its time is over, and its holder lets it go, or closes his client.
    { name = "a loser lets go", often = 0.3, n = 3, guarded = false, processes = 2, tasks = 2,
        lease = 1, config = { lock_delay = 2, max_lease = 10, counter_ttl = 100, max_hold = 3600 },
        play = function(s)
            local a, b, sim = s[1], s[2], s.sim
            repeat
                s:await_done(s:take(a))
            until a.taken
            local ends = sim.now() + 3 * SECOND
            s:have(a, function() sim:sleep(sim:between(1000, 1800) * MS) end)
            if sim:chance(50) then
                s:await_done(s:release(a))
            else
                s:have(a.process.tasks[2], workload.close)
            end
            s:await_done(s:take(b, 5))
            if b.taken and sim.now() < ends - 60 * MS then
                sim:violated("closed behind a loser", s.name .. " opens too early")
            end
        end },

    -- Its holder extends it, for long; the answers come when somebody else has got it.
    { name = "an extension at a hand-over", often = 0.3, n = 3, guarded = false, fenced = 0,
        processes = 1, tasks = 3, concurrent = true, lease = 5,
        config = { handover = 16, max_hold = 3600 }, play = function(s)
            local a, other, again = unpack(s[1].process.tasks)
            s:await_done(s:take(a))
            s:take(other, 4)
            s:await(function() return other.round ~= nil end)
            s:have(a, function() s.sim:sleep(10 * MS) end)
            local attempt = a.attempt
            for i = 1, 3 do
                s:silent(a, i, 2, 40)
            end
            s.sim:hold_of(attempt.value).extended = true
            s:tell(again, function()
                return a.process.client:getLock(s.name, { owner = a.id }):extend(9)
            end)
            s:await(function() return attempt.extend[0] + attempt.extend[1] > 0 end)
            s:release(a)
        end },

    -- What a broken connection still brings arrives behind the release.
    { name = "a straggler", often = 0.3, n = 3, guarded = false, fenced = 0, processes = 1,
        lease = 20, play = function(s)
            local a = s[1]
            s:silent(a, 3, 1, 100)
            s:await_done(s:take(a))
            C.sim_cut(a.process.index, 2, 1, 1, 0)
            C.sim_silence(a.process.index, 2, 0, 0)
            s:release(a)
            s:await_did(a, "release", 3)
        end },

    -- Each has a server beside it, and the others are far away: the votes are split at first, and
    -- one of them gets it all the same.
    { name = "all at one instant", often = 0.5, n = 3, guarded = false, processes = 3, tasks = 1,
        concurrent = false, lease = 20, play = function(s)
            local sim, orders, codes, got = s.sim, {}, {}, 0
            for p = 1, 3 do
                for i = 1, 3 do
                    s:silent(s[p], i, i == p and 0 or 1, sim:between(1, 4))
                end
            end
            for p = 1, 3 do
                orders[p] = s:take(s[p])
            end
            for p = 1, 3 do
                s:await_done(orders[p])
                got, codes[p] = got + (s[p].taken and 1 or 0), s[p].err and s[p].err.code or "got"
            end
            if got ~= 1 then
                sim:violated("one of all gets it", s.name .. ": " .. table.concat(codes, ", "))
            end
        end },

    -- No server is there, and less than a millisecond is left to wait.
    { name = "the last of a wait", often = 0.3, processes = 1, lease = 1,
        play = function(s)
            local a, sim = s[1], s.sim
            for _, server in ipairs(sim.servers) do
                sim:restart_server(server, nil, SECOND)
            end
            for _ = 1, 8 do
                s:await_done(s:take(a, sim:between(0, 30) / 1000 + sim:between(1, 4) / 1e4))
            end
        end },
}

_M.list = {}

local by_name = {}
for _, list in ipairs { counterexamples, OTHERS } do
    for _, prefix in ipairs(list) do
        by_name[prefix.name] = prefix
        _M.list[#_M.list + 1] = prefix
    end
end

-- ---- in a schedule ---------------------------------------------------------------

--- Draws the prefix of a schedule: sim.prefix, or none.
function _M.choose(sim, opts)
    local at = sim:below(100 * 1000) / 1000
    if opts.prefix then
        sim.prefix = by_name[opts.prefix] or error("no such prefix: " .. opts.prefix)
        return
    end
    for _, prefix in ipairs(opts.only and {} or _M.list) do
        if at < prefix.often then
            sim.prefix = prefix
            return
        end
        at = at - prefix.often
    end
end

return _M
