-- What futures begin is written together: with the next turn of the loop, or a moment later.
local redlock = require "redlock"
local support = require "spec.support"

local MANY = 64

local function reads(server)
    return tonumber(server:call("INFO", "stats"):match "total_reads_processed:(%d+)")
end

-- Less those of check(), which has an MGET for each SET.
local function attempts(server)
    return server:calls_of "set" - server:calls_of "mget"
end

describe("what futures begin", function()
    local cluster, client

    before_each(function()
        cluster = support.cluster(3)
        client = support.warm_client(cluster)
    end)

    it("is written together", function()
        local locks, futures = {}, {}
        for i = 1, MANY do
            locks[i] = client:getLock("x" .. i)
        end
        local before = reads(cluster[1])
        for i = 1, MANY do
            futures[i] = locks[i]:tryLockAsync(0, 10)
        end
        assert.is_true(redlock.wait_all(futures))
        for i = 1, MANY do
            assert.is_true(futures[i]:get())
            futures[i] = locks[i]:unlockAsync()
        end
        assert.is_true(redlock.wait_all(futures))
        -- Two writes, and one for each millisecond that this has taken.
        local count = reads(cluster[1]) - before
        assert.is_true(count < MANY, count .. " reads")
        cluster:await_free()
    end)

    it("is on its way though nobody waits for it, nor calls the library", function()
        client:getLock("x"):tryLockAsync(0, 10)
        support.eventually(function() return cluster:keys() == 3 end)
    end)

    it("is on its way before a call that waits has its answer", function()
        client:getLock("x"):tryLockAsync(0, 10)
        assert.is_true(client:getLock("y"):tryLock(0, 10))
        assert.is_true(attempts(cluster[1]) + attempts(cluster[2]) + attempts(cluster[3]) >= 4)
    end)

    it("is written once when the process forks", function()
        local p = support.child(cluster, "{}", [[
            local ffi = require "ffi"
            ffi.cdef "int fork(void); int waitpid(int, int *, int); void _exit(int);"
            local f = l:tryLockAsync(0, 10)
            local pid = ffi.C.fork()
            if pid == 0 then
                local mine = client:getLock "child's"
                local ok = mine:tryLock(5, 10) and mine:unlock()
                support.sleep(0.05)
                ffi.C._exit(ok and 0 or 1)
            end
            local status = ffi.new "int[1]"
            ffi.C.waitpid(pid, status, 0)
            print(status[0])
            print(tostring(f:get(10)))
            io.read()
        ]])
        assert.equal("ready", p:read_line(10))
        assert.equal("0", p:read_line(30))
        assert.equal("true", p:read_line(30))
        local sum = 0
        for i = 1, 3 do
            local seen = attempts(cluster[i])    -- one of the parent, one of the child
            assert.is_true(seen <= 2, "server " .. i .. " has seen " .. seen)
            sum = sum + seen
        end
        assert.is_true(sum >= 4, "a majority for each has seen " .. sum)
        p:write "\n"
        assert.equal(0, p:wait(20))
    end)

    for how, ends in pairs { ["closes its client"] = "client:close()", ["ends"] = "os.exit(0)",
        ["ends with its Lua state"] = "os.exit(0, true)" } do
        it("is written when the process " .. how, function()
            local p = support.child(cluster, "{}", [[
                assert(l:tryLock(5, 60))
                l:unlockAsync()
                ]] .. ends)
            assert.equal("ready", p:read_line(10))
            assert.equal(0, p:wait(20))
            cluster:await_free()
        end)
    end
end)
