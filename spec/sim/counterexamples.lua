--- Prefixes (see prefixes.lua) about fencing tokens. C1 to C11 are the counterexamples of
-- spec/ATTACKS.md: each is safe by the rule that it is named after there, and a mutant without
-- that rule is caught in it.

local base = require "spec.sim.sim"

local ipairs, pairs = ipairs, pairs
local C, MS, SECOND = base.C, base.MS, base.SECOND

local FLOOR = "redlock:{server}:floor"
local STEP = 32                  -- of the floors: fenced/counter.lua

local FENCED = { n = 3, guarded = false, fenced = 100, processes = 2, breaks = { "keys" },
    lease = 5 }

--- A script for tokens of three servers and two clients.
local function fenced(entry)
    for name, value in pairs(FENCED) do
        if entry[name] == nil then
            entry[name] = value
        end
    end
    return entry
end

return {
    -- A has counted 2 and 1, and B 2 and 1.
    fenced { name = "C1", often = 0.3, play = function(s)
        local a, b = s[1], s[2]
        s:count(1, 0, 0)
        s:silent(a, 3, 1)
        s:silent(b, 1, 1)
        s:take(a)
        s:await_did(a, "acquire", 1, 2)
        s:expire(2)
        s:take(b)
        s:await_did(b, "acquire", 2, 3)
    end },

    -- A's confirmation comes to a server that B has.
    fenced { name = "C2", often = 0.3, play = function(s)
        local a, b = s[1], s[2]
        s:count(1, 1, 0)
        s:silent(a, 2, 1)
        s:silent(b, 1, 1)
        s:take(a)
        s:await_did(a, "acquire", 1, 3)
        s:silent(a, 3, 1, 20)
        s:expire(3)
        s:await_done(s:take(b))
    end },

    -- B's grant of the first server comes after its token was fixed, and is above it.
    fenced { name = "C3", often = 0.3, play = function(s)
        local a, b = s[1], s[2]
        s:count(1, 1, 0)
        s:silent(a, 2, 1)
        s:silent(a, 3, 1, 20)
        s:take(a)
        s:await_did(a, "acquire", 1)
        s:expire(1)
        s:silent(b, 1, 2, 40)
        s:take(b)
        s:await_did(b, "acquire", 1, 2, 3)
        s:expire(3)
        s:await_did(a, "acquire", 3)
    end },

    -- The same where B's is below: it is not a witness before it confirms.
    fenced { name = "C3 below", often = 0.3, play = function(s)
        local a = s[1]
        s:count(0, 5, 1)
        s:silent(a, 1, 2, 40)
        s:take(a)
        s:await_did(a, "acquire", 1, 2, 3)
        s:silent(a, 3, 1)
    end },

    -- A's request is executed again after its key had ended, and counts again.
    fenced { name = "C4", often = 0.3, play = function(s)
        local a, b, sim = s[1], s[2], s.sim
        s:count(1, 1, 0)
        s:silent(a, 2, 1)
        s:silent(b, 1, 1)
        local again
        sim.trap = function(_, server, role, attempt)
            if server.index == 2 and role == "acquire" and attempt == a.attempt then
                again = again or sim.this_command()
            end
        end
        local taking = s:take(a)
        s:await_did(a, "acquire", 1, 3)
        sim.trap = nil
        s:silent(a, 3, 1, 20)
        s:expire(3)
        s:await_done(s:take(b))
        s:expire(3)
        sim:execute_again(sim.servers[3], again)
        s:await(function() return taking.done end)
    end },

    -- A has counted 1, 3, 2 and B 2, 2, 3: the second largest is the same.
    fenced { name = "C5", often = 0.3, play = function(s)
        local a, b = s[1], s[2]
        s:count(0, 1, 1)
        s:silent(a, 2, 1, 20)
        for i = 1, 3 do
            s:silent(b, i, 2, 40)
        end
        s:silent(a, 1, 2, 40)
        s:silent(a, 3, 2, 40)
        s:take(a)
        s:await_did(a, "acquire", 1, 3)
        s:expire(1)
        s:expire(3)
        s:take(b)
        s:await_did(b, "acquire", 1, 2, 3)
        s:expire(2)
        s:await_did(a, "acquire", 2)
    end },

    -- The token is known to the second and third server; that one forgets, and the other is
    -- away: the first never heard of it.
    fenced { name = "C6", often = 0.3, guarded = true, breaks = { "memory" },
        lease = 0.5, play = function(s)
            local a, b, sim = s[1], s[2], s.sim
            s:count(0, 3 * STEP, 3 * STEP)
            s:silent(a, 1, 3)
            s:once(a)
            C.sim_cut(a.process.index, 0, 3, 0, 0)
            sim:restart_server(sim.servers[3], {}, MS)
            local till = sim.now() + sim.config.guard_us + SECOND
            s:have(a, function()
                repeat
                    a.process.client:getLock("turn"):isLocked()
                    sim:sleep(50 * MS)
                until sim.now() > till
            end)
            for _, p in ipairs(sim.processes) do
                C.sim_silence(p.index, 1, sim.now() + 8 * SECOND, sim.now() + 8 * SECOND)
            end
            s:await_done(s:take(b, 3))
        end },

    -- Servers that have lost their floors take most of a timeout for each answer.
    fenced { name = "floors of slow servers", often = 0.3, breaks = { "memory", "floors", "keys" },
        config = { timeout = 0.1, connect_timeout = 0.1 }, play = function(s)
            local a, sim = s[1], s.sim
            for i, server in ipairs(sim.servers) do
                server.db[FLOOR], server.db[sim.counter_of[s.name]] = nil, nil
                C.sim_path(a.process.index, i - 1, 45 * MS, 0)
            end
            s:await_done(s:take(a))
            for i = 1, sim.n do
                C.sim_path(a.process.index, i - 1, sim.config.delay_us, sim.config.spread_us)
            end
        end },

    -- The first server forgets A's vote while it counts, and is told by C, who is refused,
    -- what to go on from: at once it gives the same to B.
    fenced { name = "C7", often = 0.3, guarded = true, breaks = { "memory", "floors", "keys" },
        processes = 3, lease = 1, play = function(s)
            local a, b, c, sim = s[1], s[2], s[3], s.sim
            local first, last = sim.servers[1], s:counter(1)
            local to_the_end = STEP - 1 - last % STEP
            s:count(to_the_end, to_the_end, to_the_end)
            s:silent(a, 2, 1, 100)
            s:silent(a, 3, 1)
            local taking = s:take(a)
            s:await_did(a, "acquire", 1)
            if sim:chance(50) then
                sim:restart_server(first, {}, MS)
                s:await(function() return first.state == C.SIM_UP end)
            else
                first.db[FLOOR], first.db[s.name] = nil, nil
                first.db[sim.counter_of[s.name]] = nil
            end
            sim.trap = function(_, server, role, _, args)
                if role == "mark" and args[6] ~= "" and server == first then
                    s:silent(c, 1, 1)
                end
            end
            for i = 2, 3 do
                sim.servers[i].db[s.name] = { value = "somebody", at = sim.servers[i].now_ms + 1e6 }
            end
            s:await_done(s:take(c))
            s:expire(2)
            s:expire(3)
            s:silent(b, 2, 1)
            s:await_done(s:take(b))
            s:await_done(taking)
        end },

    -- Counters end with their time.
    fenced { name = "C8", often = 0.3, breaks = { "counting" }, play = function(s)
        local sim = s.sim
        local to_the_end = STEP - 1 - s:counter(1) % STEP
        s:count(to_the_end, to_the_end, to_the_end)
        s:once(s[1])
        for _, server in ipairs(sim.servers) do
            server.db[sim.counter_of[s.name]] = nil
        end
        s:once(s[2])
    end },

    -- B's grant of the first server is above its token, and A's token as well: B is asked
    -- whether it still has a majority.
    fenced { name = "C9", often = 0.3, play = function(s)
        local a, b = s[1], s[2]
        s:count(1, 0, 0)
        s:silent(a, 2, 1, 20)
        s:silent(a, 3, 1)
        local taking = s:take(a)
        s:await_did(a, "acquire", 1)
        s:expire(1)
        s:silent(b, 1, 2, 40)
        s:await_done(s:take(b))
        s:expire(2)
        s:await_done(taking)
        s:extend(b)
    end },

    -- The first server, which has no key, has counted past the token.
    fenced { name = "C10", often = 0.3, play = function(s)
        local a = s[1]
        s:silent(a, 1, 1, 20)
        s:await_done(s:take(a))
        s:await_did(a, "acquire", 1)
        s:expire(1)
        s:count(5, 0, 0)
        s:extend(a)
    end },

    -- All servers forget; A's machine is told, or may not write it, and has named its connections.
    -- B, who has never seen the servers, runs init.
    { name = "init after a loss", often = 0.3, n = 3, guarded = true, breaks = { "memory" },
        processes = 2, lease = 5, play = function(s)
            local a, b, sim = s[1], s[2], s.sim
            s:await_done(s:take(a, 0, 9))
            a.process.forbidden = sim:chance(50) and "mark" or nil
            for _, server in ipairs(sim.servers) do
                sim:restart_server(server, {}, MS)
            end
            sim:reopen(b.process)
            s:have(b, function()
                local till = sim.now() + 10 * SECOND
                repeat
                    b.process.client:init()
                    sim:sleep(50 * MS)
                until sim.now() > till
            end)
            s:take(b)
        end },

    -- One client sees at its next look that a server's clock was stepped: it writes the
    -- step down, and asks the servers whether its holds are still valid. B starts after that.
    { name = "late client after a step", often = 0.3, n = 3, guarded = true, breaks = {},
        processes = 2, lease = 5, play = function(s)
            local a, b, sim = s[1], s[2], s.sim
            s:await_done(s:take(a, 0, sim:pick { 5, false }))
            local function after(ms)
                local at = sim.now() + ms * MS
                return function() return sim.now() > at end
            end
            s:await(after(sim:between(1100, 2000)))
            local server, before, extend = sim.servers[1], {}, a.attempt.extend
            for i = 0, 2 do
                before[i] = extend[i]
            end
            sim:step_server(server, 60000)
            local late = after(1100)
            local function is_told()
                local asked = 0
                for i = 0, 2 do
                    asked = asked + (extend[i] > before[i] and 1 or 0)
                end
                local marker = server.db["redlock:{server}:marker"]
                return asked >= 2 and marker and marker.value:sub(21, 21) == "s"
            end
            s:await(function() return is_told() or late() end)
            if not is_told() then
                sim:violated("a step is told", server.lane .. " was stepped, and its marker does "
                    .. "not say so, or a majority was not asked for " .. s.name)
            end
            C.sim_silence(a.process.index, 1, sim.now() + SECOND, sim.now() + SECOND)
            sim:reopen(b.process)
            s:await_done(s:take(b, 1))
        end },

    -- One server wants to be healed, and no majority says that it is ours.
    { name = "an extension alone", often = 0.3, n = 3, breaks = { "keys" }, lease = 5,
        play = function(s)
            local a = s[1]
            s:await_done(s:take(a))
            s:silent(a, 2, 1, 400)
            s:silent(a, 3, 1, 400)
            s:expire(1)
            s:extend(a)
        end },

    -- Two halves.
    fenced { name = "C11", often = 0.3, n = 4, breaks = {}, play = function(s)
        local a, b = s[1], s[2]
        for i = 1, 2 do
            s:silent(a, 2 + i, 1)
            s:silent(b, i, 1)
        end
        s:take(a)
        s:take(b)
        s:await_did(a, "acquire", 1, 2)
        s:await_did(b, "acquire", 3, 4)
    end },
}
