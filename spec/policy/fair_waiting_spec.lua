-- Waiters of one process for a fair lock: one call asks for all of them, and each keeps its place.
local detail = require "redlock.inspect.detail"
local support = require "spec.support"

describe("waiters of one process for a fair lock", function()
    local cluster, client, other

    support.two_clients(3, {}, function(...) cluster, client, other = ... end)

    local function fair(owner, c)
        return (c or client):getFairLock("x", { owner = owner })
    end

    -- Runs the futures until fn() is true.
    local function await(future, fn)
        support.eventually(function()
            future:isDone()
            return fn()
        end, 30)
    end

    -- The line is `n` long on each server.
    local function line_of(n)
        return function()
            local all = true
            cluster:each(function(s) all = all and s:call("ZCARD", "redlock:{x}:queue") == n end)
            return all
        end
    end

    local function scripts()
        local counts = {}
        for i = 1, 3 do
            counts[i] = tonumber(cluster[i]:call("INFO", "commandstats")
                :match "cmdstat_evalsha:calls=(%d+)")
        end
        return counts
    end

    it("cost 50 scripts a second at most on each server, and all keep their places", function()
        assert.is_true(fair(0):tryLock(1, 60))
        local futures, from, before = {}, support.now(), scripts()
        for i = 1, 1000 do
            futures[i] = fair(i):tryLockAsync(60, 10)
        end
        await(futures[1], line_of(1000))
        local places = cluster[1]:call("ZRANGE", "redlock:{x}:queue", 0, -1, "WITHSCORES")
        for i = 1, 1000 do
            assert.equal(i, tonumber(places[2 * i]))
        end
        cluster[2]:call("DEL", "redlock:{x}:queue", "redlock:{x}:living", "redlock:{x}:standing")
        local over = support.now() + 4           -- a place that is not kept is gone by then
        await(futures[1], function() return support.now() > over end)
        local seconds = support.now() - from
        for i, count in ipairs(scripts()) do
            assert.is_true(count - before[i] <= 50 * seconds,
                ("%d scripts in %.1f s"):format(count - before[i], seconds))
            assert.same(places, cluster[i]:call("ZRANGE", "redlock:{x}:queue", 0, -1,
                "WITHSCORES"))
        end
        assert.equal(1000, client:stats().waiting)
        assert.is_true(fair(0):unlock())
        for i = 1, 3 do
            assert.is_true(futures[i]:get(20))
            assert.is_false(futures[i + 1]:isDone())
            assert.is_true(fair(i):unlock())
        end
    end)

    -- One of the processes has most of the waiters. Each comes when all before it are in line.
    local TAKER = [[
        local question = require "redlock.runtime.question"
        local function each(script, key, arg)
            return assert(question.ask(client, { subject = "x", body = script, keys = { key },
                args = { arg } }))
        end
        local futures, left = {}, 0
        local function poll()
            for i, future in pairs(futures) do
                if future:isDone() then
                    assert(future:get())
                    each("redis.call('rpush', KEYS[1], ARGV[1]) return 1", "order", tostring(i))
                    futures[i], left = nil, left - 1
                    assert(client:getFairLock("x", { owner = i }):unlock())
                    return
                end
            end
            support.sleep(0.002)
        end
        local function in_line(n)
            for _, said in ipairs(each("return {1, redis.call('zcard', KEYS[1])}",
                "redlock:{x}:queue", "")) do
                if said.info < n then return false end
            end
            return true
        end
        for i = 1, 40 do
            if (i %% 8 == 3) == %s then
                repeat poll() until in_line(i - 1)
                futures[i], left = client:getFairLock("x", { owner = i }):lockAsync(10), left + 1
            end
        end
        while left > 0 do poll() end
        print "done"
    ]]

    it("are served with those of another process in the order in which they came", function()
        assert.is_true(fair(0):tryLock(1, 60))
        local few = support.child(cluster, "{}", TAKER:format "true")
        local many = support.child(cluster, "{}", TAKER:format "false")
        support.eventually(line_of(40), 60)
        assert.is_true(fair(0):unlock())
        for _, child in ipairs { few, many } do
            assert.equal("ready", child:read_line(20))
            assert.equal("done", child:read_line(60))
            child:wait(10)
        end
        local order = {}
        for i = 1, 40 do
            order[i] = tostring(i)
        end
        assert.same(order, cluster[1]:call("LRANGE", "order", 0, -1))
    end)

    it("are woken by a message for each of them when it is first", function()
        local slow = { fallback = 60 }
        local mine, its = support.warm_client(cluster, slow), support.warm_client(cluster, slow)
        assert.is_true(fair(0, its):tryLock(1, 60))
        local futures = {}
        for i = 1, 4 do
            futures[i] = fair(i, i % 2 == 1 and mine or its):lockAsync(60)
            await(futures[i], line_of(i))
        end
        assert.is_true(fair(0, its):unlock())
        for i = 1, 4 do
            assert.is_true(futures[i]:get(20))
            support.eventually(function()        -- as the next one of the process is
                for _, future in pairs(futures) do future:isDone() end
                return i == 4 or #cluster[1]:call("PUBSUB", "CHANNELS", "redlock:{x:*") > 0
            end)
            assert.is_true(fair(i, i % 2 == 1 and mine or its):unlock())
        end
        mine:close()
        its:close()
    end)

    it("leave the line when they are cancelled, and are not waited for", function()
        assert.is_true(fair(0, other):tryLock(1, 60))
        local futures = {}
        for i = 1, 4 do
            futures[i] = fair(i):lockAsync(10)
            await(futures[1], line_of(i))
        end
        local last = fair(5, other):lockAsync(10)
        await(last, line_of(5))
        for n, i in ipairs { 3, 1 } do           -- one behind, and the one that asks
            assert.is_true(futures[i]:cancel())
            support.fails("cancelled", futures[i]:get(5))
            await(futures[2], line_of(5 - n))
        end
        local from = support.now()
        assert.is_true(fair(0, other):unlock())
        for _, i in ipairs { 2, 4 } do
            assert.is_true(futures[i]:get(10))
            assert.is_true(fair(i):unlock())
        end
        assert.is_true(last:get(10))
        assert.is_true(support.now() - from < 3)     -- less than a place that is waited for
        assert.is_true(fair(5, other):unlock())
        support.eventually(function() return cluster:keys() == 0 end, 10)
    end)

    it("leave the line when they enter what another coroutine of their owner has", function()
        assert.is_true(fair(0, other):tryLock(1, 60))
        local first = fair(1):lockAsync(10)
        await(first, line_of(1))
        local again = fair(1):lockAsync(10)
        await(first, line_of(2))
        assert.is_true(fair(0, other):unlock())
        assert.is_true(first:get(10) and again:get(10))
        await(first, line_of(1))                 -- who has it is in it until its end
        assert.is_true(fair(1):unlock() and fair(1):unlock())
        support.eventually(line_of(0), 10)
    end)

    it("are shown with their labels, as far as the servers know them", function()
        assert.is_true(fair(0, other):tryLock(1, 60))
        local first = fair(1):lockAsync(10)
        local plain = fair(2):lockAsync(10)
        local named = client:getFairLock("x", { owner = 3, label = "import" }):lockAsync(10)
        await(first, line_of(3))
        local rows = detail.ask(client, "x").queue
        assert.is_true(rows[1].label ~= nil and rows[1].label == rows[2].label)
        assert.is_nil(rows[3].label)
        for _, future in ipairs { named, plain, first } do
            future:cancel()
        end
    end)
end)
