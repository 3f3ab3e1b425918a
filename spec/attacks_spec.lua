-- What is known to break locks of this kind and has no other spec: see the table in README.
local support = require "spec.support"

local function turn(client)
    client:getLock("turn"):isLocked()
end

describe("a server's clock", function()
    after_each(support.cleanup)

    -- Three servers; step(seconds) sets the wall clock of the first.
    local function stepped_cluster()
        local clock = support.clock()
        local function step(seconds)
            clock:set(seconds)
        end
        return { support.server({ env = clock.env }):admit(), support.server():admit(),
            support.server():admit() }, step
    end

    it("that jumps ahead frees its key, and a majority of others still excludes", function()
        local servers, step = stepped_cluster()
        local client, other = support.warm_client(servers), support.warm_client(servers)
        local l = client:getLock "x"
        assert.is_true(l:tryLock(0, 30))
        support.eventually(function() return servers[1]:call("EXISTS", "x") == 1 end)
        step(3600)
        support.eventually(function() return servers[1]:call("EXISTS", "x") == 0 end)
        for _ = 1, 10 do
            local ok, err = other:getLock("x"):tryLock()
            assert.is_nil(ok)
            assert.equal("held", err.code)
        end
        assert.is_true(l:isValid())
        assert.is_true(l:unlock())
        assert.is_true(other:getLock("x"):tryLock(5))
    end)

    it("that jumps back keeps a key for longer, until it is released", function()
        local servers, step = stepped_cluster()
        local client = support.warm_client(servers)
        local l = client:getLock "x"
        assert.is_true(l:tryLock(0, 2))
        support.eventually(function() return servers[1]:call("EXISTS", "x") == 1 end)
        step(-3600)
        support.eventually(function() return servers[1]:call("PTTL", "x") > 60000 end)
        -- A key that outlives its lease on a minority stops nobody.
        support.eventually(function() return not l:isValid() end)
        assert.is_true(client:getLock("x", { owner = 2 }):tryLock(5))
        assert.is_true(client:getLock("x", { owner = 2 }):unlock())
        l:unlock()
        support.eventually(function()
            turn(client)
            return servers[1]:call("EXISTS", "x") == 0
        end)
    end)
end)

describe("lists of nodes that differ by one server", function()
    after_each(support.cleanup)

    it("have majorities that share a server: one is added at a time", function()
        local cluster = support.cluster(4)
        local old = support.warm_client { cluster[1], cluster[2], cluster[3] }
        local new = support.warm_client(cluster)
        local l = old:getLock "x"
        assert.is_true(l:tryLock())
        support.eventually(function() return cluster:keys() == 3 end)
        cluster[3]:call("DEL", "x")            -- as if it had never answered
        local ok, err = new:getLock("x"):tryLock()
        assert.is_nil(ok)
        assert.equal("held", err.code)         -- 2 of 4 are no majority
        assert.is_true(l:isValid())
        assert.is_true(l:unlock())
        assert.is_true(new:getLock("x"):tryLock(5))
        support.eventually(function() return cluster:keys() == 4 end)
        cluster[4]:call("DEL", "x")            -- 3 of 4, all of them in the old list
        ok, err = old:getLock("x"):tryLock()
        assert.is_nil(ok)
        assert.equal("held", err.code)
    end)
end)

describe("a server that evicts keys", function()
    after_each(support.cleanup)

    it("loses one vote of a lock that is held: it gets it again, and nobody else does", function()
        local cluster = support.cluster(2)
        cluster[3] = support.server { args = {
            "--maxmemory", "3mb", "--maxmemory-policy", "allkeys-random" } }
        local client = support.warm_client(cluster, { lease = 3 })
        local other = support.warm_client(cluster)
        local l = client:getLock "x"
        assert.is_true(l:tryLock())
        support.eventually(function() return cluster[3]:call("EXISTS", "x") == 1 end)
        local n = 0
        support.eventually(function()
            for _ = 1, 100 do
                n = n + 1
                cluster[3]:call("SET", "cache" .. n, ("v"):rep(2000))
            end
            return cluster[3]:call("EXISTS", "x") == 0
        end, 60, "the eviction")
        local ok, err = other:getLock("x"):tryLock()
        assert.is_nil(ok)
        assert.equal("held", err.code)
        cluster[3]:call("CONFIG", "SET", "maxmemory", 0)
        support.eventually(function() return cluster[3]:call("EXISTS", "x") == 1 end)
        assert.is_true(l:isValid())
        assert.is_true(l:unlock())
    end)
end)
