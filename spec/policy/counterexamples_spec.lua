-- Servers that forget fencing tokens in every way that real ones do: with one rule less a smaller
-- token would follow. The other counterexamples of spec/ATTACKS.md, which need messages in a
-- certain order, are in spec/sim/counterexamples.lua, and some in spec/unit/test_fence.c.
local support = require "spec.support"

local FENCE, FLOORS = "redlock:{x}:fence", "redlock:{server}:floor"
local STEP = 32               -- of the floors: fenced/counter.lua
local MAX_LEASE = 1

local function options(more)
    local o = { max_lease = MAX_LEASE, lease = MAX_LEASE, timeout = 2 }
    for name, value in pairs(more or {}) do
        o[name] = value
    end
    return o
end

local function new_cluster(n)
    return support.cluster(n, { new = true }):admit(MAX_LEASE)
end

-- A client of its own way to each server: proxies, client.
local function reach(cluster, more)
    local proxies = support.proxies(cluster)
    return proxies, support.warm_client(proxies, options(more))
end

local function away(proxy)
    proxy:refuse(true)
    proxy:cut()
end

local function back(client, proxy, i)
    proxy:refuse(false)
    support.eventually(function()
        client:getLock("turn"):isLocked()
        return client:stats().nodes[i].ready
    end)
end

local function counter(server)
    return tonumber((server:call("GET", FENCE) or ""):match("^%d+", 9))
end

-- Takes it and lets it go, and waits until the servers (all, by default) know.
local function once(client, cluster, which)
    local l = client:getFencedLock "x"
    local ok, token = l:tryLock(10, MAX_LEASE)
    assert.is_true(ok, tostring(token))
    assert.is_true(l:unlock())
    for _, i in ipairs(which or { 1, 2, 3 }) do
        support.eventually(function()
            client:getLock("turn"):isLocked()
            return cluster[i]:call("EXISTS", "x") == 0 and counter(cluster[i]) == token
        end)
    end
    return token
end

