-- The lease watchdog, and knowing in time that a lock is lost.
local support = require "spec.support"
local testing = require("redlock").testing

-- Computes in Lua without a break and without a call of the library.
local BURN = [[
    local function burn(seconds)
        local finish, n = support.now() + seconds, 0
        while support.now() < finish do
            for i = 1, 1000 do n = n + i % 7 end
        end
    end
]]

local child = support.child

local function number_of(cluster, command)
    local calls = 0
    cluster:each(function(s)
        local stats = s:call("INFO", "commandstats")
        calls = calls + tonumber(stats:match("cmdstat_" .. command .. ":calls=(%d+)") or 0)
    end)
    return calls
end

describe("the watchdog", function()
    it("keeps a lock while Lua computes, and dies with its process [15]", function()
        local cluster = support.cluster(5)
        local c = child(cluster, "{ lease = 2.5 }", BURN .. [[
            assert(l:tryLock())
            print "held"
            burn(3)
            print(l:isValid(), l:remaining() > 0.3)
            burn(60)
        ]])
        assert.equal("ready", c:read_line(10))
        assert.equal("held", c:read_line(10))
        local client = support.warm_client(cluster, { timeout = 2 })
        local other = client:getLock("x", { owner = "other" })
        local finish = support.now() + 2
        while support.now() < finish do
            support.fails("held", other:tryLock(1, 1))
        end
        assert.equal("true\ttrue", c:read_line(10))
        local t = support.now()
        c:kill "KILL"
        assert.is_true(other:tryLock(25, 1))
        assert.is_true(support.now() - t < 25, ("%g s"):format(support.now() - t))
    end)

    it("has signals blocked in its thread, and is one thread", function()
        local cluster = support.cluster(1)
        local c = child(cluster, "{ lease = 1 }", [[
            assert(l:tryLock())
            print(support.threads())
            io.read()
        ]])
        assert.equal("ready", c:read_line(10))
        assert.equal("2", c:read_line(10))
        support.eventually(function()            -- it may have begun just now
            local tasks, found = io.popen(("cat /proc/%d/task/*/status"):format(c.pid)), 0
            for line in tasks:lines() do
                -- All but KILL, STOP and the two that the C library keeps for itself.
                if line:match "^SigBlk:\tfffffffe7ffbfeff" then
                    found = found + 1
                end
            end
            tasks:close()
            return found == 1
        end)
    end)

    it("does not touch a lease that was given [25]", function()
        local cluster = support.cluster(3)
        local client = support.warm_client(cluster, { lease = 2 })
        local fixed, kept = client:getLock "fixed", client:getLock "kept"
        assert.is_true(fixed:tryLock(0, 0.9))
        assert.is_true(kept:tryLock())
        support.eventually(function() return not fixed:isValid() end)
        support.sleep(1.5)
        assert.is_true(kept:isValid())
        assert.is_true(kept:unlock())
        support.fails("expired", fixed:unlock())
    end)

    it("stops at max_hold, and says so [25]", function()
        local world = testing.new()
        local l, why = world:client({ lease = 0.9, max_hold = 1.2 }):getLock "x", nil
        assert.is_true(l:tryLock(5))
        l:onLost(function(lock, reason)
            assert.equal(l, lock)
            why = reason
        end)
        world:advance(1.1)
        assert.is_true(l:isValid())
        world:advance(1)                         -- 1.2, and the last lease
        assert.is_false(l:isValid())
        assert.equal("max_hold", why)
        local forever = world:client({ lease = 0.9, max_hold = false }):getLock "y"
        assert.is_true(forever:tryLock(5))
        world:advance(4000)                      -- longer than it is without the option
        assert.is_true(forever:isValid())
        world:close()
    end)

    it("renews in time while it waits for a server that hangs", function()
        local cluster = support.cluster(3, { new = true })
        local client = support.warm_client(cluster, { lease = 2, timeout = 2.2,
            restart_guard = false })
        support.sleep(1.5)                   -- it asks for the time once a second
        cluster[3]:freeze()
        local l = client:getLock "x"
        assert.is_true(l:lock())
        support.sleep(2.3)
        assert.is_true(l:isValid())
        cluster[3]:thaw()
    end)

    it("loses nothing when renewals fail on two of five, or on all for a while [17]", function()
        local cluster = support.cluster(5)
        local proxies = support.proxies(cluster)
        local client = support.warm_client(proxies, { lease = 4.5 })
        local l, lost = client:getLock "x", nil
        assert.is_true(l:tryLock())
        l:onLost(function(_, reason) lost = reason end)
        proxies[1]:refuse(true)
        proxies[1]:cut()
        proxies[2]:drop("both", true)
        support.sleep(5)
        assert.is_true(l:isValid())
        for _, p in ipairs(proxies) do
            p:refuse(true)
            p:cut()
        end
        support.sleep(1.5)                   -- a renewal is due in this time
        for _, p in ipairs(proxies) do
            p:drop("both", false)
            p:refuse(false)
        end
        support.eventually(function() return lost or l:remaining() > 3 end)      -- renewed
        assert.is_nil(lost)
        assert.is_true(l:isValid())
        assert.is_true(l:unlock())
        support.eventually(function()
            client:getLock("turn"):isLocked()
            return cluster:keys() == 0
        end)
    end)

    -- Without the guard: with it no majority may keep the lock after that.
    it("is in time when all servers return in the last third of a lease", function()
        for seed = 1, 20 do
            local world = require("redlock.testing").new { seed = seed, new_cluster = true }
            local lock = world:client({ lease = 1, restart_guard = false }):getLock "job"
            assert(lock:tryLock(5))
            world:advance(2 + seed / 60)
            local before = lock:remaining()
            repeat
                world:advance(0.005)
            until lock:remaining() > before
            for i = 1, 3 do
                world:kill(i)
            end
            world:advance(lock:remaining() - 0.3)
            for i = 1, 3 do
                world:start(i)
            end
            world:advance(1)
            assert.is_true(lock:isValid(), "seed " .. seed)
            world:close()
        end
    end)

    it("heals servers that were restarted empty, one after the other [20]", function()
        local cluster = support.cluster(3, { new = true })
        local client = support.warm_client(cluster, { lease = 3, restart_guard = false })
        local l = client:getLock "x"
        assert.is_true(l:tryLock())
        local value = support.eventually(function() return cluster[1]:call("GET", "x") end)
        for i = 1, 3 do
            cluster[i]:restart()
            support.eventually(function() return cluster[i]:call("GET", "x") == value end)
            local pttl = cluster[i]:call("PTTL", "x")
            assert.is_true(pttl > 0 and pttl <= 3000)
        end
        assert.is_true(l:isValid())
        assert.is_true(l:unlock())
        cluster:await_free()
    end)

    it("recreates nothing when the majority is gone, takes nothing from others [18]", function()
        local cluster = support.cluster(3)
        local client = support.warm_client(cluster, { lease = 3 })
        local l, lost = client:getLock "x", nil
        assert.is_true(l:tryLock())
        l:onLost(function(_, reason) lost = reason end)
        client:check()                               -- all of them have it by now
        cluster[2]:call("SET", "x", "other", "PX", 60000)    -- first: a renewal between the two
        cluster[1]:call("DEL", "x")                          -- would bring the other one back
        support.eventually(function()
            l:isValid()
            return lost
        end)
        assert.equal("taken", lost)
        assert.is_nil(cluster[1]:call("GET", "x"))
        assert.equal("other", cluster[2]:call("GET", "x"))
        support.eventually(function() return cluster[3]:call("EXISTS", "x") == 0 end)
    end)

    it("is over with the unlock, whatever is on its way [19]", function()
        local cluster = support.cluster(3)
        local proxies = support.proxies(cluster)
        support.all(proxies):delay("both", 30)
        local client = support.warm_client(proxies, { lease = 0.9, timeout = 3 })
        local l = client:getLock "x"
        for i = 1, 10 do
            support.eventually(function() return l:tryLock() end)
            support.sleep(0.2 + i * 0.015)       -- around the first renewal
            local ok, err = l:unlock()
            assert.is_true(ok or err.code == "expired", tostring(err))    -- on a busy machine
        end
        cluster:await_free()
        support.sleep(0.5)
        assert.equal(0, cluster:keys())
    end)

    it("renews a bounded number of times, also short leases [9]", function()
        local cluster = support.cluster(3)
        for _, lease in ipairs { 0.05, 0.2, 2 } do
            local client = support.warm_client(cluster, { lease = lease })
            local l = client:getLock "x"
            support.eventually(function() return l:tryLock() end)
            local t = support.now()
            local before = number_of(cluster, "pexpire")
            support.sleep(math.min(6 * lease, 5))
            local renewals = (number_of(cluster, "pexpire") - before) / 3
            local thirds = (support.now() - t) / (lease / 3)
            assert.is_true(renewals <= thirds + 2, ("%g in %g thirds"):format(renewals, thirds))
            if lease > 0.5 then              -- shorter ones may be lost on a busy machine
                assert.is_true(l:isValid())
                assert.is_true(renewals >= thirds / 4)
            end
            l:unlock()
            client:close()
        end
    end)

    it("asks a bounded number of times when nobody answers [9]", function()
        local cluster = support.cluster(1)
        local proxy = support.proxy(cluster[1].port)
        local client = support.warm_client({ proxy }, { lease = 1.5, timeout = 0.05 })
        local l = client:getLock "x"
        support.eventually(function() return l:tryLock() end)
        cluster[1]:call("CONFIG", "SET", "maxclients", 1)
        local requests = client:stats().nodes[1].requests
        cluster[1]:call("DEL", "x")
        cluster[1]:call("LPUSH", "x", "not a string")
        support.eventually(function() return not l:isValid() end)
        assert.is_true(client:stats().nodes[1].requests - requests < 30)
    end)

    it("stops for an owner that has ended, or is collected [15]", function()
        local cluster = support.cluster(3)
        local client = support.warm_client(cluster, { lease = 3 })
        coroutine.wrap(function() assert(client:getLock("ended"):tryLock()) end)()
        local co = coroutine.create(function()
            assert(client:getLock("stuck"):tryLock())
            coroutine.yield()
        end)
        coroutine.resume(co)
        support.sleep(0.3)
        -- At the next call for the first, when the second is collected for the other.
        support.eventually(function()
            client:getLock("other"):isValid()
            return cluster[1]:call("EXISTS", "ended") == 0
        end)
        assert.equal(1, cluster[1]:call("EXISTS", "stuck"))
        co = nil    -- luacheck: ignore
        support.eventually(function()
            collectgarbage()
            return cluster:keys() == 0
        end, 20)
    end)

    it("stops for an owner that ends long after it took the lock", function()
        local world = testing.new { client = { lease = 3 } }
        local client, other = world:client(), world:client():getLock "x"
        local function calls(n)
            for _ = 1, n do
                world:advance(1)
                client:getLock("y"):isLocked()
            end
        end
        world:spawn(function()
            assert(client:getLock("x"):lock())
            calls(10)
        end)
        world:advance(9)
        support.fails("held", other:tryLock())
        calls(5)
        assert.is_true(other:tryLock())
        world:close()
    end)

    it("stops for an owner that is collected, also if that is told of its loss", function()
        local cluster = support.cluster(3)
        local client = support.warm_client(cluster, { lease = 1.2 })
        do
            local l = client:getLock("x", { owner = {} })
            assert.is_true(l:tryLock())
            assert.is_true(l:onLost(error))
            assert.is_true(l:onEnding(0.1, error))
        end
        support.eventually(function()
            collectgarbage()
            client:getLock("other"):isValid()
            return cluster:keys() == 0
        end, 20)
    end)

    it("is not bothered by the collection of a lock object", function()
        local cluster = support.cluster(3)
        local client = support.warm_client(cluster, { lease = 1.9 })
        assert.is_true(client:getLock("x"):tryLock())
        for _ = 1, 20 do
            collectgarbage()
            support.sleep(0.1)
        end
        assert.is_true(client:getLock("x"):isValid())
        assert.is_true(client:getLock("x"):unlock())
    end)
end)

