-- Very many locks that are kept: renewed all in time, and not all at once.
local redlock = require "redlock"
local support = require "spec.support"

describe("a client that keeps many locks", function()
    local cluster, client

    after_each(function()
        client:close()
        support.cleanup()
    end)

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
        local locks = keep(N)
        local from = client.now()
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

    it("asks servers that do not answer for a few at a time", function()
        local N, LEASE, UNDER_WAY = 1000, 9, 256
        cluster = support.cluster(3)
        client = support.warm_client(cluster, { lease = LEASE, timeout = 5 })
        local from = client.now()
        local locks = keep(N)
        for _, server in ipairs(cluster) do
            server:freeze()
        end
        local most = 0
        while client.now() < from + LEASE * 0.45 do
            local asked = client:stats().nodes[1].in_flight
            if client.now() < from + LEASE * 0.45 and asked > most then
                most = asked
            end
            support.sleep(0.02)
        end
        for _, server in ipairs(cluster) do
            server:thaw()
        end
        assert.is_true(most <= UNDER_WAY + 8, most .. " at once")    -- and TIME, and the like
        support.eventually(function()
            return client:stats().renewals >= N
        end, 30, "all are renewed")
        for i = 1, N do
            assert.is_true(locks[i]:isValid())
        end
    end)
end)
