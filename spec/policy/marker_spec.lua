-- What a server's marker says beside "admitted": which life of it, which database, which version
-- of the library; and how far a quarantine is.
local quarantine = require "spec.support.quarantine"
local script_text = require "redlock.runtime.script_text"
local support = require "spec.support"

local MAX_LEASE, GUARD, options = quarantine.MAX_LEASE, quarantine.GUARD, quarantine.options
local KEY = "redlock:{server}:marker"

local function replicate(replica, server)
    assert.equal("OK", replica:call("REPLICAOF", "127.0.0.1", server.port))
    support.eventually(function()
        return replica:call("INFO", "replication"):find "master_link_status:up"
    end, 30)
end

-- REDLOCK_FAILBACKS: how many times in each way; each at another moment of the holder's second.
local TIMES = tonumber(os.getenv "REDLOCK_FAILBACKS") or os.getenv "NIGHTLY" and 4 or 2

-- options: of the clients; attached: the replica stays until it is promoted; pause: seconds
-- between the steps; hides: INFO, of which only plain locks are given.
local WAYS = {
    ["with a replica attached"] = { attached = true },
    ["behind a proxy"] = { options = { behind_proxy = true } },
    ["elsewhere, with 1.2 s between its steps"] = { pause = 1.2 },
}
local HIDDEN = { hides = true, attached = true }

describe("a server that fails over and back", function()
    local cluster, replica, holder, rival, gap

    local function uri(server, way)
        return way.hides and (server.uri:gsub("//", "//app:pw@")) or server
    end

    local function connect(way)
        replicate(replica, cluster[1])
        cluster:admit()
        if way.hides then
            cluster:each(function(server)
                server:user("app", "on", ">pw", "~*", "&*", "+@all", "-info")
            end)
        end
        holder = support.warm_client({ uri(cluster[1], way), uri(cluster[2], way),
            uri(gap, way) }, way.options)
        rival = support.warm_client({ uri(cluster[1], way), uri(cluster[2], way),
            uri(cluster[3], way) }, way.options)
    end

    local function begin(way)
        cluster = support.cluster(3, { new = true })
        replica = support.server { new = true, args = { "--repl-diskless-sync-delay", "0" } }
        gap = support.proxy(cluster[3].port)
        connect(way)
    end

    local function lock_of(client, name, way)
        return way.hides and client:getLock(name) or client:getFencedLock(name)
    end

    -- Nobody has looked at the life of the first server for a second.
    local function detach()
        replica:call("REPLICAOF", "NO", "ONE")
        support.eventually(function()
            return cluster[1]:call("INFO", "replication"):find "connected_slaves:0"
        end, 20)
        support.sleep(1.1)
        quarantine.turn(rival)
    end

    -- The holder's lock is on the first two; of it the replica, which is promoted, does not hear;
    -- the first server becomes its replica, and the master again, as it was when it was demoted.
    -- @return whether the rival has the lock, too; and whether with the same token
    local function fail_back(name, way)
        local first, pause = cluster[1], way.pause or 0
        assert.is_true(lock_of(rival, name, way):tryLock(5))       -- its counters are seeded
        assert.is_true(lock_of(rival, name, way):unlock())
        support.sleep(math.random() * 1.2)
        support.eventually(function() return replica:marker() == first:marker() end, 30)
        if not way.attached then
            detach()
        end
        replica:call("REPLICAOF", "NO", "ONE")
        gap:refuse(true)
        gap:cut()
        local l = lock_of(holder, name, way)
        local ok, token = l:tryLock(5, 30)
        assert.is_true(ok, tostring(token))
        local run_id = first:call("INFO", "server"):match "run_id:(%x+)"
        local marker = first:marker()
        quarantine.turn(rival)                 -- looks at its life, and not for a second
        support.sleep(pause)
        replicate(first, replica)
        support.sleep(pause)
        first:call("REPLICAOF", "NO", "ONE")
        support.sleep(pause)
        assert.equal(run_id, first:call("INFO", "server"):match "run_id:(%x+)")
        assert.equal(marker, first:marker())
        assert.equal(0, first:call("EXISTS", name))
        cluster[2]:freeze()
        local got, theirs = lock_of(rival, name, way):tryLock(0, 30)
        cluster[2]:thaw()
        local twice = got == true and l:isValid()
        l:unlock()
        gap:refuse(false)
        return twice, got == true and token ~= nil and token == theirs
    end

    local function times(n, way)
        local doubles, tokens = 0, 0
        begin(way)
        for i = 1, n do
            local twice, same = fail_back("x" .. i, way)
            doubles, tokens = doubles + (twice and 1 or 0), tokens + (same and 1 or 0)
            if i < n then
                holder:close()
                rival:close()
                connect(way)
            end
        end
        if os.getenv "REDLOCK_FAILBACKS" then
            print(("%d failovers and back: %d double holds, %d repeated tokens"):format(n, doubles,
                tokens))
        end
        return doubles, tokens
    end

    for what, way in pairs(WAYS) do
        it("has no vote, though its run_id and its marker are as before: " .. what, function()
            local doubles, tokens = times(way.pause and TIMES < 5 and 1 or TIMES, way)
            assert.equal(0, doubles)
            assert.equal(0, tokens)
        end)
    end

    it("has one where INFO is hidden, and with it which life of the server it is", function()
        assert.is_true(times(TIMES < 5 and 2 or 20, HIDDEN) > 0)
    end)
end)