describe("a loss", function()
    -- Looks all the time until it is lost.
    -- @return how late the loss was seen, and how long ago the look before was: the machine
    --   may have been busy with something else
    local function lateness(l, is_lost)
        local deadline, now, before = 0, 0
        repeat
            before = now
            local left = l:remaining()
            now = support.now()
            if left > 0 then
                assert.is_nil(is_lost())
                deadline = now + left
            end
        until left <= 0
        return now - deadline, now - before
    end

    it("is known between 0 and 20 ms after the validity, with all servers away [16]", function()
        local cluster = support.cluster(3)
        local late, gap
        for _ = 1, 12 do
            local proxies = support.proxies(cluster)
            local client = support.warm_client(proxies, { lease = 0.5 })
            local l, lost = client:getLock "x", nil
            assert.is_true(l:tryLock(5))
            l:onLost(function(_, reason) lost = reason end)
            support.all(proxies):drop("both", true)
            late, gap = lateness(l, function() return lost end)
            assert.is_true(lost == "expired" or lost == "suspended" and gap > 0.1, lost)
            assert.is_true(late > -0.005)
            assert.is_false(l:isValid())
            support.fails("lost", l:extend())
            if gap < 0.01 then
                break
            end
        end
        -- On a machine that never let us look in time there is nothing to be said.
        assert.is_true(late < 0.02 or gap >= 0.01, ("%g s"):format(late))
    end)

    it("is told once, at once when it is late, and not after an unlock", function()
        local cluster = support.cluster(1)
        local client = support.warm_client(cluster)
        local l, told = client:getLock "x", {}
        local asked = client:getLock("x", { owner = "another" })
        assert.is_true(asked:onLost(function() told[#told + 1] = "another's" end))
        assert.is_true(l:onLost(function(_, why) told[#told + 1] = why end))  -- for the next hold
        assert.is_true(l:tryLock(0, 0.5))
        l:onLost(function() error "must not get out" end)
        support.eventually(function() return not l:isValid() end)
        assert.same({ "expired" }, told)
        for _, async in ipairs { client:getLock "y", client:getFencedLock "y" } do   -- futures
            local why
            assert.is_true(async:onLost(function(_, reason) why = reason end))
            assert.is_true(async:tryLockAsync(5, 0.3):get())
            support.eventually(function() return not async:isValid() end)
            assert.equal("expired", why)
            async:unlock()
        end
        l:onLost(function(_, why) told[#told + 1] = "late " .. why end)
        assert.same({ "expired", "late expired" }, told)
        l:unlock()
        assert.is_true(l:tryLock())
        l:onLost(function(_, why) told[#told + 1] = why end)
        assert.is_true(l:unlock())
        client:close()
        assert.equal(2, #told)
        assert.equal(3, client:stats().lost)
        assert.error_matches(function() l:onLost(1) end, "bad fn")
    end)

    it("by a closed client is told too", function()
        local cluster = support.cluster(1)
        local client = support.warm_client(cluster)
        local l, why = client:getLock "x", nil
        assert.is_true(l:tryLock())
        l:onLost(function(_, reason) why = reason end)
        client:close()
        assert.equal("closed", why)
    end)

    -- A majority disowns it at its first renewal: one server has no key, another no memory.
    local function disowned()
        local cluster = support.cluster(3):admit(6)
        local opts = { lease = 6, max_lease = 6, fallback = 0.1 }
        local holder = support.warm_client(cluster, opts)
        local mine = holder:getLock "x"
        local theirs = support.warm_client(cluster, opts):getLock "x"
        assert.is_true(mine:tryLock())
        local till, why = support.now() + mine:remaining(), nil
        mine:onLost(function(_, reason) why = reason end)
        holder:check()                               -- all of them have it by now
        cluster[2]:call("DEL", "x")
        cluster[3]:call "FLUSHALL"
        return mine, theirs, till, function() return why end
    end

    it("that has not been heard of opens the lock when its validity is over", function()
        local mine, theirs, till, why = disowned()
        support.eventually(function() return theirs:tryLock(0) end, 20)
        assert.is_true(support.now() >= till, support.now() - till)
        assert.is_false(mine:isValid())
        -- One of the attempts above may have been on the second server just then.
        assert.is_true(why() == "forgotten" or why() == "taken", why())
    end)

    it("that has been heard of opens the lock when the holder releases it", function()
        local mine, theirs, till, why = disowned()
        support.eventually(function() return not mine:isValid() end)
        assert.equal("forgotten", why())
        assert.is_nil((theirs:tryLock(0)))
        support.fails("expired", mine:unlock())
        assert.is_true(theirs:tryLock(1.5))
        assert.is_true(support.now() < till)
    end)

    it("of a process that was stopped is the first thing it hears [8]", function()
        local cluster = support.cluster(3)
        local c = child(cluster, "{ lease = 1.5 }", [[
            assert(l:tryLock())
            l:onLost(function(_, why) print("lost", why) end)
            print "held"
            io.read()
            print(l:isValid())
            print(l:unlock())
        ]])
        assert.equal("ready", c:read_line(10))
        assert.equal("held", c:read_line(10))
        support.sleep(0.2)
        c:kill "STOP"
        cluster:await_free()
        c:write "\n"
        support.sleep(0.2)
        c:kill "CONT"
        assert.equal("lost\tsuspended", c:read_line(10))
        assert.equal("false", c:read_line(10))
        assert.matches("^nil\tredlock: expired", c:read_line(10))
    end)
end)

describe("the client's wall clock [8]", function()
    it("may step by an hour, mid-acquire and mid-hold", function()
        local clock = support.clock()
        local cluster = support.cluster(3)
        local c = child(cluster, "{ lease = 2.5 }", [[
            local t0 = os.time()
            assert(l:tryLock())
            l:onLost(function(_, why) print("lost", why) end)
            print "held"
            io.read()
            assert(math.abs(os.time() - t0) > 3000)
            print(l:isValid(), l:remaining() > 0)
            local m = client:getLock "y"
            print(m:tryLock(5, 5), m:unlock(), l:unlock())
        ]], { env = clock.env })
        assert.equal("ready", c:read_line(10))
        assert.equal("held", c:read_line(10))
        clock:set(3600)
        support.sleep(1.6)
        clock:set(-3600)
        support.sleep(1.6)
        assert.equal(3, cluster:keys())
        c:write "\n"
        assert.equal("true\ttrue", c:read_line(10))
        assert.equal("true\ttrue\ttrue", c:read_line(10))
    end)
end)
