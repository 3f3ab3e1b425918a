-- Count-down latches: never open early, never closed again.
local redlock = require "redlock"
local support = require "spec.support"
local torture = require "spec.support.torture"

describe("a latch", function()
    local cluster, client, other

    support.two_clients(3, { lease = 3, fallback = 0.3 },
        function(...) cluster, client, other = ... end)

    it("opens when all have arrived, and wakes who waits", function()
        local latch = client:getCountDownLatch "x"
        assert.is_true(latch:trySetCount(3))
        assert.equal(3, latch:getCount())
        assert.equal("latch 'x': the time ran out",
            support.fails("timeout", latch:await(0.05)).message)
        local slow = support.warm_client(cluster, { fallback = 30 })
        local waiting = slow:getCountDownLatch("x"):awaitAsync()
        support.eventually(function()
            waiting:isDone()
            return cluster[1]:call("PUBSUB", "NUMSUB", "redlock:{x:latch}:free")[2] == 1
        end)
        for i = 1, 3 do
            assert.is_false(waiting:isDone())
            assert.is_true(other:getCountDownLatch("x"):countDown())
            assert.equal(3 - i, latch:getCount())
        end
        local from = support.now()
        assert.is_true(waiting:get(25))
        assert.is_true(support.now() - from < 20)
        assert.is_true(latch:await())
        assert.is_true(latch:countDown())        -- more than enough
        assert.equal(0, latch:getCount())
        slow:close()
    end)

    it("is looked at by one of those in a process that wait for it", function()
        assert.is_true(client:getCountDownLatch("x"):trySetCount(1))
        local few = support.asked_by_waiters(cluster[1], other, function()
            return other:getCountDownLatch("x"):awaitAsync(40)
        end)
        assert.is_true(few < 10, few .. " scripts in a fallback")
        assert.is_true(client:getCountDownLatch("x"):countDown())
    end)

    it("is looked at in each fallback by a call that waits alone", function()
        local world = redlock.testing.new { nodes = 1, seed = 1, round_trip = 0.0004 }
        local latch = world:client({ fallback = 1 }):getCountDownLatch "x"
        for i = 1, 20 do
            assert.is_true(latch:trySetCount(1))
            local task = world:spawn(function() return latch:await(100) end)
            world:advance(2 + i / 20)
            assert.equal(1, world:call(1, "DEL", "redlock:{x}:latch"))      -- wakes nobody
            local from = world:now()
            support.fails("not_found", task:join())
            assert.is_true(world:now() - from < 1.6, world:now() - from)
        end
        world:close()
    end)

    it("counts a party once, however often it says so", function()
        local latch = client:getCountDownLatch "x"
        assert.is_true(latch:trySetCount(2))
        for _ = 1, 3 do
            assert.is_true(latch:countDown "worker 7")
            assert.is_true(other:getCountDownLatch("x"):countDown "worker 7")
        end
        assert.equal(1, latch:getCount())
        assert.is_true(latch:countDown "worker 8")
        assert.is_true(latch:await(1))
    end)

    it("is made once, and anew only when it was deleted", function()
        local latch = client:getCountDownLatch "x"
        assert.is_true(latch:trySetCount(1))
        assert.is_false(other:getCountDownLatch("x"):trySetCount(5))
        assert.equal(1, latch:getCount())
        assert.is_true(latch:countDown())
        assert.is_false(other:getCountDownLatch("x"):trySetCount(5))
        assert.is_true(latch:await(1))
        assert.is_true(latch:delete())
        assert.is_true(other:getCountDownLatch("x"):trySetCount(5))
        assert.equal(5, latch:getCount())
        assert.is_true(latch:delete())
        assert.is_false(latch:delete())
        support.fails("not_found", latch:getCount())
    end)

    it("stays for its ttl, far longer than a lease", function()
        local latch = client:getCountDownLatch("x", { ttl = 7200 })
        assert.is_true(latch:trySetCount(2))
        assert.is_true(latch:countDown())
        support.eventually(function()
            return cluster[1]:call("PTTL", "redlock:{x}:latch") > 7e6
                and cluster[1]:call("PTTL", "redlock:{x}:arrived") > 7e6
        end)
        assert.error_matches(function() client:getCountDownLatch("x", { ttl = 1 }) end, "bad ttl")
    end)

    it("is not there before it is made, nor when a majority has forgotten it", function()
        local latch = client:getCountDownLatch "x"
        for _, call in ipairs { "getCount", "countDown", "await" } do
            support.fails("not_found", latch[call](latch))
        end
        assert.is_true(latch:trySetCount(1))
        support.eventually(function() return cluster:keys() == 3 end)
        for i = 1, 2 do
            cluster[i]:call("DEL", "redlock:{x}:latch", "redlock:{x}:arrived")
        end
        for _, call in ipairs { "getCount", "countDown", "await" } do
            support.fails("not_found", latch[call](latch))
        end
    end)

    it("says so where no majority answers, or waits for one", function()
        local world = redlock.testing.new()
        local latch = world:client { patience = 5 }:getCountDownLatch "x"
        assert.is_true(latch:trySetCount(1))
        world:freeze(1)
        world:freeze(2)
        for _, call in ipairs { "getCount", "countDown", "await" } do
            support.fails("no_quorum", latch[call](latch))
        end
        local waits = world:spawn(function() return latch:await(60) end)
        world:advance(2)
        assert.is_false(waits:isDone())
        world:thaw(1)
        assert.is_true(latch:countDown())
        assert.is_true(waits:join(30))
        world:close()
    end)

    it("bears an outage shorter than its patience, however long it has waited", function()
        local world = redlock.testing.new()
        local latch = world:client { patience = 5 }:getCountDownLatch "x"
        assert.is_true(latch:trySetCount(1))
        local waits = world:spawn(function() return latch:await() end)
        world:advance(600)
        world:freeze(1)
        world:freeze(2)
        world:advance(4)
        assert.is_false(waits:isDone())
        world:thaw(1)
        world:thaw(2)
        world:advance(10)
        assert.is_false(waits:isDone())
        world:freeze(1)
        world:freeze(2)
        support.fails("no_quorum", waits:join(30))
        world:close()
    end)

    it("unites what servers know, and writes it back before it says so", function()
        local latch = client:getCountDownLatch "x"
        assert.is_true(latch:trySetCount(3))
        support.eventually(function() return cluster:keys() == 3 end)
        for away = 1, 3 do               -- each party is known to two of three servers
            local gap = support.proxy(cluster[away].port)
            gap:refuse(true)
            local nodes = { cluster[1], cluster[2], cluster[3] }
            nodes[away] = gap
            assert.is_true(support.client(nodes):getCountDownLatch("x"):countDown("p" .. away))
        end
        cluster:each(function(s) assert.equal(2, s:call("ZCARD", "redlock:{x}:arrived")) end)
        assert.is_true(latch:await(5))
        local full = 0
        cluster:each(function(s)
            full = full + (s:call("ZCARD", "redlock:{x}:arrived") == 3 and 1 or 0)
        end)
        assert.is_true(full >= 2)
    end)

    -- Not with lag: each look hears the two that are faster; the late one gets it when it opens.
    it("gives itself to a server that has forgotten it #nolag", function()
        local latch = client:getCountDownLatch "x"
        assert.is_true(latch:trySetCount(30))
        for i = 1, 26 do
            assert.is_true(latch:countDown("p" .. i))
        end
        support.eventually(function()
            return cluster[2]:call("ZCARD", "redlock:{x}:arrived") == 26
        end)
        cluster[2]:call("DEL", "redlock:{x}:latch", "redlock:{x}:arrived")
        support.eventually(function()
            assert.equal(4, latch:getCount())
            return cluster[2]:call("ZCARD", "redlock:{x}:arrived") == 26
        end)
        assert.equal("30", cluster[2]:call("HGET", "redlock:{x}:latch", "count"))
        assert.is_true(cluster[2]:call("PTTL", "redlock:{x}:latch") > 0)      -- it ends there, too
        cluster[1]:call("DEL", "redlock:{x}:latch", "redlock:{x}:arrived")
        assert.equal(4, latch:getCount())
    end)

    it("has no arrival acknowledged by servers that may have forgotten", function()
        local new = support.cluster(3, { new = true })
        local c = support.warm_client(new, { restart_guard = true, patience = 0.3 })
        assert.is_true(c:init { force = true })
        local latch = c:getCountDownLatch "x"
        assert.is_true(latch:trySetCount(2))
        new[1]:restart()
        new[2]:restart()
        support.eventually(function()
            c:check()
            return c:stats().nodes[1].ready and c:stats().nodes[2].ready
        end, 20)
        assert.is_nil((latch:countDown()))
        assert.equal(0, new[1]:call("EXISTS", "redlock:{x}:latch", "redlock:{x}:arrived"))
        c:close()
        new:stop()
    end)

    it("is refused by name where another version has it", function()
        cluster:each(function(s) s:call("HSET", "redlock:{x}:latch", "format", "2", "new", 1) end)
        local err = support.fails("no_quorum", client:getCountDownLatch("x"):trySetCount(1))
        assert.matches("of another version", err.message, 1, true)
        assert.is_nil((client:getCountDownLatch("x"):getCount()))
        err = support.fails("no_quorum", client:getCountDownLatch("x"):delete())
        assert.matches("of another version", err.message, 1, true)
        assert.equal("1", cluster[1]:call("HGET", "redlock:{x}:latch", "new"))
    end)

    it("is checked, and prints itself", function()
        local latch = client:getCountDownLatch "x"
        assert.equal("latch(x)", tostring(latch))
        for pattern, call in pairs {
            ["bad count"] = function() latch:trySetCount(0) end,
            ["1 to 4096"] = function() latch:trySetCount(4097) end,
            ["bad who"] = function() latch:countDown "" end,
            ["bad wait"] = function() latch:await(-1) end,
            ["bad name"] = function() client:getCountDownLatch "" end,
            ["option 'count'"] = function() client:getCountDownLatch("x", { count = 1 }) end,
        } do
            assert.error_matches(call, pattern)
        end
    end)
end)

