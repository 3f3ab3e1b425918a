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

local function no_keys(cluster)
    return function() return cluster:keys() == 0 end
end

-- Lets the client serve its connections: a question about a name nobody uses.
local function turn(client)
    client:getLock("turn"):isLocked()
end

describe("dead servers", function()
    local cluster, client

    before_each(function()
        cluster = support.cluster(5)
        client = support.warm_client(cluster)
    end)
    after_each(support.cleanup)

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
        support.eventually(no_keys(cluster))
    end)

    it("are named when there is no majority, and nothing is left on the others [28]", function()
        for i = 1, 3 do
            cluster[i]:kill()
        end
        local l = client:getLock "x"
        local ok, err = l:tryLock(0.2)
        assert.is_nil(ok)
        assert.equal("no_quorum", err.code)
        assert.equal(5, #err.nodes)
        for i = 1, 3 do
            assert.equal("refused", err.nodes[i].code)
            assert.matches("refused", err.nodes[i].message)
        end
        support.eventually(no_keys(cluster))
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
        local ok, err = l:extend()
        assert.is_nil(ok)
        assert.equal("no_quorum", err.code)
        assert.is_true(l:isValid())              -- the old validity stands [17]
        cluster[3]:start()                       -- empty: it does not know us
        support.eventually(function()
            turn(client)
            return client:stats().nodes[3].ready
        end)
        ok, err = l:extend()
        assert.is_nil(ok)
        assert.equal("no_quorum", err.code)      -- 2 yes, 1 no, 2 missing: nobody disowns us
        ok, err = l:unlock()
        assert.is_true(ok, tostring(err))
        support.eventually(no_keys(cluster))
    end)

    it("make the release of a lock unknown when they are the majority [13]", function()
        local l = client:getLock "x"
        assert.is_true(l:tryLock())
        for i = 1, 3 do
            cluster[i]:kill()
        end
        local ok, err = l:unlock()
        assert.is_nil(ok)
        assert.equal("unknown", err.code)
        assert.same(3, rows_by_code(err).refused)
        support.eventually(no_keys(cluster))     -- the living ones were told
        assert.is_false(l:isValid())
    end)

    it("that come back are used again", function()
        cluster:each(function(s) s:kill() end)
        local l = client:getLock "x"
        local ok, err = l:tryLock()
        assert.is_nil(ok)
        assert.equal("no_quorum", err.code)
        cluster:each(function(s) s:start():admit() end)
        assert.is_true(l:tryLock(5))
        assert.is_true(l:unlock())
        support.eventually(no_keys(cluster))
    end)

    it("end lock() after its patience", function()
        cluster:each(function(s) s:kill() end)
        local hasty = support.client(cluster, { patience = 0.2 })
        local ok, err = hasty:getLock("x"):lock()
        assert.is_nil(ok)
        assert.equal("no_quorum", err.code)
        assert.is_true(err.waited > 0.199 and err.waited < 5)
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
    after_each(support.cleanup)

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
        local ok, err = client:getLock("x"):tryLock()
        assert.is_nil(ok)
        assert.equal("no_quorum", err.code)
        assert.equal("timeout", err.nodes[1].code)
        assert.matches("no answer in time", err.nodes[1].message)
        assert.is_true(support.now() - t > 1.49)
        -- It is known to hang now, and costs nothing.
        t = support.now()
        assert.is_nil((client:getLock("x"):tryLock()))
        assert.is_true(support.now() - t < 1)
        cluster[1]:thaw()
        assert.is_true(client:getLock("x"):tryLock(5))
        assert.is_true(client:getLock("x"):unlock())
        support.eventually(no_keys(cluster))
    end)
end)

