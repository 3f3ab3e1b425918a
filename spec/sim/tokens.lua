--- What must hold of fencing tokens: invariants (see invariants.lua), and what they keep.
--
-- Tokens need `counters`: no server may forget what it has counted without the guard seeing
-- to it. What one execution of a script does needs nothing.

local base = require "spec.sim.sim"
local base_step = require "spec.sim.base_step"

local format, match, tonumber, tostring = string.format, string.match, tonumber, tostring
local MS, SECOND, max = base.MS, base.SECOND, math.max
local count = require("spec.sim.attempts").count

local _M = {}

local FLOOR, LIMIT = base_step.KEY, base_step.LIMIT
local STEP = 32              -- of fenced/counter.lua

--- The number in a counter or in a field of the floors, and in which run it was written.
local function read(text)
    local run, n = match(text or "", "^(%x%x%x%x%x%x%x%x)(%d+)%f[ %z]")
    return tonumber(n), run
end

--- A number of the server's present memory; nil: none, or out of range.
local function of_this_run(server, text)
    local n, run = read(text)
    return run == server:memory() and n < LIMIT and n or nil
end

--- What the keys of a name are called.
function _M.names(sim)
    local hash = require("redlock.text.encoding").hash
    sim.is_name, sim.name_of, sim.counter_of, sim.bucket_of = {}, {}, {}, {}
    for _, name in ipairs(sim.names) do
        local key = "redlock:{" .. name .. "}:fence"
        sim.is_name[name], sim.name_of[key], sim.counter_of[name] = true, name, key
        sim.bucket_of[name] = format("%d", hash(name) % 1024)
    end
    sim.issued = {}          -- name -> list of { at, token, most }
end

local function floor_at(sim, server, name)
    local floors = server.db[FLOOR] and server.db[FLOOR].value or {}
    local least, text = of_this_run(server, floors.base), floors[sim.bucket_of[name]] or ""
    local own = of_this_run(server, text)
    if least and not own and text:sub(1, 8) == server:memory() then
        return of_this_run(server, floors.most)      -- the bucket's is out of range
    end
    return least and max(least, own or 0)
end

--- From where a server goes on counting.
local function counter_at(sim, server, name)
    local entry = server:entry(sim.counter_of[name])
    return entry and of_this_run(server, entry.value) or floor_at(sim, server, name)
end
_M.counter_at = counter_at

-- Nothing was counted, and the lock lent to a hold with that token: see fenced/heal.lua.
local function lent_at(sim, server, name, token, value)
    local entry = server:entry(sim.counter_of[name])
    return entry and entry.value == format("%s=%.0f %s", server:memory(), token, value:sub(1, 8))
end

--- Makes a server count a name further, if it may; see fenced/counter.lua.
function _M.count_on(sim, server, name, by)
    local key, bucket = sim.counter_of[name], sim.bucket_of[name]
    local floor, entry = floor_at(sim, server, name), server:entry(key)
    local counter = counter_at(sim, server, name)
    if not floor or not counter then
        return
    end
    local n, run = counter + by, server:memory()
    local most = of_this_run(server, server.db[FLOOR].value.most)
    if n > floor and not most then
        return                           -- it counts no more: counter.lua
    elseif n > floor then
        local floors = {}
        for field, value in pairs(server.db[FLOOR].value) do
            floors[field] = value
        end
        floor = n - n % STEP + STEP - 1
        floors[bucket] = run .. format("%.0f", floor)
        floors.most = run .. format("%.0f", max(floor, most))
        server.db[FLOOR] = { value = floors }
    end
    server.db[key] = { value = run .. format("%.0f 00000000", n), at = entry and entry.at }
end

--- Gives a server a floor that nobody can have come to, and the counter's text as well, or none.
function _M.set_floor(sim, server, name, text, counter)
    local run, floors = server:memory(), {}
    if not floor_at(sim, server, name) then
        return
    end
    for field, value in pairs(server.db[FLOOR].value) do
        floors[field] = value
    end
    floors[sim:pick { "base", "most", sim.bucket_of[name] }] = run .. text
    server.db[FLOOR] = { value = floors }
    server.db[sim.counter_of[name]] = counter and { value = run .. counter .. " 00000000" } or nil
