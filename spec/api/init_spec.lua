-- New servers do not vote before init(), or the quarantine's end.
local quarantine = require "spec.support.quarantine"
local support = require "spec.support"

local GUARD, NEW, options = quarantine.GUARD, quarantine.NEW, quarantine.options

describe("a brand-new cluster", function()
    local cluster

    -- A program that runs init, and prints what comes of it.
    local function init_program(login)
        local uris = {}
        for i = 1, 3 do
            uris[i] = ("redis://%s127.0.0.1:%d"):format(login, cluster[i].port)
        end
        return support.lua(([[
            local client = require("redlock").new { nodes = { %q, %q, %q }, cluster = "spec" }
            print(client:init())
        ]]):format(unpack(uris)))
    end

    -- As somebody would who has just met it, and has observed it for as long as init wants.
    local function is_new(server, inc)
        server:mark(("%s v4 n %s 0 60000 spec 5000 %s000"):format(inc:rep(4), server:life(),
            server:call("TIME")[1]))
    end

    before_each(function() cluster = support.cluster(3, { new = true }) end)

    it("has no votes at first, and says so", function()
        local client = support.warm_client(cluster)
        local err = support.fails("no_quorum", client:getLock("x"):tryLock())
        local guarded = 0
        for _, row in ipairs(err.nodes) do
            if row.code ~= "pending" then            -- two of three decide it
                guarded = guarded + 1
                assert.equal("guarded", row.code)
                assert.matches(NEW, row.message)
                assert.is_true(tonumber(row.message:match "in (%d+) s") <= 62)     -- 60 * 1.01 + 1
            end
        end
        assert.is_true(guarded >= 2)
        assert.is_nil(tostring(err):find "init")
        assert.equal(0, cluster:having "x")
    end)

    it("is waited for by lock(), beyond its patience", function()
        local client = support.client(cluster, options { patience = 1 })
        local t = support.now()
        assert.is_true(client:getLock("x"):lock())
        local waited = support.now() - t
        assert.is_true(waited >= GUARD, waited)
        assert.is_true(waited < GUARD + 10, waited)
    end)

    it("is not waited for by tryLock() beyond its wait", function()
        local client = support.warm_client(cluster, options { max_lease = 20 })
        local t = support.now()
        support.fails("no_quorum", client:getLock("x"):tryLock(0.3))
        assert.is_true(support.now() - t < 20)
    end)

    it("is admitted by init, however long its servers take to answer", function()
        local world = require("redlock.testing").new { new_cluster = true, round_trip = 0.4,
            client = { timeout = 2, connect_timeout = 5 } }
        assert.is_true(world:client():init())
        assert.is_true(world:now() > 8)
    end)

    it("is admitted by init though a server is silent for a while, not if it stays so", function()
        local function silent(from, seconds)
            local world = require("redlock.testing").new { new_cluster = true, round_trip = 0.1 }
            local client, done = world:client(), nil
            world:spawn(function() done = { client:init() } end)
            world:advance(from)
            world:freeze(3)
            world:advance(seconds)
            world:thaw(3)
            world:advance(10)
            return unpack(done)
        end
        for tenth = 0, 84 do
            assert.is_true(silent(tenth / 10, 3))
        end
        assert.matches("a new cluster is all up", tostring(support.fails("config", silent(1, 30))))
    end)

    it("waits in init for servers that are late, not beside one that is down", function()
        for _, down in ipairs { 2, 3 } do
            local world = require("redlock.testing").new { new_cluster = true }
            local client = world:client()
            client:check()
            world:kill(down)
            world:freeze(5 - down)
            client:check()
            world:advance(5)
            local began = world:now()
            local err = support.fails("config", client:init())
            assert.matches("%.2:6379 .*%.3:6379 .* are not", tostring(err))
            assert.is_true(world:now() - began < 5, world:now() - began)
        end
    end)

    it("is admitted by init, for everybody, when nobody who knew it came back", function()
        local other = support.warm_client(cluster, options())
        assert.is_nil((other:getLock("x"):tryLock()))
        local client, began = support.client(cluster, options()), support.now()
        assert.is_true(client:init())
        assert.is_true(support.now() - began <= 15)
        for _, c in ipairs { client, other, support.client(cluster, options()) } do
            assert.is_true((c:getLock("x"):tryLock(1, 0.4)))
            c:getLock("x"):unlock()      -- if its short lease is not over
        end
        assert.is_true(client:init())                -- nothing to do
        local marked = cluster[1]:marked()
        assert.same({ "a", cluster[1]:life(), 0, 500 },
            { marked.state, marked.life, marked.db, marked.max_lease })
        support.eventually(function() return client:check()[3].floors == "all" end)
    end)

    it("is admitted by three programs that each run init, and serve at once", function()
        local programs, began = {}, support.now()
        for i = 1, 3 do
            programs[i] = support.lua(([[
                local client = require("redlock").new { nodes = { %q, %q, %q }, cluster = "spec" }
                assert(client:init())
                local l = client:getFencedLock "job"
                assert(l:lock(10) and l:unlock())
                print "served"
            ]]):format(cluster[1].uri, cluster[2].uri, cluster[3].uri))
        end
        for i = 1, 3 do
            assert.equal("served", programs[i]:read_line(30))
        end
        assert.is_true(support.now() - began < 30)      -- a quarantine: 62 s
    end)

    it("is admitted by a program that stops within init while another one locks", function()
        for ms = 6900, 7500, 10 do
            local world = require("redlock.testing").new { new_cluster = true, round_trip = 0.1 }
            local other, client, said = world:client(), world:client(), nil
            world:spawn(function()
                assert(other:init())
                assert(other:getLock("job"):lock(10))
            end)
            world:spawn(function() said = { client:init() } end)
            world:advance(ms / 1000)
            world:stop(client, 1)
            world:advance(5)
            assert.same({ true }, said)
        end
    end)

    -- Server 3 gets the one's note on its quarantine after the other has admitted it.
    it("stays admitted, whatever another program wrote of its quarantine by what it saw before",
        function()
        for seed = 1, 3 do
            for ms = 4500, 8000, 50 do
                local world = require("redlock.testing").new { new_cluster = true, seed = seed,
                    round_trip = 0.1 }
                local other, client, said = world:client(), world:client(), nil
                world:spawn(function() other:getLock("x"):lock() end)
                world:spawn(function() said = { client:init() } end)
                world:advance(ms / 1000):freeze(3):advance(0.8):thaw(3):advance(8)
                assert.same({ true }, said)
                for i = 1, 3 do
                    assert.matches("^%x+ v4 a ", world:call(i, "GET", "redlock:{server}:marker"))
                end
                world:close()
            end
        end
    end)

    it("knows its fencing tokens after init, also where quarantines end at once", function()
        for seed = 1, 20 do
            local world = require("redlock.testing").new { new_cluster = true, seed = seed,
                client = { lease = 0.5, max_lease = 1 } }
            local client = world:client()
            assert.is_true(client:init())
            for _, row in ipairs(client:check()) do
                assert.equal("all", row.floors)
            end
            world:close()
        end
    end)

    it("is admitted by init also while a server is slow to answer, and another one was not heard "
        .. "before", function()
        local slow = support.proxy(cluster[1].port)
        local client = support.client({ slow, cluster[2] }, options { timeout = 5,
            connect_timeout = 30 })
        cluster[2]:freeze()
        support.fails("no_quorum", client:getLock("x"):tryLock(0.5))
        slow:delay("down", 100)
        cluster[2]:thaw()
        assert.is_true(client:init())
    end)

    it("is not admitted when somebody who may hold something comes within the wait", function()
        local program = init_program ""
        support.eventually(function() return cluster[1]:marked() end)
        assert.equal("OK", cluster[1]:call("CLIENT", "SETNAME", "redlock!00000000"))
        assert.matches("1 connection of 1 host uses these servers", program:read_line(30))
        assert.equal("n", cluster[1]:marked().state)
    end)

    -- The third one may have been admitted and have voted meanwhile, and has forgotten it.
    it("is not admitted if it forgets when others vote already", function()
        for i = 1, 3 do
            cluster[i]:user("app", "on", ">pw", "~*", "&*", "+@all")
            is_new(cluster[i], "aaaa")
        end
        cluster[3]:user("app", "resetkeys", "~x", "%R~redlock:{server}:*")
        local program = init_program "app:pw@"
        support.eventually(function()
            return cluster[1]:marked().state == "a" and cluster[2]:marked().state == "a"
        end, 20)
        is_new(cluster[3], "bbbb")
        cluster[3]:user("app", "~*")
        assert.matches("^nil", program:read_line(30))
        assert.equal("n", cluster[3]:marked().state)
    end)

    it("is not brand-new for init when another max_lease was set up", function()
        local client = support.client(cluster)
        cluster[1]:admit(30)
        local err = support.fails("config", client:init())
        assert.matches(cluster[1].uri:gsub("%p", "%%%0") .. ": another client set max_lease to "
            .. "30 s there, and this client has 60 s", tostring(err))
        assert.is_true(client:init { force = true })
        assert.is_true((client:getLock("x"):tryLock(0, 10)))
    end)

    it("is not brand-new for init when a server is missing, or admitted", function()
        local client = support.client(cluster, options { max_lease = 20 })
        cluster[3]:kill()
        local err = support.fails("config", client:init())
        assert.matches("a new cluster is all up, but " .. cluster[3].uri:gsub("%p", "%%%0")
            .. " %(connect: .-%) is not", tostring(err))
        assert.is_nil(tostring(err):find "force")
        assert.is_nil((client:getLock("x"):tryLock()))
        assert.is_true(client:init { force = true })       -- two of three
        assert.is_true((client:getLock("x"):tryLock(0, 4)))
        support.fails("no_quorum", (function()
            cluster[1]:kill()
            cluster[2]:kill()
            return client:init { force = true }
        end)())
    end)
end)

