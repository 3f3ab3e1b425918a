--- What must hold. Each invariant is an entry of one table:
--
--   name
--   needs   the assumptions without which it need not hold (README.md): memory, notice,
--           counters, clocks, boottime. Nothing: it holds always.
--   of      fenced, guarded, family: checked in schedules that have it; all: in all; absent: in
--           all but those of the family (family.lua)
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
--           imported(parcel, task)   one of the imports of what was exported has succeeded
--           finish()                 at the end

local base = require "spec.sim.sim"
local base_step = require "spec.sim.base_step"
local holding = require "spec.sim.holding"
local marker_step = require "spec.sim.marker_step"
local sharing = require "spec.sim.sharing"
local tokens = require "spec.sim.tokens"

local ipairs, max, format = ipairs, math.max, string.format
local MS, SECOND = base.MS, base.SECOND
local count = require("spec.sim.attempts").count

local _M = {}

local function any_calls(sim, method)
    for _, task in ipairs(sim.tasks) do
        if task.calling == method then
            return true
        end
    end
    return false
end

local function ms(us)
    return format("%.3f ms", us / MS)
end

--- Whether fenced locks may wait for a server that is gone, as another one does not know tokens.
local function untaught(sim)
    local gone, lacking = sim.twin ~= nil, false
    for _, server in ipairs(sim.servers) do
        local floors = server.db["redlock:{server}:floor"]
        gone = gone or server.state ~= base.C.SIM_UP
        lacking = lacking or server.state == base.C.SIM_UP and not (floors
            and (floors.value.base or ""):sub(1, 8) == server:memory())
    end
    return gone and lacking
end

