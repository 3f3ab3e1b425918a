-- What a server's marker says beside "admitted": which life of it, which database, which version
-- of the library; and how far a quarantine is.
local quarantine = require "spec.support.quarantine"
local support = require "spec.support"

local MAX_LEASE, GUARD, options = quarantine.MAX_LEASE, quarantine.GUARD, quarantine.options
local KEY = "redlock:{server}:marker"

local function eval_calls(server)
    local stats = server:call("INFO", "commandstats")
    return tonumber(stats:match "cmdstat_eval:calls=(%d+)" or 0)
end

local function replicate(replica, server)
    assert.equal("OK", replica:call("REPLICAOF", "127.0.0.1", server.port))
    support.eventually(function()
        return replica:call("INFO", "replication"):find "master_link_status:up"
    end, 30)
end

-- REDLOCK_FAILBACKS: how many times; each at another moment of the holder's second.
local TIMES = tonumber(os.getenv "REDLOCK_FAILBACKS") or 4

describe("a server that fails over and back", function()
    local cluster, replica, holder, rival
    after_each(support.cleanup)

    local function begin(opts)
        cluster = support.cluster(3, { new = true })
        replica = support.server { new = true, args = { "--repl-diskless-sync-delay", "0" } }
        replicate(replica, cluster[1])
        cluster:admit()
        local gap = support.proxy(cluster[3].port)
        holder = support.warm_client({ cluster[1], cluster[2], gap }, opts)
        rival = support.warm_client(cluster, opts)
        return gap
    end

    -- The holder's lock is on the first two; of it the replica, which is promoted, does not hear;
    -- the first server becomes its replica, and the master again, as it was when it was demoted.
    local function fail_back(name, gap, attached)
        local first = cluster[1]
        assert.is_true((rival:getFencedLock(name):tryLock(5)))     -- its counters are seeded
        assert.is_true(rival:getFencedLock(name):unlock())
        support.sleep(math.random() * 1.2)
        support.eventually(function() return replica:marker() == first:marker() end, 30)
        if not attached then
            replica:call("REPLICAOF", "NO", "ONE")
            support.eventually(function()
                return first:call("INFO", "replication"):find "connected_slaves:0"
            end, 20)
            support.sleep(1.1)                 -- the clients have seen so
            quarantine.turn(rival)
        end
        replica:call("REPLICAOF", "NO", "ONE")
        gap:refuse(true)
        gap:cut()
        local l = holder:getFencedLock(name)
        local ok, token = l:tryLock(5, 30)
        assert.is_true(ok, tostring(token))
        local run_id = first:call("INFO", "server"):match "run_id:(%x+)"
        local marker = first:marker()
        quarantine.turn(rival)                 -- looks at its life, and not for a second
        replicate(first, replica)
        first:call("REPLICAOF", "NO", "ONE")
        assert.equal(run_id, first:call("INFO", "server"):match "run_id:(%x+)")
        assert.equal(marker, first:marker())
        assert.equal(0, first:call("EXISTS", name))
        cluster[2]:freeze()
        local got, theirs = rival:getFencedLock(name):tryLock(0, 30)
        cluster[2]:thaw()
        assert.is_false(got == true and l:isValid(), "two holders")
        assert.is_false(got == true and theirs == token, "one token twice")
        assert.is_nil(got)
        l:unlock()
        gap:refuse(false)
    end

    for what, opts in pairs { ["with a replica attached"] = {},
        ["behind a proxy"] = { behind_proxy = true } } do
        it("has no vote, though its run_id and its marker are as before: " .. what, function()
            local gap = begin(opts)
            for i = 1, TIMES do
                fail_back("x" .. i, gap, not opts.behind_proxy)
                if i < TIMES then
                    holder:close()
                    rival:close()
                    replicate(replica, cluster[1])
                    cluster:admit()
                    holder = support.warm_client({ cluster[1], cluster[2], gap }, opts)
                    rival = support.warm_client(cluster, opts)
                end
            end
        end)
    end
end)

