-- Several names at once, all or none.
local redlock = require "redlock"
local support = require "spec.support"

describe("a multi-lock", function()
    local cluster, client, other

    support.two_clients(3, { lease = 3, fallback = 0.5, timeout = 5 },
        function(...) cluster, client, other = ... end)

    local function keys_are(n)
        support.eventually(function() return cluster:keys() == n * #cluster end)
    end

    it("waits on, whichever of its keys the servers say is held", function()
        local world = redlock.testing.new {}
        local l = world:client():getMultiLock { "a", "b" }
        for _, says in ipairs { "2 x", "0 ", "9 x", "x" } do
            for _, server in ipairs(world.world.servers) do
                server.says = { 0, 500, says }
            end
            support.fails("held", l:tryLock(0.2))
        end
        world:close()
    end)

    it("has all of its names, as plain locks have them", function()
        local l = client:getMultiLock { "b", "a", "b", "c" }
        assert.same({ "a", "b", "c" }, l:getNames())
        assert.is_true(l:tryLock(1, 10))
        keys_are(3)
        assert.equal(cluster[1]:call("GET", "a"), cluster[1]:call("GET", "c"))
        assert.is_true(l:isLocked())
        assert.is_true(l:remainTimeToLive() > 8)
        for _, name in ipairs { "a", "b", "c" } do
            support.fails("held", other:getLock(name):tryLock(0, 1))
            support.fails("held", other:getFencedLock(name):tryLock(0, 1))
            support.fails("held", other:getReadWriteLock(name):readLock():tryLock(0, 1))
        end
        support.fails("held", other:getMultiLock({ "c", "d" }):tryLock(0, 1))
        assert.is_true(l:extend(20))
        support.eventually(function() return cluster[1]:call("PTTL", "b") > 15000 end)
        assert.is_true(l:unlock())
        keys_are(0)
        assert.is_true(other:getMultiLock({ "c", "d" }):tryLock(5, 1))
    end)

    it("has none of them while somebody has one", function()
        local l = client:getMultiLock { "a", "b", "c" }
        for _, one in ipairs { other:getLock "b", other:getFencedLock "b",
            other:getReadWriteLock("b"):readLock(), other:getMultiLock { "b", "x" } } do
            assert.is_true(one:tryLock(1, 10))
            support.fails("held", l:tryLock(0, 10))
            cluster:each(function(s) assert.equal(0, s:call("EXISTS", "a", "c")) end)
            assert.is_true(one:unlock())
            cluster:each(function(s) s:call "FLUSHDB" end)
            cluster:admit()
        end
        assert.is_true(l:tryLock(1, 10))
        assert.is_true(l:unlock())
    end)

    it("is woken when the name is free that was held the longest", function()
        local short, long = other:getLock "a", other:getLock "b"
        assert.is_true(short:tryLock(1, 30))
        assert.is_true(long:tryLock(1, 60))
        local waiter = support.child(cluster, "{ fallback = 20 }", [[
            local l = client:getMultiLock { "a", "b" }
            assert(l:tryLock(30, 10))
            print "got"
            io.read()
            assert(l:unlock())
        ]])
        assert.equal("ready", waiter:read_line(20))
        support.eventually(function()
            return cluster[1]:call("PUBSUB", "NUMSUB", "redlock:{b}:free")[2] == 1
        end)
        assert.is_true(short:unlock())
        local from = support.now()
        assert.is_true(long:unlock())
        assert.equal("got", waiter:read_line(20))
        assert.is_true(support.now() - from < 10)
        waiter:write "\n"
        assert.equal(0, waiter:wait(20))
    end)

    it("tells only those who wait", function()
        local l = client:getMultiLock { "a", "b" }
        local waiting = other:getLock("b"):tryLockAsync(30, 5)
        assert.is_true(waiting:get(10))
        assert.is_true(other:getLock("b"):unlock())
        assert.is_true(l:tryLock(1, 10))
        waiting = other:getLock("b"):tryLockAsync(30, 5)
        support.eventually(function()
            waiting:isDone()
            return cluster[1]:call("PUBSUB", "NUMSUB", "redlock:{b}:free")[2] == 1
        end)
        assert.is_true(l:unlock())
        assert.is_true(waiting:get(20))
    end)

    it("wakes who waits for one of its names", function()
        local patient = support.warm_client(cluster, { fallback = 30 })
        local l = client:getMultiLock { "a", "b" }
        assert.is_true(l:tryLock(1, 60))
        local waiting = patient:getLock("b"):tryLockAsync(60, 5)
        support.eventually(function()            -- it sleeps
            local asked = cluster[1]:calls_of "evalsha"
            support.fails("timeout", waiting:get(0.3))
            return asked > 0 and cluster[1]:calls_of "evalsha" == asked
        end)
        assert.is_true(l:unlock())
        assert.is_true(waiting:get(15))
        patient:close()
    end)

    it("is given back to a server that lost some of it, if nobody has them", function()
        local l = client:getMultiLock { "a", "b" }
        assert.is_true(l:tryLock(1, 10))
        keys_are(2)
        cluster[2]:call("DEL", "b")
        support.eventually(function()        -- an answer that is late heals with the next one
            assert.is_true(l:extend(10))
            return cluster[2]:call("EXISTS", "b") == 1
        end)
        cluster[3]:call("SET", "b", "somebody")
        assert.is_true(l:extend(10))
        assert.equal("somebody", cluster[3]:call("GET", "b"))
        assert.is_true(l:isValid())
        cluster[1]:call("SET", "a", "somebody")
        support.fails("lost", l:extend(10))
        assert.is_false(l:isValid())
    end)

    it("says when it was lost whether somebody has one of its names", function()
        for _, code in ipairs { "expired", "held" } do
            local l = client:getMultiLock { "a", "b" }
            assert.is_true(l:tryLock(5, 10))
            support.eventually(function() return cluster:keys() == 2 * #cluster end)
            cluster:each(function(s) s:call("DEL", "a", "b") end)
            assert.is_true(code == "expired" or other:getLock("b"):tryLock(0, 10))
            support.fails(code, l:unlock())
        end
    end)

    it("passes to the next owner of its process, and to another process", function()
        local a = client:getMultiLock({ "a", "b" }, { owner = 1 })
        local b = client:getMultiLock({ "a", "b" }, { owner = 2 })
        assert.is_true(a:tryLock(1, 20))
        local waiting = b:tryLockAsync(30, 20)
        support.eventually(function()
            waiting:isDone()
            return client:stats().contended == 1
        end)
        assert.is_true(a:unlock())
        assert.is_true(waiting:get(20))
        assert.equal(1, client:stats().handed_over)
        local imported = assert(other:import(assert(b:export()), { owner = 3 }))
        assert.same({ "a", "b" }, imported:getNames())
        support.fails("held", client:getLock("a"):tryLock(0, 1))
        assert.is_true(imported:unlock())
        keys_are(0)
    end)

    it("finds at once that an owner of this thread has one of the names", function()
        assert.is_true(client:getLock("b", { owner = 1 }):lock())
        support.fails("deadlock", client:getMultiLock({ "a", "b" }, { owner = 2 }):lock())
    end)

    it("has 128 names in one round trip", function()
        local names = {}
        for i = 1, 129 do
            names[i] = "name " .. i
        end
        assert.error_matches(function() client:getMultiLock(names) end, "129 names are too many")
        assert.has_error(function() client:getMultiLock { ("x"):rep(60000), ("y"):rep(5526) } end,
            "redlock: bad names: 65537 bytes all together are too long; at most 65536")
        names[129] = nil
        local l = client:getMultiLock(names)
        local before = client:stats().nodes[1].requests
        assert.is_true(l:tryLock(1, 10))
        assert.equal(1, client:stats().nodes[1].requests - before)
        keys_are(128)
        assert.matches("^multi%-lock%('name 1' and 127 more, held", tostring(l))
        assert.is_true(l:unlock())
        keys_are(0)
    end)

    it("takes a name for several ones only if it is made of them", function()
        local names_of = require("redlock.kinds.multi_lock").primitive.names
        local function joined(names)
            local parts = {}
            for i, name in ipairs(names) do
                parts[i] = #name .. ":" .. name
            end
            return table.concat(parts)
        end
        assert.same({ "a", "b:1" }, names_of "1:a3:b:1")
        for _, bad in ipairs { "", "1", "1:", "0:", "01:a", "2:a", "1:b1:a", "1:a1:a", "1:ab",
            "99999999999999999999:a", "1:a\0", ":a", "-1:a" } do
            assert.is_nil(names_of(bad), bad)
        end
        local characters = { "0", "1", "2", "3", ":", "a", "b", "\0" }
        for _ = 1, 20000 do                      -- any text
            local text = {}
            for i = 1, math.random(12) do
                text[i] = characters[math.random(#characters)]
            end
            text = table.concat(text)
            local names = names_of(text)
            assert.is_true(names == nil or joined(names) == text, text)
        end
    end)

    it("is checked", function()
        for pattern, names in pairs {
            ["bad names: a list"] = "x", ["bad names: a list of names"] = {},
            ["names%[2%]: a string"] = { "x", 1 }, ["names%[1%]: .*own"] = { "redlock:{x" },
        } do
            assert.error_matches(function() client:getMultiLock(names) end, pattern)
        end
    end)
end)
