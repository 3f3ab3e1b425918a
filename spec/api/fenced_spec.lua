-- Fenced locks: every hold has a token, and tokens only grow, whatever servers forget.
local support = require "spec.support"

local FENCE, FLOORS, MARKER = "redlock:{x}:fence", "redlock:{server}:floor",
    "redlock:{server}:marker"
local LIMIT = 1e14

local function take(l, lease)
    local ok, token = l:tryLock(5, lease or 10)
    assert.is_true(ok, tostring(token))
    return token
end

-- Locks and unlocks once. On a busy machine the release may come too late to be told.
local function once(client, name)
    local l = client:getFencedLock(name or "x")
    local token = take(l, 0.4)
    local ok, err = l:unlock()
    assert.is_true(ok or err.code == "unknown" or err.code == "expired", tostring(err))
    return token
end

for _, n in ipairs { 1, 2, 3, 5 } do
    describe(("a fenced lock on %d servers"):format(n), function()
        local cluster, client

        setup(function()
            cluster = support.cluster(n)
            client = support.warm_client(cluster, { timeout = 5 })
        end)
        teardown(function()
            client:close()
            cluster:stop()
        end)

        it("has a larger token each time", function()
            local last = 0
            for _ = 1, 100 do
                local l = client:getFencedLock "x"
                local token = take(l)
                assert.is_true(token > last and token < LIMIT and token % 1 == 0)
                assert.equal(token, math.max(last, l:token()))        -- one value
                last = token
                assert.is_true(l:unlock())
                support.fails("not_held", l:token())
            end
        end)

        it("keeps it while it is held, entered again and extended [40]", function()
            local l = client:getFencedLock "x"
            local token = take(l)
            assert.same({ true, token }, { l:tryLock() })
            assert.same({ true, token }, { l:lock() })
            assert.is_true((l:extend(20)))
            assert.is_true(l:stillMine())
            assert.equal(token, l:token())
            for _ = 1, 3 do
                assert.is_true(l:unlock())
            end
            assert.is_true(once(client) > token)
        end)

        it("excludes plain locks of its name", function()
            local plain = client:getLock("x", { owner = 1 })
            local fenced = client:getFencedLock("x", { owner = 2 })
            assert.is_true(plain:tryLock())
            support.fails("held", fenced:tryLock())
            assert.is_true(plain:unlock())
            take(fenced)
            support.fails("held", plain:tryLock())
            assert.is_true(fenced:unlock())
        end)

        it("continues above its last token once its counters have expired", function()
            local token = once(client)
            support.eventually(function() return cluster:keys() == n end)
            cluster:each(function(s)
                local left = s:call("PTTL", FENCE)
                assert.is_true(left > 86000e3 and left <= 86400e3, left)
                s:call("DEL", FENCE)
            end)
            assert.is_true(once(client) > token)
        end)

        it("keeps its counters as long as it is extended", function()
            local l = client:getFencedLock "x"
            take(l)
            cluster:await_idle():each(function(s) s:call("PEXPIRE", FENCE, 5000) end)
            cluster:each(function(s)
                support.eventually(function()        -- a late answer heals with the next one
                    return l:extend(10) and s:call("PTTL", FENCE) > 5000
                end)
            end)
            assert.is_true(l:unlock())
        end)

        it("says when it was lost whether somebody has it", function()
            local l = client:getFencedLock "x"
            for _, code in ipairs { "expired", "held" } do
                take(l)
                cluster:await_idle():each(function(s)
                    s:call("DEL", "x")
                    return code == "held" and s:call("SET", "x", "somebody", "PX", 10000)
                end)
                support.fails(code, l:unlock())
            end
            cluster:each(function(s) s:call("DEL", "x") end)
        end)

        it("does not believe a counter of an earlier run", function()
            local token = once(client)
            cluster:each(function(s) s:call("SET", FENCE, "deadbeef5 01234567") end)
            assert.is_true(once(client) > token)
        end)
    end)
end