describe("a marker", function()
    local cluster
    before_each(function() cluster = support.cluster(3):admit(MAX_LEASE) end)
    after_each(support.cleanup)

    -- The second server's vote is needed, and it has none.
    local function code_of(client)
        cluster[3]:call("SET", "x", "somebody", "PX", 60000)
        local _, err = client:getLock("x"):tryLock(0, 0.4)
        return err.nodes[2].code, err.nodes[2].message
    end

    it("of another version is never replaced, and is named with the remedy", function()
        local text = "3f9c0a1b2c3d4e5f v3 whatever that may say"
        cluster[2]:mark(text)
        local client = support.warm_client(cluster, options())
        local code, message = code_of(client)
        assert.equal("config", code)
        assert.matches("version 3, which this library does not know: upgrade this client", message)
        assert.matches("DEL " .. KEY, message, 1, true)
        support.sleep(GUARD + 1)
        assert.equal("config", (code_of(client)))
        support.fails("config", client:init())
        client:init { force = true }
        assert.equal(text, cluster[2]:marker())
    end)

    it("of another version that is too long to be shown is not replaced either", function()
        local text = "3f9c0a1b2c3d4e5f v7 " .. ("z"):rep(300)
        cluster[2]:mark(text)
        local code, message = code_of(support.warm_client(cluster, options()))
        assert.equal("config", code)
        assert.matches("version 7", message)
        assert.equal(text, cluster[2]:marker())
    end)

    for what, spoil in pairs {
        ["of 200 bytes"] = function(s) s:call("SET", KEY, ("z"):rep(200)) end,
        ["with a NUL"] = function(s) s:call("SET", KEY, "a\0b") end,
        ["that is a list"] = function(s)
            s:call("DEL", KEY)
            s:call("RPUSH", KEY, "a")
        end,
        ["of something else"] = function(s) s:call("SET", KEY, "hello") end,
    } do
        it(what .. " is replaced once: a quarantine", function()
            spoil(cluster[2])
            local client = support.warm_client(cluster, options())
            assert.equal("guarded", (code_of(client)))
            assert.equal("p", cluster[2]:marked().state)
            cluster[3]:call("DEL", "x")
            support.eventually(function()
                return client:getLock("x"):tryLock(0, 0.4) and cluster[2]:marked().state == "a"
            end, 20)
        end)
    end

    -- Each of them has a client, and asks many times a second.
    local CROWD = 100

    for what, text in pairs { ["of 200 bytes"] = ("z"):rep(200),
        ["of another version"] = "3f9c0a1b2c3d4e5f v3 x" } do
        it(what .. " is no storm for a crowd that waits", function()
            local servers = support.cluster(3)
            local clients, futures = {}, {}
            for i = 1, CROWD do
                clients[i] = support.client(servers, { retry_delay = 0.2, fallback = 0.2 })
            end
            for i = 2, 3 do
                servers[i]:mark(text)
            end
            for i = 1, CROWD do
                futures[i] = clients[i]:getLock("x"):lockAsync()
            end
            local function turn(seconds)
                local ends = support.now() + seconds
                repeat
                    for i = 1, CROWD do
                        futures[i]:get(0)
                    end
                until support.now() >= ends
            end
            turn(3)
            local before, began = eval_calls(servers[2]), support.now()
            turn(5)
            local rate = (eval_calls(servers[2]) - before) / (support.now() - began)
            assert.is_true(rate < 5, rate .. " EVAL/s")
            for i = 1, CROWD do
                clients[i]:close()
            end
        end)
    end

    it("of another database is named: the databases were swapped", function()
        local ones = {}
        for i = 1, 3 do
            ones[i] = cluster[i].uri .. "/1"
        end
        local other = support.client(ones, options())
        assert.is_true(other:init())
        local client = support.warm_client(cluster, options())
        cluster[2]:call("SWAPDB", 0, 1)
        local code, message = code_of(client)
        assert.equal("config", code)
        assert.matches("its marker is of database 1, and this client uses 0", message)
        assert.is_true((cluster[2]:marker()):find " v2 a %x+ 1 " ~= nil)
    end)

    it("on a server keeps clients away for whom the guard is off", function()
        local function nodes(opts)
            opts.nodes = cluster:uris()
            opts.max_lease, opts.lease = MAX_LEASE, 0.4
            return require("redlock").new(opts)
        end
        local off = nodes { restart_guard = false }
        local text = tostring(support.fails("config", off:getLock("x"):tryLock(1)))
        assert.matches("other clients use it with the restart guard", text)
        local ignoring = nodes { restart_guard = "ignore" }
        assert.is_true((ignoring:getLock("x"):tryLock(5)))
    end)
end)

