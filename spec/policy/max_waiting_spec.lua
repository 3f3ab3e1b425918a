-- How many may wait in one process: one more is told at once, and nothing of it stays.
local support = require "spec.support"

describe("max_waiting among futures", function()
    local cluster = support.shared_cluster(3)
    local client, other

    setup(function() other = support.warm_client(cluster) end)
    before_each(function() client = support.warm_client(cluster, { max_waiting = 3 }) end)
    after_each(function() client:close() end)

    local function own(name, owner)
        return client:getLock(name, { owner = owner })
    end

    -- A call that fails at once, because others wait.
    local function is_refused(name, owner, wait)
        local started = support.now()
        local err = support.fails("overload", own(name, owner):tryLockAsync(wait or 60):get(50))
        assert.matches("max_waiting", tostring(err), 1, true)
        assert.matches("'" .. name .. "'", tostring(err), 1, true)
        assert.is_true(support.now() - started < 30)
    end

    it("refuses one more, whatever the name, and lets the others have it", function()
        assert.is_true(own("a", 0):tryLock())
        assert.is_true(own("b", 0):tryLock())
        local futures = {}
        for i = 1, 3 do
            futures[i] = own(i < 3 and "a" or "b", i):lockAsync()
        end
        assert.equal(3, client:stats().waiting)
        is_refused("a", 4)
        is_refused("b", 4)
        assert.equal(2, client:stats().overloaded)
        assert.equal(2, client:stats().failed)
        assert.equal(3, client:stats().waiting)
        assert.is_true(own("c", 4):lockAsync():get(5))      -- it need not wait
        local ok, err = own("a", 4):tryLockAsync():get(5)   -- nor does it want to
        assert.is_nil(ok)
        assert.equal("held", err.code)
        assert.is_true(own("a", 0):unlock())
        assert.is_true(futures[1]:get(5))
        local waiter = own("a", 4):tryLockAsync(10)         -- there is a place again
        is_refused("a", 5)
        assert.is_true(own("a", 1):unlock())
        assert.is_true(futures[2]:get(5))
        assert.is_true(own("a", 2):unlock())
        assert.is_true(waiter:get(5))
        assert.is_true(own("b", 0):unlock())
        assert.is_true(futures[3]:get(5))
        assert.equal(0, client:stats().waiting)
        assert.equal(3, client:stats().overloaded)
    end)

    it("refuses who finds that another process has it, when others wait for other names", function()
        for _, name in ipairs { "a", "b" } do
            assert.is_true(other:getLock(name):tryLock(0, 30))
        end
        local first = own("a", 1):lockAsync()
        for i = 2, 3 do
            own("a", i):lockAsync()
        end
        support.eventually(function()
            return not first:isDone() and client:stats().waiting == 3
        end)
        is_refused("b", 4)
        assert.equal(3, client:stats().waiting)
        assert.is_true(own("c", 4):lockAsync():get(5))
        assert.is_true(other:getLock("b"):unlock())
        assert.is_true(own("b", 4):lockAsync():get(5))
        assert.is_true(other:getLock("a"):unlock())
    end)

    it("counts nobody who has given up, was cancelled, or failed", function()
        assert.is_true(other:getLock("a"):tryLock(0, 30))
        for _ = 1, 5 do
            local short, gone, long = own("a", 1):tryLockAsync(0.5), own("a", 2):lockAsync(),
                own("a", 3):lockAsync()
            is_refused("a", 4, 0.5)
            assert.equal("held", select(2, short:get(5)).code)
            assert.is_true(gone:cancel())
            assert.is_true(long:cancel())
            assert.equal(0, client:stats().waiting)
        end
        cluster:each(function(s) s:freeze() end)
        local futures = {}
        for i = 1, 3 do
            futures[i] = own("b", i):tryLockAsync(0.1)
        end
        for i = 1, 3 do
            assert.is_nil((futures[i]:get(10)))
        end
        cluster:each(function(s) s:thaw() end)
        assert.equal(0, client:stats().waiting)
        assert.is_true(other:getLock("a"):unlock())
        assert.is_true(own("a", 1):lockAsync():get(10))
    end)

    it("counts readers that wait, in no queue of this process, and none that left", function()
        local function reader(owner)
            return client:getReadWriteLock("rw", { owner = owner }):readLock()
        end
        local writer, futures = other:getReadWriteLock("rw"):writeLock(), {}
        assert.is_true(writer:tryLock(0, 30))
        for i = 1, 3 do
            futures[i] = reader(i):lockAsync()
        end
        support.eventually(function()
            return not futures[1]:isDone() and client:stats().waiting == 3
        end)
        support.fails("overload", reader(4):tryLockAsync(60):get(50))
        assert.is_true(futures[1]:cancel())
        support.fails("held", reader(4):tryLockAsync(0.3):get(50))
        assert.equal(2, client:stats().waiting)
        assert.is_true(writer:unlock())
        for i = 2, 3 do
            assert.is_true(futures[i]:get(10))
        end
        assert.equal(0, client:stats().waiting)
    end)

    it("is of one client, and ends with it", function()
        local c = support.warm_client(cluster, { max_waiting = 1 })
        assert.is_true(other:getLock("a"):tryLock(0, 30))
        local f = c:getLock("a", { owner = 1 }):lockAsync()
        for i = 1, 3 do
            own("a", i):lockAsync()
        end
        support.eventually(function()
            return not f:isDone() and c:stats().waiting == 1
        end)
        is_refused("a", 4)
        assert.equal(3, client:stats().waiting)
        assert.is_true(c:close())
        assert.equal("closed", select(2, f:get(5)).code)
        assert.equal(0, c:stats().waiting)
        assert.is_true(other:getLock("a"):unlock())
    end)
end)