-- ---- histories -------------------------------------------------------------------

local PARTIES = 6
local CODE = [[
    local window = math.floor(sys.now() / 2)
    local from = sys.now()
    if from % 2 < 1.2 then
        client:getCountDownLatch("l" .. window + 1):trySetCount(6)
        from = sys.now()
    end
    local name = "l" .. window
    local latch, what = client:getCountDownLatch(name), random(6)
    if what == 1 then
        local who = "p" .. random(6)
        log("begin", name, who)
        if latch:countDown(who) then log("acked", name, who) end
    elseif what == 2 then
        if latch:await(0.05) then log("left", name, 0, ("%.6f"):format(from)) end
    else
        local left = latch:getCount()
        if left then log("left", name, left, ("%.6f"):format(from)) end
        sys.sleep(0.01)
    end
]]

-- What is wrong with a history of latches; nil: nothing.
local function wrong(history)
    local latches = {}
    for _, line in ipairs(history) do
        local l = latches[line[4]] or { begun = {}, acked = {}, opened = math.huge }
        latches[line[4]] = l
        if line.word == "begin" then
            l.begun[line[5]] = l.begun[line[5]] or line.t
        elseif line.word == "acked" then
            l.acked[line[5]] = l.acked[line[5]] or line.t
        elseif line.word == "left" then
            local left, from, begun, acked = tonumber(line[5]), tonumber(line[6]), 0, 0
            for _ in pairs(l.begun) do
                begun = begun + 1
            end
            for _, t in pairs(l.acked) do
                acked = acked + (t < from and 1 or 0)
            end
            if PARTIES - left > begun then
                return ("%s: %d left, but %d had begun"):format(line[4], left, begun)
            elseif PARTIES - left < acked then
                return ("%s: %d left, but %d were acknowledged"):format(line[4], left, acked)
            elseif left > 0 and l.opened < from then
                return line[4] .. " has closed again"
            end
            l.opened = left == 0 and math.min(l.opened, line.t) or l.opened
        end
    end
end

describe("a history of latches", function()
    local function looks(history)
        local n, open = 0, 0
        for _, line in ipairs(history) do
            n = n + (line.word == "left" and 1 or 0)
            open = open + (line.word == "left" and line[5] == "0" and 1 or 0)
        end
        return n, open
    end

    it("is never open early, nor closed again, whatever fails", function()
        assert.is_nil(wrong(torture.run { code = CODE, enough = function(history)
            local n, open = looks(history)
            return n > 50 and open > 3
        end }))
    end)

    it("shows if parties were counted", function()
        local broken = { "scripts/latch/arrive.lua", "KEYS[2], 0, who)",
            "KEYS[2], 0, who .. before)" }
        torture.run { broken = { broken }, code = CODE, enough = wrong }
    end)
end)
