-- Passing a lock on within a process: one owner at a time, at no cost while its lease is as
-- good as new, and others get their turn.
local crowd = require "spec.support.crowd"
local support = require "spec.support"

describe("a lock that is passed on", function()
    local cluster, ng, other

    setup(function()
        cluster = support.cluster(3)
        ng = support.nginx { nodes = cluster, options = "timeout = 2", server = crowd.SERVER }
        other = support.warm_client(cluster, { timeout = 2 })
    end)

    teardown(function()
        ng:ends "QUIT"
        other:close()
        support.cleanup()
    end)

    -- How many of a crowd get it that way: most on a machine that is idle, and fewer on one so
    -- busy that 50 ms are over after some.
    local LEAST = 20

    it("has one owner at a time", function()
        local most, handed = ng:get("/crowd?n=200&lease=10", 60):match "^(%d+) (%d+) "
        assert.equal("1", most)
        assert.is_true(tonumber(handed) >= LEAST, handed)
        cluster:await_free()
    end)

    local function scripts_run()
        return tonumber(cluster[1]:call("INFO", "commandstats"):match "evalsha:calls=(%d+)")
    end

    for what, lease in pairs { ["fixed"] = "&lease=10", ["kept by the watchdog"] = "" } do
        it("asks no server while a lease that is " .. what .. " is as good as new", function()
            local before = scripts_run()
            local handed = tonumber((ng:get("/crowd?n=160" .. lease, 60):match " (%d+) "))
            assert.is_true(handed >= LEAST, handed)
            -- The others come from the servers, who also hear of their end.
            local scripts = scripts_run() - before
            assert.is_true(scripts <= 2 * (160 - handed) + LEAST / 2, scripts .. " scripts, "
                .. handed .. " handed over")
        end)
    end

    it("has a new value on every server when its lease has worn", function()
        local seen, changes = nil, 0
        local request = ng:begin "/crowd?n=30&hold=0.02&lease=0.5"
        local finish = support.now() + 10
        while support.now() < finish and changes < 20 do
            local value = cluster[1]:call("GET", "x")
            if value and value ~= seen then
                seen, changes = value, changes + 1
            end
        end
        request:finish(60)
        assert.is_true(changes >= 20)
    end)

    it("is let go for another process in time", function()
        local request = ng:begin "/crowd?n=600&lease=10&hold=0.002"
        local l = other:getLock "x"
        support.eventually(function() return cluster:keys() > 0 end)
        for _ = 1, 5 do
            assert.is_true(l:tryLock(60, 10))
            assert.is_true(l:unlock())
        end
        assert.is_true(request.proc:alive())       -- five turns before the crowd was through
        assert.equal("1", (request:finish(60):match "^(%d+) "))
    end)

    it("survives a server that hangs and one that is gone", function()
        cluster[1]:freeze()
        local most = ng:get("/crowd?n=60&lease=10", 60):match "^(%d+) "
        cluster[1]:thaw()
        assert.equal("1", most)
        cluster[2]:kill()
        most = ng:get("/crowd?n=60&lease=10", 60):match "^(%d+) "
        cluster[2]:start()
        assert.equal("1", most)
        cluster:await_free(20)
    end)
end)