describe("servers that were used", function()
    local cluster
    -- A quarantine that lasts longer than init looks, also where a server is late.
    local OPTIONS = { max_lease = 20, lease = 0.5 }

    before_each(function() cluster = support.cluster(3, { new = true }):admit(20) end)

    local function lose_all()
        cluster:each(function(s) s:restart() end)
    end

    it("are not new while a program is there that holds something", function()
        local holder = support.warm_client(cluster, OPTIONS)
        assert.is_true(holder:getLock("x"):tryLock(0, 10))
        support.eventually(function() return cluster:having "x" == 3 end)
        cluster:each(function(s) s:call "FLUSHALL" end)
        local err = support.fails("config", support.client(cluster, OPTIONS):init())
        assert.matches("connections? of 1 host uses? these servers", tostring(err))
        holder:close()
    end)

    it("are not new for a program that knew them", function()
        local client = support.warm_client(cluster, OPTIONS)
        lose_all()
        support.eventually(function()
            local found = client:check()
            return found.voting == 0 and found[1].ready and found[2].ready and found[3].ready
        end)
        local err = support.fails("config", client:init())
        assert.matches("is not new: it lost its memory", tostring(err))
        assert.equal("l", cluster[1]:marked().state)
    end)

    it("are not new when a program that knew them comes back within the wait", function()
        local holder = support.warm_client(cluster, OPTIONS)
        local lock = holder:getLock "x"
        assert.is_true(lock:tryLock(0))              -- with the watchdog
        lose_all()
        local err = support.fails("config", support.client(cluster, OPTIONS):init())
        assert.is_truthy(tostring(err):find "is not new: it" or tostring(err):find "these servers")
        holder:close()
    end)

    it("are not new beside a program that may not write the marker", function()
        cluster:each(function(s)
            s:call("ACL", "SETUSER", "app", "on", ">pw", "~x", "%R~redlock:{server}:*", "+@all")
        end)
        local nodes = {}
        for i = 1, 3 do
            nodes[i] = { host = "127.0.0.1", port = cluster[i].port, user = "app",
                password = "pw" }
        end
        local holder = support.warm_client(nodes, { max_lease = 20, lease = 0.5,
            cluster = "spec" })
        assert.is_true(holder:getLock("x"):tryLock(0, 0.4))
        cluster:each(function(s)         -- by its name it says that it has votes
            support.eventually(function() return s:call("CLIENT", "LIST"):find "name=redlock!" end)
            s:call "FLUSHALL"
        end)
        local err = support.fails("config", support.client(cluster, OPTIONS):init())
        assert.matches("uses? these servers: their programs may hold locks", tostring(err))
        holder:close()                   -- not before: it would be collected
    end)

    it("are not changed by init while they vote, and taught fencing tokens if one knows none",
        function()
        cluster:each(function(s) s:admit(20, nil, 1) end)
        local before = cluster[3]:marker()
        cluster[3]:call("HDEL", "redlock:{server}:floor", "base", "most")
        assert.is_true(support.client(cluster, OPTIONS):init())
        assert.equal(before, cluster[3]:marker())
        assert.equal(before:sub(1, 8) .. "16000",
            cluster[3]:call("HGET", "redlock:{server}:floor", "base"))
    end)
end)

