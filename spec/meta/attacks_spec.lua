-- What is known to break locks of this kind and has no other spec, and ATTACKS.md, where all of
-- it is.
local support = require "spec.support"
local sys = require "spec.support.sys"
local evidence = require "spec.support.evidence"

describe("the table of attacks", function()
    it("has for each of them a test that exists, or says that nothing protects", function()
        local numbers = {}
        for _, cells in ipairs(evidence.rows(sys.read_file "spec/ATTACKS.md")) do
            local number, happens, shown = cells[1], cells[3], cells[4]
            if number:find "^[AC]%d+$" then
                assert.is_nil(numbers[number], number .. " is there twice")
                numbers[number] = true
                assert.equal(4, #cells, number)
                assert.is_true(evidence.check(shown) > 0 or happens:find "%*%*not%*%*" ~= nil,
                    number .. " names no test")
            end
        end
        assert.is_truthy(numbers.A1 and numbers.C1)
    end)
end)

local function turn(client)
    client:getLock("turn"):isLocked()
end

describe("a server's clock", function()
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
            support.fails("held", other:getLock("x"):tryLock())
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

describe("a replica that was promoted", function()
    it("does not vote at first, for it may not have heard of all locks", function()
        local cluster = support.cluster(3)
        local replica = support.server()
        assert.equal("OK", replica:call("REPLICAOF", "127.0.0.1", cluster[1].port))
        support.eventually(function() return replica:marker() == cluster[1]:marker() end, 10)
        cluster[1]:kill()
        assert.equal("OK", replica:call("REPLICAOF", "NO", "ONE"))
        local client = support.warm_client { replica, cluster[2], cluster[3] }
        cluster[2]:call("SET", "x", "somebody", "PX", 60000)      -- so its vote is needed
        local ok, err = client:getLock("x"):tryLock()
        assert.is_nil(ok)
        assert.equal("guarded", err.nodes[1].code)
        assert.equal(0, replica:keys())
    end)
end)

describe("a server that becomes a writable replica behind our back", function()
    it("does not vote: its master's marker came with its master's data", function()
        local cluster = support.cluster(4)
        local client = support.warm_client { cluster[1], cluster[2], cluster[3] }
        cluster[2]:call("SET", "x", "somebody", "PX", 60000)      -- so its vote is needed
        cluster[3]:call("CONFIG", "SET", "replica-read-only", "no")
        assert.equal("OK", cluster[3]:call("REPLICAOF", "127.0.0.1", cluster[4].port))
        support.eventually(function() return cluster[3]:marker() == cluster[4]:marker() end, 10)
        assert.is_true(client:stats().nodes[3].ready)
        support.eventually(function()
            local ok, err = client:getLock("x"):tryLock()
            assert.is_nil(ok)
            local code = err.nodes[3].code   -- by its marker, or by what it says of itself
            return code == "guarded" or code == "readonly"
        end)
    end)
end)

describe("a server that evicts keys", function()
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
        support.fails("held", other:getLock("x"):tryLock())
        cluster[3]:call("CONFIG", "SET", "maxmemory", 0)
        support.eventually(function() return cluster[3]:call("EXISTS", "x") == 1 end)
        assert.is_true(l:isValid())
        assert.is_true(l:unlock())
    end)
end)
