--- What must hold of the members of the family: invariants (see invariants.lua). Further events:
--
--   before(server, key, args)   a script is executed
--   start(s)          of a rate limiter: task, at (when it was asked for), had (when a majority
--                     had given it), period_us
--   job(s)            of a period begins: name, at (when it was asked for), ran_us (now),
--                     looked_us (when its client last read its clock), period_us, sure:
--                     it counts as done: it has returned, or the option `before` was given
--   elected(e)        id, term, name, began_us
--   leader(l, name)   what leader() said: id, term
--   count(c)          of a latch: known, n are missing, acked when it was asked, open before
--   permit's token(e)   slot, token, task, began_us: when it was asked for
--   no latch(known)   a latch that was made is not found

local bit = require "bit"
local base = require "spec.sim.sim"

local ipairs, pairs, tonumber, tostring, type = ipairs, pairs, tonumber, tostring, type
local format = string.format
local MS = base.MS
local count = require("spec.sim.attempts").count

local _M = {}

local ASSUMED = { "notice", "clocks", "boottime" }
local SHARED = { read = true, permit = true }

local function ms(us)
    return format("%.3f ms", us / MS)
end

-- The keys of a hold that nobody else may have.
local function own_keys(hold)
    local a = hold.attempt
    return a and a.kind == "multi" and a.keys or { hold.name }
end

local function share_a_key(a, b)
    for _, key in ipairs(own_keys(a)) do
        for _, other in ipairs(own_keys(b)) do
            if key == other then
                return true
            end
        end
    end
    return false
end

local function is_of(hold, kind)
    return hold.attempt ~= nil and hold.attempt.kind == kind
end

local function is_slot(hold)
    return is_of(hold, "permit") or is_of(hold, "limiter")
end

-- Whether two holds must not be there together.
local function conflict(a, b)
    if is_of(a, "latch") or is_of(b, "latch") or is_of(a, "read") and is_of(b, "read")
        or a.attempt.forced or b.attempt.forced then
        return false
    elseif is_slot(a) and is_slot(b) then
        return a.name == b.name and a.token == b.token
    end
    return share_a_key(a, b)
end

-- ---- the line of a fair lock ---------------------------------------------------------

local function in_queue(server, name, waiter)
    local queue, living = server:entry("redlock:{" .. name .. "}:queue"),
        server:entry("redlock:{" .. name .. "}:living")
    local ends = living and living.value.score[waiter]
    return queue and queue.value.score[waiter], ends
end