describe("a marker", function()
    local cluster
    before_each(function() cluster = support.cluster(3):admit(MAX_LEASE) end)

    -- The second server's vote is needed, and it has none.
    local function code_of(client)
        cluster[3]:call("SET", "x", "somebody", "PX", 60000)
        local _, err = client:getLock("x"):tryLock(0, 0.4)
        return err.nodes[2].code, err.nodes[2].message
    end

    -- The message of the second server, once its code is "config".
    local function refused(client)
        local code, message
        support.eventually(function()
            code, message = code_of(client)
            return code == "config"
        end)
        return message
    end

    it("of another version is never replaced, and is named with the remedy", function()
        local text = "3f9c0a1b2c3d4e5f v5 whatever that may say"
        cluster[2]:mark(text)
        local client = support.warm_client(cluster, options())
        local message = refused(client)
        assert.matches("a later version of redlock uses it %(marker v5%): upgrade this program",
            message)
        assert.matches("DEL " .. KEY, message, 1, true)
        support.sleep(GUARD + 1)
        refused(client)
        support.fails("config", client:init())
        client:init { force = true }
        assert.equal(text, cluster[2]:marker())
    end)

    it("of another version that is too long to be shown is not replaced either", function()
        local text = "3f9c0a1b2c3d4e5f v7 " .. ("z"):rep(300)
        cluster[2]:mark(text)
        assert.matches("marker v7", refused(support.warm_client(cluster, options())))
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
            cluster:admit(3)
            local began = support.now()
            spoil(cluster[2])
            local client = support.warm_client(cluster, options { max_lease = 3 })
            support.eventually(function() return code_of(client) == "guarded" end)
            assert.equal("l", cluster[2]:marked().state)
            support.eventually(function() return client:getLock("x"):tryLock(0, 0.4) end, 20)
            assert.is_true(support.now() - began >= quarantine.guard(3))
            assert.equal("a", cluster[2]:marked().state)
        end)
    end

    it("of the same memory that is written again does not hide lost floors", function()
        local server, floor = cluster[1], "redlock:{server}:floor"
        local script = script_text.own "marker.set"
        local function turn(text)
            local said = server:call("EVAL", script, 1, KEY, server:marker(), text, "", "", 3000,
                "7")
            assert.equal(text, said:sub(1, #text))
            return server:call("HGET", floor, "marker")
        end
        local admitted = server:marker()
        assert.equal(admitted:sub(1, 16), server:call("HGET", floor, "marker"))
        server:call("DEL", floor)
        assert.is_nil(turn((admitted:gsub(" a ", " s ", 1))))
        assert.is_nil(turn(admitted))
        assert.equal(0, server:call("EXISTS", floor))        -- nor was it taught
        local another = "0123456789abcdef" .. admitted:sub(17)
        assert.equal("0123456789abcdef", turn(another))
        assert.equal("012345677", server:call("HGET", floor, "base"))
    end)

    it("on a server keeps clients away for whom the guard is off", function()
        local off = support.client(cluster, { max_lease = MAX_LEASE, lease = 0.4,
            restart_guard = false })
        local text = tostring(support.fails("config", off:getLock("x"):tryLock(1)))
        assert.matches("other clients use it with the restart guard", text)
    end)

    it("is noticed by a check of such a client that was connected before it", function()
        local servers = support.cluster(1)
        local off = support.client(servers, { lease = 0.4, restart_guard = false })
        assert(off:getLock("x"):tryLock(1))
        servers:admit(MAX_LEASE)
        off:check()
        support.fails("config", off:getLock("y"):tryLock(1))
    end)
end)

describe("a quarantine", function()
    it("counts no time by which its server's clock was set back", function()
        local server, own_ms = support.cluster(1)[1], 2000
        local text = "0123456789abcdef v4 l " .. server:life() .. " 0 60000 spec"
        local seen = ("%s 7000 %d000"):format(text, server:call("TIME")[1] + 60)
        server:mark(seen)
        local said = server:call("EVAL", script_text.own "marker.set", 1, KEY, seen, text, "",
            own_ms, 61600, "")
        assert.equal(text .. " 7000", said:match "^(.*) %d+$")
    end)
end)

describe("a server", function()
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
