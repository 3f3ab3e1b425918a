-- Many readers or one writer: of the read-write lock, and of everybody who locks the name.
local support = require "spec.support"

describe("a read-write lock", function()
    local cluster, client, other

    support.two_clients(5, { lease = 3, fallback = 0.3, timeout = 5 },
        function(...) cluster, client, other = ... end)

    local function pair(owner, c)
        return (c or client):getReadWriteLock("x", { owner = owner })
    end
    local function reader(owner, c) return pair(owner, c):readLock() end
    local function writer(owner, c) return pair(owner, c):writeLock() end

    -- A majority has it: a late server may not be asked again, and keeps what force was not told.
    local function most_have(kind)
        support.eventually(function()
            local n = 0
            cluster:each(function(s) n = n + (s:call("TYPE", "x") == kind and 1 or 0) end)
            return 2 * n > #cluster
        end)
    end

    it("has readers side by side, and keeps out writers of all kinds", function()
        local a, b = reader(1), reader(2, other)
        assert.is_true(a:tryLock(1))
        assert.is_true(b:tryLock(1, 10))
        most_have "zset"
        support.fails("held", writer(3, other):tryLock(0, 10))
        support.fails("held", other:getLock("x"):tryLock(0, 10))
        support.fails("held", other:getFencedLock("x"):tryLock(0, 10))
        cluster:await_idle()
        assert.is_nil(cluster[1]:call("SET", "x", "foreign", "NX", "PX", 1000))
        assert.is_true(a:isLocked())
        assert.is_false(writer(3):isLocked())
        assert.is_true(a:remainTimeToLive() > 8)
        assert.is_true(a:unlock())
        support.fails("held", writer(3, other):tryLock(0, 10))
        assert.is_true(b:unlock())
        assert.is_true(writer(3, other):tryLock(1, 10))
    end)

    it("has one writer, who keeps out writers and readers of all kinds", function()
        local w = writer(1)
        assert.is_true(w:tryLock(1))
        most_have "string"
        support.fails("held", reader(2, other):tryLock(0, 10))
        support.fails("held", writer(2, other):tryLock(0, 10))
        support.fails("held", other:getLock("x"):tryLock(0, 10))
        assert.is_true(w:isLocked())
        assert.is_false(reader(2):isLocked())
        assert.is_true(w:unlock())
        for _, kind in ipairs { "getLock", "getFencedLock" } do
            local l = other[kind](other, "x")
            assert.is_true(l:tryLock(1, 10))
            support.fails("held", reader(2):tryLock(0, 10))
            support.fails("held", writer(2):tryLock(0, 10))
            assert.is_true(l:unlock())
        end
    end)

    it("counts no token for a fenced lock that readers keep out", function()
        local fenced = other:getFencedLock "x"
        local token = select(2, assert(fenced:tryLock(5, 10)))
        assert.is_true(fenced:extend())
        local function counted()                 -- by each server
            local n = 0
            cluster:each(function(s)
                local text = s:call("GET", "redlock:{x}:fence") or ""
                n = n + (text:sub(9):match "^%d+" == ("%.0f"):format(token) and 1 or 0)
            end)
            return n == #cluster
        end
        support.eventually(counted)
        assert.is_true(fenced:unlock())
        assert.is_true(reader(1):tryLock(1, 10))
        most_have "zset"
        for _ = 1, 3 do
            support.fails("held", fenced:tryLock(0, 10))
        end
        assert.is_true(counted())
        assert.is_true(reader(1):unlock())
        local _, next_token = assert(fenced:tryLock(5, 10))
        assert.is_true(next_token > token and next_token < token + 3)    -- two: an answer was late
    end)

    it("keeps its readers where a fenced lock has lost a server to them", function()
        local fenced, server = other:getFencedLock "x", cluster[5]
        assert.is_true(fenced:tryLock(5, 10))
        most_have "string"
        local function healed()              -- the answers of all are awaited
            other:getLock("turn"):isLocked()
            return server:call("TYPE", "x") == "string"
        end
        server:call("DEL", "x")
        assert.is_true(fenced:extend())
        support.eventually(healed)
        server:call("DEL", "x")
        server:call("ZADD", "x", "99999999999999", "1 somebody")
        server:call("CONFIG", "RESETSTAT")
        assert.is_true(fenced:extend())
        support.eventually(function()        -- the extension, what follows it, and who asks
            healed()
            return server:calls_of "evalsha" >= 4
        end)
        assert.equal("zset", server:call("TYPE", "x"))
        assert.is_true(fenced:unlock())
    end)

    it("is shared by owners of one thread, who do not wait for each other", function()
        local a, b = reader(1), reader(2)
        assert.is_true(a:lock())
        assert.is_true(b:lock())             -- no `deadlock`
        support.fails("deadlock", writer(3):lock())
        support.fails("deadlock", client:getLock("x", { owner = 3 }):lock())
        assert.is_true(a:unlock())
        assert.is_true(b:unlock())
    end)

    it("lets a thousand readers of one loop in at once", function()
        local futures, c = {}, support.warm_client(cluster, { lease = 3, timeout = 20 })
        for i = 1, 1000 do
            futures[i] = reader(i, c):tryLockAsync(30, 50)
        end
        for i = 1, 1000 do
            assert.is_true(futures[i]:get(60))
        end
        local votes = 0                      -- a server that is behind has not all of them
        cluster:each(function(s) votes = votes + s:call("ZCARD", "x") end)
        assert.is_true(votes >= 3000, votes .. " votes")
        for i = 1, 1000 do
            assert.is_true(reader(i, c):isValid())
        end
        for i = 1, 1000 do
            futures[i] = reader(i, c):unlockAsync()
        end
        for i = 1, 1000 do
            assert.is_true(futures[i]:get(60))
        end
        cluster:await_free()
        c:close()
    end)

    it("lasts as long as the longest of its readers, whatever becomes of shorter ones", function()
        assert.is_true(reader(1):tryLock(0, 60))
        local c = support.child(cluster, "{}", [[
            assert(client:getReadWriteLock("x"):readLock():tryLock(5, 2))
            print "reads"
            io.read()
        ]])
        assert.equal("ready", c:read_line(30))
        assert.equal("reads", c:read_line(30))
        local function lasts()
            cluster:await_idle():each(function(s)
                assert.is_true(s:call("PTTL", "x") > 30000)
            end)
        end
        c:kill "KILL"
        lasts()
        assert.is_true(reader(2, other):tryLock(5, 2))
        lasts()
        assert.is_true(reader(2, other):unlock())
        lasts()
        support.sleep(2.1)                           -- the lease of the one that was killed
        assert.is_true(reader(1):stillMine())
        support.fails("held", writer(3, other):tryLock(0, 10))
        assert.is_true(reader(1):unlock())
        assert.is_true(writer(3, other):tryLock(5, 10))
    end)

    it("lasts no longer than a reader that is left, who may be dead", function()
        assert.is_true(reader(1):tryLock(0, 60))
        assert.is_true(reader(2, other):tryLock(5, 1))
        assert.is_true(reader(1):unlock())
        assert.is_true(writer(3):tryLock(20, 10))
    end)

    it("says of a reader that has lost it whether a writer has it", function()
        for _, code in ipairs { "expired", "held" } do
            assert.is_true(reader(1):tryLock(5, 10))
            support.eventually(function() return cluster:keys() == #cluster end)
            cluster:each(function(s) s:call("DEL", "x") end)
            assert.is_true(code == "expired" or writer(2, other):tryLock(0, 10))
            support.fails(code, reader(1):unlock())
        end
    end)

    it("is asked for by one of the readers of a process that wait for it", function()
        assert.is_true(writer(1):tryLock(0, 50))
        local few = support.asked_by_waiters(cluster[1], other, function(i)
            return reader(i, other):tryLockAsync(40, 50)
        end)
        assert.is_true(few < 50, few .. " scripts in a fallback")
        assert.is_true(writer(1):unlock())
    end)

    it("closes the door for new readers while a writer waits, and as long", function()
        local a = reader(1)
        assert.is_true(a:tryLock(1, 10))
        local writing = writer(2, other):tryLockAsync(30, 10)
        support.eventually(function()
            writing:isDone()
            return cluster:having "redlock:{x}:door" >= 2
        end)
        support.fails("held", reader(3):tryLock(0, 10))
        assert.is_true(a:isValid())
        assert.is_true(a:extend(10))         -- who is in stays in
        assert.is_true(a:unlock())
        assert.is_true(writing:get(20))
        assert.is_true(writer(2, other):unlock())
        assert.is_true(reader(3):tryLock(1, 10))
        assert.is_true(reader(3):unlock())
        cluster:await_free()
    end)

    it("opens the door when the writer gives up", function()
        local a = reader(1)
        assert.is_true(a:tryLock(1, 10))
        support.fails("held", writer(2, other):tryLock(0.1, 10))
        support.eventually(function() return cluster:having "redlock:{x}:door" == 0 end)
        assert.is_true(reader(3):tryLock(0, 10))
    end)

    it("opens the door when the writer leaves that waited", function()
        assert.is_true(reader(1):tryLock(1, 50))
        local waits = writer(2, other):tryLockAsync(60, 10)
        support.eventually(function()
            return not waits:isDone() and cluster:having "redlock:{x}:door" >= 3
        end)
        assert.is_true(reader(1):unlock())
        assert.is_true(waits:get(20))
        assert.is_true(writer(2, other):unlock())
        assert.is_true(cluster:having "redlock:{x}:door" <= 2)       -- a majority has answered
    end)

    it("leaves the door alone for a writer that does not wait", function()
        assert.is_true(reader(1):tryLock(1, 10))
        support.fails("held", writer(2, other):tryLock(0, 10))
        assert.equal(0, cluster[1]:call("EXISTS", "redlock:{x}:door"))
    end)

    it("is entered to read by who writes, and goes on as a reader", function()
        local w, r = writer(1), reader(1)
        assert.is_true(w:tryLock(1, 10))
        local before = client:stats().nodes[1].requests
        assert.is_true(r:lock(9))
        assert.is_true(r:tryLock(0, 9))
        assert.equal(before, client:stats().nodes[1].requests)
        assert.same({ 1, 2 }, { w:getHoldCount(), r:getHoldCount() })
        assert.is_true(r:isValid())
        assert.equal(r, r:check())
        assert.is_true(r:unlock())
        local stranger = writer(2, other):tryLockAsync(30, 10)
        stranger:isDone()
        assert.is_true(w:unlock())
        most_have "zset"
        assert.is_false(w:isValid())
        assert.is_true(r:isValid())
        assert.is_false(stranger:isDone())
        support.fails("not_held", w:unlock())
        assert.is_true(r:extend(10))
        assert.is_true(r:unlock())
        assert.is_true(stranger:get(20))
        assert.is_true(writer(2, other):unlock())
    end)

    it("is entered to read by who writes as a future, too", function()
        assert.is_true(writer(1):tryLock(1))
        assert.is_true(reader(1):tryLockAsync(0):get())
        assert.equal(1, reader(1):getHoldCount())
        assert.is_true(reader(1):unlock())
        assert.is_true(writer(1):unlock())
    end)

    it("stays as it is for a writer that reads and would close the name", function()
        local w, r = writer(1), reader(1)
        assert.is_true(w:tryLock(1, 10))
        assert.is_true(r:lock(10))
        support.fails("unsupported", w:unlock { closed_for = 1 })
        support.fails("unsupported", w:settle(1))
        support.fails("unsupported", w:export())
        assert.is_true(w:settle(12, { keep = true }))
        assert.same({ 1, 1 }, { w:getHoldCount(), r:getHoldCount() })
        assert.is_true(r:unlock())
        assert.is_true(w:unlock { closed_for = 1 })
    end)

    it("tells of who writes and reads by either view", function()
        local r, w = reader(1), writer(1)
        assert.is_true(w:tryLock(1, 20))
        assert.is_false(r:isLocked())                    -- nobody reads
        assert.is_true(r:tryLock())
        assert.is_true(r:isHeldByCurrentThread())
        assert.is_true(r:isLocked())
        assert.equal(w:holder().label, r:holder().label)
        assert.is_true(r:remainTimeToLive() > 15)
        assert.is_true(r:votes() >= 3)
        assert.is_false(reader(2, other):isLocked())     -- others cannot see it
        assert.is_true(w:unlock())
        assert.is_true(r:isLocked())
        assert.is_true(r:unlock())
        assert.is_false(r:isLocked())
    end)

    it("says of a lock of Redisson that it is held, by no reader", function()
        cluster:each(function(s)
            s:call("HSET", "x", "285475da-9152-4c83-822a-67ee2f116a79:52", "1")
            s:call("PEXPIRE", "x", "30000")
        end)
        assert.is_true(writer(1):isLocked())
        assert.is_false(reader(1):isLocked())
        support.fails("held", writer(1):tryLock())
    end)

    it("is opened by force for readers, for the writer, and for both by a call named so", function()
        for _, fenced in ipairs { false, true } do
            local rw = other:getReadWriteLock("x", { owner = 9, fenced = fenced })
            local r, w = reader(1), client:getReadWriteLock("x", { owner = 1, fenced = fenced })
                :writeLock()
            assert.is_true(r:tryLock(1, 20))
            most_have "zset"
            assert.is_false(rw:writeLock():forceUnlock())
            assert.is_true(r:isLocked())
            assert.is_true(rw:readLock():forceUnlock())
            most_have "none"
            r:unlock()
            assert.is_true(w:tryLock(1, 20))
            most_have "string"
            assert.is_false(rw:readLock():forceUnlock())
            assert.is_true(w:isLocked())
            assert.is_true(rw:writeLock():forceUnlock())
            most_have "none"
            w:unlock()
            for _, view in ipairs { r, w } do
                assert.is_true(view:tryLock(1, 20))
                most_have(view == r and "zset" or "string")
                assert.is_true(rw:forceUnlockBoth())
                most_have "none"
                view:unlock()
            end
            assert.is_false(rw:forceUnlockBoth())
        end
    end)

    it("is opened by force for one reader alone, who is named as by `redlock status`", function()
        local one, two = reader(1), reader(2, other)
        assert.is_true(one:tryLock(1, 20) and two:tryLock(1, 20))
        support.eventually(function() return cluster[3]:call("ZCARD", "x") == 2 end)
        local readers = require("redlock.inspect.detail").ask(client, "x").readers
        assert.equal(2, #readers)
        assert.is_false(one:forceUnlock { holder = "00000000" })
        assert.is_true(one:forceUnlock { holder = readers[1].hold })
        most_have "zset"
        assert.equal(1, (one:stillMine() and 1 or 0) + (two:stillMine() and 1 or 0))
        assert.is_true(one:forceUnlock { holder = readers[2].hold })
        most_have "none"
        one:unlock()
        two:unlock()
    end)

    it("lets others read behind who goes on as a reader, and tells it of a loss", function()
        local w, r, told = writer(1), reader(1), nil
        assert.is_true(w:tryLock(1))
        assert.is_true(r:tryLock(1))
        local reading = reader(2, other):tryLockAsync(30, 10)
        reading:isDone()
        assert.is_true(w:unlock())
        assert.is_true(reading:get(20))
        assert.is_true(r:onLost(function(l, reason) told = { l, reason } end))
        cluster:each(function(s) s:call("SET", "x", "somebody") end)
        support.eventually(function() return not r:isValid() end, 20)
        support.eventually(function()
            r:isValid()
            return told
        end)
        assert.same({ true, "taken" }, { told[1] == r, told[2] })
    end)

    it("is released altogether by releaseAll, also by who writes and reads", function()
        assert.is_true(writer():tryLock(1))
        assert.is_true(reader():tryLock(1))
        assert.is_true(client:releaseAll())
        assert.is_false(reader():isValid())
        cluster:await_free()
    end)

    it("is not entered to write by who reads", function()
        local r, w = reader(1), writer(1)
        assert.is_true(r:lock())
        local from = support.now()
        support.fails("deadlock", w:lock())
        support.fails("deadlock", w:tryLock(30))
        assert.is_true(support.now() - from < 20)
        assert.is_true(r:unlock())
    end)

    it("loses the right to both with the writer's hold", function()
        local w, r = writer(1), reader(1)
        assert.is_true(w:tryLock(5, 0.3))
        assert.is_true(r:tryLock(5, 0.3))
        support.eventually(function() return not r:isValid() end)
        support.fails("expired", w:unlock())
        assert.is_false(r:isValid())
    end)

    it("gives a server the reader again that it lost, also behind a closed door", function()
        local r = reader(1)
        assert.is_true(r:tryLock(1, 10))
        most_have "zset"
        cluster[2]:call("DEL", "x")
        cluster[2]:call("SET", "redlock:{x}:door", "", "PX", 5000)
        support.eventually(function()        -- an answer that is late heals with the next one
            assert.is_true(r:extend(10))
            return cluster[2]:call("TYPE", "x") == "zset"
        end)
        cluster[3]:call("SET", "x", "a writer")
        assert.is_true(r:extend(10))
        assert.equal("a writer", cluster[3]:call("GET", "x"))
    end)

    it("is over with its last reader's time, not sooner", function()
        assert.is_true(reader(1):tryLock(5, 0.3))
        assert.is_true(reader(2):tryLock(1, 3))
        support.sleep(0.4)
        assert.is_false(reader(1):isValid())
        support.fails("held", writer(3, other):tryLock(0, 10))
        assert.is_true(writer(3, other):tryLock(30, 10))
        assert.is_false(reader(2):isValid())
    end)

    it("refuses by name readers of another version's format", function()
        cluster:each(function(s)
            s:call("ZADD", "x", 2e12, "2 abcdef")
            s:call("PEXPIRE", "x", 60000)
        end)
        local err = support.fails("no_quorum", reader(1):tryLock(0, 10))
        assert.matches("the readers of x are of another version", err.message, 1, true)
        support.fails("held", writer(1):tryLock(0, 10))
        assert.equal(1, cluster[1]:call("ZCARD", "x"))
    end)

    it("is exported and imported in both modes", function()
        for _, view in ipairs { reader(1), writer(1) } do
            assert.is_true(view:tryLock(1, 10))
            local text = assert(view:export())
            assert.is_false(view:isValid())
            local imported = assert(other:import(text, { owner = 2 }))
            assert.is_true(imported:isValid())
            assert.is_true(imported:unlock())
            cluster:await_free()
        end
    end)

    it("has no more readers wait in a process than may", function()
        local few = support.warm_client(cluster, { max_waiting = 3, fallback = 0.3 })
        cluster:each(function(s) s:call("SET", "x", "somebody", "PX", 60000) end)
        local futures, codes = {}, {}
        for i = 1, 6 do
            futures[i] = reader(i, few):tryLockAsync(2, 10)
        end
        for i = 1, 6 do
            local ok, err = futures[i]:get(20)
            assert.is_nil(ok)
            codes[err.code] = (codes[err.code] or 0) + 1
        end
        assert.same({ held = 3, overload = 3 }, codes)
        assert.equal(0, few.waiting)
        few:close()
    end)

    it("prints itself", function()
        assert.equal("read-write lock(x)", tostring(pair(1)))
        assert.matches("^read lock%(x, not held%)$", tostring(reader(1)))
    end)
end)
