-- The restart guard: servers that forgot, or may have forgotten, do not vote on an acquire.
local forged = require "spec.support.forged"
local quarantine = require "spec.support.quarantine"
local redlock = require "redlock"
local support = require "spec.support"
local sys = require "spec.support.sys"

local MAX_LEASE, GUARD, LOST = quarantine.MAX_LEASE, quarantine.GUARD, quarantine.LOST
local options, turn, await_up = quarantine.options, quarantine.turn, quarantine.await_up
local KEY = "redlock:{server}:marker"

-- Tries until it is had; when that was.
local function await_lock(lock, within)
    local got
    support.eventually(function()
        got = lock:tryLock(0, MAX_LEASE)
        return got
    end, within or 10)
    return support.now()
end

describe("a server that restarts empty [34]", function()
    local cluster, client

    before_each(function()
        cluster = support.cluster(3):admit(MAX_LEASE)
        client = support.warm_client(cluster, options())
    end)

    -- A client with this max_lease: its quarantines last longer than a test looks.
    local function patient(max_lease)
        cluster:admit(max_lease)
        return support.warm_client(cluster, options { max_lease = max_lease })
    end

    it("does not vote until its quarantine is over, then it does", function()
        client = patient(2)
        cluster[1]:kill()
        local t = support.now()
        cluster[1]:start()
        await_up(client, 1)
        cluster[2]:call("SET", "x", "somebody", "PX", 60000)
        local l = client:getLock "x"
        local ok, err = l:tryLock(0, MAX_LEASE)
        assert.is_nil(ok)
        assert.equal("guarded", err.nodes[1].code)
        assert.matches(LOST, err.nodes[1].message)
        local got = await_lock(l)
        assert.is_true(got - t >= quarantine.guard(2), got - t)
        assert.is_true(got - t < 13, got - t)
        assert.is_true(l:unlock())
    end)

    it("loads its scripts again and extends, heals and releases meanwhile", function()
        client = patient(10)                         -- a restart does not outlast such a lease
        local l = client:getLock "x"
        assert.is_true(l:tryLock(0, 10))
        cluster[1]:restart()
        await_up(client, 1)
        assert.is_true((l:extend()))
        support.eventually(function()
            assert.is_true((l:extend()))
            return cluster[1]:call("EXISTS", "x") == 1
        end)
        assert.equal("l", cluster[1]:marked().state)       -- in quarantine
        cluster[3]:call("DEL", "x")
        local ok, err = l:extend()                   -- its yes does not count
        assert.is_nil(ok)
        assert.equal("no_quorum", err.code)
        assert.equal("guarded", err.nodes[1].code)
        assert.matches(LOST, err.nodes[1].message)
        assert.is_true(cluster[1]:call("PTTL", "x") > 9000)
        assert.is_true(l:unlock())
        cluster:await_free()
    end)

    it("does not vote for one that held a bare majority", function()
        cluster[3]:call("SET", "x", "somebody", "PX", 60000)
        local l, rival = client:getLock "x", support.warm_client(cluster, options())
        assert.is_true(l:tryLock(0, MAX_LEASE))
        client:check()                               -- the third has refused it by now
        cluster[3]:call("DEL", "x")
        cluster[1]:restart()
        await_up(rival, 1)
        while l:isValid() do
            local got = rival:getLock("x"):tryLock(0, MAX_LEASE)
            assert.is_false(got == true and l:isValid())
            sys.sleep(0.001)
        end
    end)

    it("is not believed when it brings a marker of its former life", function()
        client = patient(10)
        local marker = cluster[1]:marker()
        cluster[1]:restart()
        cluster[1]:call("SET", KEY, marker)          -- as if from an RDB file
        cluster[2]:kill()
        await_up(client, 1)
        local ok, err = client:getLock("x"):tryLock()
        assert.is_nil(ok)
        assert.equal("guarded", err.nodes[1].code)
    end)

    -- It answers INFO while it is loading, but not what its marker is.
    it("is not believed when it is loading the marker of its former life", function()
        if not support.since(7, 0) then
            return pending "Redis before 7.0 answers only every 2 MiB of what it loads"
        end
        local slow = support.server { args = { "--save", "3600 1000000", "--key-load-delay",
            "200", "--loading-process-events-interval-bytes", "1024" } }:admit(10)
        cluster:admit(10)
        local loader = support.warm_client({ slow, cluster[2], cluster[3] },
            options { max_lease = 10 })
        assert.is_true((loader:getLock("x"):tryLock(0, MAX_LEASE)))
        assert.is_true(loader:getLock("x"):unlock())
        slow:call("EVAL", "for i = 1, 10000 do redis.call('set', i, i) end", 0)
        assert.equal("OK", slow:call "SAVE")
        cluster[2]:kill()
        slow:restart()
        await_up(loader, 1)
        assert.matches("LOADING", (select(2, slow:call "PING")))
        support.eventually(function() return slow:call "PING" == "PONG" end)
        local ok, err = loader:getLock("x"):tryLock()
        assert.is_nil(ok)
        assert.equal("guarded", err.nodes[1].code)
    end)
end)