-- The waiters that a script enters: a list of { id, ticket }.
local function entered(role, args)
    local list = {}
    if role == "stand" then
        for id, ticket in string.gmatch(args[7], "(%x+) (%d+)[=-]") do
            list[#list + 1] = { id = id, ticket = ticket }
        end
    elseif args[4] ~= "0" then
        list[1] = { id = args[3], ticket = args[4] }
    end
    return list
end

-- Whoever is known to wait, by his number; and the wait of one who was not known.
local function waiter_of(sim, name, id, ticket)
    local line = sim.line or {}
    sim.line = line
    local w = line[id]
    if w then
        return w
    end
    w = { id = id, name = name, ticket = tonumber(ticket), servers = 0, seen = {} }
    line[id] = w
    for _, one in ipairs(sim.waits) do
        if rawget(one.wait, "id") == id then
            w.task = one.task
            return w, one
        end
    end
    return w
end

-- Those who waited before a call began, on a majority all the time, and wait still.
local function stands_before(sim, w, began_us)
    if w.over or w.evicted or not w.registered or w.registered >= began_us then
        return false
    end
    local n = 0
    for _, server in ipairs(sim.servers) do
        local ticket, ends = in_queue(server, w.name, w.id)
        n = n + (ticket and ends and ends > server.now_ms and 1 or 0)
    end
    return n >= sim.quorum
end

-- One more script has entered a waiter, and got him no lock.
local function stood(sim, server, w)
    w.seen[server.index] = true
    w.servers = bit.bor(w.servers, 2 ^ server.index)
    if not w.registered and count(w.servers) >= sim.quorum then
        w.registered = sim.now()
    end
end

local function on_line(sim, server, name, one, refused)
    local w, wait = waiter_of(sim, name, one.id, one.ticket)
    if tonumber(one.ticket) ~= w.ticket then
        return format("%s stood in line with ticket %d, and comes again with %s", w.id, w.ticket,
            one.ticket)
    end
    for _, other in pairs(wait and sim.line or {}) do
        if other ~= w and other.name == name and other.ticket >= w.ticket
            and stands_before(sim, other, wait.began_us) then
            return format("%s draws ticket %d behind %s, who has %d", w.id, w.ticket, other.id,
                other.ticket)
        end
    end
    -- One who had been forgotten, or came too late, had lost his place meanwhile.
    w.evicted = w.evicted or w.seen[server.index] and not server.stood[w.id]
    if refused then
        stood(sim, server, w)
    end
end

-- ---- the invariants --------------------------------------------------------------------

_M.list = {
    { name = "who excludes whom", needs = ASSUMED, on = {
        hold = function(sim, hold)
            for _, other in ipairs(sim.held) do
                if other ~= hold and other.until_us > sim.now() and hold.until_us > sim.now()
                    and other.attempt ~= hold.attempt.from and conflict(hold, other) then
                    return format("%s (%s) and %s (%s) both hold %s, until %s and %s", hold.lane,
                        hold.attempt.kind, other.lane, other.attempt.kind, hold.name,
                        ms(hold.until_us), ms(other.until_us))
                end
            end
        end,
    } },

    { name = "no writer in between", needs = ASSUMED, on = {
        hold = function(sim, hold, before)
            local a = hold.attempt
            local last = sim.exclusive or {}
            sim.exclusive = last
            if before or not a then
                return nil
            elseif a.kind ~= "read" then
                for _, key in ipairs(own_keys(hold)) do
                    last[key] = a
                end
            elseif a.from and a.from.kind == "write" and last[hold.name] ~= a.from
                and not (a.forced or a.from.forced or (last[hold.name] or a).forced) then
                return hold.lane .. " reads " .. hold.name .. " behind another writer"
            end
        end,
    } },

    { name = "as many slots as permits", on = {
        hold = function(sim, hold)
            if is_slot(hold) and (hold.token < 1 or hold.token > sim.permits) then
                return format("%s has slot %d of %d", hold.lane, hold.token, sim.permits)
            end
        end,
    } },

    { name = "strays never counted", on = {
        script = function(_, server, role, _, _, vote, attempt, info)
            if attempt and role == "acquire" and (vote == 1 or vote == 2)
                and (attempt.kind == "permit" or attempt.kind == "limiter") then
                attempt.slots = attempt.slots or {}
                attempt.slots[server.index .. " " .. info] = true    -- if executed twice, both
            end
        end,
        hold = function(sim, hold, before)
            if before or not is_slot(hold) then
                return nil
            end
            local n = 0
            for i = 0, sim.n - 1 do
                n = n + ((hold.attempt.slots or {})[i .. " " .. hold.token] and 1 or 0)
            end
            return n < sim.quorum and format("%s has slot %d by the word of %d of %d", hold.lane,
                hold.token, n, sim.n)
        end,
    } },

    { name = "agreed number in every later script", on = {
        script = function(_, server, role, key, args, vote, attempt, info)
            local number = attempt and attempt.number
            if number and role ~= "acquire" and tonumber(args[3]) ~= number then
                return format("%s: %s for slot %s, and %d was agreed upon", server.lane, role,
                    args[3], number)
            elseif number and role == "acquire" and vote == 1 and tonumber(args[3]) == number
                and info ~= number then
                return format("%s gives slot %d back as %d", server.lane, number, info)
            elseif number and role == "extend" and vote == 1 then
                local who = server:entry((key:gsub("slots$", "who")))
                local slot = who and tonumber(who.value[args[1]])
                return slot ~= number and format("%s extends slot %s for %d", server.lane,
                    tostring(slot), number)
            end
        end,
    } },

    { name = "tokens of a slot grow", needs = { "counters" }, on = {
        ["permit's token"] = function(sim, e)
            sim.numbered, e.at = sim.numbered or {}, sim.now()
            for _, other in ipairs(sim.numbered) do
                if e.slot == other.slot and (e.token == other.token
                    or e.token < other.token and other.at < e.began_us) then
                    return format("%s gets token %.0f of slot %d, and %s got %.0f before",
                        e.task.lane, e.token, e.slot, other.task.lane, other.token)
                end
            end
            sim.numbered[#sim.numbered + 1] = e
        end,
    } },

    -- When one was had, each that had been asked for within the period was in its slot still.
    { name = "starts in a period", needs = ASSUMED, on = {
        start = function(sim, start)
            local starts = sim.starts or {}
            sim.starts, starts[#starts + 1] = starts, start
            for _, last in ipairs(starts) do
                local n = 0
                for _, other in ipairs(starts) do
                    n = n + (other.at > last.had - start.period_us * 0.98
                        and other.had <= last.had and 1 or 0)
                end
                if n > sim.permits then
                    return format("%s is start %d of %d in %s", last.task.lane, n, sim.permits,
                        ms(start.period_us))
                end
            end
        end,
    } },

    -- The client that ran the job counts what is left of the period. (It may be paused between its
    -- last look at the clock and its job.)
    { name = "once in a period", needs = { "notice", "clocks", "boottime", "rates" }, on = {
        job = function(sim, job)
            local last = sim.jobs or {}
            sim.jobs = last
            local other = last[job.name]
            last[job.name] = job
            return other and other.sure and job.looked_us >= other.ran_us
                and sim.now() < other.at + other.period_us * 0.98
                and format("%s runs %s again %s after %s", job.task.lane, job.name,
                    ms(sim.now() - other.at), other.task.lane)
        end,
    } },

    { name = "terms grow", needs = { "counters" }, on = {
        elected = function(sim, e)
            local terms = sim.terms or {}
            sim.terms = terms
            local of = terms[e.name] or {}
            terms[e.name] = of
            for _, other in ipairs(of) do
                if e.term <= other.term and other.elected_us < e.began_us
                    or e.term == other.term then
                    return format("%s leads in term %.0f, %s in %.0f before", e.id, e.term,
                        other.id, other.term)
                end
            end
            e.elected_us = sim.now()
            of[#of + 1] = e
        end,
    } },

    { name = "who leads in a term", needs = { "counters" }, on = {
        hold = function(sim, hold, before)
            if is_of(hold, "election") and not before then
                sim.leads = sim.leads or {}
                sim.leads[hold.name .. format(" %.0f", hold.token)] = "c" .. hold.attempt.task.id
            end
        end,
        leader = function(sim, leader, name)
            local id = (sim.leads or {})[name .. format(" %.0f", leader.term)]
            return id and leader.id and leader.id ~= "" and id ~= leader.id
                and format("%s leads %s in term %.0f, and it is said that %s does", id, name,
                    leader.term, leader.id)
        end,
    } },

    { name = "a latch never opens early", on = {
        count = function(_, c)
            return c.n < c.known.count - c.known.n_called and format("%s: %d are missing, and %d "
                .. "of %d were ever named", c.task.lane, c.n, c.known.n_called, c.known.count)
        end,
    } },

    { name = "acknowledged arrival stays", needs = { "memory", "clocks", "truth" }, on = {
        count = function(_, c)
            local left = math.max(c.known.count - c.acked, 0)
            if c.n > left then
                return format("%s: %d are missing, and %d of %d were acknowledged", c.task.lane,
                    c.n, c.acked, c.known.count)
            end
        end,
    } },

    { name = "an open latch stays open", needs = { "memory", "clocks", "truth" }, on = {
        count = function(_, c)
            if c.open and c.n > 0 then
                return c.task.lane .. ": a latch that was open is closed again"
            end
            c.known.open = c.known.open or c.n == 0
        end,
    } },

    { name = "a latch is not forgotten", needs = { "memory", "clocks", "truth" }, on = {
        ["no latch"] = function(_, _, t)
            return t.lane .. ": a latch that was made is not found"
        end,
    } },

    { name = "no arrival vote in quarantine", guarded = true, needs = { "boottime" }, on = {
        script = function(sim, server, role, _, args, vote)
            if role == "arrive" and #args > 5 and vote == 1 and server.lost_at >= 0
                and sim.now() - server.lost_at < sim.config.max_lease * 1e6 then
                return server.lane .. " acknowledges an arrival, and has forgotten others"
            end
        end,
    } },

    { name = "place kept by ticket", needs = { "memory", "clocks", "boottime" }, on = {
        before = function(_, server, key, args)
            server.stood = {}
            for _, one in ipairs(#args >= 6 and entered(server.role, args) or {}) do
                local ticket, ends = in_queue(server, key, one.id)
                server.stood[one.id] = ticket ~= nil and ends ~= nil and ends > server.now_ms
            end
        end,
        -- Who gave up waits no more, though what is executed twice may enter it again.
        call = function(sim, call)
            for _, w in pairs(not call.ok and sim.line or {}) do
                w.over = w.over or w.task == call.task
            end
        end,
        script = function(sim, server, role, key, args, vote, attempt)
            if server.repeats or role ~= "stand"
                and not (role == "acquire" and attempt and attempt.kind == "fair") then
                return nil
            end
            local text
            for _, one in ipairs(#args >= 6 and entered(role, args) or {}) do
                text = text or on_line(sim, server, key, one, role == "stand" or vote == 0)
            end
            return text
        end,
    } },

    -- What a script keeps, passes on or settles was its owner's; what it gives back was free.
    { name = "only one's own", on = {
        before = function(_, server, key, args)
            local entry, door = server:entry(key), server:entry("redlock:{" .. key .. "}:door")
            server.was, server.door = entry and entry.value, door ~= nil
            -- Once it is settled, another label follows the digits.
            server.mine = type(server.was) == "string" and type(args[1]) == "string"
                and server.was:sub(1, 40) == args[1]:sub(1, 40)
        end,
        script = function(_, server, role, key, args, vote, attempt)
            local kind = attempt and attempt.kind
            if role == "heal" and vote == 1 and not SHARED[kind] and server.was then
                return format("%s: %s is given back, which others have", server.lane, key)
            elseif vote ~= 1 or not (kind == "plain" or kind == "once" or kind == "write"
                or kind == "fair" or kind == "read" and role == "import") then
                return nil
            elseif role == "import" and server.was ~= args[3]
                or (role == "settle" or role == "extend") and not server.mine then
                return format("%s: %s of %s, which was another one's, or free", server.lane, role,
                    key)
            end
        end,
    } },

    { name = "all names or none", on = {
        script = function(_, server, role, _, args, vote, attempt)
            if vote ~= 1 or not attempt or attempt.kind ~= "multi" or role == "release" then
                return nil
            end
            for _, key in ipairs(attempt.keys) do
                local entry = server:entry(key)
                if not entry or entry.value ~= args[1] then
                    return format("%s: %s of several names without %s", server.lane, role, key)
                end
            end
        end,
    } },

    -- Nobody new reads while a writer waits, whoever opens it knows that; and it stays closed for
    -- him, whatever a minority grants.
    { name = "the door", on = {
        before = function(_, server, _, args)
            server.seventh = args[7]         -- which the script takes out
        end,
        script = function(_, server, role, key, args, vote, attempt)
            local kind, door = attempt and attempt.kind, "redlock:{" .. key .. "}:door"
            local keep = kind == "token write" and server.seventh or args[3]
            kind = kind == "token write" and "write" or kind
            if role == "release" and kind == "write" and vote == 1 and args[2] ~= "0" then
                return server:entry(door) and server.lane .. " lets " .. key
                    .. " go behind a closed door"
            elseif role ~= "acquire" or kind ~= "read" and kind ~= "write" or attempt.held then
                return nil
            elseif kind == "read" and vote == 1 and server.door then
                return server.lane .. " lets a reader of " .. key .. " in behind a closed door"
            elseif kind == "write" and vote == 1 and server.door and not server:entry(door) then
                return server.lane .. " opens the door of " .. key .. " with a grant"
            elseif kind == "write" and vote == 0 and keep ~= "0" and not server:entry(door) then
                return server.lane .. " leaves the door of " .. key .. " open"
            end
        end,
    } },

    { name = "the readers' key", on = {
        script = function(_, server, role, key, _, vote, attempt)
            local entry = attempt and attempt.kind == "read" and server:entry(key)
            if not entry or type(entry.value) ~= "table" or vote ~= 1
                or role ~= "acquire" and role ~= "extend" then
                return nil
            end
            for value, ends in pairs(entry.value.score) do
                if ends > entry.at or ends <= server.now_ms then
                    return format("%s has reader %s of %s until %.0f, and the key until %.0f",
                        server.lane, value, key, ends, entry.at)
                end
            end
        end,
    } },

    { name = "no place for longer than that", on = {
        script = function(_, server, role, key, args, vote, attempt)
            if role ~= "acquire" or not attempt or attempt.kind ~= "fair" or attempt.held
                or type(vote) ~= "number" or type(args[5]) ~= "string" then
                return nil
            end
            local living = server:entry("redlock:{" .. key .. "}:living")
            for waiter, ends in pairs(living and living.value.score or {}) do
                if ends > server.now_ms + 2 * tonumber(args[5]) then
                    return format("%s keeps the place of %s for %.0f ms", server.lane, waiter,
                        ends - server.now_ms)
                end
            end
        end,
    } },

    -- Nobody before him waits, who has come again in time.
    { name = "the first in line", on = {
        script = function(_, server, role, key, args, vote, attempt)
            if role ~= "acquire" or vote ~= 1 or not attempt or attempt.kind ~= "fair"
                or attempt.held then         -- it is given back what it lost
                return nil
            end
            local mine = in_queue(server, key, args[3])
            local queue = server:entry("redlock:{" .. key .. "}:queue")
            for other, ticket in pairs(queue and queue.value.score or {}) do
                local _, ends = in_queue(server, key, other)
                if other ~= args[3] and ends and ends > server.now_ms
                    and (not mine or ticket < mine or ticket == mine and other < args[3]) then
                    return format("%s gives %s to %s before %s", server.lane, key, args[3], other)
                end
            end
        end,
    } },

    { name = "who has it leaves the line", on = {
        script = function(sim, server, role, key, args, vote, attempt)
            if role == "release" and type(vote) == "number" and attempt
                and attempt.kind == "fair" and args[2] ~= "0" and #args >= 6 then
                if vote == 1 and sim.line and sim.line[args[3]] then
                    sim.line[args[3]].over = true
                end
                return in_queue(server, key, args[3])      -- also where it was refused
                    and format("%s: %s has let %s go, and stands in line", server.lane, args[3],
                        key)
            end
        end,
    } },

    { name = "nothing stays after its time", on = {
        finish = function(sim)
            for _, server in ipairs(sim.servers) do
                for key, entry in pairs(server.db) do
                    if not (entry.at or sim.name_of[key]
                        or key:find("redlock:{server}:", 1, true)) then
                        return server.lane .. " has " .. key .. " without an end"
                    end
                end
            end
        end,
    } },
}

return _M
