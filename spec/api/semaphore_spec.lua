-- At most so many permits at once.
local support = require "spec.support"
local testing = require("redlock").testing

describe("a semaphore", function()
    local cluster, client, other

    support.two_clients(3, { lease = 3, fallback = 0.5, timeout = 5 },
        function(...) cluster, client, other = ... end)

    local function slots_are(n, name)
        support.eventually(function()
            local found = 0
            cluster:each(function(s)
                found = found + s:call("ZCARD", "redlock:{" .. (name or "x") .. "}:slots")
            end)
            return found == n * #cluster
        end)
    end

    -- As where one of its two keys ended while a server's clock was ahead.
    it("says of no permit that is gone from a majority that it is held", function()
        local sem = client:getSemaphore("x", 2)
        local permit = assert(sem:tryAcquire(1, 10))
        slots_are(1)
        for i = 1, 2 do
            cluster[i]:call("DEL", "redlock:{x}:slots")
        end
        assert.is_false(permit:stillMine() or false)
        cluster[1]:call("DEL", "redlock:{x}:slots")
        local rival = assert(other:getSemaphore("x", 2):tryAcquire(1, 10))
        permit:extend(10)
        assert.is_true((rival:stillMine()))
        assert.is_true(rival:release())
    end)

    it("leaves nothing of a permit that nobody releases", function()
        local permit = assert(client:getSemaphore("x", 2):tryAcquire(5, 0.5))
        support.eventually(function() return cluster:keys() == 0 end)
        assert.is_false(permit:isValid())
    end)

    it("gives so many permits, and no more", function()
        local sem, permits = client:getSemaphore("x", 6), {}
        assert.equal(6, sem:availablePermits())
        for i = 1, 6 do
            permits[i] = assert(sem:tryAcquire(1, 10))
            assert.is_true(permits[i]:isValid())
            assert.equal(6 - i, sem:availablePermits())
        end
        support.fails("held", sem:tryAcquire(0, 10))
        support.fails("held", other:getSemaphore("x", 6):tryAcquire(0.1, 10))
        assert.equal(0, other:getSemaphore("x", 6):availablePermits())
        local seen = {}
        for i = 1, 6 do
            seen[permits[i]:slot()] = true
        end
        assert.same({ true, true, true, true, true, true }, seen)
        assert.is_true(permits[2]:release())
        support.eventually(function() return sem:availablePermits() == 1 end)
        assert.is_true(assert(other:getSemaphore("x", 6):tryAcquire(1, 10)):release())
        support.fails("not_held", permits[2]:release())
        support.fails("not_held", permits[2]:slot())
        assert.is_true(permits[1]:release())
        assert.is_true(permits[3]:release())
        slots_are(0)
    end)

    it("takes one round trip, whatever is taken", function()
        local sem, permits = client:getSemaphore("x", 20), {}
        for i = 1, 19 do
            permits[i] = assert(sem:tryAcquire(1, 20))
        end
        slots_are(#permits)
        local before = other:stats().nodes[1].requests
        assert.is_true(other:getSemaphore("x", 20):tryAcquire(0, 10) ~= nil)
        assert.equal(1, other:stats().nodes[1].requests - before)
    end)

    it("with one permit is a lock", function()
        local permit = assert(client:getSemaphore("x", 1):acquire())
        assert.equal(1, permit:slot())
        support.fails("held", other:getSemaphore("x", 1):tryAcquire(0.1))
        assert.is_true(permit:unlock())
        assert.is_true(assert(other:getSemaphore("x", 1):tryAcquire(5)):release())
    end)

    it("wakes who waits", function()
        local permit = assert(client:getSemaphore("x", 1):tryAcquire(1, 30))
        local slow = support.warm_client(cluster, { fallback = 30 })
        local waiting = slow:getSemaphore("x", 1):tryAcquireAsync(60, 10)
        support.eventually(function()
            waiting:isDone()
            return cluster[1]:call("PUBSUB", "NUMSUB", "redlock:{x:slots}:free")[2] == 1
        end)
        local from = support.now()
        assert.is_true(permit:release())
        assert.is_true(assert(waiting:get(50)):release())
        assert.is_true(support.now() - from < 20)
        slow:close()
    end)

    it("keeps a permit by the watchdog, and gives a server its slot again", function()
        local permit = assert(client:getSemaphore("x", 5):acquire())
        local slot = permit:slot()
        cluster[2]:call("DEL", "redlock:{x}:slots", "redlock:{x}:who")
        support.sleep(1.5)
        slots_are(1)
        assert.equal(tostring(slot), cluster[2]:call("ZRANGE", "redlock:{x}:slots", 0, -1)[1])
        support.sleep(2)
        assert.is_true(permit:isValid())
        assert.is_true(permit:release())
        slots_are(0)
    end)

    it("loses strays at once", function()
        -- Where slot 1 is somebody else's, the server gives slot 2.
        cluster[3]:call("ZADD", "redlock:{x}:slots", 4e12, 1)
        cluster[3]:call("HSET", "redlock:{x}:who", "format", 1, 1, "other", "other", 1)
        local sem = client:getSemaphore("x", 2)
        sem.from = 0
        local permit = assert(sem:tryAcquire(1, 10))
        assert.equal(1, permit:slot())
        support.eventually(function()                   -- it was asked, and told
            return cluster[3]:call("INFO", "commandstats"):match "cmdstat_zrem:calls=%d+"
                and #cluster[3]:call("ZRANGE", "redlock:{x}:slots", 0, -1) == 1
        end)
        assert.is_true(permit:isValid())
        assert.is_true(permit:release())
    end)

    it("ends a permit with its lease, or with whoever had it", function()
        assert(client:getSemaphore("x", 1):tryAcquire(5, 0.3))
        assert.is_true(assert(other:getSemaphore("x", 1):tryAcquire(10)):release())
        assert(client:getSemaphore("x", 1):tryAcquire(10))      -- nobody has that permit
        support.eventually(function()
            collectgarbage()
            client:getLock("y"):remaining()
            return client:getSemaphore("x", 1):availablePermits() == 1
        end, 10)
    end)

    it("is passed to another process", function()
        local permit = assert(client:getSemaphore("x", 2):tryAcquire(1, 10))
        local slot = permit:slot()
        local imported = assert(other:import(assert(permit:export()), { owner = "o" }))
        assert.equal(slot, imported:slot())
        assert.is_true(imported:extend(10))
        assert.is_true(imported:release())
        slots_are(0)
    end)

    it("is refused by name where another version has it", function()
        cluster:each(function(s) s:call("HSET", "redlock:{x}:who", "format", "2") end)
        local err = support.fails("no_quorum", client:getSemaphore("x", 2):tryAcquire(0, 1))
        assert.matches("of another version", err.message, 1, true)
        assert.equal("2", cluster[1]:call("HGET", "redlock:{x}:who", "format"))
        err = support.fails("no_quorum", client:getSemaphore("x", 2):availablePermits())
        assert.matches("of another version", err.message, 1, true)
        local permit = assert(client:getSemaphore("y", 2):tryAcquire(0, 5))
        cluster:each(function(s) s:call("HSET", "redlock:{y}:who", "format", "2") end)
        err = support.fails("unknown", permit:release())
        assert.matches("of another version", err.message, 1, true)
        assert.equal("2", cluster[1]:call("HGET", "redlock:{y}:who", "format"))
    end)

    it("is checked, and prints itself", function()
        assert.equal("semaphore(x, 2 permits)", tostring(client:getSemaphore("x", 2)))
        for pattern, call in pairs {
            ["bad permits"] = function() client:getSemaphore("x", 0) end,
            ["from 1 to 1024"] = function() client:getSemaphore("x", 1025) end,
            ["bad name"] = function() client:getSemaphore("", 1) end,
            ["bad wait"] = function() client:getSemaphore("x", 1):tryAcquireAsync(-1) end,
        } do
            assert.error_matches(call, pattern)
        end
    end)
end)

describe("three takers of two permits", function()
    for n = 2, 7 do
        it("each cut off from one of " .. n .. " servers are never three", function()
            local cluster, permits = support.cluster(n), {}
            for away = 1, 3 do
                local nodes = {}
                for i = 1, n do
                    nodes[i] = cluster[i]
                end
                if away <= n then
                    nodes[away] = support.proxy(cluster[away].port)
                    nodes[away]:refuse(true)
                end
                permits[away] = support.client(nodes):getSemaphore("x", 2):tryAcquire(0.3, 30)
            end
            assert.is_falsy(permits[1] and permits[2] and permits[3])
        end)
    end

    it("gives a permit again whose lease has ended while others are held", function()
        local world = testing.new()
        local semaphore = world:client():getSemaphore("x", 2)
        local kept, ended = assert(semaphore:tryAcquire(0, 50)), assert(semaphore:tryAcquire(0, 1))
        support.fails("held", semaphore:tryAcquire())
        world:advance(2)
        assert.is_false(ended:isValid())
        assert(semaphore:tryAcquire())
        assert.is_true(kept:isValid())
        world:close()
    end)
end)