it("init of servers without the guard wants a majority, and changes nothing", function()
    local world = require("redlock.testing").new { client = { restart_guard = false } }
    world:kill(1)
    assert.is_true(world:client():init())
    world:kill(2)
    local err = support.fails("no_quorum", world:client():init())
    assert.equal("refused", err.nodes[1].code)
    world:close()
end)

it("init is not forced on servers that have votes as another number under the same name", function()
    local cluster = support.cluster(5, { new = true })
    assert.is_true(support.client(cluster):init())
    local fewer = support.client { cluster[3], cluster[4], cluster[5] }
    local err = support.fails("config", fewer:init { force = true })
    assert.matches("is one of 5 servers .*, and this client has 3: run redlock change",
        tostring(err))
    assert.is_true(support.client(cluster):init { force = true })
end)

describe("a first command with a mistake in its list", function()
    -- A client of some nodes that grants nothing, and ends.
    local function mistaken(nodes)
        local client = support.client(nodes, { cluster = false })
        support.eventually(function()
            client:check()
            return client:stats().nodes[1].ready and client:stats().nodes[2].ready
        end)
        client:close()
    end

    it("does not keep init from admitting the right one", function()
        local cluster = support.cluster(4, { new = true })
        mistaken { cluster[1], cluster[2], cluster[4] }
        support.eventually(function() return cluster[1]:marked() end)
        local client = support.client({ cluster[1], cluster[2], cluster[3] }, { cluster = false })
        assert.is_true(client:init())
        assert.is_true(client:getLock("x"):tryLock(1))
        client:close()
    end)

    it("does, while its program is connected", function()
        local cluster = support.cluster(4, { new = true })
        local other = support.client({ cluster[1], cluster[2], cluster[4] }, { cluster = false })
        support.eventually(function()
            other:check()
            return cluster[1]:marked() and cluster[2]:marked()
        end)
        local client = support.client({ cluster[1], cluster[2], cluster[3] }, { cluster = false })
        local err = support.fails("config", client:init())
        assert.matches("may hold locks", tostring(err), 1, true)
    end)
end)