describe("an idle client that has had a vote", function()
    it("begins, counts and ends a quarantine, and learns that a server is down", function()
        local cluster = support.cluster(3):admit(MAX_LEASE)
        local client = support.warm_client(cluster, options())
        local l = client:getLock "x"
        assert.is_true(l:tryLock(0) and l:unlock())
        cluster[1]:restart()                 -- nothing is held, and nothing is called
        support.eventually(function()
            local marked = cluster[1]:marked()
            return marked and marked.state == "a"
        end, 20, "a vote")
        assert.is_true(client:stats().nodes[1].ready)
        cluster[2]:kill()
        support.eventually(function() return not client:stats().nodes[2].ready end, 20)
    end)

    it("asks little while all servers vote", function()
        local cluster = support.cluster(3):admit(60)
        local client = support.warm_client(cluster)
        local l = client:getLock "x"
        assert.is_true(l:tryLock(0) and l:unlock())
        local before = client:stats().nodes[1].requests
        sys.sleep(3)
        assert.is_true(client:stats().nodes[1].requests - before <= 4)    -- one look, at most
    end)
end)

describe("memory that is lost without a restart", function()
    local cluster, client

    before_each(function()
        cluster = support.cluster(3):admit(10)
        client = support.warm_client(cluster, options { max_lease = 10, timeout = 1 })
    end)

    for what, lose in pairs {
        FLUSHALL = function(s) s:call "FLUSHALL" end,
        ["eviction of the marker"] = function(s) s:call("DEL", KEY) end,
    } do
        it("is noticed inside the acquire: " .. what, function()
            cluster[3]:call("SET", "x", "somebody", "PX", 60000)
            lose(cluster[2])
            local ok, err = client:getLock("x"):tryLock(0, MAX_LEASE)
            assert.is_nil(ok)
            assert.equal("guarded", err.nodes[2].code)
            assert.equal(0, cluster[2]:keys())
        end)
    end
end)

describe("a quarantine", function()
    -- The clocks of the server, and of the client's host, and the uptime (which follows the
    -- server's clock) say that an hour has passed.
    it("is not cut short by steps of wall clocks, nor by uptime", function()
        local clock = support.clock()
        local cluster = support.cluster(3, { env = clock.env }):admit(MAX_LEASE)
        cluster[1]:restart()
        cluster[2]:kill()
        local code = ([[
            local support = require "spec.support"
            local client = support.client({ %q, %q, %q },
                { max_lease = 0.5, lease = 0.4 })
            local l = client:getLock "x"
            local t = support.now()
            local ok, err = l:tryLock()
            print(ok, err.nodes[1].code)
            repeat
                ok, err = l:tryLock(0, 0.4)
                support.sleep(0.001)
            until ok
            print(support.now() - t)
        ]]):format(cluster[1].uri, cluster[2].uri, cluster[3].uri)
        local client = support.lua(code, { env = clock.env })
        assert.equal("nil\tguarded", client:read_line(10))
        local t = support.now()
        clock:set(-3600)
        support.sleep(0.2)
        clock:set(3600)
        local waited = tonumber(client:read_line(20))
        -- The stepped servers are suspect as long as they are guarded.
        assert.is_true(waited >= GUARD - 0.1, waited)
        assert.is_true(support.now() - t < 60)
        local info = cluster[1]:call("INFO", "server")
        local uptime = tonumber(info:match "uptime_in_seconds:(%-?%d+)")
        assert.is_true(uptime > 3000, uptime)
    end)

    -- As in `redlock check --wait`, while cron and people run short commands.
    it("is not made longer by clients that come and go", function()
        for _, pause in ipairs { 0.4, 1 } do
            local world = redlock.testing.new { nodes = 3,
                client = { max_lease = 5, lease = 4, timeout = 0.1 } }
            local patient, left = world:client(), 0
            assert(patient:init())
            world:kill(2)
            world:start(2, { forgotten = true })
            local since, admitted = world:now(), nil
            world:spawn(function()
                repeat
                    admitted = patient:check()[2].guard == "admitted" and world:now()
                    world:advance(0.5)
                until admitted
            end)
            while not admitted and left < 28 do
                local brief = world:client()
                brief:getLock("x"):tryLock()
                brief:close()
                left = left + 1
                world:advance(pause)
            end
            assert.truthy(admitted, pause)
            assert.is_true(admitted - since < 2 * (5 * 1.01 + 1), admitted - since)
            world:close()
        end
    end)

    it("is counted by clients that stay for a second, one long after another", function()
        local world = redlock.testing.new { nodes = 3, client = { max_lease = 2, lease = 1 } }
        local first, admitted = world:client(), false
        assert(first:init())
        world:kill(2)
        world:start(2, { forgotten = true })
        first:close()
        for _ = 1, 10 do
            local brief = world:client()
            brief:connect(1)
            world:advance(1)
            admitted = admitted or brief:check()[2].guard == "admitted"
            brief:close()
            world:advance(10)
        end
        assert.is_true(admitted)
        world:close()
    end)

    it("is not cut short by another client with a shorter max_lease", function()
        local cluster = support.cluster(3):admit(2)
        local long = support.warm_client(cluster, { max_lease = 2, lease = 1 })
        local short = support.warm_client(cluster, { max_lease = 0.1, lease = 0.1 })
        local ok, err = short:getLock("x"):tryLock()
        assert.is_nil(ok)
        assert.equal("config", err.code)
        local told
        for _, row in ipairs(err.nodes) do       -- the last one may not have mattered
            told = row.code == "config" and row.message or told
        end
        assert.matches("another client set max_lease to 2 s there, and this client has 0.1 s", told)

        cluster[3]:kill()
        local t = support.now()
        cluster[3]:start()
        await_up(short, 3)                           -- it sees it first
        cluster[2]:kill()
        local l = long:getLock "x"
        repeat
            short:getLock("x"):tryLock(0, 0.1)
            ok = l:tryLock(0, 1)
            sys.sleep(0.001)
            assert.is_true(support.now() - t < 60)
        until ok
        assert.is_true(support.now() - t >= 2 * 1.01 + 1, support.now() - t)
        ok, err = short:getLock("y"):tryLock()
        assert.is_nil(ok)
        assert.equal("config", err.code)
    end)
end)

