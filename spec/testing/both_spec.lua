-- One program does the same in a world and on real servers; two worlds of one seed are the same.
local redlock = require "redlock"
local support = require "spec.support"

-- What a call returned, less what differs from run to run: an error is its code.
local function outcome(ok, err, ...)
    if redlock.is_error(err) then
        return { ok, err.code }
    end
    return { ok, type(err) ~= "table" and err or nil, ... }
end

-- Each part gets two clients, a function that waits, one that notes what calls return, and one that
-- runs a command on the server in a place.
local PROGRAM = {
    ["locks"] = function(a, b, _, note, call)
        local mine, its = a:getLock "x", b:getLock "x"
        note(mine:tryLock(0, 20))
        note(mine:tryLock(0, 20))
        note(mine:getHoldCount())
        note(its:tryLock())
        note(its:isLocked())
        note(mine:unlock())
        note(mine:unlock())
        note(its:tryLock(5))
        note(mine:unlock())
        note((its:extend(50)))
        local n
        repeat                           -- what comes after the forced unlock would bring it back
            its:extend(50)
            assert(b:check() and b:check())
            n = 0
            for place = 1, 3 do n = n + (call(place, "PTTL", "x") > 40000 and 1 or 0) end
        until n == 3
        note(its:isValid())
        note(mine:forceUnlock())
        note(its:unlock())
    end,
    ["using"] = function(a, b, _, note)
        note(a:using("x", { wait = 1 }, function()
            return outcome(b:getLock("x"):tryLock())[2]
        end))
        note(pcall(a.using, a, "x", function() error("a fault", 0) end))
        note(b:getLock("x"):isLocked())
    end,
    ["tokens"] = function(a, b, _, note)
        local mine, its = a:getFencedLock "x", b:getFencedLock "x"
        local _, first = mine:tryLock(5)
        local text = mine:sequencer()
        note(b:checkSequencer(text))
        note(mine:stillMine())
        note(mine:unlock())
        local _, second = its:tryLock(5)
        note(second > first)
        note(a:checkSequencer(text))
        note(its:unlock())
    end,
    ["readers and writers"] = function(a, b, _, note)
        local mine, its = a:getReadWriteLock "x", b:getReadWriteLock "x"
        note(mine:readLock():tryLock())
        note(its:readLock():tryLock())
        note(its:writeLock():tryLock())
        note(a:getLock("x"):tryLock(0))
        note(mine:readLock():unlock())
        note(its:readLock():unlock())
        note(its:writeLock():tryLock(5))
        note(its:readLock():tryLock())
        note(its:writeLock():unlock())
        note(mine:readLock():tryLock(5))
        note(mine:writeLock():tryLock(0))
    end,
    ["several names"] = function(a, b, _, note)
        note(a:getMultiLock({ "x", "y" }):tryLock())
        note(b:getLock("y"):tryLock())
        note(b:getMultiLock({ "y", "z" }):tryLock())
        note(a:getMultiLock({ "x", "y" }):unlock())
        note(b:getMultiLock({ "y", "z" }):tryLock(5))
    end,
    ["permits"] = function(a, b, _, note)
        local mine, its = a:getSemaphore("x", 2), b:getSemaphore("x", 2)
        local one = mine:tryAcquire(5)
        local two = its:tryAcquire(5)
        note(one ~= nil and two ~= nil and one:slot() + two:slot())
        note(mine:tryAcquire())
        note(its:availablePermits())
        note(one:release())
        note(one:release())
        note(its:tryAcquire(5) ~= nil)
    end,
    ["turns"] = function(a, b, _, note)
        local mine, its = a:getFairLock "x", b:getFairLock "x"
        note(mine:tryLock(5))
        local future = its:tryLockAsync(20)
        note(future:get(0.3))
        note(mine:unlock())
        note(future:get(20))
        note(mine:tryLock(0))
    end,
    ["latches"] = function(a, b, _, note)
        local mine, its = a:getCountDownLatch "x", b:getCountDownLatch "x"
        note(its:getCount())
        note(mine:trySetCount(2))
        note(its:trySetCount(3))
        note(its:countDown "one")
        note(its:countDown "one")
        note(mine:getCount())
        note(mine:await(0.1))
        note(mine:countDown())
        note(its:await(5))
        note(its:delete())
    end,
    ["elections"] = function(a, b, _, note)
        local mine = a:getElection("x", { id = "a" })
        local its = b:getElection("x", { id = "b" })
        note(its:leader())
        note(mine:campaign(5) ~= nil)
        note(its:campaign(0))
        note(its:leader().id)
        note(mine:resign())
        note(its:campaign(5) ~= nil)
        note(mine:leader().id)
    end,
    ["jobs and rates"] = function(a, b, wait, note)
        note(a:once("x", 3, function() return 7 end))
        note(b:once("x", 3, function() return 8 end))
        local mine, its = a:getRateLimiter("y", 2, 3), b:getRateLimiter("y", 2, 3)
        note(mine:tryAcquire(0))
        note(its:tryAcquire(1))
        note(its:tryAcquire())
        wait(3.3)
        note(b:once("x", 3, function() return 9 end, { before = true }))
        note(its:tryAcquire(1))
    end,
    ["holds that travel"] = function(a, b, _, note)
        local mine = a:getLock "x"
        note(mine:tryLock(5))
        local text = mine:export()
        note(mine:isValid())
        local its = b:import(text)
        note(its:isValid())
        note(mine:tryLock())
        note(its:unlock())
    end,
}

local function run(part, a, b, wait, call)
    local list = {}
    PROGRAM[part](a, b, wait, function(...)
        list[#list + 1] = outcome(...)
    end, call)
    a:close()
    b:close()
    return list
end

describe("a program", function()
    local OPTIONS = { timeout = 2, connect_timeout = 5 }
    local cluster = support.shared_cluster(3)

    for part in pairs(PROGRAM) do
        it("does the same in a world and on real servers: " .. part, function()
            local world = redlock.testing.new { client = OPTIONS }
            local in_world = run(part, world:client(), world:client(), function(seconds)
                world:advance(seconds)
            end, function(...) return world:call(...) end)
            world:close()
            local real = run(part, support.warm_client(cluster, OPTIONS),
                support.warm_client(cluster, OPTIONS), support.sleep,
                function(place, ...) return cluster[place]:call(...) end)
            assert.same(real, in_world)
            assert.is_true(#real > 2)
        end)
    end
end)

describe("a seed", function()
    -- Four programs contend while servers die; who had it when, and which value it had.
    local function story(seed)
        local world, told = redlock.testing.new { seed = seed, nodes = 5 }, {}
        for i = 1, 4 do
            local client = world:client()
            world:spawn(function()
                for _ = 1, 6 do
                    local ok = client:getLock("x"):tryLock(20, 8)
                    told[#told + 1] = ("%d %s %.6f %s"):format(i, tostring(ok), world:now(),
                        tostring(world:call(3, "GET", "x")))
                    world:advance(i / 10)
                    client:getLock("x"):unlock()
                end
            end)
        end
        world:advance(1)
        world:kill(1):cut(2)
        world:advance(30)
        world:start(1, { forgotten = true }):mend(2):freeze(5)
        world:advance(100)
        world:close()
        return told
    end

    it("makes the same world each time, and another one another", function()
        local first = story(7)
        assert.is_true(#first == 24)
        assert.same(first, story(7))
        assert.same(first, story(7))
        assert.are_not.same(first, story(8))
    end)
end)