describe("a fencing token", function()
    after_each(support.cleanup)

    -- The tokens are known to the second and third server; those are lost, or away.
    for how, lose in pairs {
        ["a restart"] = function(server) server:restart() end,
        ["FLUSHALL"] = function(server) server:call "FLUSHALL" end,
        ["eviction of its keys"] = function(server) server:call("DEL", FENCE, FLOORS) end,
    } do
        it("C6: grows when a server that witnessed it forgot it: " .. how, function()
            local cluster = new_cluster(3)
            local proxies, client = reach(cluster, { patience = 60 })
            once(client, cluster)
            away(proxies[1])
            local last
            for _ = 1, 2 * STEP do
                last = once(client, cluster, { 2, 3 })
            end
            assert.is_true(counter(cluster[1]) < last - STEP)
            lose(cluster[3])
            away(proxies[2])
            back(client, proxies[1], 1)
            local l = client:getFencedLock "x"
            -- One server that remembers is too few to ask, and clocks are not asked.
            support.eventually(function()
                local plain = client:getLock "y"
                return plain:tryLock(0, MAX_LEASE) and plain:unlock()
            end, 20, "plain locks")
            support.fails("no_quorum", l:tryLock(1, MAX_LEASE))
            proxies[2]:refuse(false)
            assert.is_true((l:lock(MAX_LEASE)))
            assert.is_true(l:token() > last)
        end)
    end

    it("C6: grows when it is asked for from one that remembers", function()
        local cluster = new_cluster(3)
        local proxies, client = reach(cluster, { patience = 60 })
        once(client, cluster)
        away(proxies[1])
        local last
        for _ = 1, 2 * STEP do
            last = once(client, cluster, { 2, 3 })
        end
        cluster[3]:restart()
        back(client, proxies[1], 1)
        -- Attempts that are refused: nobody tells the third by a token of his own.
        support.all(cluster, 1, 2):call("SET", "x", "somebody", "PX", 60000)
        support.eventually(function()
            assert.is_nil((client:getFencedLock("x"):tryLock(0, MAX_LEASE)))
            return counter(cluster[3])
        end, 20, "a floor on the restarted server")
        away(proxies[2])
        cluster[1]:call("DEL", "x")
        assert.is_true(once(client, cluster, {}) > last)
    end)

    -- As a client without fenced locks admits it, for whom its marker is enough.
    it("C6: does not go on from floors that came back from a file", function()
        local cluster = new_cluster(3)
        local proxies, client = reach(cluster, { patience = 60 })
        once(client, cluster)
        local stale = {}
        for _, key in ipairs { FENCE, FLOORS } do
            stale[key] = cluster[3]:call("DUMP", key)
        end
        away(proxies[1])
        local last
        for _ = 1, 2 * STEP do
            last = once(client, cluster, { 2, 3 })
        end
        client:close()
        cluster[3]:restart()
        for key, value in pairs(stale) do
            assert.equal("OK", cluster[3]:call("RESTORE", key, 0, value))
        end
        local plain = support.warm_client(cluster, options())
        cluster[1]:call("SET", "y", "somebody", "PX", 60000)
        local l = plain:getLock "y"
        support.eventually(function() return l:tryLock(0, MAX_LEASE) end, 20, "admission")
        assert.is_true(l:unlock())
        plain:close()
        back(support.client(proxies, options()), proxies[1], 1)
        away(proxies[2])
        local fenced = support.client(proxies, options { patience = 60 })
        local again = fenced:getFencedLock "x"
        assert.is_true((again:lock(MAX_LEASE)))
        assert.is_true(again:token() > last)
    end)

    -- The first server was away while the others counted; it learns of a token by its
    -- confirmation, or by being healed, and loses its counter then.
    for how, learn in pairs {
        confirmed = function(client, cluster, proxies)
            away(proxies[3])
            back(client, proxies[1], 1)
            return once(client, cluster, { 1, 2 })
        end,
        healed = function(client, cluster, proxies)
            local l = client:getFencedLock "x"
            assert.is_true((l:tryLock(10, MAX_LEASE)))
            back(client, proxies[1], 1)
            support.eventually(function()
                assert.is_true((l:extend(MAX_LEASE)))
                return counter(cluster[1]) == l:token()
            end)
            local token = l:token()
            assert.is_true(l:unlock())
            away(proxies[3])
            return token
        end,
    } do
        it("C8: grows from the floor of a server where it was " .. how, function()
            local cluster = new_cluster(3)
            local proxies, client = reach(cluster)
            once(client, cluster)
            away(proxies[1])
            for _ = 1, 2 * STEP do
                once(client, cluster, { 2, 3 })
            end
            local last = learn(client, cluster, proxies)
            support.eventually(function()
                client:getLock("turn"):isLocked()
                return cluster[1]:call("EXISTS", "x") == 0
            end)
            assert.equal(last, counter(cluster[1]))
            client:close()
            cluster[1]:call("DEL", FENCE)
            local alone = support.warm_client({ cluster[1] }, options { restart_guard = true })
            local l = alone:getFencedLock "x"
            assert.is_true((l:tryLock(5, MAX_LEASE)))
            assert.is_true(l:token() > last)
        end)
    end

    it("C8: grows when its counters ended with their time", function()
        local cluster = new_cluster(3)
        local _, client = reach(cluster)
        local last = once(client, cluster)
        for _ = 1, 3 do
            cluster:each(function(s)
                local left = s:call("PTTL", FENCE)
                assert.is_true(left == -2 or left > 86000e3 and left <= 86400e3, left)
            end)
            support.eventually(function()
                cluster:each(function(s) s:call("PEXPIRE", FENCE, 1) end)     -- also late ones
                return not (counter(cluster[1]) or counter(cluster[2]) or counter(cluster[3]))
            end)
            local token = once(client, cluster)
            assert.is_true(token > last)
            last = token
        end
    end)
end)

-- Servers forget, one at a time, and their clocks are set back, at random: the others teach them,
-- and no clock decides.
describe("tokens over thousands of holds", function()
    local HOLDS, BACK = 2000, 3600

    it("never repeat or go back", function()
        local state = 20261126
        local function random(n)
            state = (state * 1103515245 + 12345) % 2147483648
            return math.floor(state / 65536) % n + 1
        end
        local world = require("redlock.testing").new { nodes = 3, seed = 7,
            client = { max_lease = 1, lease = 1, patience = 60, fallback = 0.1 } }
        local seeded, last, wiped = 0, {}, 0
        local client = world:client { on_event = function(e)
            seeded = seeded + (e.type == "fence_seeded" and 1 or 0)
        end }
        for k = 1, HOLDS do
            if random(20) == 1 then
                local i = random(3)
                if random(2) == 1 then
                    world:step_clock(i, -random(BACK))
                end
                world:kill(i)
                world:start(i, { forgotten = true })
                wiped = wiped + 1
                for _ = 1, 6 do              -- its quarantine, with somebody connected
                    world:advance(1)
                    client:getLock("turn"):tryLock(0, 1)
                    client:getLock("turn"):unlock()
                end
            end
            local name = "n" .. random(7)
            local lock = client:getFencedLock(name)
            assert.is_true(lock:lock(1))
            local token = lock:token()
            local before = last[name] or 0
            assert.is_true(token > before, ("%s: %.0f after %.0f, hold %d"):format(name, token,
                before, k))
            last[name] = token
            assert.is_true(lock:unlock())
        end
        assert.is_true(wiped > 50)
        assert.equal(0, seeded)              -- others knew, each time
        world:close()
    end)
end)
