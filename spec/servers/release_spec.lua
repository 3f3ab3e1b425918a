-- What is let go although an answer was lost, or a server was away: against real servers behind
-- proxies. The conformance lines of the design are named in brackets.
local support = require "spec.support"

-- Lets the client serve its connections: a question about a name nobody uses.
local function turn(client)
    client:getLock("turn"):isLocked()
end

describe("a reply that is lost after the SET was applied [10, 22]", function()
    local cluster, proxies, client

    before_each(function()
        cluster = support.cluster(3)
        proxies = support.proxies(cluster)
        client = support.warm_client(proxies)
    end)

    it("is asked for again within the attempt, and taken once", function()
        support.all(proxies, 1, 2):cut_after_request "the-name"
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
        support.all(cluster, 2, 3):call("SET", "the-name", "other", "PX", 60000)
        proxies[1]:cut_after_request "the-name"
        support.fails("held", client:getLock("the-name"):tryLock())
        support.eventually(function()
            turn(client)
            return proxies[1]:fired() == 1 and cluster[1]:call("EXISTS", "the-name") == 0
        end)
    end)

    it("does not block the retry when the server stays away for a while", function()
        local alone = support.proxy(cluster[1].port)
        local one = support.warm_client({ alone }, { restart_guard = true })
        alone:cut_after_request "the-name"
        local l = one:getLock "the-name"
        -- The connection breaks with the answer, and cannot be made again.
        local code = support.child({ alone }, "{ restart_guard = true }", [[
            l = client:getLock "the-name"
            io.read()
            local ok, err = l:tryLock()
            print(ok, err and err.code)
            io.read()
            print(l:tryLock(5))
            print(l:unlock())
            io.read()
        ]])
        assert.equal("ready", code:read_line(10))
        alone:refuse(true)
        code:write "\n"
        assert.equal("nil\tno_quorum", code:read_line(5))
        assert.equal(1, cluster[1]:call("EXISTS", "the-name"))
        local t = support.now()
        alone:refuse(false)
        code:write "\n"
        assert.equal("true", code:read_line(5))
        assert.is_true(support.now() - t < 20)    -- the lease of the first attempt is 30 s
        assert.equal("true", code:read_line(5))
        support.eventually(function() return cluster[1]:call("EXISTS", "the-name") == 0 end)
        assert.is_false(l:isValid())
    end)
end)

describe("a SET that arrives after its client gave up [11]", function()
    it("is followed by its release", function()
        local cluster = support.cluster(3)
        local proxies = support.proxies(cluster)
        local client = support.warm_client(proxies)
        cluster:each(function(server) server:call("CONFIG", "RESETSTAT") end)
        support.all(proxies, 1, 2):hold_request "the-name"
        local err = support.fails("no_quorum", client:getLock("the-name"):tryLock())
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
        cluster:await_free()
    end)

    it("also on a server that was frozen meanwhile", function()
        local cluster = support.cluster(3)
        local client = support.warm_client(cluster)
        cluster:each(function(server) server:call("CONFIG", "RESETSTAT") end)
        cluster[3]:freeze()
        assert.is_true(client:getLock("x"):tryLock())
        assert.is_true(client:getLock("x"):unlock())
        client:close()
        cluster[3]:thaw()
        support.eventually(function()
            return cluster[3]:call("INFO", "commandstats"):find "cmdstat_set:calls=1"
        end)
        cluster:await_free()
    end)
end)

describe("a release [13, 14]", function()
    it("goes to the server whose answer to the acquire was lost", function()
        local cluster = support.cluster(5)
        local proxies = support.proxies(cluster)
        local client = support.warm_client(proxies)
        proxies[5]:drop("down", true)
        local l = client:getLock "x"
        assert.is_true(l:tryLock())
        support.eventually(function() return cluster:keys() == 5 end)
        assert.is_true(l:unlock())
        cluster:await_free()
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

    local function refuse_scripts(server, yes)
        for _, command in ipairs { "eval", "evalsha" } do
            server:call("ACL", "SETUSER", "default", (yes and "-" or "+") .. command)
        end
    end

    local function errors_of(server)
        return tonumber(server:call("INFO", "stats"):match "total_error_replies:(%d+)")
    end

    it("is not owed where the attempt was refused as a whole", function()
        local cluster = support.cluster(3)
        local client = support.warm_client(cluster)
        refuse_scripts(cluster[1], true)
        for i = 1, 50 do
            assert.is_true(client:getLock("x" .. i):tryLock(5))
            assert.is_true(client:getLock("x" .. i):unlock())
        end
        support.eventually(function()
            client:check()
            return client:stats().owed == 0 and client:stats().nodes[1].in_flight == 0
        end)
        assert.equal(0, client:stats().forgone)
    end)

    it("is tried with one lease for all while a server refuses scripts", function()
        if not support.since(6, 2) then
            return pending "Redis before 6.2 counts no errors"
        end
        local cluster = support.cluster(3)
        local client = support.warm_client(cluster, { timeout = 0.25 })      -- also of retries
        for i = 1, 300 do
            assert.is_true(client:getLock("x" .. i):tryLock(5))
        end
        support.eventually(function() return cluster:keys() == 900 end)
        refuse_scripts(cluster[1], true)
        for i = 1, 300 do
            assert.is_true(client:getLock("x" .. i):unlock())
        end
        support.eventually(function() return client:stats().nodes[1].in_flight == 0 end)
        support.sleep(0.5)                   -- all come again in this time, or soon after it
        local before, from = errors_of(cluster[1]), support.now()
        support.sleep(4)
        local n, most = errors_of(cluster[1]) - before, 3 + (support.now() - from)
        assert.is_true(n > 0 and n < most, n .. " refused releases")
        assert.equal(300, client:stats().owed)
        refuse_scripts(cluster[1], false)
        cluster:await_free()
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
