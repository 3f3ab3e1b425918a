-- Cards: whose a lock is, in the lock's value, for who is refused and who asks.
local cjson = require "cjson"
local support = require "spec.support"

describe("the card of a lock", function()
    local cluster, client, other, lock

    before_each(function()
        cluster = support.cluster(5)
        client = support.warm_client(cluster, { label = "web-1 shop" })
        other = support.warm_client(cluster)
        lock = client:getLock("x", { label = "invoice 42" })
    end)
    after_each(function()
        client:close()
        other:close()
    end)

    local function put(value, from, to)
        support.all(cluster, from or 1, to or 5):call("SET", "x", value, "PX", 30000)
    end

    -- What the first server has; a majority was enough for the lock.
    local function value()
        return support.eventually(function() return cluster[1]:call("GET", "x") end)
    end

    local DIGITS = ("0123456789abcdef"):rep(3):sub(1, 40)

    local function refused(kind)
        local ok, err = (kind or other:getLock "x"):tryLock()
        assert.is_nil(ok)
        assert.equal("held", err.code, tostring(err))
        return err
    end

    it("is said to who is refused, for locks of all kinds", function()
        assert.is_true(lock:tryLock(0, 20))
        for _, kind in ipairs { other:getLock "x", other:getFencedLock "x", other:getFairLock "x",
            other:getReadWriteLock("x"):readLock(), other:getReadWriteLock("x"):writeLock(),
            other:getMultiLock { "w", "x" } } do
            local err = refused(kind)
            assert.equal("web-1 shop: invoice 42", err.holder.label)
            assert.is_true(math.abs(err.holder.since - os.time()) < 60)
            assert.is_true(err.holder.remaining > 1 and err.holder.remaining <= 20)
            assert.matches(" held by somebody else (web-1 shop: invoice 42): redis://", err, 1,
                true)
        end
    end)

    it("is that of the kind that has it", function()
        for _, kind in ipairs { client:getFencedLock "x", client:getFairLock "x",
            client:getReadWriteLock("x"):writeLock(), client:getMultiLock { "x", "y" } } do
            assert.is_true(kind:tryLock(0, 20))
            assert.equal("web-1 shop", refused().holder.label)
            assert.equal("web-1 shop", kind:holder().label)
            assert.is_true(kind:unlock())
        end
    end)

    it("is told by holder(), with or without a card, and of a free name", function()
        assert.is_false(other:getLock("x"):holder())
        assert.is_true(lock:tryLock(0, 20))
        local holder = other:getLock("x"):holder()
        assert.equal("web-1 shop: invoice 42", holder.label)
        assert.is_true(holder.remaining > 1 and holder.remaining <= 20)
        put "of redsync, say"
        holder = other:getLock("x"):holder()
        assert.is_nil(holder.label)
        assert.is_true(holder.remaining > 20)
    end)

    it("is host, process and program unless it is given", function()
        assert.is_true(other:getLock("x"):tryLock())
        local label = refused(lock).holder.label
        local host, pid = label:match "^(%S+) (%d+) %S"
        local pipe = io.popen "cat /proc/sys/kernel/hostname"
        assert.equal(pipe:read "*l", host)
        pipe:close()
        assert.equal(io.open "/proc/self/stat":read "*n", tonumber(pid))
    end)

    it("is not there with label = false, and nobody is named", function()
        local quiet = support.warm_client(cluster, { label = false })
        assert.is_true(quiet:getLock("x", { label = "secret" }):tryLock())
        assert.equal(40, #value())
        local err = refused()
        assert.is_nil(err.holder)
        assert.matches("(by a program that does not say who it is)", err, 1, true)
        assert.is_nil(other:getLock("x"):holder().label)
        quiet:close()
    end)

    it("never comes with the digits that prove the lock", function()
        local seen = {}
        local fast = support.client(cluster, { on_event = function(e) seen[#seen + 1] = e end })
        assert.is_true(lock:tryLock(0, 20))
        local digits = value():sub(1, 40)
        local l = fast:getLock "x"
        seen[#seen + 1] = select(2, l:tryLock())
        seen[#seen + 1] = select(2, l:tryLock(0.1))
        seen[#seen + 1] = l:holder()
        seen[#seen + 1] = tostring(seen[2])
        local text = cjson.encode(seen)
        assert.matches("invoice 42", text, 1, true)
        for at = 1, 33 do
            assert.is_nil(text:find(digits:sub(at, at + 7), 1, true))
        end
        fast:close()
    end)

    it("has nothing that acts on a terminal or breaks a line", function()
        local dirty = support.client(cluster, { label = "a\27[2J\n\200b" })
        assert.is_true(dirty:getLock("x", { label = "\r\0z" }):tryLock())
        assert.equal("a?[2J??b: ??z", refused().holder.label)
        put(DIGITS .. " 19ab0000000 x\27[31m\n\155")
        assert.equal("x?[31m??", refused().holder.label)
        dirty:close()
    end)

    it("has a label of at most 160 bytes", function()
        local pid = io.open "/proc/self/stat":read "*n" .. ""
        for label, cut in pairs {
            [("%p"):rep(80)] = pid:rep(math.floor(160 / #pid)),
            [("x"):rep(161 - #pid) .. "%p"] = ("x"):rep(161 - #pid),
            [("x"):rep(157)] = ("x"):rep(157) .. ": ",
        } do
            local long = support.client(cluster, { label = label })
            local held = long:getLock("x", { label = "%p" .. ("y"):rep(158) })
            assert.is_true(held:tryLock())
            assert.equal(cut, refused().holder.label)
            long:close()
        end
        assert.has_error(function() support.client(cluster, { label = ("x"):rep(161) }) end)
        assert.has_error(function() support.client(cluster, { label = "" }) end)
        assert.has_error(function() client:getLock("x", { label = 7 }) end)
    end)

    it("names whom a majority names, though one server is frozen and one lies", function()
        assert.is_true(lock:tryLock(0, 30))
        support.eventually(function() return cluster:keys() == 5 end)
        local digits, since, label = value():match "^(%x+) (%x+) (.*)$"
        cluster[1]:freeze()
        -- Not so while another server has yet to answer: two of five are no majority.
        local function held()
            return support.eventually(function()
                local ok, err = other:getLock("x"):tryLock()
                assert.is_nil(ok)
                return err.code == "held" and err
            end)
        end
        for _, lie in ipairs { DIGITS .. " " .. since .. " mallory", "mallory",
            digits .. " " .. since .. " mallory", digits, digits .. " 1 " .. label } do
            cluster[2]:call("SET", "x", lie, "PX", 30000)
            for _ = 1, 5 do
                assert.equal("web-1 shop: invoice 42", held().holder.label)
                assert.equal("web-1 shop: invoice 42", other:getLock("x"):holder().label)
            end
        end
        cluster[2]:call("DEL", "x")
        assert.equal("web-1 shop: invoice 42", held().holder.label)
    end)

    it("names nobody whom no majority names", function()
        put(DIGITS .. " 19ab0000000 mallory", 1, 2)
        put(("f"):rep(40) .. " 19ab0000000 carol", 3, 4)
        put(("e"):rep(40) .. " 19ab0000000 dave", 5, 5)
        local err = support.fails("no_quorum", other:getLock("x"):tryLock())
        assert.is_nil(err.holder)
        assert.matches("(the votes were split among ", err, 1, true)
        assert.is_false(other:getLock("x"):holder())
    end)

    it("names nobody for readers and permits, of which there may be many", function()
        assert.is_true(client:getReadWriteLock("x"):readLock():tryLock())
        local err = refused(other:getReadWriteLock("x"):writeLock())
        assert.is_nil(err.holder)
        assert.matches("is held by somebody else: redis://", err, 1, true)
        assert.truthy(client:getSemaphore("s", 1):tryAcquire())
        local permit
        permit, err = other:getSemaphore("s", 1):tryAcquire()
        assert.is_nil(permit)
        assert.is_nil(err.holder)
    end)

    it("is named when those who wait meet at one server first", function()
        assert.is_true(lock:tryLock(0, 20))
        local futures = {}
        for i = 1, 8 do
            futures[i] = other:getLock("x", { owner = i }):tryLockAsync(0.3)
        end
        for i = 1, 8 do
            local ok, err = futures[i]:get(20)
            assert.is_nil(ok)
            assert.equal("web-1 shop: invoice 42", err.holder.label)
        end
    end)

    it("is named of another owner of the same process", function()
        assert.is_true(lock:tryLock(0, 20))
        local ok, err = client:getLock("x", { owner = 1 }):tryLockAsync(0.1):get()
        assert.is_nil(ok)
        assert.equal("web-1 shop: invoice 42", err.holder.label)
        assert.is_true(err.holder.remaining > 1)
    end)

    it("is the next owner's when a hold is passed on", function()
        assert.is_true(lock:tryLock())
        local next_one = client:getLock("x", { owner = 1, label = "invoice 43" })
        local future = next_one:tryLockAsync(20)
        support.eventually(function()
            future:isDone()
            return client:stats().waiting == 1
        end)
        assert.is_true(lock:unlock())
        assert.is_true(future:get(20))
        local err = refused()
        assert.equal("web-1 shop: invoice 43", err.holder.label)
        assert.is_true(next_one:unlockAsync():get())
        assert.is_false(other:getLock("x"):holder())
    end)

    it("is the importer's when another process takes the hold over", function()
        assert.is_true(lock:tryLock())
        local taker = support.warm_client(cluster, { label = "web-2 ship" })
        local there = assert(taker:import(lock:export()))
        assert.equal("web-2 ship", refused(client:getLock "x").holder.label)
        assert.is_true(there:unlock())
        taker:close()
        support.eventually(function() return cluster:keys() == 0 end)
    end)

    it("is put back with the lock on a server that lost it", function()
        local quick = support.warm_client(cluster, { lease = 2, label = "quick" })
        assert.is_true(quick:getLock("x"):tryLock())
        local whole = value()
        cluster[2]:call("DEL", "x")
        support.eventually(function()
            return quick:getLock("x"):isValid() and cluster[2]:call("GET", "x") == whole
        end)
        quick:close()
    end)

    it("tells who lost a lock who has taken it, also where one server lies", function()
        local seen = {}
        local quick = support.warm_client(cluster, { lease = 2, on_event = function(e)
            seen[e.type] = e
        end })
        for liar = 0, 1 do
            local l, reason, holder = quick:getLock("x"), nil, nil
            assert.is_true(l:tryLock())
            assert.is_true(l:onLost(function(_, why, who) reason, holder = why, who end))
            put(DIGITS .. " 19ab0000000 carol")
            if liar == 1 then
                cluster[1]:freeze()
                cluster[2]:call("SET", "x", DIGITS .. " 19ab0000000 mallory", "PX", 30000)
            end
            support.eventually(function() return not l:isValid() and reason end)
            assert.equal("taken", reason)
            assert.is_true(holder == nil and liar == 1 or holder.label == "carol")
            assert.is_true(seen.lost.holder == holder)
            l:unlock()
            support.all(cluster, liar + 1, 5):call("DEL", "x")
        end
        quick:close()
    end)

    it("has the number of the process that took it, also after a fork", function()
        local c = support.child(cluster, nil, [[
            local ffi = require "ffi"
            ffi.cdef "int fork(void); int getpid(void); int waitpid(int, int *, int);"
            assert(client:getLock("mine"):tryLock())
            local pid = ffi.C.fork()
            if pid == 0 then
                assert(client:getLock("child"):tryLock(10))
                print(ffi.C.getpid(), (client:getLock("child"):holder().label:match " (%d+) "))
                os.exit(0)
            end
            ffi.C.waitpid(pid, nil, 0)
        ]])
        assert.equal("ready", c:read_line(30))
        local pid, told = c:read_line(30):match "^(%d+)%s+(%d+)$"
        assert.equal(pid, told)
        c:wait(10)
    end)
end)
