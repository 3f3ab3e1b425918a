--- What must hold of holds: invariants (see invariants.lua).

local base = require "spec.sim.sim"

local ipairs, ceil, max = ipairs, math.ceil, math.max
local find, format, sub = string.find, string.format, string.sub
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

-- Whether the only clock that was wrong is one server's, which stepped, and others have its key.
local function outlives(sim, hold)
    return hold.outlives and not sim.several_clocks and sim.n >= 3
end

local function ms(us)
    return format("%.3f ms", us / MS)
end

-- Whether a yes of a server to an extension counts: not in quarantine, where a majority is less
-- than all servers.
local function counts(sim, server, attempt)
    local marker = server.db["redlock:{server}:marker"]
    return sim.quorum == sim.n or not attempt.process.client.guarded or marker ~= nil
        and find(marker.value, "^%x+ v4 a " .. sub(server.replid, 1, 16)) ~= nil
end

-- Whether an export of it has begun: it is nobody's then, also where the export fails. A renewal of
-- it may be answered meanwhile.
local function is_exported(hold)
    return hold.attempt and hold.attempt.exported
end

_M.list = {
    -- A majority executed the script that made the hold what it is, and had a vote then.
    { name = "a majority confirmed", needs = { "boottime" }, on = {
        script = function(sim, server, role, _, args, vote, attempt)
            role = role == "import" and "acquire" or role
            if attempt and (vote == 1 or vote == 2) and (role == "acquire"
                or role == "extend" and counts(sim, server, attempt)) then
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
            -- After a step of a server's clock a hold is cut short by its own client. Nobody
            -- notices that one server votes twice which has two addresses and forgets its first
            -- vote, if there is no guard or it does not say who it is.
            local twice = sim.twin and not sim.guarded or sim.prefix and sim.prefix.secret
            if n < sim.quorum and not (before and hold.until_us < before)
                and not (twice and sim.broken.memory) then
                return format("%s holds %s until %s, by the word of %d of %d", hold.lane,
                    hold.name, ms(hold.until_us), n, sim.n)
            end
        end,
    } },

    { name = "one holder", needs = { "notice", "clocks", "boottime" }, on = {
        hold = function(sim, hold)
            for _, other in ipairs(sim.held) do
                local exported = is_exported(hold) or is_exported(other)
                if other ~= hold and other.name == hold.name and other.until_us > sim.now()
                    and hold.until_us > sim.now() and not exported then
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

    -- Stronger than one holder, and needs no second one to show: the keys outlive the hold. (A
    -- renewal may be answered while its keys are exported, or after its server's clock is stepped.)
    { name = "keys outlive the hold", needs = { "memory", "clocks", "boottime" }, on = {
        hold = function(sim, hold, before)
            local n = 0
            for _, server in ipairs(sim.servers) do
                local entry = server:entry(hold.name)
                n = n + ((sim.now() - (server.stepped_at or -SECOND) < SECOND
                    or entry and entry.value == hold.value
                    and sim:gone_at(server, hold.name) >= hold.until_us) and 1 or 0)
            end
            if n < sim.quorum and hold.until_us > sim.now() and not (before and hold.releasing) then
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
            -- Cut short because of a server's clock, or of its own that stood still, also in the
            -- moment in which it begins.
            elseif hold.deadline_ms <= hold.now_ms and not (before and hold.until_us < before)
                and not sim.stepped_us and hold.process.froze_us == 0 then
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

    -- Of an extension; for a server that gave nothing, or another slot, the attempt's own will do.
    -- (And for one whose yes did not count: its clock stepped, as its client saw it.)
    { name = "heals after a majority", on = {
        script = function(sim, server, role, key, args, vote, attempt)
            if not attempt or vote ~= 1 or server.repeats then
                return nil
            elseif role == "import"
                or role == "acquire" and tonumber(args[2]) == attempt.lease_ms + sim.delay_ms then
                attempt.took[server] = not key:find ":slots$"
            elseif (role == "heal" or role == "acquire") and attempt.held
                and count(attempt.extend.yes) < sim.quorum and attempt.took[server]
                and not server.stepped_at and attempt.process.froze_us == 0 then
                return server.lane .. " gets " .. key .. " again, and no majority has confirmed it"
            end
        end,
    } },

    -- Who extends it is who holds it: what others do, or did before him, adds nothing. (A clock
    -- that stood still may see an answer come before its question.)
    { name = "a lease as long as was asked for", on = {
        hold = function(_, hold, before)
            local a, left = hold.attempt, hold.deadline_ms - hold.now_ms
            if before and a and not hold.extended and hold.process.froze_us == 0
                and left > a.lease_ms - drift_ms(a.lease_ms) then
                return format("%s has %s for %d ms more, and asked for a lease of %d", hold.lane,
                    hold.name, left, a.lease_ms)
            end
        end,
    } },

    { name = "max_hold", on = {
        hold = function(sim, hold, before)
            local lease = sim.max_lease_ms * MS
            if before and not hold.extended
                and hold.until_us > hold.at + sim.config.max_hold * SECOND + 1.1 * lease
                    + hold.process.froze_us then
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
                return t.attempt.refused == 0 and p.refused_at < call.began_us
                    and t.lane .. ": held, and no server refused"
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
                and call.hold.until_us > sim.now() and not let_go(sim, call.hold) then
                return call.task.lane .. " holds " .. call.hold.name .. ", isLocked says no"
            end
        end,
    } },

    -- And neither by a step of one server's clock, where all others have its key.
    { name = "lost only by time", needs = { "memory", "counting", "boottime" },
        on = {
            hold = function(sim, hold, before)
                return before and hold.until_us < before - 5 * MS and outlives(sim, hold)
                    and format("%s: a step of one clock cuts %s short by %s", hold.lane,
                        hold.name, ms(before - hold.until_us))
            end,
            ended = function(sim, hold)
                -- A restarted server counts from a new floor, and disowns older tokens.
                if hold.token > 0 and any_restarted(sim)
                    or sim.broken.clocks and not outlives(sim, hold) then
                    return nil
                elseif hold.until_us > sim.now() and not let_go(sim, hold) then
                    return format("%s loses %s %s before the end", hold.lane, hold.name,
                        ms(hold.until_us - sim.now()))
                end
            end,
            call = function(sim, call)
                if not sim.broken.clocks and call.method == "unlock" and call.live
                    and (call.code == "expired" or call.code == "held")
                    and call.live.until_us > sim.now() then
                    return format("%s: unlock said %s %s before the end", call.task.lane,
                        call.code, ms(call.live.until_us - sim.now()))
                end
            end,
        } },

    { name = "kept in good health", on = {
        call = function(_, call)
            return call.kept and call.hold and not call.ok and not call.paused
                and call.task.lane .. " has lost what was to be kept"
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
}

return _M
