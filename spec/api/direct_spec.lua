-- Futures of a plain script whose first attempt, or whose release, needs no coroutine: they are
-- as all others.
local support = require "spec.support"

describe("a future without a coroutine", function()
    local cluster, client, other

    before_each(function()
        cluster = support.cluster(3)
        client, other = support.warm_client(cluster), support.warm_client(cluster)
    end)

    local function attempts()
        return tonumber(cluster[1]:call("INFO", "commandstats"):match "cmdstat_set:calls=(%d+)")
            or 0
    end

    it("is that of an attempt that is granted, and of its release", function()
        local l = client:getLock "x"
        local f = l:tryLockAsync(1, 10)
        assert.is_true(f:get())
        assert.is_nil(f.co)
        assert.is_true(l:isValid())
        f = l:unlockAsync()
        assert.is_true(f:get())
        assert.is_nil(f.co)
        assert.equal(0, l:getHoldCount())
        cluster:await_free()
        local stats = client:stats()
        assert.is_true(stats.acquired > 0 and stats.acquired == stats.released)
    end)

    it("keeps what was taken without a lease", function()
        local l = client:getLock "x"
        assert.is_true(l:lockAsync():get())
        assert.is_true(l:remaining() > client.options.lease * 0.9)
        assert.is_true(l:unlockAsync():get())
    end)

    it("goes on in one when it is refused, until the lock is let go", function()
        assert.is_true(other:getLock("x"):tryLock(0, 30))
        local f = client:getLock("x"):lockAsync(10)
        assert.is_false(f:isDone())
        assert.is_nil(select(2, f:get(0.2)).nodes)       -- timeout
        assert.is_true(other:getLock("x"):unlock())
        assert.is_true(f:get(10))
        assert.is_true(client:getLock("x"):unlock())
        assert.is_true(other:getLock("x"):tryLock(5, 30))
        local ok, err = client:getLock("x"):tryLockAsync(0):get(5)
        assert.is_nil(ok)
        assert.equal("held", err.code)
        assert.is_true(err.waited >= 0)
    end)

    it("stands in line: others of the process do not ask beside it", function()
        local locks, futures = {}, {}
        local before = attempts()
        for i = 1, 5 do
            locks[i] = client:getLock("x", { owner = i })
            futures[i] = locks[i]:tryLockAsync(30, 10)
        end
        assert.is_true(futures[1]:get(5))
        support.eventually(function() return attempts() > before end)
        assert.equal(before + 1, attempts())
        for i = 1, 5 do
            assert.is_true(futures[i]:get(10))
            assert.is_true(locks[i]:unlockAsync():get(5))
        end
        cluster:await_free()
    end)

    it("leaves the line when it is cancelled, and nothing behind", function()
        cluster:each(function(s) s:freeze() end)
        local first = client:getLock("x", { owner = 1 }):lockAsync(50)
        local second = client:getLock("x", { owner = 2 }):lockAsync(10)
        assert.is_true(first:cancel())
        cluster:each(function(s) s:thaw() end)
        local ok, err = first:get()
        assert.is_nil(ok)
        assert.equal("cancelled", err.code)
        assert.is_true(second:get(20))
        assert.is_true(client:getLock("x", { owner = 2 }):unlock())
        cluster:await_free()
    end)

    it("tells of a loss that its release finds", function()
        local l = client:getLock "x"
        assert.is_true(l:lockAsync(10):get())
        local told
        l:onLost(function(_, reason)
            told = reason
            assert(client:getLock("y"):tryLock(5, 10))     -- may wait, as any task
        end)
        support.eventually(function() return cluster:keys() == 3 end)
        cluster:each(function(s) s:call("DEL", "x") end)
        local ok, err = l:unlockAsync():get(10)
        assert.is_nil(ok)
        assert.equal("expired", err.code)
        assert.equal("forgotten", err.reason)
        assert.equal("forgotten", told)
    end)

    it("may be cancelled while it releases", function()
        local l = client:getLock "x"
        assert.is_true(l:lockAsync(10):get())
        cluster:each(function(s) s:freeze() end)
        local f = l:unlockAsync()
        assert.is_true(f:cancel())
        local ok, err = f:get()
        assert.is_nil(ok)
        assert.equal("cancelled", err.code)
        cluster:each(function(s) s:thaw() end)
        assert.is_true(l:tryLock(10, 10))
        assert.is_true(l:unlock())
        cluster:await_free()
    end)

    -- The first interrupt comes at the first line that the library executes for it, the second at
    -- the second, and so on.
    it("is interrupted at each line, and keeps nothing that nobody knows of", function()
        local p = support.child(cluster, "{ timeout = 5 }", [[
            jit.off()
            jit.flush()
            local function interrupt_at_line(n)
                debug.sethook(function()
                    if debug.getinfo(2, "S").source:find "lua/redlock/" then
                        n = n - 1
                        if n == 0 then
                            debug.sethook()
                            error("interrupted!", 0)
                        end
                    end
                end, "l")
            end
            local function is_done(future)
                return pcall(future.get, future, 20) and future.done or future.done
            end
            local function nobody_waits()
                for _, future in pairs(client.tasks.waiting) do
                    if future then return false end
                end
                return client.tasks.count == 0
            end
            local n, ok, err = 0
            repeat
                n = n + 1
                local taken, left
                interrupt_at_line(n)
                ok, err = pcall(function()
                    taken = l:tryLockAsync(5, 30)
                    assert(taken:get())
                    left = l:unlockAsync()
                    assert(left:get())
                end)
                debug.sethook()
                assert(ok or err == "interrupted!", err)
                assert(not taken or is_done(taken), "a future hangs: line " .. n)
                assert(not left or is_done(left), "a release hangs: line " .. n)
                -- Of the futures that nobody was given:
                local other = client:getLock("other", { owner = n })
                assert(other:lockAsync(30):get(20) and other:unlock())
                while l:getHoldCount() > 0 do assert(l:unlock()) end
                local heir = client:getLock("x", { owner = n })
                assert(heir:lockAsync(30):get(10), "it is kept: line " .. n)
                assert(heir:unlock())
                assert(not next(client.queues) and nobody_waits())
            until ok
            print(n > 200 and "done" or n)
            io.read()
        ]], { stderr = "stdout" })
        assert.equal("ready", p:read_line(10))
        assert.equal("done", p:read_line(300))
        cluster:await_free()
    end)
end)
