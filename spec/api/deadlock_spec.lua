-- Waiting in vain for what is held under another kind: plain and fenced locks of one name.
local behaviour = require "spec.support.behaviour"
local support = require "spec.support"

describe("a lock that is held as another kind of lock", function()
    local cluster = support.shared_cluster(3)
    local client
    local KINDS = { getLock = "getFencedLock", getFencedLock = "getLock" }

    before_each(function() client = support.warm_client(cluster, { lease = 2 }) end)
    after_each(function() client:close() end)

    local function is_deadlock(ok, err)
        assert.is_nil(ok)
        assert.equal("deadlock", err.code)
        assert.matches("another kind of lock", err.message)
    end

    for kind, other in pairs(KINDS) do
        it("is not waited for by its thread, " .. kind, function()
            coroutine.wrap(function() assert(client[kind](client, "x", { owner = 1 }):lock()) end)()
            local l = client[other](client, "x")
            is_deadlock(l:lock())
            is_deadlock(l:tryLock(30))
            support.fails("held", l:tryLock())
            assert.is_true(client[kind](client, "x", { owner = 1 }):unlock())
            assert.is_truthy(l:tryLock(5))
            assert.is_true(l:unlock())
        end)

        it("is not waited for by its owner, " .. kind, function()
            local l = client[kind](client, "x")
            assert(l:tryLock(5, 20))
            is_deadlock(client[other](client, "x"):tryLock())
            is_deadlock(client[other](client, "x"):tryLock(10))
            is_deadlock(client[other](client, "x"):tryLockAsync(10):get(20))
            assert.is_true(l:unlock())
        end)

        it("is waited for where that ends in time, " .. kind, function()
            assert(client[kind](client, "x"):tryLock(5, 0.3))
            assert(client[other](client, "x"):tryLock(20, 5))
            assert.is_true(client[other](client, "x"):unlock())
            assert(client[kind](client, "x"):tryLock(5, 0.3))
            assert(client[other](client, "x"):tryLockAsync(20, 5):get(20))
        end)

        it("is waited for by futures of others, " .. kind, function()
            local l = client[kind](client, "x")
            assert(l:tryLock(5))
            local f = client[other](client, "x", { owner = 2 }):tryLockAsync(20)
            support.fails("timeout", f:get(0.05))
            assert.is_true(l:unlock())
            assert(f:get(20))
        end)
    end

    it("ends with the owner's coroutine, before that is collected", function()
        local c = support.warm_client(cluster, { lease = 60 })       -- which is long looked after
        local ended = coroutine.create(function() assert(c:getLock("x"):lock()) end)
        assert(coroutine.resume(ended))
        assert.is_true(c:getLock("x"):tryLock(10))
        assert.equal("dead", coroutine.status(ended))
        c:close()
    end)

    it("is found whether one name of a set is held, or the set", function()
        local function writer(name) return client:getReadWriteLock(name):writeLock() end
        local function reader(name) return client:getReadWriteLock(name):readLock() end
        local function set(...) return client:getMultiLock { ... } end
        local beside = { client:getLock "b", client:getFencedLock "b", client:getFairLock "b",
            reader "b", writer "b",
            client:getReadWriteLock("b", { fenced = true }):writeLock(), set("b"), set("b", "c") }
        for _, other in ipairs(beside) do
            for _, pair in ipairs { { other, set("a", "b") }, { set("a", "b"), other } } do
                local held, wanted = unpack(pair)
                assert(held:tryLock(5))
                is_deadlock(wanted:tryLock())
                is_deadlock(wanted:tryLock(60))
                is_deadlock(wanted:lock())
                is_deadlock(wanted:lockAsync():get(20))
                assert.is_true(held:unlock())
                assert(wanted:tryLock(5))
                assert.is_true(wanted:unlock())
            end
        end
    end)

    it("is found beside a set that will soon be free", function()
        assert(client:getMultiLock({ "a", "c" }):tryLock(5, 1))
        assert(client:getFairLock("b"):tryLock(5))
        is_deadlock(client:getMultiLock({ "a", "b" }):tryLock(5))
    end)

    it("is not waited for by its thread, as a set", function()
        assert(client:getMultiLock({ "a", "b" }, { owner = 1 }):lock())
        support.fails("deadlock", client:getLock("b", { owner = 2 }):tryLock(9))
        support.fails("deadlock", client:getMultiLock({ "b", "c" }, { owner = 2 }):lock())
        support.fails("held", client:getLock("b", { owner = 2 }):tryLock())
        local f = client:getLock("b", { owner = 2 }):tryLockAsync(20)
        assert(client:getLock("c"):tryLock(5))
        assert.is_true(client:getMultiLock({ "a", "b" }, { owner = 1 }):unlock())
        assert(f:get(20))
    end)

    it("is waited for by other coroutines of a loop, not by the owner's", function()
        local p = support.lua(("NODES = %s %s %s main(function() %s print 'ok' end)"):format(
            cluster:text(), behaviour.loops.luv, behaviour.prelude, [[
            for _, kinds in ipairs { { "getLock", "getFencedLock" },
                { "getFencedLock", "getLock" } } do
                local l, n = client[kinds[1] ](client, "y"), 0
                assert(l:tryLock(5))
                local from = now()
                local ok, err = client[kinds[2] ](client, "y"):tryLock(30)
                assert(not ok and err.code == "deadlock", tostring(err))
                for i = 1, 3 do
                    spawn(function()
                        local theirs = client[kinds[2] ](client, "y", { owner = i })
                        assert(theirs:tryLock(30))
                        assert(theirs:unlock())
                        n = n + 1
                    end)
                end
                -- Also behind others in the line.
                ok, err = client[kinds[2] ](client, "y"):tryLock(30)
                assert(not ok and err.code == "deadlock", tostring(err))
                assert(n == 0 and now() - from < 25)
                assert(l:unlock())
                while n < 3 do sleep(0.001) end
            end
        ]]), { stderr = "stdout" })
        assert.equal("ok\n", p:read_all(60))
    end)
end)