describe("a tie [1]", function()
    after_each(support.cleanup)

    for _, n in ipairs { 2, 4 } do
        it(("on %d servers is lost at once, and won when it resolves"):format(n), function()
            local cluster = support.cluster(n)
            local client = support.warm_client(cluster, { timeout = 4 })
            for i = 1, n / 2 do
                cluster[i]:call("SET", "x", "other", "PX", 400)
            end
            local t = support.now()
            local ok, err = client:getLock("x"):tryLock()
            assert.is_nil(ok)
            assert.equal("held", err.code)
            assert.is_true(support.now() - t < 3)
            assert.is_true(client:getLock("x"):tryLock(5))
            assert.is_true(client:getLock("x"):unlock())
        end)

        it(("of two processes on %d servers is won by both in turn"):format(n), function()
            local cluster = support.cluster(n)
            local code = [[
                local support = require "spec.support"
                local client = support.warm_client { %s }
                local l = client:getLock "x"
                print "ready"
                io.read()
                for i = 1, 20 do
                    local ok, err = l:tryLock(20)
                    if not ok then print(tostring(err)) os.exit(1) end
                    assert(l:unlock())
                end
                print "done"
            ]]
            local uris = cluster:uris()
            for i, u in ipairs(uris) do
                uris[i] = ("%q"):format(u)
            end
            code = code:format(table.concat(uris, ","))
            local a, b = support.lua(code), support.lua(code)
            assert.equal("ready", a:read_line(10))
            assert.equal("ready", b:read_line(10))
            a:write "\n"
            b:write "\n"
            assert.equal("done", a:read_line(30))
            assert.equal("done", b:read_line(30))
            support.eventually(no_keys(cluster))
        end)
    end
end)