end

--- What is done about it by hand, where it cannot learn from others.
function _M.delete_floors(server)
    server.db[FLOOR] = nil
end

--- The largest token of a name that was issued before that time; 0: none.
local function issued_before(sim, name, at)
    local list = sim.issued[name] or {}
    for i = #list, 1, -1 do
        if list[i].at < at then
            return list[i].most
        end
    end
    return 0
end

local function issue(sim, hold)
    local list = sim.issued[hold.name] or {}
    sim.issued[hold.name] = list
    local last = list[#list]
    list[#list + 1] = { at = sim.now(), token = hold.token, value = hold.value,
        most = max(last and last.most or 0, hold.token) }
end

local function number(n)
    return format("%.0f", n)
end

-- ---- what a server witnessed, step by step ---------------------------------------

--- The grants of a name, in order, with what they were counted as.
local function steps_of(server, name)
    server.steps = server.steps or {}
    server.steps[name] = server.steps[name] or { witnessed = 0 }
    return server.steps[name]
end

-- lent: it said yes, and has not counted the token.
local function witness(server, attempt, name, token, lent)
    local set = attempt.witnesses[token]
    if not set then
        set = { servers = 0 }
        attempt.witnesses[token] = set
    end
    if set[server.index] == nil then
        set.servers = set.servers + 2 ^ server.index
        set[server.index] = not lent and #steps_of(server, name)
    end
end

local function record(sim, server, role, name, args, vote, attempt, info)
    if not attempt or not attempt.witnesses then
        return
    elseif role == "confirm" and vote == 1 or role == "import" and (vote == 1 or vote == 2) then
        local token = tonumber(args[3])
        witness(server, attempt, name, token, role == "import" and info ~= token)
    elseif role == "acquire" and (vote == 1 or vote == 2) then
        if vote == 1 then
            local steps = steps_of(server, name)
            steps[#steps + 1] = { value = attempt.value, counter = info, at = sim.now(),
                floor = floor_at(sim, server, name) }
        end
        witness(server, attempt, name, info)
    end
end

local WITNESS = { acquire = true, confirm = true, extend = true, heal = true, import = true }

_M.list = {
    { name = "a token has its witnesses", on = {
        script = record,
        hold = function(sim, hold, before)
            if before or not hold.attempt or not hold.attempt.witnesses then
                return nil
            end
            local set = hold.attempt.witnesses[hold.token]
            local n = set and count(set.servers) or 0
            return n < sim.quorum and format("%s gets token %s of %s, by the word of %d of %d",
                hold.lane, number(hold.token), hold.name, n, sim.n)
        end,
    } },

    { name = "tokens grow", needs = { "counters" }, on = {
        hold = function(sim, hold, before)
            local from = hold.attempt and hold.attempt.from
            if before or hold.token == 0 then
                return nil
            elseif from then             -- imported
                return hold.token ~= from.token and format("%s imports token %s of %s as %s",
                    hold.lane, number(from.token), hold.name, number(hold.token))
            end
            for _, other in ipairs(sim.issued[hold.name] or {}) do
                if other.token == hold.token and other.value ~= hold.value then
                    return format("%s gets token %s of %s, which was issued before", hold.lane,
                        number(hold.token), hold.name)
                end
            end
            local most = issued_before(sim, hold.name, hold.attempt.at)
            issue(sim, hold)
            return most >= hold.token and format("%s gets token %s of %s, after %s", hold.lane,
                number(hold.token), hold.name, number(most))
        end,
    } },

    -- On one server, what is witnessed later is larger: that is why tokens are.
    { name = "counted above what was witnessed", needs = { "counters" }, on = {
        script = function(_, server, role, name, _, vote, attempt, info)
            if role == "acquire" and vote == 1 and attempt
                and attempt.witnesses and info <= steps_of(server, name).witnessed then
                return format("%s counts a grant of %s as %s, after token %s", server.lane, name,
                    number(info), number(steps_of(server, name).witnessed))
            end
        end,
        hold = function(sim, hold, before)
            local set = not before and hold.attempt.witnesses
                and hold.attempt.witnesses[hold.token]
            for _, server in ipairs(sim.servers) do
                local from = set and set[server.index]
                local steps = from and steps_of(server, hold.name) or {}
                for i = (from or 0) + 1, #steps do
                    if steps[i].counter <= hold.token and steps[i].value ~= hold.value then
                        return format("%s witnessed token %s of %s, and counted a later grant "
                            .. "as %s", server.lane, number(hold.token), hold.name,
                            number(steps[i].counter))
                    end
                end
                if from then
                    steps.witnessed = max(steps.witnessed, hold.token)
                end
            end
        end,
    } },

    { name = "tokens fit", on = {
        hold = function(_, hold, before)
            if not before and hold.attempt and hold.attempt.witnesses
                and not (hold.token > 0 and hold.token < LIMIT) then
                return hold.lane .. " gets token " .. tostring(hold.token)
            end
        end,
        call = function(_, call)
            local token = call.hold and call.hold.token
            if (call.took or call.method == "token") and call.token and not call.paused
                and token ~= call.token then
                return format("%s is told token %s, and has %s", call.task.lane,
                    tostring(call.token), tostring(token))
            end
        end,
    } },

    -- What says yes has the key, and has counted no further than the token.
    { name = "a yes is exact", on = {
        script = function(sim, server, role, name, args, vote, attempt, info)
            if not (attempt and attempt.witnesses and WITNESS[role])
                or vote ~= 1 and vote ~= 2 then
                return nil
            end
            local counts = role == "acquire"
            local token = counts and info or tonumber(args[3])
            local entry = server:entry(name)
            if not entry or entry.value ~= attempt.value then
                return format("%s says yes to %s of %s, and has not its key", server.lane, role,
                    name)
            elseif token > 0 and counter_at(sim, server, name) ~= token
                and (counts or not lent_at(sim, server, name, token, attempt.value)) then
                return format("%s says yes to %s of %s with token %s, and has counted to %s",
                    server.lane, role, name, number(token),
                    tostring(counter_at(sim, server, name)))
            end
        end,
    } },

    -- Nobody can have taken what only lost its counter.
    { name = "a lost counter is nobody's", on = {
        script = function(sim, server, role, name, _, vote, attempt)
            if role ~= "extend" or vote ~= -1 or not (attempt and attempt.witnesses) then
                return nil
            end
            local lock, counter = server:entry(name), server:entry(sim.counter_of[name])
            return lock and lock.value == attempt.value
                and not (counter and of_this_run(server, counter.value))
                and format("%s says that %s is somebody else's, and has its key", server.lane,
                    name)
        end,
    } },

    -- But to what it was when the script began, which then has given nothing.
    { name = "counters never go back", on = {
        before = function(_, server)
            server.counted = {}
        end,
        script = function(_, server)
            server.counted = nil
        end,
        write = function(sim, server, key, old, new)
            local name, counted = sim.name_of[key], server.counted or {}
            counted[key] = counted[key] or old and old.value
            if name and new then
                local was, now = old and of_this_run(server, old.value), read(new.value)
                if was and (not now or now < was) and counted[key] ~= new.value then
                    return format("%s counts %s back from %s to %s", server.lane, name,
                        number(was), new.value)
                end
            elseif key == FLOOR and old and new then
                for bucket, text in pairs(new.value) do
                    local before = old.value[bucket]
                    local was = before ~= text and bucket ~= "marker"
                        and of_this_run(server, before)
                    if was and (read(text) or 0) < was then
                        return server.lane .. " lowers a floor"
                    end
                end
            end
        end,
    } },

    { name = "nobody learns a floor out of range", on = {
        write = function(_, server, key, old, new)
            for bucket, text in pairs(key == FLOOR and new and new.value or {}) do
                if text ~= (old and old.value[bucket]) and (read(text) or 0) >= LIMIT then
                    return server.lane .. " gets a floor that nobody can have come to"
                end
            end
        end,
    } },

    { name = "what is counted has a floor above it", on = {
        write = function(sim, server, key, old, new)
            local name = sim.name_of[key]
            if not name or not new or old and old.value == new.value then
                return nil
            end
            local _, run = read(new.value)
            if run ~= server:memory() then
                return nil           -- by a late request, in a memory that is over
            end
            local floor = floor_at(sim, server, name)
            return not (floor and read(new.value) <= floor) and format(
                "%s counts %s to %s, its floor is %s", server.lane, name,
                number(read(new.value)), floor and number(floor) or "lost")
        end,
    } },

    -- Whoever knows that a server has counted so far does not make it look again.
    { name = "a release leaves the token behind", needs = { "floors" }, on = {
        script = function(sim, server, role, name, args, vote, attempt)
            -- "?": who releases it does not know which memory that is, behind a READONLY, say.
            -- Nor can anybody know that it went back while its connections stayed: it counts
            -- nothing more before its quarantine.
            if role ~= "release" or vote ~= 1 or not attempt or not attempt.witnesses
                or args[#args] == "?" or (server.went_back_at or -1) >= attempt.at then
                return nil
            end
            -- Without a floor nothing is counted.
            local counter = floor_at(sim, server, name) and counter_at(sim, server, name)
            local token = attempt.token or 0
            return counter and counter < token and format("%s releases token %s of %s at %s",
                server.lane, number(token), name, number(counter))
        end,
    } },

    { name = "extended before a newer token", needs = { "counters" }, on = {
        call = function(sim, call)
            local token = call.held_token
            if (call.method == "extend" or call.method == "stillMine"
                or call.method == "checkSequencer") and call.ok and token and token > 0
                and issued_before(sim, call.name, call.began_us) > token then
                return format("%s: %s says that token %s of %s is current, after %s",
                    call.task.lane, call.method, number(token), call.name,
                    number(issued_before(sim, call.name, call.began_us)))
            end
        end,
        hold = function(sim, hold, before)
            if not before or hold.token == 0 or hold.until_us <= before or hold.extended
                or not hold.attempt then
                return nil
            end
            -- By the watchdog: its lease is that of the attempt, counted from its begin, which
            -- may have been before its clock stood still.
            local lease_ms = hold.attempt.lease_ms
            local began_us = hold.until_us - 1.01 * lease_ms * MS - hold.process.froze_us
            if issued_before(sim, hold.name, began_us) > hold.token then
                return format("%s: token %s of %s is renewed after %s was issued", hold.lane,
                    number(hold.token), hold.name,
                    number(issued_before(sim, hold.name, began_us)))
            end
        end,
    } },

    -- Whoever has the name then, and with whatever kind of lock.
    -- Without the guard a server may have been set back to when the lock was held.
    { name = "a sequencer ends with its hold", on = {
        call = function(sim, call)
            return call.method == "checkSequencer" and call.ok and call.let_go
                and (sim.guarded or sim.servers[1].lost_at < 0) and format(
                "%s: the sequencer with token %s of %s is current, and was let go",
                call.task.lane, number(call.held_token), call.name)
        end,
    } },

    -- No attempt counts on what a server said before it got its floor.
    { name = "a base is taught after the quarantine",
        needs = { "boottime", "notice", "quarantines" }, on = {
        write = function(sim, server, key, old, new)
            local taught = key == FLOOR and new and new.value.base
            if not taught or old and old.value.base == taught or not sim.guarded or not server.voted
            then
                return nil           -- it is new, or was found to be so again by init()
            end
            for _, name in ipairs(sim.names) do
                local steps = steps_of(server, name)
                -- A counter that is there still goes on, whatever the floor.
                local last = not server.db[sim.counter_of[name]] and steps[#steps]
                if last and last.floor and sim.now() - last.at < sim.config.max_lease * SECOND then
                    return format("%s gets a floor %.3f ms after it granted %s", server.lane,
                        (sim.now() - last.at) / MS, name)
                end
            end
        end,
    } },
}

return _M
