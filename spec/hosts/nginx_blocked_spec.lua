-- A worker of nginx whose event loop stands still for a while, for a request that computes; and a
-- client that closes, which must not stop it.
local support = require "spec.support"

local SERVER = [[
    # In one event the answer to a waiter is taken, and he is given up as he has not come.
    location = /given_up { content_by_lua_block {
        local box = client.host.box
        for _, name in ipairs { "here", "elsewhere" } do
            if name == "here" then
                assert(client:getLock("here", { owner = "other" }):lock())
            end
            local thread = ngx.thread.spawn(function()
                local l = client:getLock(name)
                return pcall(l.tryLock, l, 0.1)
            end)
            box:free_killed()                   -- those who have come
            repeat box:drain() until box.woken[1]
            box:free_killed()
            local _, ok, err = ngx.thread.wait(thread)
            ngx.say(tostring(ok), " ", tostring(err), " ", client:stats().waiting)
        end
        client:releaseAll()
        client:getLock("here", { owner = "other" }):unlock()
    } }
    location = /cycles { content_by_lua_block {
        local l = client:getLock "x"
        for _ = 1, 20 do
            local ok, err = pcall(function()
                assert(l:tryLock(20, 10))
                ngx.sleep(0.001)
                assert(l:unlock())
            end)
            if not ok then
                return ngx.print(tostring(err))
            end
        end
        ngx.print "ok"
    } }
    # The one timer is free, and the reader of the worker starts, while a request looks for all.
    # Between two looks the others compute, so that both come in one event.
    location = /late { content_by_lua_block {
        local spawn, wait = ngx.thread.spawn, ngx.thread.wait
        assert(ngx.timer.at(0, function() ngx.sleep(0.5) end))
        ngx.sleep(0.01)
        local ends = ngx.now() + 1.6
        local threads = { spawn(function()
            local l = client:getLock "elsewhere"
            return pcall(l.tryLock, l, 1.5)
        end) }
        local function cycle(l)
            assert(l:tryLock(20, 10))
            local turn = ngx.now() + 0.002
            repeat ngx.update_time() until ngx.now() > turn
            assert(l:unlock())
        end
        for i = 2, 6 do
            threads[i] = spawn(function()
                local l = client:getLock("late" .. i)
                while ngx.now() < ends do
                    local ok, err = pcall(cycle, l)
                    if not ok then
                        return ok, err
                    end
                end
                return true
            end)
        end
        for i = 1, 6 do
            local _, ok, err = wait(threads[i])
            if not ok then
                ngx.say(tostring(err))
            end
        end
        ngx.print "ok"
    } }
    # A client that closes while a server owes it an answer: says how often another thread of the
    # request ran meanwhile.
    location = /open { content_by_lua_block {
        local closing = redlock.new { nodes = nodes, cluster = "spec", max_waiting = 1000 }
        package.loaded.closing = closing         -- for the next request
        assert(closing:connect(20))
        assert(closing:getLock("closes", { owner = "me" }):tryLock(5, 10))
        ngx.print "ok"
    } }
    location = /close { content_by_lua_block {
        local closing, turns, over = require "closing", 0, false
        local thread = ngx.thread.spawn(function()
            while not over do
                turns = turns + 1
                ngx.sleep(0.001)
            end
        end)
        assert(closing:getLock("closes", { owner = "me" }):unlock())
        turns = 0
        assert(closing:close())
        over = true
        ngx.thread.wait(thread)
        ngx.print(turns)
    } }
    location = /compute { content_by_lua_block {
        for _ = 1, 20 do
            ngx.update_time()
            local ends = ngx.now() + 0.06
            repeat ngx.update_time() until ngx.now() > ends
            ngx.sleep(0.001)
        end
        ngx.print "ok"
    } }
]]

describe("a worker of nginx", function()
    local cluster, ng, other

    setup(function()
        cluster = support.cluster(3)
        other = support.warm_client(cluster)
        assert(other:getLock("elsewhere"):lock())
    end)

    teardown(function() other:close() end)

    it("that stands still ends a wait that was given up with an error, once", function()
        ng = support.nginx { nodes = cluster, server = SERVER }
        local pid = ng:get "/ping"
        for _ = 1, 3 do
            local line = "false redlock: a wait was given up, as the event loop was blocked for "
                .. "too long 0\n"
            assert.equal(line:rep(2), (ng:get "/given_up"))
        end
        assert.equal("ok", ng:get "/cycles")
        assert.equal(pid, ng:get "/ping")
        ng:ends "TERM"
    end)

    it("serves other requests while a client closes that awaits an answer", function()
        ng = support.nginx { nodes = cluster, server = SERVER }
        support.eventually(function()
            assert.equal("ok", ng:get "/open")
            cluster[3]:freeze()
            local turns = tonumber((ng:get "/close"))
            cluster[3]:thaw()
            return turns > 5
        end, 60)
        ng:ends "TERM"
    end)

    it("that stands still gives no wait up where no timer wakes those who wait", function()
        ng = support.nginx { nodes = cluster, server = SERVER, shutdown = "1s",
            http = "lua_max_running_timers 1;",
            init_worker = "ngx.timer.at(0, function() ngx.sleep(600) end)" }
        local pid = ng:get "/ping"
        for _ = 1, 5 do
            local requests = { ng:begin "/compute" }
            for i = 2, 13 do
                requests[i] = ng:begin "/cycles"
            end
            for i = 1, 13 do
                assert.equal("ok", (requests[i]:finish(60)))
            end
        end
        assert.equal(pid, ng:get "/ping")
        ng:stop "TERM"
    end)

    it("that stands still gives no wait up when the reader comes late", function()
        ng = support.nginx { nodes = cluster, server = SERVER, options = "timeout = 5",
            http = "lua_max_running_timers 1;" }
        local pid = ng:get "/ping"
        for _ = 1, 5 do
            assert.equal("ok", (ng:get "/late"))
            support.sleep(2.5)               -- the reader ends, and lets the timer go
        end
        assert.equal(pid, ng:get "/ping")
        ng:stop "TERM"
    end)
end)