describe("three contenders", function()
    after_each(support.cleanup)

    it("that win one server each: one holds it without a time-out [2]", function()
        local cluster = support.cluster(3)
        local contenders, far = {}, {}
        for k = 1, 3 do
            local uris = {}
            for i = 1, 3 do
                local p = support.proxy(cluster[i].port)
                uris[i] = ("%q"):format(p.uri)
                if i ~= k then
                    far[#far + 1] = p
                end
            end
            contenders[k] = support.lua(([[
                local support = require "spec.support"
                local client = support.warm_client({ %s }, { timeout = 5, retry_delay = 0.15 })
                print "ready"
                io.read()
                local l = client:getLock "x"
                local first, err = l:tryLock()
                print(first and "won" or err.code)
                assert(first or l:tryLock(20))
                print "mine"
                io.read()
                assert(l:unlock())
                print "released"
                io.read()
            ]]):format(table.concat(uris, ",")))
        end
        for _, c in ipairs(contenders) do
            assert.equal("ready", c:read_line(10))
        end
        -- Each reaches its own server first, then all of them the others.
        for _, p in ipairs(far) do
            p:hold("up", true)
        end
        for _, c in ipairs(contenders) do
            c:write "\n"
        end
        support.eventually(function() return cluster:keys() == 3 end)
        local t = support.now()
        for _, p in ipairs(far) do
            p:hold("up", false)
        end
        local lost = 0
        for _, c in ipairs(contenders) do
            lost = lost + (c:read_line(5) == "held" and 1 or 0)
        end
        assert.is_true(lost >= 2)      -- the third may find what the others gave back
        -- Whoever has it now, and then each of the others in turn.
        local function next_holder()
            return support.eventually(function()
                for i, c in ipairs(contenders) do
                    if c:read_line(0.01) == "mine" then
                        return table.remove(contenders, i)
                    end
                end
            end, 20)
        end
        local holder = next_holder()
        assert.is_true(support.now() - t < 4, ("%g s"):format(support.now() - t))
        for turn_number = 1, 3 do
            holder:write "\n"
            assert.equal("released", holder:read_line(5))
            holder = turn_number < 3 and next_holder()
        end
        support.eventually(no_keys(cluster))
    end)
end)

describe("two clients that see different servers up [6]", function()
    after_each(support.cleanup)

    it("cannot both win", function()
        local cluster = support.cluster(5)
        local a_proxies, b_proxies = support.proxies(cluster), support.proxies(cluster)
        for i = 1, 2 do
            b_proxies[i]:refuse(true)
        end
        for i = 3, 5 do
            a_proxies[i]:refuse(true)
        end
        local a, b = support.client(a_proxies), support.client(b_proxies)
        local ok, err = a:getLock("x"):tryLock(0.3)
        assert.is_nil(ok)
        assert.equal("no_quorum", err.code)
        assert.is_true(b:getLock("x"):tryLock(5))
        assert.is_nil((a:getLock("x"):tryLock(0.3)))
        a_proxies[3]:refuse(false)
        support.eventually(function()
            turn(a)
            return a:stats().nodes[3].ready
        end, 10)
        ok, err = a:getLock("x"):tryLock(0.5)
        assert.is_nil(ok)
        assert.equal("held", err.code)
        assert.is_true(b:getLock("x"):unlock())
        assert.is_true(a:getLock("x"):tryLock(5))
    end)
end)

describe("a majority that comes too late [3, 4]", function()
    after_each(support.cleanup)

    it("is not a lock, and is released on all servers", function()
        local cluster = support.cluster(3)
        local proxies = support.proxies(cluster)
        -- Half of the lease is drift: the servers keep the keys for 6 s, we count 3 s.
        local client = support.warm_client(proxies, { timeout = 5, drift_factor = 0.5 })
        for i = 1, 2 do
            proxies[i]:hold("down", true)
        end
        local t = support.now()
        local ok, err = client:getLock("x"):tryLock(0, 6)
        assert.is_nil(ok)
        assert.equal("no_quorum", err.code)
        assert.is_true(support.now() - t > 2.9)
        support.eventually(no_keys(cluster), 2.5)
        assert.is_true(support.now() - t < 5.9)
        for i = 1, 2 do
            proxies[i]:hold("down", false)
        end
        turn(client)
        assert.is_true(client:getLock("x"):tryLock())
    end)

    it("is expired when the process slept through its lease", function()
        local cluster = support.cluster(3)
        local proxies = support.proxies(cluster)
        local child = support.lua(([[
            local support = require "spec.support"
            local client = support.warm_client({ %q, %q, %q }, { timeout = 5 })
            print "ready"
            io.read()
            local ok, err = client:getLock("x"):tryLock(0, 2)
            print(ok, err and err.code)
            io.read()
        ]]):format(proxies[1].uri, proxies[2].uri, proxies[3].uri))
        assert.equal("ready", child:read_line(10))
        for _, p in ipairs(proxies) do
            p:hold("down", true)
        end
        child:write "\n"
        support.eventually(function() return cluster:keys() == 3 end)
        child:kill "STOP"
        for _, p in ipairs(proxies) do
            p:hold("down", false)
        end
        support.sleep(2.1)
        child:kill "CONT"
        assert.equal("nil\texpired", child:read_line(5))
    end)

    it("does not come at all when the servers take longer than the lease", function()
        local cluster = support.cluster(3)
        local proxies = support.proxies(cluster)
        local client = support.warm_client(proxies, { timeout = 10 })
        for _, p in ipairs(proxies) do
            p:delay("both", 2000)
        end
        local t = support.now()
        local ok, err = client:getLock("x"):tryLock(0, 0.3)
        assert.is_nil(ok)
        assert.equal("no_quorum", err.code)
        assert.is_true(support.now() - t < 2)
    end)
end)

describe("a reply that is lost after the SET was applied [10, 22]", function()
    local cluster, proxies, client

    before_each(function()
        cluster = support.cluster(3)
        proxies = support.proxies(cluster)
        client = support.warm_client(proxies)
    end)
    after_each(support.cleanup)

    it("is asked for again within the attempt, and taken once", function()
        for i = 1, 2 do
            proxies[i]:cut_after_request "the-name"
        end
        local l = client:getLock "the-name"
        assert.is_true(l:tryLock())
        assert.equal(1, proxies[1]:fired() + proxies[2]:fired() > 0 and 1)
        assert.equal(1, l:getHoldCount())
        assert.is_true(l:unlock())
        support.eventually(function()
            turn(client)
            return cluster:keys() == 0
        end)
    end)

    it("leaves no key when the attempt fails", function()
        for i = 2, 3 do
            cluster[i]:call("SET", "the-name", "other", "PX", 60000)
        end
        proxies[1]:cut_after_request "the-name"
        local ok, err = client:getLock("the-name"):tryLock()
        assert.is_nil(ok)
        assert.equal("held", err.code)
        support.eventually(function()
            turn(client)
            return proxies[1]:fired() == 1 and cluster[1]:call("EXISTS", "the-name") == 0
        end)
    end)

    it("does not block the retry when the server stays away for a while", function()
        local alone = support.proxy(cluster[1].port)
        local one = support.warm_client { alone }
        alone:cut_after_request "the-name"
        local l = one:getLock "the-name"
        -- The connection breaks with the answer, and cannot be made again.
        local code = support.lua(([[
            local support = require "spec.support"
            local client = support.warm_client { %q }
            print "ready"
            io.read()
            local l = client:getLock "the-name"
            local ok, err = l:tryLock()
            print(ok, err and err.code)
            io.read()
            print(l:tryLock(5))
            print(l:unlock())
            io.read()
        ]]):format(alone.uri))
        assert.equal("ready", code:read_line(10))
        alone:refuse(true)
        code:write "\n"
        assert.equal("nil\tno_quorum", code:read_line(5))
        assert.equal(1, cluster[1]:call("EXISTS", "the-name"))
        local t = support.now()
        alone:refuse(false)
        code:write "\n"
        assert.equal("true", code:read_line(5))
        assert.is_true(support.now() - t < 4)     -- the lease of the first attempt is 30 s
        assert.equal("true", code:read_line(5))
        support.eventually(function() return cluster[1]:call("EXISTS", "the-name") == 0 end)
        assert.is_false(l:isValid())
    end)
end)

describe("a SET that arrives after its client gave up [11]", function()
    after_each(support.cleanup)

    it("is followed by its release", function()
        local cluster = support.cluster(3)
        local proxies = support.proxies(cluster)
        local client = support.warm_client(proxies)
        for i = 1, 2 do
            proxies[i]:hold_request "the-name"
        end
        local ok, err = client:getLock("the-name"):tryLock()
        assert.is_nil(ok)
        assert.equal("no_quorum", err.code)
        assert.equal("timeout", err.nodes[1].code)
        client:close()
        for i = 1, 2 do
            assert.equal(0, cluster[i]:keys())
            proxies[i]:release()
        end
        support.eventually(function()
            return cluster[1]:call("INFO", "commandstats"):find "cmdstat_set:calls=1"
                and cluster[2]:call("INFO", "commandstats"):find "cmdstat_set:calls=1"
        end)
        support.eventually(no_keys(cluster))
    end)

    it("also on a server that was frozen meanwhile", function()
        local cluster = support.cluster(3)
        local client = support.warm_client(cluster)
        cluster[3]:freeze()
        assert.is_true(client:getLock("x"):tryLock())
        assert.is_true(client:getLock("x"):unlock())
        client:close()
        cluster[3]:thaw()
        support.eventually(function()
            return cluster[3]:call("INFO", "commandstats"):find "cmdstat_set:calls=1"
        end)
        support.eventually(no_keys(cluster))
    end)
end)

describe("a release [13, 14]", function()
    after_each(support.cleanup)

    it("goes to the server whose answer to the acquire was lost", function()
        local cluster = support.cluster(5)
        local proxies = support.proxies(cluster)
        local client = support.warm_client(proxies)
        proxies[5]:drop("down", true)
        local l = client:getLock "x"
        assert.is_true(l:tryLock())
        support.eventually(function() return cluster:keys() == 5 end)
        assert.is_true(l:unlock())
        support.eventually(no_keys(cluster))
    end)

    it("waits for a server that is away, as long as the lease", function()
        local cluster = support.cluster(3)
        local proxies = support.proxies(cluster)
        local client = support.warm_client(proxies)
        local l = client:getLock "x"
        assert.is_true(l:tryLock())
        support.eventually(function() return cluster:keys() == 3 end)
        proxies[2]:refuse(true)
        proxies[2]:cut()
        assert.is_true(l:unlock())
        turn(client)
        assert.equal(1, cluster[2]:call("EXISTS", "x"))
        assert.equal(1, client:stats().nodes[2].owed)
        assert.equal(1, client:stats().owed)
        assert.equal(0, client:stats().forgone)
        proxies[2]:refuse(false)
        support.eventually(function()
            turn(client)
            return cluster[2]:call("EXISTS", "x") == 0
        end)
        support.eventually(function()
            turn(client)
            return client:stats().nodes[2].owed == 0 and client:stats().owed == 0
        end)
    end)

    it("reaches the right server after restarts and with another order of nodes", function()
        local cluster = support.cluster(3)
        local a = support.warm_client(cluster)
        local b = support.warm_client { cluster[3], cluster[1], cluster[2] }
        assert.is_true(a:getLock("x"):tryLock())
        assert.is_true(b:getLock("y"):tryLock())
        cluster[2]:restart()
        assert.is_true(a:getLock("x"):unlock())
        assert.is_true((b:getLock("y"):extend()))
        assert.is_true(b:getLock("y"):unlock())
        support.eventually(function()
            turn(a)
            turn(b)
            return cluster:keys() == 0
        end)
    end)

    it("is repeated while a server is busy", function()
        local cluster = support.cluster(3, { args = { "--lua-time-limit", "20" } })
        local client = support.warm_client(cluster)
        local l = client:getLock "x"
        assert.is_true(l:tryLock())
        support.eventually(function() return cluster:keys() == 3 end)
        local busy = support.lua(([[
            local support = require "spec.support"
            local c = support.connect(%d, 20)
            print "started"
            c:call("EVAL", "while true do end", 0)
        ]]):format(cluster[1].port))
        assert.equal("started", busy:read_line(5))
        support.eventually(function()
            local _, err = cluster[1]:call("PING")
            return err and err:find "BUSY"
        end)
        assert.is_true(l:unlock())
        cluster[1]:call("SCRIPT", "KILL")
        support.eventually(function() return cluster[1]:call "PING" == "PONG" end)
        support.eventually(function()
            turn(client)
            return cluster:keys() == 0
        end)
    end)
end)

describe("a holder that sleeps past its lease [26]", function()
    local cluster, client

    setup(function() cluster = support.cluster(3) end)
    before_each(function()
        cluster:flush()
        client = support.warm_client(cluster)
    end)
    teardown(support.cleanup)

    local function sleep_past(l)
        assert.is_true(l:tryLock(0, 0.5))
        support.eventually(function() return not l:isValid() end)
    end

    it("is told that it expired", function()
        local l = client:getLock "x"
        sleep_past(l)
        assert.equal(0, l:remaining())
        assert.error_matches(function() l:check() end, "lost")
        local ok, err = l:extend()
        assert.is_nil(ok)
        assert.equal("lost", err.code)
        ok, err = l:unlock()
        assert.is_nil(ok)
        assert.equal("expired", err.code)
        ok, err = l:unlock()
        assert.is_nil(ok)
        assert.equal("not_held", err.code)
    end)

    it("is told who has it now, and takes nothing from them", function()
        local l, other = client:getLock "x", client:getLock("x", { owner = "other" })
        sleep_past(l)
        assert.is_true(other:tryLock(5))
        local ok, err = l:unlock()
        assert.is_nil(ok)
        assert.equal("held", err.code)
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
