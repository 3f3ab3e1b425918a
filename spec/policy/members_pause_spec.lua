-- How long a change of the list of servers keeps a lock from those who reach the majorities of both
-- lists: in a world, whose time is that of its links alone.
local testing = require "redlock.testing"

local RTT = 0.02
local MAX_LEASE = 4
local USERS = 4

describe("a change of the list of servers", function()
    local world
    after_each(function() world:close() end)

    -- Servers of whom a client learns are found by their ports.
    local function begin()
        local nodes = {}
        for i = 1, 4 do
            nodes[i] = "redis://127.0.0.1:" .. i
        end
        world = testing.new { nodes = nodes, round_trip = RTT, new_cluster = true,
            client = { max_lease = MAX_LEASE, lease = MAX_LEASE } }
        local function client()
            return world:client { nodes = { nodes[1], nodes[2], nodes[3] } }
        end
        local changer = client()
        assert(changer:init())
        assert(changer:members { online = true })
        return changer, client
    end

    -- Takes a lock that nobody else wants, again and again, until the list is another one.
    local function use(client, name, seen)
        local lock = client[name:match "^%a+"](client, name)
        assert(lock:tryLock(5))
        assert(lock:unlock())
        repeat
            local began = world:now()
            assert(lock:tryLock(0))
            local took = world:now() - began
            if seen.changing then
                if took > seen.longest then
                    seen.longest, seen.next_longest = took, seen.longest
                else
                    seen.next_longest = math.max(seen.next_longest, took)
                end
                seen.met = seen.met + (took > 1.5 * RTT and 1 or 0)
            else
                seen.usual = math.max(seen.usual, took)
            end
            assert(lock:unlock())
            world:advance(0.013)
        until seen.over
        return true
    end

    local function measure(before)
        local changer, client = begin()
        local seen, tasks = { usual = 0, longest = 0, next_longest = 0, met = 0 }, {}
        local held = client():getFencedLock "held"
        assert(held:lock())
        for i = 1, USERS do
            tasks[i] = world:spawn(use, client(), (i % 2 == 0 and "getLock" or "getFencedLock")
                .. i, seen)
        end
        world:advance(2)
        before()
        world:advance(2)
        seen.changing = true
        local change = world:spawn(function()
            return changer:members { remove = world.nodes[1], add = world.nodes[4],
                progress = function(what)
                    seen.joint = seen.joint or what:find "under the old list" ~= nil
                    seen.welcome = seen.joint and (seen.welcome or 0)
                        + (what:find "tells servers" and 1 or 0)
                    seen.over = seen.welcome and seen.welcome > 1
                end }
        end)
        local found = assert(change:join(300))
        assert.equal(6, found.epoch)
        seen.over = true
        for i = 1, USERS do
            assert.is_true(tasks[i]:join(60))
        end
        assert.is_true(held:stillMine())
        return seen
    end

    for what, before in pairs {
        ["replaced by another one"] = function() end,
        ["gone, and replaced"] = function() world:kill(1) end,
    } do
        it("takes two round trips more, once for each list, when a server is " .. what, function()
            local seen = measure(before)
            assert.is_true(seen.met >= USERS)             -- they have learned it
            local pause = seen.next_longest - seen.usual
            assert.is_true(pause <= 2 * seen.usual + 0.01, pause)
            assert.is_true(pause > RTT, pause)
            -- Whose answers come from both sides of the change tries once more.
            assert.is_true(seen.longest <= 6 * seen.usual + 0.01, seen.longest)
        end)
    end
end)