describe("a quarantine", function()
    after_each(support.cleanup)

    -- Each of them lives for a part of it.
    it("is ended by clients none of which lives through it", function()
        local cluster = support.cluster(3):admit(MAX_LEASE)
        cluster[1]:restart()
        cluster[2]:kill()
        local began, got, runs = support.now(), nil, 0
        while not got and support.now() - began < 40 do
            local client = support.client({ cluster[1], cluster[2], cluster[3] }, options())
            local ends = support.now() + GUARD / 3
            repeat
                got = client:getLock("x"):tryLock(0, 0.4)
                support.sleep(0.02)
            until got or support.now() >= ends
            runs = runs + 1
            client:close()
        end
        assert.is_true(got)
        assert.is_true(runs > 2, runs)
        assert.is_true(support.now() - began >= GUARD)
    end)
end)

describe("a server", function()
    after_each(support.cleanup)

    it("in cluster mode is refused, whether there is one or three", function()
        local servers = {}
        for i = 1, 3 do
            servers[i] = support.server { new = true, args = { "--cluster-enabled", "yes",
                "--cluster-config-file", "n.conf" } }
        end
        for n = 1, 3, 2 do
            local client = support.client { unpack(servers, 1, n) }
            local ok, err = client:getLock("x"):tryLock(2)
            assert.is_nil(ok)
            assert.matches("config %(it runs in cluster mode", tostring(err))
            client:close()
        end
    end)

    -- With INFO renamed away a restart with older data could not be seen.
    it("that hides INFO gives no fencing tokens, and says so", function()
        local server = support.server { new = true }
        server:user("app", "on", ">pw", "~*", "&*", "+@all", "-info")
        local client = support.client { "redis://app:pw@127.0.0.1:" .. server.port }
        assert.is_true((client:getLock("x"):tryLock(5)))
        local err = support.fails("no_quorum", client:getFencedLock("y"):tryLock(1))
        assert.equal("noperm", err.nodes[1].code)
        assert.matches("allow INFO", err.nodes[1].message)
    end)

    -- The first replica gives its data another history: counters are of one.
    it("gives tokens to all when it gets a replica, also without the guard", function()
        local server, replica = support.server { new = true }, support.server { new = true }
        local old = support.warm_client { server }
        local ok, first = old:getFencedLock("x"):tryLock(5)
        assert.is_true(ok)
        assert.is_true(old:getFencedLock("x"):unlock())
        replicate(replica, server)
        local new = support.warm_client { server }
        local _, second = assert(new:getFencedLock("x"):tryLock(5))
        assert.is_true(new:getFencedLock("x"):unlock())
        local _, third = assert(old:getFencedLock("x"):tryLock(5))
        assert.is_true(first < second and second < third)
        old:close()
        new:close()
    end)

    -- A client whose clock is ahead would make all later tokens of others smaller.
    it("lends its clock to tokens that begin anew, not the client its own", function()
        local server, clock = support.server { new = true }, support.clock()
        clock:set(3600)
        local function token(env)
            local p = support.lua(([[
                local client = require("redlock").new { nodes = %q }
                local l = client:getFencedLock "x"
                local ok, token = l:tryLock(5)
                print(("%%.0f"):format(ok and token or 0))
                l:unlock()
                client:close()
            ]]):format(server.uri), { env = env })
            local n = tonumber(p:read_line(20))
            p:wait(10)
            return n
        end
        local first = token(clock.env)
        server:call "FLUSHALL"
        local second = token()
        assert.is_true(first > 0 and second > first, ("%.0f, then %.0f"):format(first, second))
    end)
end)