describe("the guard", function()
    it("costs no further round trip", function()
        local cluster = support.cluster(3)
        local proxies = support.proxies(cluster)
        local client = support.warm_client(proxies)
        local l, before = client:getLock "x", client:stats().nodes
        assert.is_true(l:tryLock())
        for i, node in ipairs(client:stats().nodes) do
            assert.is_true(node.requests - before[i].requests <= 1)
        end
        assert.is_true(l:unlock())
    end)

    it("is off for one server, and on when wanted", function()
        local cluster = support.cluster(1, { new = true })
        assert.is_true((support.client(cluster):getLock("x"):tryLock(5, 0.1)))
        assert.is_nil(cluster[1]:marker())
        local ok, err = support.client(cluster, { restart_guard = true }):getLock("y"):tryLock()
        assert.is_nil(ok)
        assert.equal("guarded", err.nodes[1].code)
        local three = support.cluster(3, { new = true })
        local client = support.client(three, { restart_guard = false })
        assert.is_true((client:getLock("x"):tryLock(5, 0.1)))
        assert.is_true(client:init())
        assert.is_nil(three[1]:marker())
    end)

    it("keeps keys and arguments of a primitive's scripts as they are", function()
        local client = support.client(support.cluster(3))
        local p = redlock.primitive {
            name = "counted",
            acquire = "-- a comment\nassert(#KEYS == 2 and #ARGV == 3 and ARGV[3] == 'a')\n"
                .. "return redis.call('set', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0",
            release = "assert(#KEYS == 2 and #ARGV == 3) return redis.call('del', KEYS[2])",
            keys = function(_, name) return { "other", name } end,
            args = function() return { "a" } end,
        }
        local l = client:get(p, "x")
        local ok, err = l:tryLock(5)
        assert.is_true(ok, tostring(err))
        assert.is_true(l:unlock())
    end)

    it("bounds every lease by max_lease", function()
        local client = support.client(support.cluster(3):admit(2), { max_lease = 2, lease = 1 })
        local l = client:getLock "x"
        for _, call in ipairs { l.lock, l.lockAsync, l.extend, l.extendAsync } do
            assert.has_error(function() call(l, 2.1) end)
            assert.matches("over max_lease %(2 s%)", select(2, pcall(call, l, 2.1)))
        end
        assert.matches("over max_lease", select(2, pcall(l.tryLock, l, 0, 2.1)))
        assert.matches("option lease", select(2, pcall(support.client, { "redis://h" },
            { max_lease = 2, lease = 2.1 })))
        assert.is_true(l:tryLock(0, 2))
        assert.is_true((l:extend(2)))
        support.fails("config", client:import(forged(l:export(), { lease = "2001" })))
    end)
end)

