-- What a process keeps of names and callers that are done with.
local ffi = require "ffi"
local support = require "spec.support"

ffi.cdef [[
    struct mallinfo2 { size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks,
        fordblks, keepcost; };
    struct mallinfo2 mallinfo2(void);
]]

-- Bytes that C has in use. LuaJIT has an allocator of its own.
local function allocated()
    return tonumber(ffi.C.mallinfo2().uordblks)
end

-- What act() has left in the heap of Lua: bytes.
local function left_by(act)
    local function heap()
        jit.flush()                      -- what was compiled counts as well
        collectgarbage()
        collectgarbage()
        return collectgarbage "count" * 1024
    end
    local before = heap()
    act()
    return heap() - before
end

describe("a client keeps nothing", function()
    local cluster, client, other

    support.two_clients(3, {}, function(...) cluster, client, other = ... end)

    -- How many releases are unanswered at once, and so what pools keep, depends on the servers.
    -- But in the end n calls add nothing; a leak would be in each.
    local function adds_nothing(to, n, call, name)
        local grown
        for round = 1, 12 do
            local before = allocated()
            for _ = 1, n do
                call()
            end
            collectgarbage()
            collectgarbage()
            support.eventually(function()          -- the last releases are answered
                to:getLock("turn"):isLocked()
                return to:stats().owed == 0
            end)
            grown = allocated() - before
            if round > 1 and grown < n * 64 then
                return
            end
        end
        error(("%s: %d bytes"):format(name, grown))
    end

    it("of names that somebody else waited for as well", function()
        -- So that each release is told to somebody, whichever servers are the first to answer.
        local listeners = {}
        for i, server in ipairs(cluster) do
            listeners[i] = support.connect(server.port)
            assert(listeners[i]:call("PSUBSCRIBE", "*"))
        end
        local LEN, NAMES = 5000, 400
        local function use(i)
            local l = client:getLock(("%d "):format(i) .. ("n"):rep(LEN))
            assert(l:tryLock(0, 10))
            assert(l:unlock())
        end
        use(0)
        local left = left_by(function()
            for i = 1, NAMES do
                use(i)
            end
            for i = -2, -1 do
                support.sleep(1.1)               -- so long names that others waited for are known
                use(i)
            end
        end)
        assert.is_true(left < LEN * NAMES / 4, left .. " bytes")
        for _, listener in ipairs(listeners) do
            listener:close()
        end
    end)

    it("of callers who gave up while others wait on", function()
        assert.is_true(other:getLock("x"):tryLock())
        local first = client:getLock("x", { owner = "first" }):lockAsync()
        local function give_up(n)
            local futures = {}
            for i = 1, n do
                futures[i] = client:getLock("x", { owner = i }):tryLockAsync(0.001)
            end
            local last = client:getLock("x", { owner = "last" }):lockAsync()
            for i = 1, n do
                support.fails("held", futures[i]:get(30))
            end
            assert.is_true(last:cancel())
        end
        give_up(100)
        local CALLERS = 5000
        local left = left_by(function()
            for _ = 1, CALLERS / 100 do
                give_up(100)
            end
        end)
        assert.is_true(left < CALLERS * 40, left .. " bytes")
        assert.equal(1, client:stats().waiting)
        assert.is_true(other:getLock("x"):unlock())
        assert.is_true(first:get(30))
        assert.is_true(client:getLock("x", { owner = "first" }):unlock())
    end)

    it("of releases that nobody can wait for", function()
        local waits = true
        local careful = support.client(cluster, { host = setmetatable({
            can_wait = function() return waits end }, { __index = require "redlock.host.plain" }) })
        local l = careful:getLock "x"
        adds_nothing(careful, 500, function()
            assert(l:tryLock(5, 10))
            waits = false
            assert(l:unlock())
            waits = true
        end, "releases")
        careful:close()
    end)

    it("of calls that are done, whatever came of them", function()
        local l, late = client:getLock "x", client:getLock("late", { owner = 2 })
        local sem = client:getSemaphore("s", 1)
        local read = client:getReadWriteLock("rw"):readLock()
        assert.is_true(other:getLock("held"):tryLock())
        local permit = assert(other:getSemaphore("p", 1):tryAcquire())
        assert.is_true(other:getCountDownLatch("latch"):trySetCount(1))
        local function gives_up(lock) support.fails("held", lock:tryLock(0.002)) end
        local calls = {
            had = function() assert(l:tryLock() and l:extend() and l:isLocked() and l:unlock()) end,
            ["had as futures"] = function()
                assert(l:tryLockAsync():get(5) and l:extendAsync():get(5))
                assert(l:unlockAsync():get(5))
            end,
            refused = function() support.fails("held", client:getLock("held"):tryLock()) end,
            ["given up"] = function() gives_up(client:getLock "held") end,
            ["given up in line"] = function() gives_up(client:getFairLock "held") end,
            ["given up for a token"] = function() gives_up(client:getFencedLock "held") end,
            ["given up for two"] = function() gives_up(client:getMultiLock { "held", "x" }) end,
            ["given up to read"] = function()
                gives_up(client:getReadWriteLock("held"):readLock())
            end,
            ["given up as a future"] = function()
                support.fails("held", client:getLock("held"):tryLockAsync(0.002):get(5))
            end,
            ["a future not waited for"] = function()
                local future = client:getLock("held"):tryLockAsync(5)
                future:get(0.001)
                future:cancel()
            end,
            taken = function()
                assert(l:tryLock(0, 20) and other:getLock("x"):forceUnlock())
                l:unlock()               -- a late server may have had it still
            end,
            ["taken again after its end"] = function()
                assert(late:tryLock(5, 0.03))
                support.eventually(function() return not late:isValid() end)
                assert(late:tryLock() and late:unlock())
            end,
            ["a reader's"] = function() assert(read:tryLock() and read:unlock()) end,
            ["a permit"] = function() assert(sem:tryAcquire()):release() end,
            ["no permit"] = function()
                support.fails("held", client:getSemaphore("p", 1):tryAcquire(0.002))
            end,
            ["a latch not open"] = function() client:getCountDownLatch("latch"):await(0.002) end,
        }
        for name, call in pairs(calls) do
            adds_nothing(client, 30, call, name)
        end
        permit:release()
        assert.is_true(other:getLock("held"):unlock())
    end)

    it("of a queue's order when some in it give up", function()
        assert.is_true(other:getLock("x"):tryLock())
        local got, futures = {}, {}
        for i = 1, 200 do
            local l = client:getLock("x", { owner = i })
            -- Only every tenth has patience.
            futures[i] = l:tryLockAsync(i % 10 == 0 and 60 or 0.001)
        end
        for i = 1, 200 do
            if i % 10 ~= 0 then
                assert.equal("held", select(2, futures[i]:get(30)).code)
            end
        end
        assert.is_true(other:getLock("x"):unlock())
        for i = 10, 200, 10 do
            assert.is_true(futures[i]:get(30))
            for k = i + 10, 200, 10 do
                assert.is_false(futures[k]:isDone())
            end
            got[#got + 1] = i
            assert.is_true(client:getLock("x", { owner = i }):unlock())
        end
        assert.equal(20, #got)
        assert.equal(0, client:stats().waiting)
    end)
end)
