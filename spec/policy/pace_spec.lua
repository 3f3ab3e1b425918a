-- Very many locks that are kept: renewed all in time, and not all at once.
local redlock = require "redlock"
local support = require "spec.support"

local SHORTEST = [[
    local ms = math.huge
    for i = 1, ARGV[1] do
        ms = math.min(ms, redis.call('pttl', 'kept:' .. i))
    end
    return ms
]]

describe("a client that keeps many locks", function()
    local cluster, client

    after_each(function() client:close() end)

    local function keep(n)
        local locks, futures = {}, {}
        for i = 1, n do
            locks[i] = client:getLock("kept:" .. i)
            futures[i] = locks[i]:tryLockAsync(10)
        end
        assert(redlock.wait_all(futures))
        for i = 1, n do
            assert.is_true(futures[i]:get())
        end
        return locks
    end

    it("renews them all, and counts how often", function()
        local N, LEASE = 2000, 6
        cluster = support.cluster(3)
        client = support.warm_client(cluster, { lease = LEASE, timeout = 5 })
        assert.equal(0, client:stats().renewals)
        local from = client.now()
        local locks = keep(N)
        support.eventually(function()
            return client:stats().renewals >= 3 * N
        end, 60, "three renewals of each")
        assert.is_true(client.now() - from >= 2 * LEASE / 3)
        for i = 1, N do
            assert.is_true(locks[i]:isValid())
        end
        assert.equal(0, client:stats().lost)
        assert.is_true(client:stats().renewals <= N * ((client.now() - from) / (LEASE / 4) + 1))
    end)

    it("has them renewed together, a few requests for many", function()
        local N, LEASE = 1000, 6
        cluster = support.cluster(3)
        client = support.warm_client(cluster, { lease = LEASE, timeout = 5 })
        local locks, before = keep(N), {}
        for i, server in ipairs(cluster) do      -- one may still be at what a majority has granted
            support.eventually(function() return server:call "DBSIZE" >= N end, 60)
            before[i] = server:calls_of "evalsha"
        end
        support.eventually(function()
            return client:stats().renewals >= N
        end, 60, "all are renewed")
        for i, server in ipairs(cluster) do
            assert.is_true(server:calls_of "evalsha" - before[i] < N / 4)
            assert.is_true(server:call("EVAL", SHORTEST, 0, N) > LEASE / 3 * 1000)
        end
        assert.is_true(locks[N]:isValid())
    end)

    it("asks alone for those that some server does not have, has for longer, or may not touch",
        function()
            local N, LEASE = 200, 6
            cluster = support.cluster(3)
            local one = cluster[1]
            client = support.warm_client(cluster, { lease = LEASE, timeout = 5 })
            local locks = keep(N)
            assert(one:call("DEL", "kept:7"))
            assert(one:call("SET", "kept:8", ("f"):rep(40), "PX", 4000))
            assert(one:call("PERSIST", "kept:9"))
            assert(locks[10]:extend(50))
            local before = client:stats().renewals
            support.eventually(function()
                return client:stats().renewals >= before + N
            end, 60, "all are renewed")
            support.eventually(function()
                local ttl = one:call("PTTL", "kept:9")
                return one:call("GET", "kept:7") == cluster[2]:call("GET", "kept:7")
                    and one:call("GET", "kept:8") == cluster[2]:call("GET", "kept:8")
                    and ttl > 0 and ttl <= LEASE * 1000
            end, 30, "what was lost is healed, and what had no end has one")
            assert.is_true(one:call("PTTL", "kept:10") > 30000)
            for i = 1, N do
                assert.is_true(locks[i]:isValid())
            end
        end)
end)
