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
        assert.is_true(other:getLock("x"):tryLock(0, 60))
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
        -- How many releases are unanswered at once, and so what pools keep, depends on the servers.
        -- But in the end a round adds nothing; a leak would be in each.
        local grown
        for round = 1, 12 do
            local before = allocated()
            for _ = 1, 500 do
                waits = true
                assert(l:tryLock(5, 10))
                waits = false
                assert(l:unlock())
            end
            waits = true
            support.eventually(function()          -- the last releases are answered
                careful:getLock("turn"):isLocked()
                return careful:stats().owed == 0
            end)
            grown = allocated() - before
            if round > 1 and grown < 500 * 64 then
                break
            end
        end
        assert.is_true(grown < 500 * 64, grown)
        careful:close()
    end)

    it("of a queue's order when some in it give up", function()
        assert.is_true(other:getLock("x"):tryLock(0, 60))
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
