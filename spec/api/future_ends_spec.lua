-- How futures end whose users do what nobody expects.
local support = require "spec.support"
local redlock = require "redlock"

describe("a future of a plain script", function()
    local cluster = support.shared_cluster(3)
    local client

    before_each(function() client = support.warm_client(cluster, { lease = 2 }) end)
    after_each(function() client:close() end)

    local function somebody_has(name)
        cluster:each(function(server) server:call("SET", name, "theirs", "PX", 60000) end)
    end

    it("is not handed the lock when its wait is over", function()
        local l = client:getLock "x"
        assert.is_true(l:tryLock())
        local f = client:getLock("x", { owner = "B" }):tryLockAsync(0.005)
        support.sleep(0.05)                  -- as who computes
        assert.is_true(l:unlock())
        local other = support.warm_client(cluster)
        finally(function() other:close() end)
        assert.is_true(other:getLock("x"):tryLock(0.5))
        support.fails("held", f:get(5))
    end)

    it("may be cancelled by its own callback", function()
        local f
        local c = support.warm_client(cluster, { on_event = function(event)
            if event.type == "contended" and f then
                assert.is_true(f:cancel())
            end
        end })
        finally(function() c:close() end)
        somebody_has "x"
        f = c:getLock("x"):tryLockAsync(5)
        support.fails("cancelled", f:get(5))
        assert.is_false(f:cancel())
        assert.is_false(c:getLock("x"):isValid())
    end)

    for _, value in ipairs { "nil", "'foo'" } do
        it("says so when a callback yields " .. value, function()
            local c = support.warm_client(cluster, {
                on_event = loadstring("coroutine.yield(" .. value .. ")") })
            finally(function() c:close() end)
            local f = c:getLock("x"):tryLockAsync(5)
            local ok, err = pcall(f.get, f, 5)
            assert.is_false(ok)
            assert.matches("a callback .* has yielded inside a future", err)
        end)
    end

    it("goes on before its thread blocks for what it has got", function()
        local f = client:getLock("x", { owner = "B" }):lockAsync()
        support.fails("deadlock", client:getLock("x"):lock())
        assert.is_true(f:get(5))
    end)

    it("goes on while its thread is blocked by it", function()
        local theirs = support.warm_client(cluster)
        finally(function() theirs:close() end)
        assert.is_true(theirs:getLock("x"):tryLock(0, 0.3))
        local f = client:getLock("x", { owner = "B" }):lockAsync()
        local ok, err = client:getLock("x"):lock()       -- either gets it first
        if ok then
            assert.is_false(f:isDone())
        else
            assert.equal("deadlock", err.code)
            assert.is_true(f:get(5))
        end
    end)

    it("is looked for in a list of them", function()
        somebody_has "x"
        local f = client:getLock("x"):tryLockAsync(5)
        for _, list in ipairs { f, "x", { 1 }, { f, {} } } do
            local ok, err = pcall(redlock.wait_all, list, 1)
            assert.is_false(ok)
            assert.matches("bad list.*future", err)
        end
        assert.matches("bad list", select(2, pcall(redlock.wait_all)))
        for text, list in pairs {
            ["bad list: .* it has a key '2'"] = { nil, f },
            ["bad list: .* it has a key '3'"] = { f, nil, f },
            ["bad list: .* it has a key 'n'"] = { f, n = 1 },
            ["bad list: .* it has a key '0'"] = { [0] = f, f },
            ["bad list: .* it has a key '1.5'"] = { f, [1.5] = f },
        } do
            assert.error_matches(function() redlock.wait_all(list) end, text)
        end
        assert.is_true(redlock.wait_all {})
        assert.is_true(f:cancel())
        assert.is_true(redlock.wait_all { f })
    end)

    it("is waited for with all others, also when the time is over", function()
        somebody_has "x"
        local free = client:getLock("free"):tryLockAsync(5)
        local busy = client:getLock("x"):tryLockAsync(5)
        -- Its answer is there when it is looked for, and the time is over by then.
        support.eventually(function() return cluster:having "free" == 3 end)
        support.sleep(0.05)
        support.fails("timeout", redlock.wait_all({ free, busy }, 0))
        assert.is_true(free:isDone())
        assert.is_false(busy:isDone())
        assert.is_true(busy:cancel())
    end)
end)
