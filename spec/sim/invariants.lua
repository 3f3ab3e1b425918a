--- What must hold. Each invariant is an entry of one table:
--
--   name
--   needs   the assumptions without which it need not hold (README.md): memory, notice,
--           counters, clocks, boottime. Nothing: it holds always.
--   of      fenced, guarded: checked in schedules that have it; absent: in all
--   on      { event = function(sim, ...) }: a text when it does not hold. Events:
--           attempt(attempt, same)   a value was drawn; same: who had it before
--           script(server, role, key, args, vote, attempt, info)   a server executed one of
--             ours; vote: "none" when it has none
--           write(server, key, old, new)   before a key changes
--           passed(attempt)          its hold is offered to the next one in the line
--           took over(attempt, mine) who gets it as it is; mine: the library's hold of his
--           hold(hold, before)       a hold began, or its validity changed (before: until)
--           ended(hold)      it was let go, or lost
--           call(call)               a call into the library returned (workload.lua)
--           finish()                 at the end

local base = require "spec.sim.sim"
local tokens = require "spec.sim.tokens"

local ipairs, ceil, max, format = ipairs, math.ceil, math.max, string.format
local MS, SECOND = base.MS, base.SECOND
local count = require("spec.sim.attempts").count

local _M = {}

local function drift_ms(lease_ms)
    return ceil(lease_ms * 0.01) + 2
end

--- Whether is(entry) of any entry of a list.
local function any(list, is)
    for _, entry in ipairs(list) do
        if is(entry) then
            return true
        end
    end
    return false
end

local function any_restarted(sim)
    return any(sim.servers, function(server) return server.runs > 1 end)
end

local function any_calls(sim, method)
    return any(sim.tasks, function(t) return t.calling == method end)
end

local function holds_any(sim, process)
    return any(sim.held, function(hold) return hold.process == process end)
end

--- Whether a hold ended because its owner wanted it, or is no more.
local function let_go(sim, hold)
    local p = hold.process
    return hold.releasing or hold.attempt.task.gone or p.dead or p.closing
        or p.closed_at == sim.now()
        or p.forked_at == sim.now() or (hold.attempt.task.cancelled_at or -1) >= hold.attempt.at
end

local function ms(us)
    return format("%.3f ms", us / MS)
end

