-- Passing a lock on within a process: one owner at a time, at no cost while its lease is as
-- good as new, and others get their turn.
local crowd = require "spec.support.crowd"
local support = require "spec.support"
local testing = require("redlock").testing

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

    it("has a new value, too, after its holder has extended it", function()
        local first = other:getLock("y", { owner = 1 })
        assert.is_true(first:tryLock(5, 10))
        local waits = other:getLock("y", { owner = 2 }):tryLockAsync(30, 10)
        support.eventually(function() return not waits:isDone() and other:stats().waiting == 1 end)
        local before = other:stats().handed_over
        assert.is_true(first:extend(10))       -- which may still be under way somewhere
        assert.is_true(first:unlock())
        assert.is_true(waits:get(20))
        assert.equal(before, other:stats().handed_over)
        assert.is_true(other:getLock("y", { owner = 2 }):unlock())
    end)

    it("has a new value on every server when its lease has worn", function()
        local before = cluster[1]:calls_of "del"           -- each ends a value
        ng:get("/crowd?n=30&hold=0.02&lease=0.5", 60)
        support.eventually(function() return cluster[1]:calls_of "del" - before >= 20 end)
    end)

    it("is let go for another process in time", function()
        local request = ng:begin "/crowd?n=600&lease=10&hold=0.005"
        local l = other:getLock "x"
        support.eventually(function() return cluster:keys() > 0 end)
        for _ = 1, 5 do
            assert.is_true(l:tryLock(60, 10))
            assert.is_true(l:unlock())
        end
        assert.is_true(request:waits())            -- five turns before the crowd was through
        assert.equal("1", (request:finish(60):match "^(%d+) "))
    end)

    it("is not passed on in a row for longer than 50 ms", function()
        local world = testing.new { nodes = 1 }
        local client, tasks = world:client(), {}
        for i = 1, 10 do
            tasks[i] = world:spawn(function()
                local l = client:getLock("x", { owner = i })
                assert(l:tryLock(5))
                world:advance(0.02)
                assert(l:unlock())
            end)
        end
        for i = 1, 10 do
            tasks[i]:join()
        end
        local passed = client:stats().handed_over
        assert.is_true(passed > 3 and passed < 8, passed)
        world:close()
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

-- Each hold has a token of its own, so the next owner asks for it, right after the release.
describe("a fenced lock within a process", function()
    it("has one owner at a time, with tokens that grow", function()
        local cluster = support.cluster(3)
        local ng = support.nginx { nodes = cluster, options = "timeout = 2", server = crowd.SERVER }
        local most, handed, tokens = ng:get(
            "/crowd?kind=getFencedLock&lease=10&hold=0.001&n=200", 60):match "^(%d+) (%d+) (%S+)$"
        assert.same({ "1", "0" }, { most, handed })
        local n, last = 0, 0
        for token in tokens:gmatch "%d+" do
            assert.is_true(tonumber(token) > last)
            n, last = n + 1, tonumber(token)
        end
        assert.equal(200, n)
        cluster:await_none "x"
        ng:ends "QUIT"
    end)

    it("takes a round trip from one owner to the next", function()
        local world = testing.new { nodes = 3, round_trip = 0.01 }
        local client, takes, tasks = world:client(), 0, {}
        assert(client:getFencedLock("x"):tryLock() and client:getFencedLock("x"):unlock())
        for i = 1, 4 do
            tasks[i] = world:spawn(function()
                local l = client:getFencedLock("x", { owner = i })
                while takes < 40 do
                    assert(l:tryLock(5))
                    takes = takes + 1
                    world:advance(0.001)
                    assert(l:unlock())
                end
            end)
        end
        local began = world:now()
        for i = 1, 4 do
            tasks[i]:join()
        end
        assert.is_true(world:now() - began < takes * 0.015, takes .. " in " .. world:now() - began)
        world:close()
    end)
end)
