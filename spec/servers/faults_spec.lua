-- Servers and networks that fail, against real servers behind proxies. The conformance
-- lines of the design are named in brackets.
local support = require "spec.support"

local function rows_by_code(err)
    local count = {}
    for _, row in ipairs(err.nodes) do
        count[row.code] = (count[row.code] or 0) + 1
    end
    return count
end

-- Lets the client serve its connections: a question about a name nobody uses.
local function turn(client)
    client:getLock("turn"):isLocked()
end

describe("dead servers", function()
    local cluster, client

    before_each(function()
        cluster = support.cluster(5)
        client = support.warm_client(cluster, { timeout = 5 })
    end)

    it("cost nothing while a majority lives", function()
        cluster[1]:kill()
        cluster[4]:kill()
        for _ = 1, 20 do
            local l = client:getLock "x"
            assert.is_true(l:tryLock(0, 10))
            assert.is_true((l:extend(20)))
            assert.is_true(l:isLocked())
            assert.is_true(l:unlock())
        end
        cluster:await_free()
    end)

    it("are named when there is no majority, and nothing is left on the others [28]", function()
        support.all(cluster, 1, 3):kill()
        local l = client:getLock "x"
        local ok, err = l:tryLock(0.2)
        assert.is_nil(ok)
        assert.equal("no_quorum", err.code)
        assert.equal(5, #err.nodes)
        for i = 1, 3 do
            assert.equal("refused", err.nodes[i].code)
            assert.matches("refused", err.nodes[i].message)
        end
        cluster:await_free()
        for _, method in ipairs { "isLocked", "remainTimeToLive", "forceUnlock" } do
            ok, err = l[method](l)
            assert.is_nil(ok)
            assert.equal("no_quorum", err.code)
        end
    end)

    it("may come and go while it is held", function()
        local l = client:getLock "x"
        assert.is_true(l:tryLock())
        cluster[1]:kill()
        cluster[2]:kill()
        assert.is_true((l:extend()))
        cluster[3]:kill()
        support.fails("no_quorum", l:extend())
        assert.is_true(l:isValid())              -- the old validity stands [17]
        cluster[3]:start()                       -- empty: it does not know us
        support.eventually(function()
            turn(client)
            return client:stats().nodes[3].ready
        end)
        support.fails("no_quorum", l:extend())      -- 2 yes, 1 no, 2 missing: nobody disowns us
        local ok, err = l:unlock()
        assert.is_true(ok, tostring(err))
        cluster:await_free()
    end)

    it("make the release of a lock unknown when they are the majority [13]", function()
        local l = client:getLock "x"
        assert.is_true(l:tryLock())
        support.all(cluster, 1, 3):kill()
        local err = support.fails("unknown", l:unlock())
        assert.same(3, rows_by_code(err).refused)
        cluster:await_free()     -- the living ones were told
        assert.is_false(l:isValid())
    end)

    it("that come back are used again", function()
        cluster:each(function(s) s:kill() end)
        local l = client:getLock "x"
        support.fails("no_quorum", l:tryLock())
        cluster:each(function(s) s:start():admit() end)
        assert.is_true(l:tryLock(5))
        assert.is_true(l:unlock())
        cluster:await_free()
    end)

    it("end lock() after its patience", function()
        cluster:each(function(s) s:kill() end)
        local hasty = support.client(cluster, { patience = 0.2 })
        local err = support.fails("no_quorum", hasty:getLock("x"):lock())
        assert.is_true(err.waited > 0.199 and err.waited < 20)
    end)

    it("do not end lock() while somebody holds it", function()
        cluster[1]:kill()
        cluster[2]:kill()
        local hasty = support.client(cluster, { patience = 0.1 })
        assert.is_true(client:getLock("x"):tryLock(0, 0.6))
        assert.is_true(hasty:getLock("x", { owner = 1 }):lock())
    end)
end)

describe("a frozen server", function()
    local function p50(client, cycles)
        local times = {}
        for i = 1, cycles do
            local l = client:getLock "x"
            local t = support.now()
            assert(l:tryLock())
            times[i] = support.now() - t
            assert(l:unlock())
        end
        table.sort(times)
        return times[cycles / 2]
    end

    it("does not slow down the others, and keeps nothing [7, 11]", function()
        local cluster = support.cluster(5)
        local client = support.warm_client(cluster, { timeout = 1 })
        p50(client, 200)
        local healthy = p50(client, 400)
        cluster[2]:freeze()
        local frozen = p50(client, 400)
        -- Its time-out is 1 s; what a busy machine adds to a round trip is far less.
        assert.is_true(frozen <= 2 * healthy or frozen < 0.03,
            ("%g s, healthy %g s"):format(frozen, healthy))
        -- Long enough for the client to give up the connection as well.
        support.eventually(function()
            p50(client, 20)
            return not client:stats().nodes[2].ready
        end, 20)
        cluster[2]:thaw()
        support.eventually(function()
            turn(client)
            return client:stats().nodes[2].ready and cluster:keys() == 0
        end, 10)
    end)

    it("that is one of two leaves the tie undecided until the time-out, then lost", function()
        local cluster = support.cluster(2)
        local client = support.warm_client(cluster, { timeout = 1.5 })
        cluster[1]:freeze()
        local t = support.now()
        local err = support.fails("no_quorum", client:getLock("x"):tryLock())
        assert.equal("timeout", err.nodes[1].code)
        assert.matches("no answer in time", err.nodes[1].message)
        assert.is_true(support.now() - t > 1.49)
        -- It is known to hang now, and costs nothing.
        t = support.now()
        assert.is_nil((client:getLock("x"):tryLock()))
        assert.is_true(support.now() - t < 1.4)
        cluster[1]:thaw()
        assert.is_true(client:getLock("x"):tryLock(5))
        assert.is_true(client:getLock("x"):unlock())
        cluster:await_free()
    end)
end)

describe("a tie [1]", function()
    for _, n in ipairs { 2, 4 } do
        it(("on %d servers is nobody's, and won when it resolves"):format(n), function()
            local cluster = support.cluster(n)
            local client = support.warm_client(cluster, { timeout = 40 })
            support.all(cluster, 1, n / 2):call("SET", "x", "other", "PX", 60000)
            local t = support.now()
            support.fails("no_quorum", client:getLock("x"):tryLock())
            assert.is_true(support.now() - t < 30)
            support.all(cluster, 1, n / 2):call("PEXPIRE", "x", 500)
            assert.is_true(client:getLock("x"):tryLock(20))
            assert.is_true(client:getLock("x"):unlock())
        end)
    end
end)

describe("two clients that see different servers up [6]", function()
    it("cannot both win", function()
        local cluster = support.cluster(5)
        local a_proxies, b_proxies = support.proxies(cluster), support.proxies(cluster)
        support.all(b_proxies, 1, 2):refuse(true)
        support.all(a_proxies, 3, 5):refuse(true)
        local a, b = support.client(a_proxies), support.client(b_proxies)
        support.fails("no_quorum", a:getLock("x"):tryLock(0.3))
        assert.is_true(b:getLock("x"):tryLock(5))
        assert.is_nil((a:getLock("x"):tryLock(0.3)))
        a_proxies[3]:refuse(false)
        support.eventually(function()
            turn(a)
            return a:stats().nodes[3].ready
        end, 10)
        support.eventually(function()                -- the others may be slow to answer
            local ok, err = a:getLock("x"):tryLock(0.5)
            assert.is_nil(ok)
            return err.code == "held"
        end)
        assert.is_true(b:getLock("x"):unlock())
        assert.is_true(a:getLock("x"):tryLock(5))
    end)
end)

describe("a majority that comes too late [3, 4]", function()
    it("is not a lock, and is released on all servers", function()
        local cluster = support.cluster(3)
        local proxies = support.proxies(cluster)
        -- Half of the lease is drift: the servers keep the keys for 6 s, we count 3 s.
        local client = support.warm_client(proxies, { timeout = 5, drift_factor = 0.5 })
        support.all(proxies, 1, 2):hold("down", true)
        local t = support.now()
        support.fails("no_quorum", client:getLock("x"):tryLock(0, 6))
        assert.is_true(support.now() - t > 2.9)
        cluster:await_free(2.5)
        assert.is_true(support.now() - t < 5.9)
        support.all(proxies, 1, 2):hold("down", false)
        turn(client)
        assert.is_true(client:getLock("x"):tryLock())
    end)

    it("is expired when the process slept through its lease", function()
        local cluster = support.cluster(3)
        local proxies = support.proxies(cluster)
        local child = support.child(proxies, "{ timeout = 5 }", [[
            io.read()
            local ok, err = l:tryLock(0, 2)
            print(ok, err and err.code)
            io.read()
        ]])
        assert.equal("ready", child:read_line(10))
        support.all(proxies):hold("down", true)
        child:write "\n"
        support.eventually(function() return cluster:keys() == 3 end)
        child:kill "STOP"
        support.all(proxies):hold("down", false)
        support.sleep(2.1)
        child:kill "CONT"
        assert.equal("nil\texpired", child:read_line(5))
    end)

    it("does not come at all when the servers take longer than the lease", function()
        local cluster = support.cluster(3)
        local proxies = support.proxies(cluster)
        local client = support.warm_client(proxies, { timeout = 60 })
        support.all(proxies):delay("both", 20000)
        local t = support.now()
        support.fails("no_quorum", client:getLock("x"):tryLock(0, 0.3))
        assert.is_true(support.now() - t < 19)
    end)
end)

describe("a holder that sleeps past its lease [26]", function()
    local cluster = support.shared_cluster(3)
    local client

    before_each(function() client = support.warm_client(cluster) end)

    local function sleep_past(l)
        assert.is_true(l:tryLock(0, 0.5))
        support.eventually(function() return not l:isValid() end)
    end

    it("is told that it expired", function()
        local l = client:getLock "x"
        sleep_past(l)
        assert.equal(0, l:remaining())
        assert.error_matches(function() l:check() end, "lost")
        support.fails("lost", l:extend())
        support.fails("expired", l:unlock())
        support.fails("not_held", l:unlock())
    end)

    it("is told who has it now, and takes nothing from them", function()
        local l, other = client:getLock "x", client:getLock("x", { owner = "other" })
        sleep_past(l)
        assert.is_true(other:tryLock(5))
        support.fails("held", l:unlock())
        assert.is_true(other:isLocked())
        assert.is_true((other:extend()))
        assert.is_true(other:unlock())
    end)

    it("takes it anew with another value", function()
        local l = client:getLock "x"
        sleep_past(l)
        assert.is_true(l:lock())
        assert.equal(1, l:getHoldCount())
        assert.is_true(l:unlock())
    end)
end)
