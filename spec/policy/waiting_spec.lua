-- Waiting: messages, timers, fallbacks, and who gets it next.
local support = require "spec.support"

local child = support.child

-- A process that holds "x" for so long whenever it is told to.
local function holder(cluster, how)
    local c = child(cluster, "{}", [[
        while io.read() do
            assert(l:tryLock(10, 30))
            print "held"
            io.read()
            ]] .. how .. [[

            print(("%.6f"):format(support.now()))
        end
    ]])
    assert.equal("ready", c:read_line(10))
    return c
end

describe("a waiter", function()
    local cluster, client

    before_each(function()
        cluster = support.cluster(5)
        -- Only a message can wake it before ten seconds are over.
        client = support.warm_client(cluster, { fallback = 20 })
    end)

    -- How long the waiter took from the release on.
    local function wait_for(c, act)
        c:write "\n"
        assert.equal("held", c:read_line(5))
        local l = client:getLock "x"
        local f = l:lockAsync(10)
        assert.is_false(f:isDone())
        support.sleep(0.1)
        assert.is_false(f:isDone())
        if act then
            act()
        else
            c:write "\n"
        end
        assert.is_true(f:get(5))
        local got = support.now()
        assert.is_true(l:unlock())
        return got, c
    end

    it("is woken by a release", function()
        local c = holder(cluster, "assert(l:unlock())")
        for _ = 1, 5 do
            local got = wait_for(c)
            local released = tonumber(c:read_line(5))
            assert.is_true(got - released < 5, ("%g s"):format(got - released))
        end
    end)

    it("is woken by forceUnlock", function()
        local c = holder(cluster, "")
        wait_for(c, function()
            assert.is_true(client:getLock("x", { owner = 2 }):forceUnlock())
        end)
    end)

    it("tries when the holder's time is over, without a message [30]", function()
        local other = client:getLock("x", { owner = "other" })
        local t = support.now()
        assert.is_true(other:tryLock(0, 0.4))
        assert.is_true(client:getLock("x"):lock(60))
        local took = support.now() - t
        assert.is_true(took > 0.35 and took < 20, ("%g s"):format(took))
    end)

    it("subscribes before its last attempt: no release is missed", function()
        local c = holder(cluster, "assert(l:unlock())")
        for i = 1, 40 do
            c:write "\n"
            assert.equal("held", c:read_line(5))
            local f = client:getLock("x"):lockAsync(10)
            support.sleep(i % 8 * 0.0003)      -- from before the subscription to behind it
            c:write "\n"
            assert.is_true(f:get(5))
            assert.is_true(client:getLock("x"):unlock())
            c:read_line(5)
        end
    end)

    it("may be one of hundreds of names [31]", function()
        local other, futures = {}, {}
        for i = 1, 300 do
            other[i] = client:getLock("n" .. i, { owner = "other" })
            assert.is_true(other[i]:tryLock(0, 30))
        end
        for i = 1, 300 do
            futures[i] = client:getLock("n" .. i):lockAsync(10)
        end
        for i = 1, 300 do
            assert.is_false(futures[i]:isDone())
        end
        for i = 1, 300 do
            assert.is_true(other[i]:unlock())
        end
        assert.is_true(require("redlock").wait_all(futures, 10))
        for i = 1, 300 do
            assert.is_true(futures[i]:get())
        end
        cluster:each(function(s) assert.is_true(s:connections() <= 2) end)
    end)

    it("closes its subscriptions", function()
        local other_client = support.warm_client(cluster)
        local other = other_client:getLock "x"
        assert.is_true(other:tryLock(0, 30))
        local f = client:getLock("x"):lockAsync(10)
        support.eventually(function()
            f:isDone()
            local channels = cluster[1]:call("PUBSUB", "CHANNELS")
            return channels[1] == "redlock:{x}:free"
        end)
        assert.is_true(other:unlock())
        assert.is_true(f:get(5))
        local function all_closed()
            client:getLock("y"):isLocked()
            return #cluster[1]:call("PUBSUB", "CHANNELS") == 0
        end
        support.eventually(all_closed)
        collectgarbage "stop"              -- it must not be the collector who does it
        support.fails("held", client:getLock("x", { owner = 2 }):tryLockAsync(0.2):get(5))
        local closed = pcall(support.eventually, all_closed)
        collectgarbage "restart"
        assert.is_true(closed)
    end)
end)

describe("without messages a waiter", function()
    it("goes on within the fallback when its subscriptions break, or keys are deleted [30]",
        function()
            local cluster = support.cluster(3)
            local client = support.warm_client(cluster, { fallback = 0.3 })
            local other = support.warm_client(cluster)
            for _, act in ipairs {
                function()             -- no message for a DEL by hand
                    cluster:each(function(s) s:call("DEL", "x") end)
                end,
                function()             -- messages are lost with the connections
                    cluster:each(function(s)
                        s:call("CLIENT", "KILL", "TYPE", "pubsub")
                    end)
                    other:getLock("x"):unlock()
                end,
                function()             -- messages are lost with the server
                    cluster[1]:restart()
                    other:getLock("x"):unlock()
                end,
            } do
                assert.is_true(other:getLock("x"):tryLock(5, 30))
                local f = client:getLock("x"):lockAsync(10)
                support.sleep(0.05)
                assert.is_false(f:isDone())
                act()
                assert.is_true(f:get(10))
                assert.is_true(client:getLock("x"):unlock())
                other:getLock("x"):unlock()
            end
        end)

    it("has a name too long for a channel", function()
        local cluster = support.cluster(1)
        local client = support.warm_client(cluster)
        local name = ("n"):rep(5000)
        assert.is_true(client:getLock(name, { owner = 1 }):tryLock(0, 0.2))
        assert.is_true(client:getLock(name):tryLock(5))
    end)
end)

