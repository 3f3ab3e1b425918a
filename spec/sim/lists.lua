--- Schedules in which the list of servers changes, again and again, while locks are taken and
-- things fail: who changes it is killed at any moment, and members forget, one at a time.
--
-- There are more servers than the first list has. sim.lists.list is the newest list that is in
-- force, as a server was the first to be told.

local base = require "spec.sim.sim"
local family = require "spec.sim.family"
local workload = require "spec.sim.workload"

local floor, format, ipairs, max, min, pairs, tonumber, type = math.floor, string.format,
    ipairs, math.max, math.min, pairs, tonumber, type
local MS, SECOND = base.MS, base.SECOND
local C = base.C

local _M = {}

local MARKER, MEMBERS, FLOOR = "redlock:{server}:marker", "redlock:{server}:members",
    "redlock:{server}:floor"
local EXTRA = 2              -- servers that are in no list at first
local BUCKETS = 1024
local WAS = 4                -- lists before that a server knows

-- Faults that take more than a list can bear while it changes, or what no guard sees.
local EXCLUDED = { ["gone for good"] = true, ["marker lost"] = true, fork = true }

-- In one of so many the clients take permits, with tokens and without, and no locks.
local PERMITS = 4

-- ---- what is drawn ---------------------------------------------------------------

-- They take a hundred times as long as others.
local function drawn(sim, opts)
    if opts.lists ~= nil then
        return opts.lists
    end
    return opts.guarded ~= false and sim:its_turn(9, opts)
end

-- Whether its clients take permits. Asked for, or by the number of the seed.
local function of_permits(sim, opts)
    local which = opts.lists and sim.seed or floor(sim.seed / base.TURNS)
    return opts.family == "permit" or opts.family == nil and which % PERMITS == 3
end

--- Whether a schedule has lists that change. Draws nothing for others.
function _M.choose(sim, opts)
    if not drawn(sim, opts) then
        return
    end
    sim.n = sim:pick { 3, 3, 3, 4, 5 }
    sim.quorum = floor(sim.n / 2) + 1
    sim.lists, sim.guarded, sim.new_cluster = { views = {}, told = {} }, true, true
    sim.twin, sim.prefix, sim.family = nil, nil, nil
    if of_permits(sim, opts) then
        family.choose(sim, { family = "permit" })
        sim.fenced = 0
    end
end

--- How many servers there are.
function _M.servers(sim)
    return min(sim.n + (sim.lists and EXTRA or 0), C.SIM_SERVERS)
end

--- A call has ended. Whether it may have said `config`: the client was told of a list that all have
-- forgotten since, and asks nobody before it is used.
-- @param call  of a process
function _M.may_refuse(sim, call)
    local told, index = sim.lists.told, call.task.process.index
    if not call.code or call.code == "held" then
        told[index] = nil
    end
    return call.code == "config" and told[index] and sim.lists.epoch - told[index] > 2 * WAS
end

local function label(i)
    return format("redis://127.0.0.%d:%d", i, i)
end

local function number_of(text)
    return tonumber(text:match ":(%d+)$")
end

--- The servers that a new client is told of: those of the list in force, or of the one before. No
-- older ones: servers that were in them may be emptied to be in a list again, and are one that is
-- new to whoever comes with such a list (examples/members says to stop them).
-- @param index  of its process
function _M.known(sim, index)
    local list, before = sim.lists.list, sim.lists.before
    sim.lists.told[index] = sim.lists.epoch
    if before and sim:chance(30) then
        list, sim.lists.told[index] = before, sim.lists.epoch - 2
    end
    local numbers = {}
    for i, member in ipairs(list or {}) do
        numbers[i] = number_of(member.label)
    end
    return list and numbers
end

-- ---- who changes it --------------------------------------------------------------

local function call(sim, t, method, opts)
    local client = t.process.client
    local view = { client = client, getName = function() return "" end,
        [method] = function() return client[method](client, opts) end }
    local ok, err = workload.call(sim, t, view, method)
    sim:log(t.lane, "note", method .. ": " .. (ok and "done" or err and tostring(err)
        or "cancelled"))
    return ok, err
