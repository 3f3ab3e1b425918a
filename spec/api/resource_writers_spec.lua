-- Resources behind redlock.resource with many writers: what is accepted never goes back.
local support = require "spec.support"

describe("many writers at a guarded resource", function()
    -- Processes that run code, all at once, with `conn`, to the server, and `g`, a resource of
    -- "log" there.
    local function writers(n, server, code)
        local procs = {}
        for me = 1, n do
            procs[me] = support.lua(([[
                local support = require "spec.support"
                local resource = require "redlock.resource"
                math.randomseed(%d)
                local conn = support.connect(%d, 10)
                local g = resource.new("log", function(...) return conn:call(...) end)
                print "ready"
                io.read()
                %s
            ]]):format(me, server.port, code))
        end
        for _, p in ipairs(procs) do
            assert.equal("ready", p:read_line(20))
        end
        support.all(procs):write "\n"
        return procs
    end

    local function never_decreases(log)
        for i = 2, #log do
            if tonumber(log[i]) < tonumber(log[i - 1]) then
                return false, ("%s after %s at %d"):format(log[i], log[i - 1], i)
            end
        end
        return true
    end

    it("with tokens in any order leave a log in order, and are told what is in it", function()
        local server = support.server()
        local accepted, refused = 0, 0
        local procs = writers(4, server, [[
            local accepted, refused = 0, 0
            for i = 1, 2000 do
                local token = i + math.random(0, 50)
                local ok, why, highest = g:call(token, "RPUSH", "log", token)
                if ok then
                    accepted = accepted + 1
                else
                    assert(why == "stale" and highest > token, why)
                    refused = refused + 1
                end
            end
            print(accepted, refused)
        ]])
        for _, p in ipairs(procs) do
            local a, r = assert(p:read_line(60)):match "(%d+)\t(%d+)"
            accepted, refused = accepted + a, refused + r
        end
        local log = server:call("LRANGE", "log", 0, -1)
        assert.is_true(never_decreases(log))
        assert.equal(accepted, #log)
        assert.equal(8000, accepted + refused)
        assert.is_true(refused > 0)
        assert.equal(log[#log], server:call("GET", "redlock:{log}:mark"))
    end)

    it("who hold a fenced lock and sleep past its lease never undo a newer write", function()
        local server, cluster = support.server(), support.cluster(3)
        local procs = writers(3, server, ([[
            local client = support.warm_client(%s)
            local lock = client:getFencedLock "log"
            local writes, refused, deadline = 0, 0, support.now() + 30
            while (writes < 30 or refused < 3) and support.now() < deadline do
                local ok, token = lock:tryLock(10, 0.02)
                if ok then
                    local sleepy = math.random() < 0.3
                    support.sleep(sleepy and 0.05 or 0)
                    local done, why = g:call(token, "RPUSH", "log", token)
                    assert(done or why == "stale", why)
                    writes, refused = writes + (done and 1 or 0), refused + (done and 0 or 1)
                    lock:unlock()
                end
            end
            print(writes, refused)
        ]]):format(cluster:text()))
        local written, refused = 0, 0
        for _, p in ipairs(procs) do
            local w, r = assert(p:read_line(60)):match "(%d+)\t(%d+)"
            written, refused = written + w, refused + r
        end
        local log = server:call("LRANGE", "log", 0, -1)
        assert.is_true(never_decreases(log))
        assert.equal(written, #log)
        assert.is_true(refused > 0)
    end)
end)