describe("`wait` [32]", function()
    it("bounds the call when servers hang or are away, within one time-out", function()
        local cluster = support.cluster(3)
        local client = support.warm_client(cluster, { timeout = 0.25 })
        local function bounded(wait)
            local t = support.now()
            local ok, err = client:getLock("x"):tryLock(wait)
            local took = support.now() - t
            assert.is_nil(ok)
            assert.equal("no_quorum", err.code)
            assert.is_true(took < wait + 0.25 + 1, ("%g of %g s"):format(took, wait))
        end
        cluster:each(function(s) s:freeze() end)
        bounded(0.3)
        bounded(1)
        bounded(0)
        cluster:each(function(s) s:kill() end)
        bounded(0.5)
        bounded(0)
    end)

    it("bounds the call when connections cannot be made", function()
        local cluster = support.cluster(3)
        local proxies = support.proxies(cluster)
        support.all(proxies):blackhole_connect(true)
        local client = support.client(proxies)
        local t = support.now()
        support.fails("no_quorum", client:getLock("x"):tryLock(0.3))
        -- The very first attempt has a second to connect; lock() would wait longer than this limit.
        assert.is_true(support.now() - t < 20)
        t = support.now()
        assert.is_nil((client:getLock("x"):tryLock(0.3)))
        assert.is_true(support.now() - t < 20)
    end)

    it("bounds the call when the subscription cannot be made", function()
        local cluster = support.cluster(3)
        local client = support.warm_client(cluster)
        local other = support.warm_client(cluster)
        assert.is_true(other:getLock("x"):tryLock(0, 30))
        cluster:each(function(s) s:call("CONFIG", "SET", "maxclients", 1) end)
        local t = support.now()
        support.fails("held", client:getLock("x"):tryLock(0.5))
        assert.is_true(support.now() - t < 20)
    end)
end)

describe("many contenders [33]", function()
    it("take turns, without a collapse and without starving", function()
        local cluster = support.cluster(5)
        local dir = support.tmpdir()
        local contenders = {}
        for i = 1, 8 do
            contenders[i] = child(cluster, "{ timeout = 2 }", ([[
                io.read()
                local journal = assert(io.open(%q, "a"))
                journal:setvbuf "no"
                local finish, n = support.now() + 6, 0
                while support.now() < finish do
                    assert(l:tryLock(10, 10))
                    local from = support.now()
                    support.sleep(0.005)
                    journal:write(("%%.6f %%.6f\n"):format(from, support.now()))
                    assert(l:unlock())
                    n = n + 1
                end
                print(n)
            ]]):format(dir .. "/journal"))
            assert.equal("ready", contenders[i]:read_line(10))
        end
        support.all(contenders, 1, 8):write "\n"
        local least, most, sum = math.huge, 0, 0
        for i = 1, 8 do
            local n = tonumber(contenders[i]:read_line(30))
            least, most, sum = math.min(least, n), math.max(most, n), sum + n
        end
        -- Nobody starves; how even it is, and how fast, is a matter of `make bench`.
        assert.is_true(least > 0 and most / least < 20, ("%d to %d"):format(least, most))
        assert.is_true(sum > 6 * 10, ("%d in 6 s"):format(sum))
        local spans = {}
        for line in io.lines(dir .. "/journal") do
            local from, to = line:match "(%S+) (%S+)"
            spans[#spans + 1] = { tonumber(from), tonumber(to) }
        end
        table.sort(spans, function(a, b) return a[1] < b[1] end)
        for i = 2, #spans do
            assert.is_true(spans[i][1] >= spans[i - 1][2])
        end
    end)

    it("in one process are one on the network", function()
        local cluster = support.cluster(3)
        local client = support.warm_client(cluster)
        local other = support.warm_client(cluster)
        assert.is_true(other:getLock("x"):tryLock(0, 30))
        local futures, locks = {}, {}
        local before = client:stats().nodes[1].requests
        for i = 1, 200 do        -- all of them before any has an answer
            locks[i] = client:getLock("x", { owner = i })
            futures[i] = locks[i]:lockAsync(30)
        end
        support.sleep(0.7)
        assert.is_false(futures[200]:isDone())
        assert.is_true(client:stats().nodes[1].requests - before < 20)
        assert.is_true(other:getLock("x"):unlock())
        for i = 1, 200 do
            assert.is_true(futures[i]:get(10))
            assert.is_true(locks[i]:unlock())
        end
        cluster:await_free()
    end)

    it("are all told when nobody answers, server by server", function()
        local cluster = support.cluster(3)
        local client = support.warm_client(cluster)
        local function all_fail(wait)
            local futures = {}
            for i = 1, 30 do
                futures[i] = client:getLock("x", { owner = i }):tryLockAsync(wait)
            end
            for i = 1, 30 do
                local err = support.fails("no_quorum", futures[i]:get(10))
                assert.equal(3, #err.nodes)
            end
        end
        cluster:each(function(server) server:freeze() end)
        all_fail(0.05)           -- before the first of them has an answer
        all_fail(0.6)
        cluster:each(function(server) server:kill() end)
        all_fail(0.3)
    end)
end)
