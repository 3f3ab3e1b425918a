-- Readers, permits and places in line in a worker of nginx.
local support = require "spec.support"

local SERVER = [[
    location /readers { content_by_lua_block {
        local inside, most, threads = 0, 0, {}
        for i = 1, 1000 do
            threads[i] = ngx.thread.spawn(function()
                local l = client:getReadWriteLock("rw", { owner = i }):readLock()
                assert(l:tryLock(30, 30))
                inside = inside + 1
                most = math.max(most, inside)
                while most < 1000 do ngx.sleep(0.01) end
                assert(l:unlock())
            end)
        end
        for i = 1, 1000 do assert(ngx.thread.wait(threads[i])) end
        ngx.print(most)
    } }
    location /kill { content_by_lua_block {
        local threads, kinds = {}, {
            function(i) return client:getReadWriteLock("x", { owner = i }):readLock() end,
            function(i) return client:getFairLock("x", { owner = i }) end,
        }
        for i = 1, 20 do
            threads[i] = ngx.thread.spawn(function() return kinds[i % 2 + 1](i):tryLock(30) end)
        end
        local from = ngx.now()
        repeat ngx.sleep(0.01) ngx.update_time()
        until client.waiting == 20 or ngx.now() - from > 20
        local waiting = client.waiting
        ngx.sleep(0.3)
        for i = 1, 20 do assert(ngx.thread.kill(threads[i])) end
        from = ngx.now()
        repeat ngx.sleep(0.01) ngx.update_time()
        until client.waiting == 0 or ngx.now() - from > 20
        ngx.print(waiting, " ", client.waiting)
    } }
    location /permit {
        access_by_lua_block { ngx.ctx.permit = assert(client:getSemaphore("s", 1):tryAcquire(20)) }
        content_by_lua_block { ngx.print(ngx.ctx.permit:slot()) }
        log_by_lua_block { ngx.ctx.permit:release() }
    }
]]

describe("in nginx", function()
    local cluster = support.shared_cluster(3)
    local ng

    setup(function()
        ng = support.nginx { nodes = cluster, options = "fallback = 6", server = SERVER }
    end)
    teardown(function() ng:stop "TERM" end)

    it("a thousand readers of a worker are inside at once", function()
        assert.equal("1000", ng:get "/readers")
        cluster:await_free(10)
    end)

    it("who is killed while it waits leaves the line, and is not counted any more", function()
        cluster:each(function(s) s:call("SET", "x", "somebody", "PX", 60000) end)
        assert.equal("20 0", ng:get "/kill")
        support.eventually(function() return cluster:having "redlock:{x}:queue" == 0 end, 5)
    end)

    it("a permit is taken in the access phase, and released in the log phase", function()
        for _ = 1, 3 do
            assert.equal("1", ng:get "/permit")
        end
        cluster:await_free(10)
    end)
end)