end

-- What may be asked for; nil: nothing now.
local function some_wish(sim)
    local list, inside, add = sim.lists.list or {}, {}, {}
    for _, member in ipairs(list) do
        inside[member.label] = true
    end
    for i = 1, #sim.servers do
        add[#add + 1] = not inside[label(i)] and label(i) or nil
    end
    local remove = #list > 0 and sim:pick(list).label or nil
    local one = #add > 0 and sim:pick(add) or nil
    local kind = sim:below(100)
    if #list % 2 == 0 and kind < 50 and #list > 2 then
        return { remove = remove }
    elseif kind < 75 or #list % 2 == 0 then
        return one and { add = one, remove = remove }
    end
    return one and { add = one }
end

-- The life of a coroutine that changes the list.
local function change(sim, t)
    while not sim.calm_at do
        sim:sleep(sim:below(sim.config.guard_us))
        if not (sim.lists.list or sim.calm_at) then
            call(sim, t, "init")
        elseif not sim.lists.online then
            call(sim, t, "members", { online = true })
        elseif not sim.calm_at then
            local wish = not sim:chance(10) and some_wish(sim) or { finish = true }
            sim:log(t.lane, "note", "wants " .. (wish.add and "+" .. wish.add or "") .. " "
                .. (wish.remove and "-" .. wish.remove or "") .. (wish.finish and "finish" or ""))
            call(sim, t, "members", wish)
        end
    end
    while not call(sim, t, "members", { finish = true }) do
        sim:sleep(SECOND)
    end
end

local function begin_changer(sim)
    local processes = require "spec.sim.processes"
    if not sim.calm_at and #sim.processes < C.SIM_PROCESSES - 2 then
        sim.lists.changers[#sim.lists.changers + 1] = processes.add(sim, change)
    end
end

--- Whoever changes lists is there from the beginning.
function _M.begin(sim)
    sim.lists.changers = {}
    for _ = 1, sim:pick { 1, 1, 2 } do
        begin_changer(sim)
    end
end

--- How long it may take until everything is finished, beyond what locks take.
function _M.patience_us(sim)
    return 8 * (sim.config.guard_us + 15 * SECOND)
end

--- The life of a coroutine that takes locks, or permits.
function _M.run(sim, t)
    while not sim.lists.list and not sim.calm_at do
        sim:sleep(50 * MS)
    end
    local life = sim.family and family.run or workload.run
    life(sim, t)
end

-- ---- faults ----------------------------------------------------------------------

local function votes(server)
    local entry = server.db[MARKER]
    return entry and type(entry.value) == "string" and server.state ~= C.SIM_DOWN
        and entry.value:find("^%x+ v2 a " .. server.replid:sub(1, 16)) ~= nil
end

-- Whether a server is in the list in force, or in the one that is on its way.
local function is_member(sim, server)
    for _, list in ipairs { sim.lists.list or {}, sim.lists.next or {} } do
        for _, member in ipairs(list) do
            if number_of(member.label) == server.index + 1 then
                return true
            end
        end
    end
    return false
end

-- Whether all members that there are, or will be, vote, so that one of them may forget.
local function all_vote(sim)
    for _, server in ipairs(sim.servers) do
        if is_member(sim, server) and not votes(server) then
            return false
        end
    end
    return sim.lists.list ~= nil
end

local function begin_late(sim)
    if sim.lists.list and #sim.processes < C.SIM_PROCESSES - 6 then
        require("spec.sim.processes").add(sim, _M.run)
    end
end

-- It may be the first one that somebody meets.
local function restart(sim, server, keep, away)
    sim:restart_server(server, keep, away)
    if sim:chance(50) then
        sim:later(away, function() begin_late(sim) end)
    end
end

_M.faults = {
    -- Its place is taken by another process.
    { name = "a changer is killed", often = 70, times = { 1, 4 }, strike = function(sim)
        local p = sim:pick(sim.lists.changers)
        if not p.dead then
            sim:kill_process(p)
            sim:later(sim:below(sim.config.guard_us), function() begin_changer(sim) end)
        end
    end },

    { name = "a process begins late", often = 50, times = { 1, 3 }, strike = begin_late },

    { name = "a member forgets all", often = 50, times = { 1, 4 }, breaks = "memory",
        strike = function(sim)
            if all_vote(sim) then
                restart(sim, sim:pick(sim.servers), {}, sim:pick { 5 * MS, 50 * MS, SECOND })
            end
        end },

    { name = "a member is set back", often = 40, times = { 1, 4 }, breaks = "memory",
        strike = function(sim)
            local server = sim:pick(sim.servers)
            local disk = server:snapshot()
            sim:later(sim:below(sim.config.guard_us * 2), function()
                if not sim.calm_at and all_vote(sim) then
                    restart(sim, server, disk, sim:pick { 5 * MS, 50 * MS })
                end
            end)
        end },

    { name = "a member fails over and back", often = 30, times = { 1, 2 }, breaks = "memory",
        prepare = function(sim)
            sim:pick(sim.servers).replicas = 1
        end,
        strike = function(sim)
            for _, server in ipairs(sim.servers) do
                if server.replicas > 0 then
                    sim:fail_over_and_back(server, all_vote)
                end
            end
        end },
}

local pool

--- The faults that may be in such schedules.
-- @param list  of all others
function _M.pool(list)
    if not pool then
        pool = { unpack(_M.faults) }
        for _, fault in ipairs(list) do
            if not EXCLUDED[fault.name] and (not fault.breaks or fault.breaks == "wall") then
                pool[#pool + 1] = fault
            end
        end
    end
    return pool
end

-- ---- what must hold --------------------------------------------------------------

-- What a marker says; nil: nothing.
local function read(text)
    if type(text) ~= "string" then
        return nil
    end
    local inc, state, view = text:match "^(%x+) v2 (%a) %S+ %d+ %d+ (%S+) %d+"
    local epoch = view and tonumber(view:match "^%x+%.(%d+)%.%x+$")
    return epoch and { inc = inc, state = state, view = view, epoch = epoch } or nil
end

-- The record that a server has of the view that its marker names.
local function learn(sim, server)
    local record = require "redlock.core.record"
    local entry = server.db[MEMBERS]
    local found = entry and record.parse(entry.value)
    if found then
        sim.lists.views[record.name(found)] = found
    end
end

local function seeded(server)
    local entry, n = server.db[FLOOR], 0
    for i = 0, entry and BUCKETS - 1 or -1 do
        local text = entry.value[format("%d", i)]
        n = n + (text and text:sub(1, 8) == server:memory() and 1 or 0)
    end
    return n
end

-- The servers of the old list that have had a joint view for a guard time, and how many of these
-- stay.
local function stand(sim, before, after)
    local record, since = require "redlock.core.record", sim.now() - 0.98 * sim.config.guard_us
    local n, stay = 0, 0
    for _, member in ipairs(before.old) do
        local server = sim.servers[number_of(member.label)]
        local m = server.view
        if m and m.state == "a" and m.view == record.name(before) and m.at <= since
            and seeded(server) == BUCKETS then
            n = n + 1
            stay = stay + (record.find(after.list, member.label) and 1 or 0)
        end
    end
    return n, stay
end

-- A list is in force from the moment in which the first server has it.
local function comes_into_force(sim, view)
    local lists, record = sim.lists, require "redlock.core.record"
    local after = lists.views[view.view]
    if not after or after.old or lists.list and after.epoch <= lists.epoch then
        if after and after.old then
            lists.next = after.list
        end
        return nil
    end
    local first = not lists.list
    lists.list, lists.epoch, lists.before = after.list, after.epoch, lists.list
    lists.online, lists.next = after.online, nil
    sim.count.changes = (sim.count.changes or 0) + (first and 0 or 1)
    sim:log("resource", "note", "in force: " .. record.labels(after.list))
    if first then
        return nil
    end
    for _, before in pairs(lists.views) do
        if before.old and record.name(record.stable(before)) == view.view then
            local n, stay = stand(sim, before, after)
            local q = floor(#before.old / 2) + 1
            return (n < q or stay < #before.old - q + 1) and format("{%s} is in force, and %d of "
                .. "{%s} agreed to it for long enough, %d of them stay",
                record.labels(after.list), n, record.labels(before.old), stay)
        end
    end
    return format("{%s} is in force, and nobody began it", record.labels(after.list))
end

-- Whether these servers are majorities of the list, and of the one before.
local function carry(view, numbers)
    for _, list in ipairs { view.list, view.old } do
        local n = 0
        for _, member in ipairs(list) do
            n = n + (numbers[number_of(member.label)] and 1 or 0)
        end
        if n < floor(#list / 2) + 1 then
            return false
        end
    end
    return true
end

_M.list = {
    { name = "a server's list only grows newer", on = {
        write = function(_, server, key, old, new)
            local was, now = key == MARKER and old and read(old.value),
                key == MARKER and new and read(new.value)
            if was and now and was.inc == now.inc and now.epoch < was.epoch then
                return format("%s goes back from list %d to %d", server.lane, was.epoch,
                    now.epoch)
            end
        end,
    } },

    { name = "a list comes into force in time", on = {
        script = function(sim, server)
            local entry = server.db[MARKER]
            local text = entry and entry.value
            if text == server.marker_seen then
                return nil
            end
            server.marker_seen = text
            local m, was = read(text), server.view
            if not m then
                server.view = nil
                return nil
            end
            m.at = was and was.view == m.view and was.inc == m.inc and was.at or sim.now()
            learn(sim, server)
            local wrong = m.state == "a" and comes_into_force(sim, m) or nil
            server.view = m
            return wrong
        end,
    } },

    -- What counts is what servers said that were at one list then.
    { name = "a majority of one list", on = {
        script = function(sim, server, role, _, args, vote, attempt, info)
            role = role == "handover" and "acquire" or role
            if attempt and (vote == 1 or vote == 2) and server.view
                and (role == "acquire" or role == "extend") then
                local said = attempt.said or { acquire = {}, extend = {}, slot = {} }
                attempt.said = said
                local of = said[role][server.view.view] or {}
                said[role][server.view.view] = of
                of[server.index + 1] = max(of[server.index + 1] or 0, sim.now() + args[2] * MS)
                said.slot[server.index + 1] = role == "acquire" and info
                    or said.slot[server.index + 1]
            end
        end,
        hold = function(sim, hold, before)
            local said = hold.attempt and hold.attempt.said
            if not said or before and hold.until_us < before then
                return nil
            end
            for name, till in pairs(said[before and "extend" or "acquire"]) do
                local numbers, view = {}, sim.lists.views[name]
                for number, at in pairs(till) do
                    local other = hold.attempt.kind == "permit" and not before
                        and said.slot[number] ~= hold.token
                    numbers[number] = at >= hold.until_us and not other or nil
                end
                if view and carry(view, numbers) then
                    return nil
                end
            end
            return format("%s holds %s, and no list has a majority for that", hold.lane,
                hold.name)
        end,
    } },
}

-- The others that are checked in these schedules: they do not count servers.
local OF_BOTH, OF_PERMITS = {}, {}
for _, name in ipairs { "fresh values", "only what is ours", "keys end",
    "nothing is owed in vain", "who forgot does not vote",
    "a quarantine is no older than it says", "everybody is served", "errors have a known code",
    "one holder", "valid as long as it was said", "validity", "a held lock is held",
    "lost is told", "closed is closed", "hold counts", "tokens grow", "tokens fit",
    "a yes is exact", "a lost counter is nobody's", "counters never go back",
    "nobody learns a floor out of range", "extended before a newer token",
    "a sequencer ends with its hold" } do
    OF_BOTH[name] = true
end
for _, name in ipairs { "who excludes whom", "as many slots as permits",
    "agreed number in every later script", "tokens of a slot grow" } do
    OF_PERMITS[name] = true
end

--- Whether an invariant of others is checked.
function _M.checks(sim, invariant)
    if invariant.of == "family" then
        return sim.family ~= nil and OF_PERMITS[invariant.name]
    end
    return OF_BOTH[invariant.name] and (invariant.of ~= "fenced" or sim.fenced > 0)
end

return _M
