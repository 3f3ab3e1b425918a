-- Holders who are asked to let go hear of it where an event loop runs, while they do other things.
local behaviour = require "spec.support.behaviour"
local hosted = require "spec.support.hosted"
local support = require "spec.support"

local CHANNEL = "redlock:{x:asked}:free"

local WORK = [[
    local l = client:getLock("x", { owner = 1 })
    assert(l:tryLock(5))
    local told = {}
    assert(l:onAsked(function(mine, why, who)
        told[#told + 1] = why .. " by " .. who
        if why == "now" then
            assert(mine:unlock())
            sleep(0.001)                     -- it may wait
        end
    end))
    local c = new { label = "asker" }
    local function ask(why)
        local n, from = #told + 1, now()
        local holder = assert(c:ask("x", why))
        while not told[n] and now() - from < 20 do sleep(0.001) end
        assert(told[n] == why .. " by asker", tostring(told[n]))
        return holder, now() - from
    end
    ask "first"
    for i = 1, 3 do
        local holder = ask("once more " .. i)
        assert(holder.heard and not holder.before)
    end
    sleep(4.2)                               -- it has looked often
    ask "now"
    local from = now()
    while l:isValid() and now() - from < 20 do sleep(0.001) end
    assert(#told == 5 and c:holder "x" == false)
    -- A hold that is passed on as it is has the same value: not its next owner was asked.
    local a, b = client:getLock("x", { owner = 1 }), client:getLock("x", { owner = 2 })
    local tries = 0
    repeat
        local its, before = {}, client:stats().handed_over
        assert(a:tryLock(5))
        spawn(function()
            assert(b:tryLock(20))
            assert(b:onAsked(function(_, why) its[#its + 1] = why end))
        end)
        assert(c:ask("x", "the first"))
        sleep(0.01)
        assert(a:unlock())
        while not b:isValid() do sleep(0.001) end
        local passed = client:stats().handed_over > before    -- within 50 ms
        if passed then
            sleep(0.2)
            assert(c:ask("x", "the second").before == false)
            while not its[1] do sleep(0.001) end
            assert(#its == 1 and its[1] == "the second", its[1])
        end
        assert(b:unlock())
        tries = tries + 1
    until passed or tries == 100
    assert(tries < 100)
    c:close()
    -- What is let go meanwhile, or never told, keeps no loop running.
    for i = 1, 100 do
        local other = client:getLock("x", { owner = i })
        assert(other:tryLock(5) and other:onAsked(print) and other:unlock())
    end
    assert(client:getLock("x", { owner = 1 }):tryLock(5, 30))
    assert(client:getLock("x", { owner = 1 }):onAsked(print))
    assert(client:getLock("x", { owner = 1 }):unlock())
]]

local SERVER = [[
    location /hold { content_by_lua_block {
        local l = client:getLock "x"
        assert(l:tryLock(1))
        local told
        assert(l:onAsked(function(mine, why)
            ngx.sleep(0.001)
            told = ngx.get_phase() .. " " .. why
            assert(mine:unlock())
        end))
        while l:isValid() do ngx.sleep(0.01) end
        ngx.print(told)
    } }
    location /die { content_by_lua_block {
        local l = client:getLock("x", { owner = ngx.var.arg_own and {} })
        assert(l:tryLock(1))
        assert(l:onAsked(ngx.var.arg_own and print or function() l:unlock() end))
        ngx.print "taken"
    } }
]]

describe("who is asked to let go", function()
    local cluster

    setup(function() cluster = support.cluster(3) end)
    teardown(support.cleanup)
    before_each(function() cluster:flush() end)

    local function listening()
        local n = 0
        cluster:each(function(s) n = n + s:call("PUBSUB", "NUMSUB", CHANNEL)[2] end)
        return n
    end

    for name, loop in pairs(behaviour.loops) do
        it("hears of it in " .. name, function()
            local p = hosted.run(cluster, loop, WORK)
            assert.equal("ok\n", p:read_all(60))
            assert.equal(0, p:wait(5))
            cluster:await_free(5)
            assert.equal(0, listening())
        end)
    end

    describe("in nginx", function()
        local ng, client

        before_each(function()
            ng = support.nginx { nodes = cluster, server = SERVER, options = "lease = 1.5" }
            client = support.warm_client(cluster)
        end)
        after_each(function()
            client:close()
            assert.equal(0, ng:stop "QUIT")
            assert.equal("", ng:complaints(ng.expected))
        end)

        it("hears of it in a timer of its own", function()
            local request = ng:begin "/hold"
            support.eventually(function() return listening() == 3 end, 20)
            assert.is_true(client:ask("x", "please").heard)
            assert.equal("timer please", request:finish())
            cluster:await_free(5)
        end)

        for _, path in ipairs { "/die", "/die?own=1" } do
            it("and is gone is found: " .. path, function()
                assert.equal("taken", ng:get(path))
                support.eventually(function()
                    return cluster[1]:call("EXISTS", "x") == 0
                end, 20, "the lock to be let go")
                support.eventually(function() return listening() == 0 end, 20)
            end)
        end

        it("does not keep a worker that is to quit", function()
            local request = ng:begin "/hold"
            support.eventually(function() return listening() == 3 end, 20)
            ng:signal "HUP"
            support.eventually(function()
                return client:ask("x", "please").heard
            end, 20)
            assert.equal("timer please", request:finish())
        end)
    end)
end)
