-- Much is held at once: what it costs, and that all losses are told.
local support = require "spec.support"

-- Lua text: steps(fn) is how many instructions of Lua fn executes.
local STEPS = [[
    jit.off()
    local function steps(fn)
        local n = 0
        debug.sethook(function() n = n + 1 end, "", 1)
        fn()
        debug.sethook()
        return n
    end
]]

-- Takes the locks k1 to kn, each for an owner of its own, with a lease that nobody renews.
local function take(client, n, lease)
    for first = 1, n, 250 do
        local futures = {}
        for i = first, math.min(first + 249, n) do
            futures[i] = client:getLock("k" .. i, { owner = i }):tryLockAsync(20, lease)
        end
        for i, future in pairs(futures) do
            assert(future:get(30), i)
        end
    end
end

describe("locks that nobody releases", function()
    it("are forgotten some time after their end", function()
        local world = require("redlock").testing.new { client = { max_lease = 10, lease = 5 } }
        local client = world:client()
        for i = 1, 50 do
            assert(client:getLock("k" .. i, { owner = "nobody" }):tryLock(0, 1))
        end
        for _ = 1, 20 do
            world:advance(2)
            client:getLock("other"):isValid()
        end
        assert.equal(0, #client.holds:all())
        world:close()
    end)
end)

describe("with much held at once", function()
    local cluster = support.shared_cluster(3, { unnamed = true })
    local client

    before_each(function() client = support.warm_client(cluster, { timeout = 5 }) end)
    after_each(function() client:close() end)

    -- The instructions for a loss to be told, and for a lock to be taken and let go, while so
    -- many others are held.
    local function cost(n)
        local p = support.child(cluster, "{ lease = 50 }", STEPS .. ([[
            local told = 0
            for i = 1, %d do
                assert(client:getLock("k" .. i, { owner = i }):tryLock(0, 60))
                client:getLock("k" .. i, { owner = i }):onLost(function() told = told + 1 end)
            end
            local short = client:getLock "short"
            repeat until short:tryLock(0, 0.05)
            short:onLost(function() told = told + 1 end)
            support.sleep(0.1)
            local loss = steps(function() assert(not short:isValid()) end)
            assert(told == 1)
            print(loss, steps(function()
                assert(l:tryLock(0, 60))
                assert(l:unlock())
            end))
        ]]):format(n))
        p:read_line(10)
        local line = p:read_line(60)
        assert.equal(0, p:wait(10))
        return line:match "^(%d+)%s+(%d+)$"
    end

    it("a loss and a cycle cost what they cost alone", function()
        local loss_alone, cycle_alone = cost(0)
        local loss, cycle = cost(2000)
        assert.is_true(tonumber(loss) < loss_alone * 1.5, loss .. " of " .. loss_alone)
        assert.is_true(tonumber(cycle) < cycle_alone * 1.1, cycle .. " of " .. cycle_alone)
    end)

    it("a turn of an event loop costs what it costs alone, listened to or not", function()
        local function turn(n, listened)
            local p = support.lua(([[
                local uv, redlock = require "luv", require "redlock"
                local host, listened = require "redlock.host.luv", %s
                %s
                local client = redlock.new { host = host, timeout = 20, nodes = { "%s" } }
                coroutine.wrap(function()
                    local n = %d
                    for i = 1, n do
                        local name = ("k%%d of %%d %%s"):format(i, n, listened)
                        local l = client:getLock(name, { owner = i })
                        assert(l:tryLock(20, 60))
                        if listened then l:onLost(function() end) end
                    end
                    print(steps(function()
                        assert(host.box:drain() == (listened and 1 or 0))
                    end))
                    os.exit(0)
                end)()
                uv.run()
            ]]):format(listened, STEPS, table.concat(cluster:uris(), '", "'), n),
                { stderr = "stdout" })
            local text = p:read_all(60)
            return assert(tonumber(text), text)
        end
        for _, listened in ipairs { false, true } do
            assert.is_true(turn(1000, listened) < turn(1, listened) * 1.5)
        end
    end)

    it("all are told of, when they are lost while nobody asks", function()
        local N, told = 5000, {}
        take(client, N, 4)
        for i = 1, N do
            client:getLock("k" .. i, { owner = i }):onLost(function(_, why)
                assert.equal("expired", why)
                told[i] = (told[i] or 0) + 1
            end)
        end
        support.sleep(4.1)
        assert.is_false(client:getLock("other"):isValid())
        assert.equal(N, #told)
        for i = 1, N do
            assert.equal(1, told[i])
        end
        assert.equal(N, client:stats().lost)
    end)

    -- Eight times as much takes about eight times as long: each release looks at no other.
    it("the end of a process is not put off", function()
        local function seconds(n)        -- of a processor
            local p = support.lua(([[
                local redlock = require "redlock"
                local client = redlock.new { timeout = 20, nodes = { "%s" } }
                for first = 1, %d, 250 do
                    local futures = {}
                    for i = 1, 250 do
                        futures[i] = client:getLock("k" .. first + i):tryLockAsync(20, 60)
                    end
                    redlock.wait_all(futures)
                end
                print(client.holds:count(), os.clock())
            ]]):format(table.concat(cluster:uris(), '", "'), n), { stderr = "stdout" })
            local held, before = p:read_line(60):match "^(%d+)%s+(%S+)$"
            assert.equal(n, tonumber(held))
            assert.equal(0, p:wait(120))
            cluster:flush()
            cluster:admit()
            return p.cpu - before
        end
        local few = seconds(2500)
        local many = seconds(20000)
        assert.is_true(many < 8 * few * 4, many .. " s, of an eighth " .. few)
    end)

    it("each is told of in the first call after its time", function()
        local other = client:getLock "other"
        for _ = 1, 20 do
            local l, told = client:getLock "short", 0
            if l:tryLock(0, 0.015) and l:onLost(function() told = told + 1 end) then
                local from = support.now()
                repeat until support.now() - from > 0.016
                assert.is_false(other:isValid())
                assert.equal(1, told)
            end
        end
    end)

    it("the last 10,000 that ran out are remembered", function()
        take(client, 10250, 2)
        support.sleep(2.1)
        local function code(i)
            return select(2, client:getLock("k" .. i, { owner = i }):unlock()).code
        end
        for i = 1, 250, 50 do
            assert.equal("not_held", code(i))
        end
        for i = 251, 10250, 500 do
            assert.equal("expired", code(i))
        end
    end)

    it("who is not listened to any more does not keep an event loop", function()
        local p = support.lua(([[
            local uv, redlock = require "luv", require "redlock"
            local client = redlock.new { host = require "redlock.host.luv", timeout = 20,
                nodes = { "%s" } }
            local function sleep(ms)
                local co, timer = coroutine.running(), uv.new_timer()
                timer:start(ms, 0, function()
                    timer:close()
                    assert(coroutine.resume(co))
                end)
                coroutine.yield()
            end
            local function hold(name, opts, done)
                local l = client:getLock(name, opts)
                assert(l:tryLock(20, 60))
                l:onLost(print)
                done.done = true
                return l
            end
            local function main(i)
                local y = hold("y", { owner = "y" }, {})
                local z = {}
                coroutine.wrap(hold)("z" .. i, {}, z)        -- and ends with it
                while not z.done do sleep(1) end
                sleep(1)
                for _ = 1, 3 do collectgarbage() end
                assert(client.holds.listeners > 0, "to y")
                assert(y:unlock())
                assert(client.holds.listeners == 0, "to the one who has ended")
            end
            for i = 1, 10 do
                coroutine.wrap(function()
                    local ok, err = xpcall(main, debug.traceback, i)
                    if not ok then
                        print(err)
                        os.exit(1)
                    end
                end)()
                uv.run()
            end
            print "ends"
        ]]):format(table.concat(cluster:uris(), '", "')), { stderr = "stdout" })
        assert.equal("ends\n", p:read_all(30))
        assert.equal(0, p:wait(5))
    end)
end)
