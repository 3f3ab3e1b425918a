-- What a lock does while nothing goes wrong. The conformance lines of the design are
-- named in brackets.
local support = require "spec.support"
local redlock = require "redlock"

for _, n in ipairs { 1, 2, 3, 4, 5 } do
    describe(("a lock on %d servers"):format(n), function()
        local cluster = support.shared_cluster(n)
        local client

        setup(function() client = support.warm_client(cluster, { timeout = 5 }) end)
        teardown(function()
            client:close()
            cluster:stop()
        end)

        local function lock(name, owner)
            return client:getLock(name or "invoice:42", { owner = owner })
        end

        it("is taken, seen and given back", function()
            local l, from = lock(), support.now()
            assert.is_true(l:tryLock())
            support.eventually(function() return cluster:keys() == n end)
            assert.is_true(l:isValid())
            assert.is_true(l:isLocked())
            assert.is_true(l:isHeldByCurrentThread())
            assert.equal(l, l:check())
            assert.equal("invoice:42", l:getName())
            assert.near(30 - 0.302, l:remaining(), support.now() - from + 0.01)
            assert.near(30, l:remainTimeToLive(), support.now() - from + 0.01)
            assert.is_true(l:unlock())
            cluster:await_free()
            assert.is_false(l:isValid())
            assert.is_false(l:isLocked())
            assert.equal(0, l:remaining())
            assert.equal(0, l:remainTimeToLive())
        end)

        it("is the string of the Redlock page on every server", function()
            assert.is_true(lock():tryLock(0, 10))
            support.eventually(function() return cluster:keys() == n end)
            local values = {}
            cluster:each(function(server)
                assert.equal("string", server:call("TYPE", "invoice:42"))
                values[server:call("GET", "invoice:42")] = true
                local pttl = server:call("PTTL", "invoice:42")
                assert.is_true(pttl > 5000 and pttl <= 10000)
            end)
            local value = next(values)
            assert.is_nil(next(values, value))
            local digits, card = value:match "^(%x+)( ?.*)$"
            assert.equal(40, #digits)
            assert.matches("^ %x+ [ -~]+$", card)
            assert.is_true(lock():unlock())
        end)

        it("excludes others, of this library and of others", function()
            assert.is_true(lock(nil, "a"):tryLock())
            support.fails("held", lock(nil, "b"):tryLock())
            assert.is_true(lock(nil, "a"):unlock())
            cluster:await_free()
            for i = 1, math.floor(n / 2) + 1 do
                cluster[i]:call("SET", "invoice:42", "of-another-library", "NX", "PX", 30000)
            end
            support.fails("held", lock():tryLock())
            assert.is_true(lock():isLocked())
            for i = 1, n do
                assert.not_equal(40, #(cluster[i]:call("GET", "invoice:42") or ""))
            end
        end)

        it("waits for the holder, and no longer than it may [1, 5]", function()
            local stranger = support.warm_client(cluster)
            assert.is_true(lock(nil, "a"):tryLock(5, 1))
            local t = support.now()
            local err = support.fails("held", stranger:getLock("invoice:42"):tryLock(0.1, 1))
            assert.is_true(err.waited > 0.099)
            assert.is_true(support.now() - t > 0.098)    -- the clock is one of milliseconds
            stranger:close()
            assert.is_true(lock(nil, "b"):tryLock(5, 4))
            cluster:each(function(server)   -- the lease is in milliseconds after retries too
                local pttl = server:call("PTTL", "invoice:42")
                assert.is_true(pttl == -2 or pttl >= 0 and pttl <= 4000, pttl)
            end)
            assert.is_true(lock(nil, "b"):unlock())
        end)

        it("re-enters without a round trip and keeps its value [21, 23]", function()
            local l = lock()
            assert.is_true(l:tryLock(0, 10))
            support.eventually(function() return cluster:keys() == n end)
            local value = cluster[1]:call("GET", "invoice:42")
            local requests = client:stats().nodes[1].requests
            assert.is_true(l:lock(5))            -- no more than is left, however late it is
            assert.is_true(lock():tryLock(1, 0.5))
            assert.equal(3, l:getHoldCount())
            assert.is_true(l:unlock())
            assert.is_true(l:unlock())
            assert.equal(1, l:getHoldCount())
            assert.equal(requests, client:stats().nodes[1].requests)
            assert.equal(value, cluster[1]:call("GET", "invoice:42"))
            assert.is_true(cluster[1]:call("PTTL", "invoice:42") > 500)    -- not the shorter lease
            assert.is_true(l:unlock())
            support.fails("not_held", l:unlock())
        end)

        it("says at each leave that it is over", function()
            local l = lock()
            assert.is_true(l:tryLock(5, 1))
            assert.is_true(l:tryLock(0, 1))
            support.eventually(function() return not l:isValid() end)
            for _, code in ipairs { "expired", "expired", "not_held" } do
                local ok, err = l:unlock()
                assert.is_nil(ok)
                assert.equal(code, err.code)
            end
        end)

        it("belongs to its owner", function()
            local l = lock()
            assert.is_true(l:tryLock())
            coroutine.wrap(function()
                assert.is_false(l:isValid())
                assert.equal(0, l:getHoldCount())
                support.fails("not_held", l:unlock())
                support.fails("held", l:tryLock())
                support.fails("not_held", l:extend())
            end)()
            assert.is_true(l:unlock())
        end)

        it("is extended, never shortened", function()
            local l = lock()
            assert.is_true(l:tryLock(0, 2))
            local from = support.now()
            local ok, left = l:extend(20)
            assert.is_true(ok)
            assert.near(20 - 0.202, left, support.now() - from + 0.01)
            assert.near(left, l:remaining(), support.now() - from + 0.01)
            support.eventually(function()
                local good = true
                cluster:each(function(s) good = good and s:call("PTTL", "invoice:42") > 15000 end)
                return good
            end)
            ok, left = l:extend(1)
            assert.is_true(ok)
            assert.is_true(left > 15)
            assert.is_true(cluster[1]:call("PTTL", "invoice:42") > 15000)
            assert.is_true(l:unlock())
        end)

        it("is asked for: whether it is still its holder's, which changes nothing", function()
            local l, another = lock(nil, "mine"), lock(nil, "another")
            support.fails("not_held", l:stillMine())
            assert.is_true(l:tryLock(0, 20))
            assert.is_true(l:stillMine())
            assert.is_true(l:remaining() > 15 and l:remaining() < 20)
            support.fails("not_held", another:stillMine())
            assert.is_true(another:forceUnlock())
            assert.is_true(l:isValid())
            support.fails("lost", l:stillMine())
            assert.is_false(l:isValid())
        end)

        it("has names of any bytes and length", function()
            for _, name in ipairs { "\0", "a\r\nb", "\255\254", ("x"):rep(65536), "{tag}", "%s" } do
                local l = lock(name)
                assert.is_true(l:tryLock())
                support.eventually(function()
                    return cluster[1]:call("EXISTS", name) == 1
                end)
                assert.is_true(l:extend(31))
                assert.is_true(l:unlock())
                cluster:await_free()
            end
        end)
    end)
end

describe("a lock", function()
    local cluster = support.shared_cluster(5)
    local client

    setup(function()
        client = support.warm_client(cluster, { prefix = "app:", timeout = 1.5 })
    end)

    it("prints itself and its errors", function()
        local l = client:getLock "a\nb"
        assert.equal("lock(a\\x0ab, not held)", tostring(l))
        assert.is_true(l:tryLock())
        assert.matches("^lock%(a\\x0ab, held, 2%d%.%d s%)$", tostring(l))
        assert.matches("^client%(5 nodes, 1 held%)$", tostring(client))
        local _, err = client:getLock("a\nb", { owner = 1 }):tryLock()
        assert.is_true(redlock.is_error(err))
        assert.matches("^redlock: held: lock 'a\\x0ab' is held by somebody else "
            .. "%(%S+ %d+ busted%): redis://127", tostring(err))
        assert.equal("x " .. tostring(err), "x " .. err)
        local long = client:getLock(("n"):rep(100))
        assert.equal("lock(" .. ("n"):rep(61) .. "..., not held)", tostring(long))
        assert.equal(5, #err.nodes)
        for i, row in ipairs(err.nodes) do
            assert.equal(cluster[i].uri, row.node)
            assert.is_string(row.code)
            assert.is_string(row.message)
        end
        assert.is_true(l:unlock())
    end)

    it("puts the prefix before the name", function()
        assert.is_true(client:getLock("x"):tryLock())
        support.eventually(function() return cluster[1]:call("EXISTS", "app:x") == 1 end)
        assert.is_true(client:getLock("x"):unlock())
    end)

    it("is one when three of five servers say so [29]", function()
        local from = support.now()
        assert.is_true(client:getLock("x"):tryLock(0, 10))
        support.eventually(function() return cluster:keys() == 5 end)
        cluster[1]:call("DEL", "app:x")
        cluster[2]:call("SET", "app:x", "somebody", "PX", 40000)
        local l = client:getLock "x"
        assert.is_true(l:isLocked())
        assert.is_true(l:isValid())
        assert.near(10, l:remainTimeToLive(), support.now() - from + 0.01)
        support.eventually(function()        -- a server that lost it gets it again
            assert.is_true((l:extend(10)))
            support.warm(client)             -- none is on its way any more
            return cluster[1]:call("EXISTS", "app:x") == 1
        end)
        assert.equal("somebody", cluster[2]:call("GET", "app:x"))
        cluster[1]:call("DEL", "app:x")
        cluster[3]:call("DEL", "app:x")
        assert.is_false(l:isLocked())
        assert.equal(0, l:remainTimeToLive())
        support.fails("lost", l:extend(10))
        assert.is_false(l:isValid())
    end)

    it("does not call free what a silent server may hold", function()
        assert.is_true(client:getLock("x"):tryLock(0, 20))
        support.eventually(function() return cluster:keys() == 5 end)
        cluster[1]:call("DEL", "app:x")
        cluster[2]:call("DEL", "app:x")
        cluster[3]:freeze()              -- one of the majority that has it
        support.fails("no_quorum", client:getLock("x"):isLocked())
        assert.is_true(client:getLock("x"):isValid())
        cluster[3]:thaw()
        assert.is_true(client:getLock("x"):unlock())
    end)

    it("tells of a split vote as free", function()
        for i, who in ipairs { "a", "a", "b", "b" } do
            cluster[i]:call("SET", "app:x", who, "PX", 20000)
        end
        support.eventually(function()        -- all five have to answer
            return client:getLock("x"):isLocked() == false
        end)
        assert.equal(0, client:getLock("x"):remainTimeToLive())
    end)

end)

describe("using", function()
    local cluster = support.shared_cluster(3)
    local client

    setup(function() client = support.warm_client(cluster) end)

    it("raises the function's error again, after the release [27]", function()
        local object = {}
        for _, value in ipairs { "text", object, false } do
            local ok, err = pcall(client.using, client, "x", function() error(value, 0) end)
            assert.is_false(ok)
            assert.equal(value, err)
            cluster:await_free()
        end
    end)

    it("raises the function's error also when the release fails [27]", function()
        local ok, err = pcall(client.using, client, "x", { lease = 0.5 }, function(l)
            support.eventually(function() return not l:isValid() end)
            error("mine", 0)
        end)
        assert.is_false(ok)
        assert.equal("mine", err)
    end)
end)

describe("a client", function()
    local cluster

    setup(function() cluster = support.cluster(3) end)

    it("releases what it holds when it is closed", function()
        local client = support.warm_client(cluster)
        local locks = {}
        for i = 1, 10 do
            locks[i] = client:getLock("l" .. i)
            assert.is_true(locks[i]:tryLock())
        end
        assert.is_true(client:close())
        assert.is_true(client:close())
        assert.equal("client(3 nodes, closed)", tostring(client))
        cluster:await_free()
        for _, call in ipairs { "lock", "tryLock", "unlock", "extend", "isLocked",
            "remainTimeToLive", "forceUnlock" } do
            support.fails("closed", locks[1][call](locks[1]))
        end
        assert.is_false(locks[1]:isValid())
        support.fails("closed", client:using("x", function() error "not reached" end))
    end)

    -- close() waits for answers, and others may go on meanwhile.
    it("takes nothing while it is being closed", function()
        local client = support.warm_client(cluster)
        local held, other = client:getLock "held", client:getLock "other"
        assert.is_true(held:tryLock())
        local ok, err
        held:onLost(function() ok, err = other:tryLock(0) end)
        assert.is_true(client:close())
        assert.is_nil(ok)
        assert.equal("closed", err.code)
        cluster:await_free()
    end)

    -- As of a coroutine that has looked before another one closed it.
    it("answers closed to calls that go on after it was closed", function()
        local client = support.warm_client(cluster)
        local l = client:getLock "x"
        assert.is_true(l:tryLock())
        assert.is_true(l:unlock())
        client:close()
        local acquire = require "redlock.lock.acquire"
        local changes = require "redlock.runtime.changes"
        for _, wait in ipairs { 0, 0.01 } do
            support.fails("closed", acquire.acquire(l, "somebody", nil, wait, 1, client.now()))
        end
        assert.equal(0, changes.counters(client).losses)
        assert.is_nil(require("redlock.servers.restart_guard").left(client))
        for _, row in ipairs(require("redlock.servers.health").rows(client)) do
            assert.is_false(row.ready)
        end
    end)

    it("lets an owner in an on_event function take again what it holds, as it is", function()
        local client, l, ok
        client = support.client(cluster, { on_event = function(event)
            if event.type == "acquired" then ok = l:lock(20) and l:lock() end
        end })
        l = client:getLock "x"
        assert.is_true(l:tryLock(5, 2))
        assert.same({ true, 3 }, { ok, l:getHoldCount() })
        assert.is_true(l:remaining() < 2)
        client:close()
    end)

    it("counts", function()
        local client = support.client(cluster)
        assert.same({}, client:stats().nodes)
        client:close()
        client = support.warm_client(cluster)
        local before = {}
        for i, node in ipairs(client:stats().nodes) do
            before[i] = node.requests
        end
        local a, b = client:getLock("x", { owner = 1 }), client:getLock("x", { owner = 2 })
        assert.is_true(a:tryLock())
        assert.is_nil(b:tryLock())
        assert.is_true(a:unlock())
        assert.is_true(a:tryLock(0, 1.5))
        support.eventually(function() return not a:isValid() end)
        assert.is_nil(a:unlock())
        local stats = client:stats()
        assert.equal(2, stats.acquired)
        assert.equal(1, stats.contended)
        assert.equal(1, stats.failed)
        assert.equal(1, stats.released)
        assert.equal(1, stats.lost)
        assert.equal(3, #stats.nodes)
        for i, node in ipairs(stats.nodes) do
            assert.equal(cluster[i].uri, node.node)
            assert.is_true(node.ready)
            assert.equal(1, node.connects)
            assert.equal(6, node.requests - before[i])
        end
        client:close()
    end)
end)

describe("a lock that its owner takes again", function()
    local world, client

    before_each(function()
        world = redlock.testing.new { round_trip = 0.01 }
        client = world:client()
        assert(client:connect(5))
    end)
    after_each(function() world:close() end)

    local function requests() return client:stats().nodes[1].requests end
    local kinds = {
        plain = function() return client:getLock "x" end,
        fenced = function() return client:getFencedLock "x" end,
        fair = function() return client:getFairLock "x" end,
        read = function() return client:getReadWriteLock("x"):readLock() end,
        write = function() return client:getReadWriteLock("x"):writeLock() end,
        multi = function() return client:getMultiLock { "x", "y" } end,
    }

    -- Both calls, and the one in the background.
    local ways = {
        function(l, lease) return l:lock(lease) end,
        function(l, lease) return l:tryLock(1, lease) end,
        function(l, lease) return l:lockAsync(lease):get(5) end,
    }

    for kind, get in pairs(kinds) do
        it("lasts as long as it is asked for, never shorter: " .. kind, function()
            for _, again in ipairs(ways) do
                local l = get()
                assert(l:tryLock(1, 2))
                assert(again(l, 20))
                assert.is_true(l:remaining() > 19)
                local before = requests()
                assert(again(l, 1))
                assert(again(l, 20))
                assert.same({ before, 4 }, { requests(), l:getHoldCount() })
                assert.is_true(l:remaining() > 19)
                world:advance(10)
                for _ = 1, 4 do assert.is_true(l:unlock()) end
            end
        end)

        it("is renewed until the last unlock: " .. kind, function()
            for _, again in ipairs(ways) do
                local l = get()
                assert(l:tryLock(1, 2))
                assert(again(l))
                local before = requests()
                assert(again(l))
                assert.equal(before, requests())
                world:advance(100)
                assert.is_true(l:unlock())
                assert.is_true(l:unlock())
                world:advance(100)
                assert.is_true(l:isValid())
                assert.is_true(l:unlock())
            end
        end)

        it("stays as it was where it cannot be extended: " .. kind, function()
            local l = get()
            assert(l:tryLock(1, 2))
            world:kill(1)
            world:kill(2)
            support.fails("no_quorum", l:lock(20))
            support.fails("no_quorum", l:lock())
            assert.equal(1, l:getHoldCount())
            assert.is_true(l:remaining() > 0.9 and l:remaining() < 2)
            world:advance(2)
            assert.is_false(l:isValid())
        end)
    end

    it("has the lease of each that uses it", function()
        local ok, left = client:using("x", { lease = 2 }, function()
            return select(2, client:using("x", { lease = 20 }, function(inner)
                return inner:remaining()
            end))
        end)
        assert.is_true(ok and left > 19)
        ok = client:once("y", 30, function(l)
            assert(l:lock(50))
            return l:remaining()
        end)
        assert.is_true(ok)
    end)

    it("lasts as long for a writer that also reads", function()
        local pair = client:getReadWriteLock "x"
        local r, w = pair:readLock(), pair:writeLock()
        assert(w:lock())
        assert(r:lock(1))
        assert.is_true(w:unlock())
        assert.is_true(r:isValid() and r:remaining() < 1)
        world:advance(1)
        assert.is_false(r:isValid())
        support.fails("expired", r:unlock())

        assert(w:tryLock(1, 1))
        assert(r:lock())
        assert.is_true(w:unlock())
        world:advance(100)
        assert.is_true(r:unlock())

        assert(w:tryLock(1, 1))
        assert(r:lock(10))
        assert.is_true(w:remaining() > 9)
        world:advance(5)
        assert.is_true(w:unlock())
        assert.is_true(r:remaining() > 4 and r:remaining() < 5)
        assert.is_true(r:unlock())

        assert(w:tryLock(1, 1))
        world:kill(1)
        world:kill(2)
        support.fails("no_quorum", r:lock(10))
        assert.same({ 1, 0 }, { w:getHoldCount(), r:getHoldCount() })
    end)
end)