_M.list = {
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
            elseif role == "import" and not (old and new and old.value == server.replaced
                and new.value == value) then
                return "an import makes or takes " .. key
            elseif (role == "extend" or role == "import" or role == "settle" and not server.ends)
                and old and new and new.at < old.at then
                return role .. " shortens " .. key
            elseif (role == "acquire" or role == "heal") and old then
                return "an attempt overwrites " .. key
            end
        end,
    } },

    { name = "keys end", on = {
        write = function(sim, server, key, old, new)
            -- When a server's clock was stepped back, its keys keep the ends that they had.
            if new and sim.is_name[key] and not (new.at and old and old.at and new.at <= old.at)
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
                local entry, i = server:entry(call.name), server.index
                left = left + (entry and entry.value == call.value and 1 or 0)
                -- Where it never was there is nothing to let go.
                local untouched = attempt.acquire[i] == 0
                    and not (attempt.import and attempt.import[i] > 0)
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

    -- A client whose clock ran ahead takes a lease for over, and owes no release any more.
    { name = "nothing is left", needs = { "memory", "clocks", "rates" }, on = {
        finish = function(sim)
            for _, server in ipairs(sim.servers) do
                for _, name in ipairs(server.state == base.C.SIM_UP and sim.names or {}) do
                    local entry = server:entry(name)
                    local a = entry and sim.attempts[entry.value]
                    local settled = a and a.kind == "once"
                    if a and not (a.given or a.process.dead or a.task.gone or a.straggler
                        or settled
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

    { name = "imported once", needs = { "notice", "clocks", "boottime" }, on = {
        imported = function(_, parcel, t)
            parcel.by = parcel.by or {}
            parcel.by[#parcel.by + 1] = t.lane
            return parcel.by[2] and format("%s is imported by %s", parcel.name,
                table.concat(parcel.by, " and by "))
        end,
    } },

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
            elseif sim.pauses == 0 and (left > asked
                or left < asked * (0.99 - p.client.options.drift_factor) - 1) then
                return format("%s gets %d ms of a lease of %d", sim.task.lane, left, asked)
            end
        end,
    } },

    -- Whoever else has the text, and whatever has become of the one who was first.
    { name = "imported once", needs = { "notice", "clocks", "boottime" }, on = {
        hold = function(_, hold, before)
            local from = not before and hold.attempt and hold.attempt.from
            if from and from.taken_over then
                return hold.lane .. " takes over what " .. from.taken_over .. " has taken over"
            elseif from then
                from.taken_over = hold.lane
            end
        end,
    } },

    -- ---- the guard ----

    { name = "who forgot does not vote", of = "guarded",
        needs = { "boottime", "keys", "quarantines" }, on = {
        script = function(sim, server, role, key, args, vote, attempt)
            local admitted = role == "mark" and vote == args[2]
                and vote:find("^%x+ v4 a " .. server.replid:sub(1, 16))
            if server.lost_at < 0
                or sim.now() - server.lost_at >= sim.config.max_lease * SECOND then
                return nil
            elseif (role == "acquire" or role == "import") and vote == 1 and attempt
                and not attempt.held and attempt.process.client.guarded then
                return server.lane .. " grants " .. key .. ", and has forgotten others"
            -- One that names another life was there already, and admits nobody.
            elseif admitted then
                -- As long as nobody has held anything init() may find the cluster new again.
                if sim.count.grants == 0 and any_calls(sim, "init") then
                    server.lost_at, server.voted = -1, false
                    return nil
                end
                return server.lane .. " is admitted too early"
            end
        end,
    } },

    -- Which names the client's own max_lease; and none to a client without the guard that was
    -- shown a marker.
    { name = "no vote without an admitted marker", of = "guarded", on = {
        before = function(_, server)
            local marker = server.db["redlock:{server}:marker"]
            server.marker_before = marker and marker.value or ""
        end,
        script = function(_, server, role, key, _, vote, attempt)
            if role ~= "acquire" and role ~= "import" or vote ~= 1 or not attempt
                or attempt.held then
                return nil
            end
            local p, text = attempt.process, server.marker_before
            local ours_ms = p.client.options.max_lease * 1000
            local state, max_ms = text:match "^%x+ v4 (%a) %S+ %d+ (%d+) "
            if not p.client.guarded then
                -- A client that was closed since had asked before this one was shown it.
                -- It looks once a second: what it asked soon after that, it does not count.
                local shown_at = server.shown[p.index]
                return shown_at and attempt.at > shown_at + 5 * SECOND
                    and attempt.at > (p.closed_at or -1)
                    and base.C.sim_given_up_us() == 0
                    and format("%s grants %s to %s, which has no guard", server.lane, key, p.lane)
            end
            return (state ~= "a" or math.abs(max_ms - ours_ms) > 1) and format(
                "%s grants %s with the marker %s, for a max_lease of %d ms", server.lane, key,
                text, ours_ms)
        end,
    } },

    -- Not when our own clock jumped. It may have to wait for a connection.
    { name = "only a step is written as one", of = "guarded", needs = { "boottime" }, on = {
        write = function(sim, server, key, old, new)
            return key == "redlock:{server}:marker" and new and new.value:sub(18, 21) == "v4 s"
                and not (old and old.value:sub(21, 21) == "s")
                and sim.now() - (server.stepped_at or -math.huge) > sim.config.guard_us + 5 * SECOND
                and server.lane .. " is said to have stepped"
        end,
    } },

    -- Each client adds only the time that it has seen itself. A quarantine is as long as the
    -- max_lease in its marker, also if a client with another max_lease ends it; init() may cut it.
    -- A failover may bring the text back that was there before the admission.
    { name = "a quarantine is no older than it says", of = "guarded",
        needs = { "boottime", "keys", "quarantines" },
        on = {
        script = function(sim, server, role, _, args, vote)
            local text = role == "mark" and vote:sub(1, #args[2]) == args[2] and vote or ""
            local inc, state, max_ms, observed =
                text:match "^(%x+) v4 (%a) %S+ %d+ (%d+) %S+ ?(%d*)"
            if not inc or text == server.marked then
                return nil           -- or it says that it has it
            end
            local began = server.began or {}
            server.marked, server.began = text, began
            local ends = state == "a"
            local since = (ends or observed ~= "0") and began[inc] or not ends and sim.now()
            began[inc] = since or nil
            local age_ms = since and (sim.now() - since) / MS or math.huge
            if ends and any_calls(sim, "init") then
                return nil
            end
            observed = ends and max_ms * 1.01 + 1000 or tonumber(observed)
            return observed > age_ms * 1.01 + 2 and format("%s: %d ms of a quarantine that is "
                .. "%.3f ms old", server.lane, observed, age_ms)
        end,
    } },

    -- ---- steps of the models ----

    { name = "a marker's step is one of the model's", of = "all", on = {
        write = function(sim, server, key, old, new)
            local why = key == "redlock:{server}:marker" and new
                and marker_step.wrong(old and old.value, new.value, any_calls(sim, "init"))
            return why and server.lane .. ": " .. why
        end,
    } },

    { name = "a base is what others gave out", of = "all", on = {
        script = function(sim, server, role, _, _, vote, _, n)
            local why = role == "tell" and base_step.told(server, sim.now(), vote, n)
            return why and server.lane .. " " .. why
        end,
        write = function(sim, server, key, old, new)
            -- Without the guard: late, where what was out of range was deleted meanwhile.
            local text = key == base_step.KEY and (sim.guarded or server ~= sim.misled)
                and new and new.value.base
            if text and text ~= (old and old.value.base) and not sim.twin then
                local away_us = 0
                for _, p in ipairs(sim.processes) do
                    away_us = max(away_us, p.stopped_us)
                end
                local why = base_step.wrong(sim.servers, server, text, sim.now(), away_us)
                return why and server.lane .. " " .. why
            end
        end,
    } },

    -- ---- bounds ----

    { name = "everybody is served", on = {
        finish = function(sim)
            for _, t in ipairs(sim.tasks) do
                if not t.done and not t.process.dead and not untaught(sim) then
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
            if not attempt or role == "arrive" then
                return nil           -- who arrives may do so again and again
            end
            local age = (sim.now() - attempt.at) / MS
            local n = (attempt[role] or {})[server.index] or 0
            local most
            if role == "acquire" or role == "confirm" or role == "heal" or role == "import" then
                most = (role == "acquire" and 3 or 8)
                    + (attempt.held and 4 + 45 * age / sim.min_lease_ms or 0)
            elseif role == "extend" then
                most = 8 + 45 * age / sim.min_lease_ms
            else
                most = 12 + 2 * age / (sim.config.timeout * 1000)
            end
            if server.index + 1 == sim.twin then
                most = 2 * most          -- by either address
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
            local expected = (sim.twin or sim.broken.configuration) and call.code == "config"
            if call.code and not known[call.code] and not expected then
                return format("%s: %s gave %s", call.task.lane, call.method, tostring(call.err))
            end
        end,
    } },
}

for _, invariant in ipairs(tokens.list) do
    invariant.of = "fenced"
end
for _, part in ipairs { holding.list, tokens.list } do
    for _, invariant in ipairs(part) do
        _M.list[#_M.list + 1] = invariant
    end
end

for _, invariant in ipairs(sharing.list) do
    invariant.of = "family"
    _M.list[#_M.list + 1] = invariant
end

-- What is checked in schedules of the family, too. The others are about exclusive locks alone.
local OF_BOTH = {}
for _, name in ipairs { "a majority confirmed", "validity", "max_hold", "nothing is owed in vain",
    "everybody is served", "errors have a known code", "no is no", "fresh values",
    "requests are bounded", "who forgot does not vote", "a quarantine is no older than it says",
    "nothing is left", "a lease as long as was asked for", "heals after a majority" } do
    OF_BOTH[name] = true
end

-- Whether a schedule is one of those that an invariant is about.
local function is_of(sim, invariant)
    local of = invariant.of
    if of == "all" then
        return true
    elseif of == "family" or sim.family and not OF_BOTH[invariant.name] then
        return of == "fenced" and sim.has_tokens
            or of == "family" and sim.family ~= nil and (sim.guarded or not invariant.guarded)
    end
    return of == nil or of == "fenced" and sim.fenced > 0 or of == "guarded" and sim.guarded
end

--- The checks of a schedule: those whose assumptions hold in it.
-- @param sim    broken: the assumptions that do not
-- @param alone  the name of an invariant that is checked alone, whatever it needs
function _M.choose(sim, alone)
    for _, invariant in ipairs(_M.list) do
        local holds = is_of(sim, invariant)
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