describe("a fenced lock", function()
    local cluster, client
    local opts = { max_lease = 0.5, lease = 0.4 }

    before_each(function()
        cluster = support.cluster(5, { new = true }):admit(0.5)
        client = support.warm_client(cluster, opts)
    end)
    after_each(function()
        client:close()
        cluster:stop()
    end)

    local function own(owner)
        return client:getFencedLock("x", { owner = owner })
    end

    -- A hold that all servers have; they are of clients with longer leases.
    local function held_by_all()
        local servers = support.cluster(5)
        local patient = support.warm_client(servers)
        local l = patient:getFencedLock "x"
        local ok, token = l:tryLock(5, 8)
        assert.is_true(ok)
        support.eventually(function()
            assert.is_true((l:extend(8)))          -- a busy server may have missed it
            return servers:keys() == 10
        end)
        return servers, patient, l, token
    end

    it("confirms the largest counter where they differ", function()
        local servers, patient, l, token = held_by_all()
        assert.is_true(l:unlock())
        servers:await_none "x"
        for i = 1, 2 do
            local run = servers[i]:call("GET", FENCE):sub(1, 8)
            servers[i]:call("SET", FENCE, ("%s%.0f 01234567"):format(run, token + 20))
        end
        local larger = take(l)
        if larger ~= token + 1 then          -- the first three answered alike
            assert.equal(token + 21, larger)
        end
        assert.is_true(l:stillMine())
        assert.is_true(l:unlock())
        assert.is_true(once(patient) > larger)
        patient:close()
    end)

    it("is not the first holder's when it was deleted behind his back", function()
        local servers, patient, first, token = held_by_all()
        servers:each(function(s) s:call("DEL", "x") end)
        local second = patient:getFencedLock("x", { owner = 2 })
        assert.is_true(take(second) > token)
        support.fails("lost", first:stillMine())
        assert.is_true(second:stillMine())
        assert.is_true(second:unlock())
        patient:close()
    end)

    it("has a token for nobody but its holder [40]", function()
        local patient = support.warm_client(support.cluster(5))
        local first = patient:getFencedLock "x"
        local second = patient:getFencedLock("x", { owner = 2 })
        local token = take(first, 0.4)
        support.fails("not_held", second:token())
        assert.is_nil((second:sequencer()))
        local larger = take(second)                     -- when the first one's lease has ended
        assert.is_true(larger > token)
        local none, err = first:token()                       -- not the second one's either
        assert.is_nil(none)
        assert.equal("lost", err.code)
        assert.equal(larger, second:token())
        assert.is_true(second:unlock())
        patient:close()
    end)

    it("is healed where the key is gone, but not where the counter is past it", function()
        local servers, patient, l, token = held_by_all()
        servers[1]:call("DEL", "x")
        servers[2]:call("DEL", "x")
        local run = servers[2]:call("GET", FENCE):sub(1, 8)
        servers[2]:call("SET", FENCE, ("%s%.0f 01234567"):format(run, token + 1))
        support.eventually(function()
            assert.is_true((l:extend(8)))          -- what was not answered in time is read then
            return servers[1]:call("EXISTS", "x") == 1
        end)
        assert.equal(0, servers[2]:call("EXISTS", "x"))
        patient:close()
        servers:stop()
    end)

    it("is not counted further where the floors were lost", function()
        local servers, patient, l, token = held_by_all()
        local function scripts_run()
            return servers[1]:calls_of "eval" + servers[1]:calls_of "evalsha"
        end
        local older = ("%s%.0f 01234567"):format(servers[1]:call("GET", FENCE):sub(1, 8), token - 1)
        servers[1]:call("SET", FENCE, older)
        servers[1]:call("DEL", FLOORS)
        local before = scripts_run()
        assert.is_true((l:extend(8)))            -- by the others
        support.eventually(function() return scripts_run() > before end)
        assert.equal(older, servers[1]:call("GET", FENCE))
        assert.is_true(l:unlock())
        patient:close()
        servers:stop()
    end)

    it("grows through a restart of each server in turn, empty [40]", function()
        local last = once(client)
        for i = 1, 5 do
            cluster[i]:restart()
            for _ = 1, 3 do
                local token = once(client)
                assert.is_true(token > last)
                last = token
            end
            -- It votes again after the quarantine, and has learned what it had forgotten.
            support.eventually(function()
                local token = once(client)
                assert.is_true(token > last)
                last = token
                local floor = cluster[i]:call("HGETALL", FLOORS)
                return type(floor) == "table" and #floor >= 4
            end, 10, "a floor on the restarted server")
        end
    end)

    it("grows when all servers are lost at once", function()
        local last = once(client)
        support.all(cluster, 1, 5):restart()
        assert.is_true(once(client) > last)
    end)

    -- All forgot, and a client's clock is not asked.
    it("grows after all forgot, for a client whose clock was set back", function()
        local clock = support.clock()
        clock:set(-3600)
        local three = support.cluster(3):admit(0.5)
        local ours, theirs = support.proxies(three), support.proxies(three)
        theirs[2]:refuse(true)
        local options = { max_lease = 0.5, lease = 0.4, timeout = 1 }
        local one = support.client(ours, options)
        local last
        for _ = 1, 100 do            -- more than a step of the floors
            last = once(one)
        end
        one:close()
        support.all(three):restart()
        local child = support.lua(([[
            local client = require("redlock").new { nodes = { %q, %q, %q }, max_lease = 0.5,
                lease = 0.4, timeout = 1, cluster = "spec" }
            local l = client:getFencedLock "x"
            local _, token = l:lock(0.4)
            print(("%%.0f"):format(token))
        ]]):format(theirs[1].uri, theirs[2].uri, theirs[3].uri), { env = clock.env })
        local token = tonumber((child:read_line(20)))
        assert.is_true(token and token > last, ("%s after %.0f"):format(tostring(token), last))
        three:stop()
    end)

    it("puts a server that lost its floors back into quarantine", function()
        local last = once(client)
        support.all(cluster, 1, 3):call("DEL", FLOORS, FENCE)
        support.fails("no_quorum", own(1):tryLock())
        support.eventually(function()
            local told = own(1):tryLock()
            local away = 0
            for i = 1, 3 do
                away = away + (cluster[i]:call("GET", MARKER) or ""):gsub("^%S+ %S+$", ""):len()
            end
            return told or away > 0
        end, 5, "a quarantine")
        local ok, token = own(1):lock(0.4)   -- waits for the end of it
        assert.is_true(ok)
        assert.is_true(token > last)
    end)

    -- Or nobody would know of it when the counter is lost, too, a little later.
    it("has no vote of servers that lost their floors alone", function()
        local last = once(client)
        support.eventually(function() return cluster:keys() == 5 end)
        local counted = {}
        for i = 1, 3 do
            counted[i] = cluster[i]:call("GET", FENCE)
            cluster[i]:call("DEL", FLOORS)
        end
        support.fails("no_quorum", own(1):tryLock())
        for i = 1, 3 do
            assert.equal(counted[i], cluster[i]:call("GET", FENCE))
            assert.equal(0, cluster[i]:call("EXISTS", "x"))
        end
        local ok, token = own(1):lock(0.4)   -- after the quarantine
        assert.is_true(ok)
        assert.is_true(token > last)
    end)

    it("tells that tokens go on from the clock", function()
        local events = {}
        support.all(cluster):call("HDEL", FLOORS, "base", "most")
        local listener = support.client(cluster, { max_lease = 0.5, lease = 0.4,
            on_event = function(e) events[#events + 1] = e end })
        once(listener, "another name")
        listener:getLock("x"):isLocked()
        local seeded
        for _, e in ipairs(events) do
            seeded = seeded or e.type == "fence_seeded" and e
        end
        assert.truthy(seeded)
        assert.near(16000 * os.time(), seeded.floor, 16000 * 60)
        listener:close()
    end)
end)

describe("a fenced lock on one server without a guard", function()
    it("grows through restarts", function()
        local cluster = support.cluster(1)
        local client = support.client(cluster)
        local last = 0
        for _ = 1, 3 do
            local token = once(client)
            assert.is_true(token > last)
            last = token
            cluster[1]:restart()
        end
        client:close()
        cluster:stop()
    end)
end)

describe("a token", function()
    local cluster, client

    setup(function()
        cluster = support.cluster(3)
        client = support.warm_client(cluster)
    end)
    teardown(function()
        client:close()
        cluster:stop()
    end)

    it("travels with an exported hold", function()
        local l = client:getFencedLock "x"
        local token = take(l)
        local other = support.warm_client(cluster)
        local taken = assert(other:import(l:export()))
        assert.equal(token, taken:token())
        assert.is_true(taken:stillMine())
        assert.is_true(taken:unlock())
        other:close()
    end)

    it("is there in `using`", function()
        local held, token = client:using("x", { fenced = true }, function(l)
            return l:token()
        end)
        assert.is_true(held)
        assert.is_true(token > 0)
        assert.is_true(once(client) > token)
    end)

    it("is there in a future", function()
        local l = client:getFencedLock "x"
        local ok, token = l:lockAsync():get()
        assert.is_true(ok)
        assert.equal(token, l:token())
        assert.is_true(l:unlock())
    end)

    it("is exact where it is printed", function()
        cluster:each(function(s)
            local run = s:memory()
            s:call("SET", FENCE, run .. "99999999999900 01234567")
        end)
        client.token_limit = "99999999999968"        -- as the clocks will have it in 2148
        local l = client:getFencedLock "x"
        assert.equal(99999999999901, take(l))
        assert.equal("99999999999901", tostring(l:token()))
        assert.truthy(l:sequencer():find(";99999999999901;", 1, true))
        assert.is_true(l:unlock())
        cluster:each(function(s)
            s:call("DEL", FENCE)
            s:call("HDEL", FLOORS, unpack(s:call("HKEYS", FLOORS)))
            s:mark(s:marker())
        end)
        client.token_limit = nil
    end)

    it("belongs to fenced locks only", function()
        local l = client:getLock "plain"
        assert.is_nil(l.token)
        assert.same({ true }, { l:tryLock() })
        assert.is_true(l:unlock())
    end)
end)

-- As a server that took the place of another one: it has been told how far the others were.
describe("a fenced lock and a server that knows of larger numbers", function()
    local cluster, client, l, token

    before_each(function()
        cluster = support.cluster(3)
        client = support.warm_client(cluster, { timeout = 5 })
        l = client:getFencedLock "x"
        token = take(l)
        support.eventually(function()               -- it may come, and be seeded, behind the others
            l:extend(10)
            return cluster[3]:call("GET", "x") and cluster[3]:call("GET", FENCE)
                and cluster[3]:call("HLEN", FLOORS) > 1
        end)
        local marker, floors = cluster[3]:call("GET", MARKER), cluster[3]:call("HKEYS", FLOORS)
        cluster[3]:call("DEL", "x", FENCE)
        for _, bucket in ipairs(floors) do
            if bucket ~= "marker" then
                cluster[3]:call("HSET", FLOORS, bucket,
                    ("%s%.0f"):format(marker:sub(1, 8), token + 1000))
            end
        end
    end)
    after_each(function() client:close() end)

    local function healed()
        l:extend(10)
        return cluster[3]:call("GET", "x") ~= nil
    end

    it("is given to it, and kept with it", function()
        support.eventually(healed)
        cluster[1]:kill()
        assert.is_true((l:extend(20)))
        assert.is_true(l:stillMine())
        assert.is_true(client:checkSequencer(l:sequencer()))
        assert.equal(token, l:token())
        assert.is_true(l:unlock())
        assert.is_true(take(l) > token + 1000)
        assert.is_true(l:unlock())
    end)

    it("is not given to one that has counted them for somebody else", function()
        local marker = cluster[3]:call("GET", MARKER)
        cluster[3]:call("SET", FENCE, ("%s%.0f %s"):format(marker:sub(1, 8), token + 1, "feedfeed"))
        for _ = 1, 3 do
            assert.is_false(healed())
        end
        cluster[1]:kill()
        support.fails("no_quorum", l:stillMine())
    end)

    it("is not kept by one that has counted since", function()
        support.eventually(healed)
        local marker = cluster[3]:call("GET", MARKER)
        cluster[3]:call("SET", FENCE, ("%s%.0f %s"):format(marker:sub(1, 8), token + 1001,
            "feedfeed"))
        cluster[1]:kill()
        support.fails("no_quorum", l:stillMine())
    end)
end)
