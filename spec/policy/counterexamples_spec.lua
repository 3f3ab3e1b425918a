-- Schedules in which a rule of the fencing tokens less would give the same token twice, or a
-- smaller one later. C1 to C4, C9 and C10, which need a single core's messages in a certain
-- order, are in spec/unit/test_fence.c.
local support = require "spec.support"

local FENCE, FLOORS = "redlock:{x}:fence", "redlock:{server}:floor"
local STEP = 32               -- of the floors: fenced/counter.lua
local MAX_LEASE, GUARD = 1, 2.01

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

-- Until the next token begins a step of the floors, so that no floor is above it.
local function to_the_end_of_a_step(client, cluster)
    local token
    repeat
        token = once(client, cluster)
    until token % STEP == STEP - 1
    return token
end

describe("a fencing token", function()
    after_each(support.cleanup)

    -- Of three counters the second largest would do with one round trip, and without
    -- confirmation, were it not for keys that end early: A has counted 1, 3, 2 and B 2, 2, 3.
    it("C5: is not guessed from the counters of all servers", function()
        local cluster = new_cluster(3)
        local to_a, a = reach(cluster)
        local to_b, b = reach(cluster)
        local zero = once(a, cluster)
        for i = 2, 3 do
            local run = cluster[i]:call("GET", FENCE):sub(1, 8)
            cluster[i]:call("SET", FENCE, ("%s%.0f 01234567"):format(run, zero + 1))
        end
        local function counts(first, second, third)
            support.eventually(function()
                return counter(cluster[1]) == zero + first and counter(cluster[2]) == zero + second
                    and counter(cluster[3]) == zero + third
            end)
        end
        for i = 1, 3 do
            to_a[i]:hold("down", true)
            to_b[i]:hold("down", true)
        end
        to_a[2]:hold("up", true)
        local by_a = a:getFencedLock("x"):tryLockAsync(0, MAX_LEASE)
        counts(1, 1, 2)
        cluster[1]:call("DEL", "x")
        cluster[3]:call("DEL", "x")
        local by_b = b:getFencedLock("x"):tryLockAsync(0, MAX_LEASE)
        counts(2, 2, 3)
        cluster[2]:call("DEL", "x")
        to_a[2]:hold("up", false)
        counts(2, 3, 3)
        support.all(to_a, 1, 3):hold("down", false)
        assert.is_nil((by_a:get()))
        to_b[1]:hold("down", false)
        to_b[3]:hold("down", false)
        local ok, token = by_b:get()       -- 2 and 3, and the 2 is confirmed as 3
        assert.is_true(ok, tostring(token))
        assert.equal(zero + 3, token)
    end)

    -- The tokens are known to the second and third server; those are lost, or away.
    for how, lose in pairs {
        ["a restart"] = function(server) server:restart() end,
        ["FLUSHALL"] = function(server) server:call "FLUSHALL" end,
        ["eviction of its keys"] = function(server) server:call("DEL", FENCE, FLOORS) end,
    } do
        it("C6: grows when a server that witnessed it forgot it: " .. how, function()
            local cluster = new_cluster(3)
            local seeded = 0
            local proxies, client = reach(cluster, { patience = 60, on_event = function(e)
                seeded = seeded + (e.type == "fence_seeded" and 1 or 0)
            end })
            once(client, cluster)
            assert.equal(1, seeded)                  -- a new cluster, from the clock
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
            assert.is_true((l:lock(MAX_LEASE)))
            assert.is_true(l:token() > last)
            -- One server that remembers is too few to ask: from the clock again.
            client:getLock("turn"):isLocked()
            assert.equal(2, seeded)
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

    -- A's vote of a server that was restarted since would meet B's of the same number.
    it("C7: is no other's when a server forgot one of its witnesses at once", function()
        local cluster = new_cluster(3)
        local to_a, a = reach(cluster)
        local to_b, b = reach(cluster)
        local last = to_the_end_of_a_step(a, cluster)
        away(to_a[3])
        away(to_b[2])
        to_a[2]:hold("up", true)
        local by_a = a:getFencedLock("x"):tryLockAsync(0, MAX_LEASE)
        support.eventually(function() return counter(cluster[1]) == last + 1 end)
        assert.equal("timeout", select(2, by_a:get(0.05)).code)       -- that is known
        cluster[1]:restart()
        local restarted = support.now()
        back(b, to_b[1], 1)
        local l = b:getFencedLock "x"
        local got, err = l:tryLock(0, MAX_LEASE)
        assert.is_nil(got)
        assert.equal("guarded", err.nodes[1].code)
        to_a[2]:hold("up", false)
        local ok, token = by_a:get()
        assert.is_true(ok, tostring(token))
        assert.equal(last + 1, token)
        support.eventually(function() return l:tryLock(0, MAX_LEASE) end, 20, "B's turn")
        assert.is_true(support.now() - restarted >= GUARD)
        assert.is_true(l:token() > token)
    end)

    it("C8: grows when its counters ended with their time", function()
        local cluster = new_cluster(3)
        local _, client = reach(cluster, { fence_ttl = MAX_LEASE })
        local last = once(client, cluster)
        for _ = 1, 3 do
            support.eventually(function()
                return not (counter(cluster[1]) or counter(cluster[2]) or counter(cluster[3]))
            end)
            local token = once(client, cluster)
            assert.is_true(token > last)
            last = token
        end
    end)

    it("C11: needs a majority: not two of four, nor one of two", function()
        for half = 1, 2 do
            local cluster = new_cluster(2 * half)
            local to_a, a = reach(cluster)
            local to_b, b = reach(cluster)
            for i = 1, half do
                away(to_a[half + i])
                away(to_b[i])
            end
            for _, client in ipairs { a, b } do
                support.fails("no_quorum", client:getFencedLock("x"):tryLock(0, MAX_LEASE))
            end
            a:close()
            b:close()
        end
    end)
end)