_M.list = {
    -- ---- holding ----

    -- A majority executed the script that made the hold what it is.
    { name = "a majority confirmed", needs = { "boottime" }, on = {
        script = function(sim, server, role, _, args, vote, attempt)
            role = role == "handover" and "acquire" or role
            if attempt and (vote == 1 or vote == 2) and (role == "acquire" or role == "extend")
            then
                local until_us = sim.now() + args[2] * MS
                local till = attempt[role].till
                if not till then
                    till = { [0] = 0, 0, 0, 0, 0, 0, 0, 0, 0 }
                    attempt[role].till = till
                end
                till[server.index] = max(till[server.index], until_us)
            end
        end,
        hold = function(sim, hold, before)
            if not hold.attempt then
                return "a hold that nobody asked for"
            end
            local list, n = hold.attempt[before and "extend" or "acquire"].till or {}, 0
            for i = 0, sim.n - 1 do
                n = n + ((list[i] or 0) >= hold.until_us and 1 or 0)
            end
            -- After a step of a server's clock a hold is cut short by its own client.
            if n < sim.quorum and not (before and hold.until_us < before) then
                return format("%s holds %s until %s, by the word of %d of %d", hold.lane,
                    hold.name, ms(hold.until_us), n, sim.n)
            end
        end,
    } },

    { name = "one holder", needs = { "notice", "clocks", "boottime" }, on = {
        hold = function(sim, hold)
            for _, other in ipairs(sim.held) do
                if other ~= hold and other.name == hold.name and other.until_us > sim.now()
                    and hold.until_us > sim.now() then
                    return format("%s and %s both hold %s, until %s and %s", hold.lane,
                        other.lane, hold.name, ms(hold.until_us), ms(other.until_us))
                end
            end
        end,
    } },

    -- Who was told how long his hold is valid may act on that until he hears of its loss.
    { name = "valid as long as it was said", needs = { "notice", "clocks", "boottime" }, on = {
        ended = function(sim, hold)
            if hold.until_us > sim.now() and not let_go(sim, hold) then
                sim.promised[#sim.promised + 1] = hold
            end
        end,
        call = function(sim, call)
            for _, hold in ipairs(sim.promised) do
                hold.told = hold.told or hold.attempt.task == call.task
            end
        end,
        hold = function(sim, hold, before)
            for _, other in ipairs(before and {} or sim.promised) do
                if other.name == hold.name and other.until_us > sim.now()
                    and not (other.told or let_go(sim, other)
                        or (other.process.closed_at or -1) >= other.at
                        or other.attempt.task.calling == "unlock") then
                    return format("%s gets %s, and %s has been told that it is his until %s",
                        hold.lane, hold.name, other.lane, ms(other.until_us))
                end
            end
        end,
    } },

    -- Stronger than one holder, and needs no second one to show: the keys outlive the hold.
    { name = "keys outlive the hold", needs = { "memory", "clocks", "boottime" }, on = {
        hold = function(sim, hold)
            local n = 0
            for _, server in ipairs(sim.servers) do
                local entry = server:look(hold.name)
                n = n + (entry and entry.value == hold.value
                    and sim:gone_at(server, hold.name) >= hold.until_us and 1 or 0)
            end
            if n < sim.quorum and hold.until_us > sim.now() then
                return format("%s holds %s until %s, with %d keys of %d that last so long",
                    hold.lane, hold.name, ms(hold.until_us), n, sim.n)
            end
        end,
    } },

    { name = "validity", on = {
        hold = function(sim, hold, before)
            local lease_ms = before and sim.max_lease_ms or hold.attempt.lease_ms
            local from_ms = before and hold.now_ms or hold.attempt.at_ms
            if hold.deadline_ms > from_ms + lease_ms - drift_ms(lease_ms) then
                return format("%s holds %s for %d ms of a lease of %d", hold.lane, hold.name,
                    hold.deadline_ms - from_ms, lease_ms)
            -- Cut short because of a server's clock, also in the moment in which it begins.
            elseif hold.deadline_ms <= hold.now_ms and not (before and hold.until_us < before)
                and not sim.stepped_us then
                return format("%s gets %s after the end of its lease", hold.lane, hold.name)
            end
        end,
        call = function(sim, call)
            local says_valid = call.ok and not call.paused
                and (call.method == "isValid" or call.inner)
            if says_valid and call.hold and call.hold.deadline_ms <= sim.local_ms() then
                return call.task.lane .. " is told that its hold is valid after it ended"
            elseif says_valid and not call.hold then
                return call.task.lane .. " is told that a hold is valid that is none"
            end
        end,
    } },

    { name = "heals after a majority", on = {
        script = function(sim, server, role, key, args, vote, attempt)
            if (role == "heal" or role == "acquire" and attempt
                and tonumber(args[2]) ~= attempt.lease_ms + sim.delay_ms) and vote == 1 and attempt
                and attempt.held and count(attempt.extend.yes) < sim.quorum then
                return server.lane .. " gets " .. key .. " again, and no majority has confirmed it"
            end
        end,
    } },

    -- Who extends it is who holds it: what others do, or did before him, adds nothing.
    { name = "a lease as long as was asked for", on = {
        hold = function(_, hold, before)
            local a, left = hold.attempt, hold.deadline_ms - hold.now_ms
            if before and a and not hold.extended and left > a.lease_ms - drift_ms(a.lease_ms) then
                return format("%s has %s for %d ms more, and asked for a lease of %d", hold.lane,
                    hold.name, left, a.lease_ms)
            end
        end,
    } },

    { name = "max_hold", on = {
        hold = function(sim, hold, before)
            local lease = sim.max_lease_ms * MS
            if before and not hold.extended
                and hold.until_us > hold.at + sim.config.max_hold * SECOND + 1.1 * lease then
                return hold.lane .. " is renewed beyond max_hold"
            end
        end,
    } },

    { name = "held means held", on = {
        call = function(sim, call)
            local t, p = call.task, call.task.process
            if call.code ~= "held" or call.method ~= "tryLock" then
                return nil
            elseif t.attempt and t.attempt.at >= call.began_us and not p.concurrent then
                return t.attempt.refused == 0 and t.lane .. ": held, and no server refused"
            elseif p.concurrent and sim.pauses == 0 and p.stopped_us == 0 and not call.hold then
                -- It may know from another one of the process, who was first in line.
                local o = sim.config
                local old_us = (1.5 * max(o.fallback, o.retry_delay) + o.connect_timeout
                    + 2 * o.timeout + 0.1) * SECOND
                return max(p.refused_at, p.had_at) < call.began_us - old_us
                    and not holds_any(sim, p)
                    and t.lane .. ": held, and its process has not heard of anybody"
            end
        end,
    } },

    -- What a majority disowned is lost, and not only not confirmed.
    { name = "no is no", on = {
        call = function(sim, call)
            local no = 0
            if (call.method == "extend" or call.method == "stillMine")
                and call.code == "no_quorum" then
                for _, row in ipairs(call.err.nodes or {}) do
                    no = no + (row.vote and row.vote <= 0 and 1 or 0)
                end
            end
            return no >= sim.quorum and call.task.lane .. ": " .. call.method
                .. " was refused by a majority, and said no_quorum"
        end,
    } },

    { name = "a held lock is held", on = {
        call = function(_, call)
            if call.took and not call.paused and not (call.hold and call.left > 0) then
                return call.task.lane .. ": " .. call.method .. " succeeded, nothing is held"
            end
        end,
    } },

    { name = "lost is told", on = {
        call = function(sim, call)
            local told = call.told
            if told and told.times > 1 then
                return call.task.lane .. " was told twice that its hold was lost"
            -- (A pause may have hit another coroutine while it was being told.)
            elseif told and told.times == 0 and call.method == "other" and sim.pauses == 0
                and told.hold.deadline_ms < sim.local_ms() - 5 and sim.now() == call.began_us
                and sim.now() - call.task.process.runs_since_us > 5 * MS then
                return call.task.lane .. " was not told that its hold was lost"
            end
        end,
    } },

    { name = "taken is by somebody", on = {
        call = function(_, call)
            local told = call.told
            local attempt = told and told.reason == "taken" and told.hold.attempt
            return attempt and attempt.extend.foreign == 0 and attempt.release.foreign == 0
                and call.task.lane .. ": its hold was taken, and no server has seen by whom"
        end,
    } },

    { name = "hold counts", on = {
        call = function(_, call)
            if call.method == "getHoldCount" and call.expected and not call.paused
                and call.live and call.ok ~= call.expected and call.ok > 0 then
                return format("%s entered %d times, the count is %d", call.task.lane,
                    call.expected, call.ok)
            end
        end,
    } },

    { name = "a holder sees its lock", needs = { "memory", "clocks", "boottime" }, on = {
        call = function(sim, call)
            if call.method == "isLocked" and call.ok == false and call.hold
                and call.hold.until_us > sim.now() then
                return call.task.lane .. " holds " .. call.hold.name .. ", isLocked says no"
            end
        end,
    } },

    { name = "lost only by time", needs = { "memory", "counting", "clocks", "boottime" },
        on = {
            ended = function(sim, hold)
                -- A restarted server counts from a new floor, and disowns older tokens.
                if hold.token > 0 and any_restarted(sim) then
                    return nil
                elseif hold.until_us > sim.now() and not let_go(sim, hold) then
                    return format("%s loses %s %s before the end", hold.lane, hold.name,
                        ms(hold.until_us - sim.now()))
                end
            end,
            call = function(sim, call)
                if call.method == "unlock" and (call.code == "expired" or call.code == "held")
                    and call.live and call.live.until_us > sim.now() then
                    return format("%s: unlock said %s %s before the end", call.task.lane,
                        call.code, ms(call.live.until_us - sim.now()))
                end
            end,
        } },

    { name = "closed is closed", on = {
        call = function(_, call)
            local ok = call.ok and call.ok ~= 0
            if call.closed and (ok or call.code and call.code ~= "closed") then
                return format("%s: %s of a closed client gave %s", call.task.lane, call.method,
                    call.code or tostring(call.ok))
            elseif call.method == "close" and call.ok ~= true then
                return call.task.lane .. ": close failed"
            end
        end,
        hold = function(_, hold, before)
            local attempt = hold.attempt
            return not before and attempt and attempt.at < (hold.process.closed_at or -1)
                and hold.lane .. " gets " .. hold.name .. " by a client that is closed"
        end,
    } },

    -- ---- on the servers ----

    { name = "fresh values", on = {
        attempt = function(_, attempt, same)
            return same and attempt.task.lane .. " uses a value again"
        end,
    } },

    { name = "only what is ours", on = {
        write = function(sim, server, key, old, new)
            local role, value = server.role, server.value
            if not sim.is_name[key] then
                return nil
            elseif role == "release" and old.value ~= value then
                return "a release deletes " .. key .. " of somebody else"
            elseif role == "extend" and not (old and new and old.value == value
                and new.value == value) then
                return "an extension makes or takes " .. key
            elseif role == "handover" and not (old and new and old.value == server.replaced
                and new.value == value) then
                return "a hand-over makes or takes " .. key
            elseif role == "extend" and new.at < old.at then
                return "an extension shortens " .. key
            elseif (role == "acquire" or role == "heal") and old then
                return "an attempt overwrites " .. key
            end
        end,
    } },

    { name = "keys end", on = {
        write = function(sim, server, key, _, new)
            if new and sim.is_name[key]
                and (not new.at or new.at - server.now_ms > sim.max_lease_ms + sim.delay_ms) then
                return key .. " gets an end beyond every lease"
            end
        end,
    } },

    -- With a lock delay: what was over when he let it go, or closed, is not released.
    -- (A pause may have kept from its caller that it was granted.)
    { name = "closed behind a loser", needs = { "clocks", "boottime" }, on = {
        call = function(sim, call)
            local attempt, released = sim.attempts[call.value or 0], 0
            if call.method == "unlock" and call.last and attempt and sim.delay_ms > 0
                and (attempt.process.closed_at or -1) < attempt.at and sim.pauses == 0
                and call.hold and call.began_ms >= call.hold.deadline_ms
                and call.began_ms < call.hold.deadline_ms + sim.delay_ms then
                for i = 0, sim.n - 1 do
                    released = released + attempt.release[i]
                end
                return released > 0 and call.task.lane .. " releases what it has lost"
            end
        end,
    } },

    { name = "a majority let go", needs = { "memory" }, on = {
        call = function(sim, call)
            if call.method ~= "unlock" or not call.value or not call.last
                or sim.attempts[call.value].offered then
                return nil
            end
            local attempt = sim.attempts[call.value]
            local release = attempt.release
            local left, did = 0, 0
            for _, server in ipairs(sim.servers) do
                local entry, i = server:look(call.name), server.index
                left = left + (entry and entry.value == call.value and 1 or 0)
                -- Where it never was there is nothing to let go.
                local untouched = attempt.acquire[i] == 0
                    and not (attempt.handover and attempt.handover[i] > 0)
                    and not (attempt.heal and attempt.heal[i] > 0)
                did = did + ((release[i] > 0 or untouched) and 1 or 0)
            end
            local again = attempt.late or attempt.straggler
            if call.ok and (left >= sim.quorum and not again or did < sim.quorum) then
                return format("%s let go of %s, %d servers did, %d have it", call.task.lane,
                    call.name, did, left)
            elseif call.code == "held" and count(release.foreign) < sim.quorum then
                return call.task.lane .. ": unlock said held, a majority did not"
            end
        end,
    } },

    { name = "nothing is left", needs = { "memory", "clocks" }, on = {
        finish = function(sim)
            for _, server in ipairs(sim.servers) do
                for _, name in ipairs(server.state == base.C.SIM_UP and sim.names or {}) do
                    local entry = server:look(name)
                    local a = entry and sim.attempts[entry.value]
                    if a and not (a.given or a.process.dead or a.task.gone or a.straggler
                        or a.at < max(a.process.forked_at, a.process.closed_at or 0)) then
                        return format("%s has %s of an attempt of %s at %s", server.lane, name,
                            a.task.lane, ms(a.at))
                    end
                end
            end
        end,
    } },

    -- A server that is away for long would be owed more and more.
    { name = "nothing is owed in vain", on = {
        call = function(_, call)
            return base.C.sim_owes_in_vain(call.task.process.index) ~= 0
                and call.task.lane .. ": its process owes releases where nothing was taken"
        end,
    } },

    -- ---- passing on ----

    { name = "passed on within bounds", on = {
        passed = function(sim, attempt)
            local p = attempt.process
            if attempt.passed >= sim.config.handover then
                return attempt.task.lane .. " passes on what was passed on so often already"
            elseif sim.pauses == 0 and p.stopped_us == 0
                and (sim.now() - attempt.since) * p.rate >= 51 * MS then
                return format("%s passes on what its process has had for %s", attempt.task.lane,
                    ms(sim.now() - attempt.since))
            elseif attempt.process.dead then
                return attempt.task.lane .. " passes on, and is dead"
            end
        end,
    } },

    -- Nobody notices but by the clock that his hold was somebody's before.
    { name = "passed on as good as new", on = {
        ["took over"] = function(sim, attempt, mine)
            local p, asked, hold = sim.task.process, mine.seconds * 1000, sim:hold_of(attempt.value)
            local left = hold and hold.deadline_ms - sim.local_ms() or 0
            if attempt.process ~= p then
                return sim.task.lane .. " gets what another process has"
            elseif attempt.witnesses then
                return sim.task.lane .. " gets a token that was another holder's"
            elseif math.abs(attempt.lease_ms - asked) >= 1 then
                return format("%s gets a lease of %d ms and asked for %d", sim.task.lane,
                    attempt.lease_ms, asked)
            elseif sim.pauses == 0 and (left > asked or left < asked * 0.98 - 1) then
                return format("%s gets %d ms of a lease of %d", sim.task.lane, left, asked)
            end
        end,
    } },

    -- The next holder's value takes the place of the one that was valid when it began.
    { name = "passed on by the holder", on = {
        attempt = function(_, attempt)
            local from = attempt.from
            if from and not (from.offered and from.held and from.process == attempt.process) then
                return attempt.task.lane .. " takes over what was not offered to it"
            elseif from and from.taken_over then
                return attempt.task.lane .. " takes over what somebody else has taken over"
            elseif from then
                from.taken_over = true
            end
        end,
    } },

    -- ---- the guard ----

    { name = "who forgot does not vote", of = "guarded", needs = { "boottime" }, on = {
        script = function(sim, server, role, key, args, vote, attempt)
            if server.lost_at < 0
                or sim.now() - server.lost_at >= sim.config.max_lease * SECOND then
                return nil
            elseif role == "acquire" and vote == 1 and attempt and not attempt.held then
                return server.lane .. " grants " .. key .. ", and has forgotten others"
            elseif role == "mark" and vote == args[2] and not vote:find(" .* ") then
                -- As long as nobody has held anything init() may find the cluster new again.
                if sim.count.grants == 0 and any_calls(sim, "init") then
                    server.lost_at, server.voted = -1, false
                    return nil
                end
                return server.lane .. " is admitted too early"
            end
        end,
    } },

    -- ---- bounds ----

    { name = "everybody is served", on = {
        finish = function(sim)
            for _, t in ipairs(sim.tasks) do
                if not t.done and not t.process.dead then
                    return t.lane .. " still waits in " .. (t.calling or "?")
                end
            end
        end,
    } },

    { name = "calls return in time", on = {
        call = function(_, call)
            if call.within_us and call.took_us > call.within_us then
                return format("%s: %s(%s) took %s, not %s", call.task.lane, call.method,
                    tostring(call.wait), ms(call.took_us), ms(call.within_us))
            end
        end,
    } },

    { name = "attempts are bounded", on = {
        call = function(sim, call)
            local o = sim.config
            -- Each release that is announced may be followed by a few tries.
            local most = 100 + 14 * (call.grants or 0)
                + 3 * call.took_us / SECOND / math.min(o.retry_delay, o.fallback)
            if call.attempts > most then
                return format("%s: %d attempts in %s", call.task.lane, call.attempts,
                    ms(call.took_us))
            end
        end,
    } },

    { name = "requests are bounded", on = {
        script = function(sim, server, role, _, _, _, attempt)
            if not attempt then
                return nil
            end
            local age = (sim.now() - attempt.at) / MS
            local n = attempt[role][server.index]
            local most
            if role == "acquire" or role == "confirm" or role == "heal" then
                most = (role == "acquire" and 2 or 8)
                    + (attempt.held and 4 + 45 * age / sim.min_lease_ms or 0)
            elseif role == "extend" then
                most = 8 + 45 * age / sim.min_lease_ms
            else
                most = 12 + 2 * age / (sim.config.timeout * 1000)
            end
            if n > most then
                return format("%s: %d times %s for one attempt of %s, %d ms old", server.lane,
                    n, role, attempt.task.lane, age)
            end
        end,
    } },

    { name = "errors have a known code", on = {
        call = function(sim, call)
            local known = call.codes
            if call.code and not known[call.code] and not (sim.twin and call.code == "config") then
                return format("%s: %s gave %s", call.task.lane, call.method, call.code)
            end
        end,
    } },
}

for _, invariant in ipairs(tokens.list) do
    invariant.of = "fenced"
    _M.list[#_M.list + 1] = invariant
end

--- The checks of a schedule: those whose assumptions hold in it.
-- @param sim    broken: the assumptions that do not
-- @param alone  the name of an invariant that is checked alone, whatever it needs
function _M.choose(sim, alone)
    for _, invariant in ipairs(_M.list) do
        local of = invariant.of
        local holds = of == nil or of == "fenced" and sim.fenced > 0
            or of == "guarded" and sim.guarded
        for _, assumption in ipairs(invariant.needs or {}) do
            holds = holds and not sim.broken[assumption]
        end
        if not alone and holds or alone == invariant.name then
            for event in pairs(invariant.on) do
                sim.checks[event] = sim.checks[event] or {}
                local list = sim.checks[event]
                list[#list + 1] = invariant
            end
        end
    end
end

return _M
