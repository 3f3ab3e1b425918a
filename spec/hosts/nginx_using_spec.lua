-- client:using() in nginx: it is its coroutine's, and what it has to do with getLock(), which is
-- the request's.
local requests = require "spec.support.requests"
local support = require "spec.support"

-- Nothing here waits for a lease, which lasts half a minute. "true" behind an answer says that
-- it came at once.
local SERVER = requests.SERVER .. [[
    location = /threads { content_by_lua_block {
        local threads, most = {}, {}
        for i = 1, 20 do
            threads[i] = ngx.thread.spawn(enter)
        end
        for i = 1, 20 do
            local _, n = ngx.thread.wait(threads[i])
            most[#most + 1] = tostring(n)
        end
        ngx.say(table.concat(most, " "))
    } }
    location = /jobs { content_by_lua_block {
        local most, done = {}, 0
        for i = 1, 40 do
            run(function()
                most[i] = tostring(enter())
                done = done + 1
            end)
        end
        repeat ngx.sleep(0.01) until done == 40
        ngx.say(table.concat(most, " "))
    } }
    # Each takes its lock while others begin, and end.
    location = /own_jobs { content_by_lua_block {
        local said = {}
        for i = 1, 8 do
            run(function()
                local l = client:getLock("x", { owner = {} })
                local ok = l:tryLock(20)
                ngx.sleep(0.01)
                local nested = client:using("y", { wait = 20 }, function(y)
                    ngx.sleep(0.01)
                    collectgarbage()
                    return client:using("y", function() return y:check() end)
                end)
                said[#said + 1] = tostring(ok and nested and l:unlock())
            end)
        end
        repeat ngx.sleep(0.01) until #said == 8
        ngx.say(table.concat(said, " "))
    } }
    location = /nested { content_by_lua_block {
        local function nest(depth)
            local held, n = client:using("x", function(l)
                return (depth < 3 and nest(depth + 1) or 0) * 10 + l:getHoldCount()
            end)
            return n, held
        end
        say(nest(1))
        say(in_thread(nest, 1))
    } }
    location = /within { content_by_lua_block {
        client:using("x", function(l)
            local mine = client:getLock "x"
            say(mine:isValid(), try_lock())
            assert(mine:lock())
            say(l:getHoldCount(), mine:unlock(), l:getHoldCount(), l:isValid())
            -- Another name is the request's.
            assert(client:getLock("y"):lock())
        end)
        say(client:getLock("x"):isValid(), client:getLock("y"):isValid())
        say(in_thread(function() return client:getLock("y"):unlock() end))
    } }
    location = /around { content_by_lua_block {
        local l = client:getLock "x"
        assert(l:lock())
        say(try_using())
        say(l:getHoldCount(), in_thread(function()
            return client:getLock("x"):isValid(), client:getLock("x"):tryLock()
        end))
        say(in_thread(try_using))
        say(in_thread(try_using, 0))
        assert(l:unlock() and l:unlock())
        say(in_thread(try_using))
    } }
    location = /beside { content_by_lua_block {
        local inside, over = false, false
        local thread = ngx.thread.spawn(function()
            return client:using("x", function()
                inside = true
                repeat ngx.sleep(0.002) until over
            end)
        end)
        repeat ngx.sleep(0.002) until inside
        say(client:getLock("x"):isValid(), try_lock())
        say(try_lock(0))
        over = true
        say(select(2, ngx.thread.wait(thread)))
        say(try_lock())
    } }
    location = /resumed { content_by_lua_block {
        client:using("x", function()
            say(coroutine.wrap(function() return try_using() end)())
            say(coroutine.wrap(function() return try_lock() end)())
        end)
        local l = client:getLock "x"
        assert(l:lock())
        say(coroutine.wrap(function() return try_using() end)())
        l:unlock()
    } }

    location = /reads { content_by_lua_block {
        local pair = client:getReadWriteLock "x"
        local function reads()
            local ok, n = client:using("x", { kind = "read", wait = 20 }, function(r)
                return r:getHoldCount()
            end)
            return ok and "reads " .. n or n.code
        end
        client:using("x", { kind = "write" }, function()
            say(reads(), pair:readLock():tryLock(20), reads(), pair:readLock():unlock())
        end)
        assert(pair:writeLock():lock())
        say(reads(), in_thread(reads))
        assert(pair:writeLock():unlock())
        say(reads())
    } }
    location = /phases {
        access_by_lua_block {
            if not ngx.var.arg_thread then
                assert(client:getLock("x"):lock())
            else
                in_thread(function() assert(client:getLock("x"):lock()) end)
            end
        }
        content_by_lua_block {
            say(try_using())
            say(in_thread(try_using))
            client:getLock("x"):unlock()
        }
    }
    location = /exec { content_by_lua_block {
        assert(client:getLock("x"):lock())
        ngx.exec "/executed"
    } }
    # Between two phases, and behind ngx.exec, others get the thread object that took it: it says
    # whether one runs on that, and what using answers then.
    location = /delayed {
        limit_req zone=slow burst=10;
        rewrite_by_lua_block {
            ngx.ctx.thread = tostring(coroutine.running())
            if ngx.var.arg_take then lock_x() end
        }
        content_by_lua_block { look_again(ngx.ctx.thread) }
    }
    location = /exec_delayed { content_by_lua_block {
        lock_x()
        ngx.exec("/exec_slowly", { thread = tostring(coroutine.running()) })
    } }
    location = /exec_slowly {
        limit_req zone=slow burst=10;
        content_by_lua_block { look_again(ngx.unescape_uri(ngx.var.arg_thread)) }
    }
    location = /run { content_by_lua_block {
        ngx.shared.shared:set("thread", tostring(coroutine.running()))
        stay()
    } }
    location = /ended { content_by_lua_block {
        in_thread(lock_x)
        say(try_using())
        say(in_thread(try_using))
        client:getLock("x"):unlock()
    } }
    location = /executed { content_by_lua_block {
        collectgarbage() collectgarbage()
        say(try_using())
        say(in_thread(try_using))
        say(client:getLock("x"):unlock())
    } }
]]

local LOOK_AGAIN = [[
    function look_again(thread)
        say(ngx.shared.shared:get "thread" == thread, try_using())
        ngx.shared.shared:delete "thread"
        client:getLock("x"):unlock()
    end
]]

describe("in nginx using()", function()
    local cluster, ng

    setup(function()
        cluster = support.cluster(3)
        ng = support.nginx { nodes = cluster, init = requests.INIT .. LOOK_AGAIN,
            server = SERVER,
            init_worker = "ngx.timer.at(0, run_jobs)",
            http = "limit_req_zone all zone=slow:1m rate=3r/s; limit_req_log_level info;" }
    end)

    teardown(function() ng:ends "QUIT" end)

    local function free()
        cluster:await_none("x", "y", "a", "b", "f", "t")
    end

    it("excludes light threads of one request from each other", function()
        ng:says("/threads", ("1 "):rep(19) .. "1")
        free()
    end)

    it("excludes jobs of one timer from each other", function()
        ng:says("/jobs", ("1 "):rep(39) .. "1")
        ng:says("/own_jobs", ("true "):rep(7) .. "true")
        free()
    end)

    it("is entered again by its coroutine", function()
        ng:says("/nested", "321 true; 321 true")
        free()
    end)

    it("is entered again by getLock of its coroutine", function()
        ng:says("/within", "true in 2 true; 2 true 1 true; false true; true")
        free()
    end)

    it("enters what its coroutine has by getLock; another light thread is told", function()
        ng:says("/around", "in 2 true; 1 true true; deadlock true; held true; in 1 true")
        free()
    end)

    it("is not entered by getLock of another light thread, which is told", function()
        ng:says("/beside", "false deadlock true; held true; true; in 1 true")
        free()
    end)

    it("reads as well where it writes; another light thread is told", function()
        ng:says("/reads", "reads 1 true reads 2 true; reads 1 deadlock; reads 1")
        free()
    end)

    it("tells a coroutine that its own resumer waits for", function()
        ng:says("/resumed", "deadlock true; deadlock true; in 2 true")
        free()
    end)

    it("enters what an earlier phase took; another light thread is told", function()
        for _ = 1, 3 do
            ng:says("/phases", "in 2 true; deadlock true")
            ng:says("/phases?thread=1", "in 2 true; deadlock true")
        end
        free()
    end)

    it("enters what a light thread took that has ended", function()
        ng:says("/ended", "in 2 true; deadlock true")
        free()
    end)

    for _, path in ipairs { "/delayed?take=1", "/exec_delayed" } do
        it("is not misled by thread objects that are used again: " .. path, function()
            local seen = false
            for _ = 1, 5 do
                ng:get "/delayed"                    -- so that the next one is delayed
                local request = ng:begin(path)
                support.eventually(function()        -- or the request has ended meanwhile
                    return cluster:keys() == 3 or not request:waits()
                end)
                local user = ng:begin "/run"
                local again, said = request:finish():match "^(%S+) (.*)\n$"
                assert.equal("in 2 true", said)
                seen = seen or again == "true"
                support.eventually(function() return ng:get "/go?on=1" == "true\n" end)
                user:finish()
            end
            assert.is_true(seen)     -- else this spec shows nothing
            free()
        end)
    end

    it("is no different behind ngx.exec", function()
        for _ = 1, 3 do
            ng:says("/exec", "in 2 true; deadlock true; true")
        end
        free()
    end)
end)