describe("a server whose INFO may not be read", function()
    local cluster

    before_each(function()
        cluster = support.cluster(3)
        cluster:each(function(s)
            s:user("app", "on", ">pw", "~*", "&*", "+@all", "-info")
        end)
    end)

    local function uris()
        local list = {}
        for i, s in ipairs(cluster) do
            list[i] = "redis://app:pw@127.0.0.1:" .. s.port
        end
        return list
    end

    it("is warned of once, and votes by its marker", function()
        local warnings = {}
        local client = support.client(uris(), { on_event = function(e)
            if e.type == "warning" then
                warnings[#warnings + 1] = e
            end
        end })
        for _ = 1, 3 do
            assert.is_true((client:getLock("x"):tryLock(5, 1)))
            assert.is_true(client:getLock("x"):unlock())
        end
        support.eventually(function()                -- two of three are enough for a lock
            local third = client:check()[3]
            return third.ready and third.guard == "admitted"
        end)
        local report = client:check()
        for i = 1, 3 do
            assert.equal("admitted", report[i].guard)
            assert.equal("warning", report[i].verdict)
            assert.matches("allow INFO", report[i].remedy)
        end
        support.eventually(function()                -- the third connection may be slow
            turn(client)
            return #warnings >= 3
        end)
        local nodes = {}
        for i = 1, #warnings do
            assert.equal("unverified", warnings[i].kind)
            nodes[i] = warnings[i].node
        end
        table.sort(nodes)
        local labels = { client.options.nodes[1].label, client.options.nodes[2].label,
            client.options.nodes[3].label }
        table.sort(labels)
        assert.same(labels, nodes)                   -- once each

        assert.is_true(client:init())

        -- A restart that loses the marker is noticed nevertheless.
        cluster[1]:call "FLUSHALL"
        cluster[2]:kill()
        local ok, err = client:getLock("x"):tryLock()
        assert.is_nil(ok)
        assert.equal("guarded", err.nodes[1].code)
    end)
end)

-- REDLOCK_RESTARTS: how many runs; more than some dozens go to several processes.
describe("kill -9 and empty restarts of random servers, one at a time", function()
    local RUNS = tonumber(os.getenv "REDLOCK_RESTARTS") or 12
    local PROCESSES = math.min(8, math.ceil(RUNS / 4))

    local function doubles(runs, guard)
        local workers, total, done = {}, 0, 0
        for i = 1, PROCESSES do
            local seed = os.time() * 100 + i
            workers[i] = support.spawn { "luajit", "spec/support/restarts.lua",
                math.ceil(runs / PROCESSES), guard, seed, stdout = "pipe", env = support.lua_env() }
        end
        for _, worker in ipairs(workers) do
            local line = worker:read_line(60 + runs / PROCESSES * 8)
            local n, double = (line or ""):match "^(%d+)\t(%d+)$"
            assert.truthy(n, line)
            done, total = done + n, total + double
            worker:wait(10)
        end
        return total, done
    end

    it("never lead to a double hold", function()
        local double, done = doubles(RUNS, "on")
        assert.is_true(done >= RUNS)
        assert.equal(0, double)
    end)

    it("do without the guard", function()
        support.eventually(function() return doubles(12, "off") > 0 end, 120)
    end)
end)

describe("a server that cannot say which run of it this is", function()
    -- It restarted with its log, and the marker of the run before in it; a script keeps it from
    -- answering INFO while the rival is connecting.
    it("because a script runs has no vote", function()
        local cluster = support.cluster(3, { args = { "--appendonly", "yes", "--appendfsync",
            "no" } })
        local ours, theirs = support.proxies(cluster), support.proxies(cluster)
        ours[3]:refuse(true)
        local holder = support.client(ours, { timeout = 1 })
        local rival = support.warm_client(theirs, { timeout = 0.5 })
        local l = holder:getLock "x"
        assert.is_true(l:tryLock(1, 30))
        support.eventually(function() return cluster[1]:call("DEL", "x") == 1 end)
        theirs[1]:refuse(true)
        theirs[1]:cut()
        cluster[1]:restart()
        assert.equal("OK", cluster[1]:call("CONFIG", "SET", "lua-time-limit", "10"))
        support.eventually(function()
            local busy = support.connect(cluster[1].port, 0.05)
            busy:call("EVAL", "while true do end", "0")
            local _, err = cluster[1]:call "PING"
            return err and err:find "BUSY"
        end)
        theirs[1]:refuse(false)
        local before = theirs[1]:count()
        support.eventually(function()
            rival:getLock("y"):isLocked()
            return theirs[1]:count() > before and (rival:stats().nodes[1].ready
                or rival:check()[1].code == "loading")
        end)
        assert.equal("OK", cluster[1]:call("SCRIPT", "KILL"))
        for _ = 1, 20 do
            assert.is_nil((rival:getLock("x"):tryLock(0, 10)))
        end
        assert.is_true(l:isValid())
        holder:close()
        rival:close()
    end)
end)
