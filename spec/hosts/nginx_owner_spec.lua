-- Whose what is in nginx: what is left by those who do not come back, and subrequests.
local requests = require "spec.support.requests"
local support = require "spec.support"

-- Nothing here waits for a lease, which lasts half a minute.
local SERVER = requests.SERVER .. [[
    location = /exit { content_by_lua_block {
        client:using("x", function() ngx.say "over" ngx.exit(200) end)
    } }
    location = /kept { content_by_lua_block {
        client:using("x", function(l)
            keep(l)
            ngx.exit(200)
        end)
    } }
    location = /kept_lock { content_by_lua_block {
        local l = client:getLock "x"
        assert(l:lock())
        keep(l)
    } }
    location = /kept_by_timer { content_by_lua_block {
        assert(ngx.timer.at(0, function()
            client:using("x", function(l)
                keep(l)
                ngx.shared.shared:set("kept", true)
                ngx.exit(200)
            end)
        end))
        repeat ngx.sleep(0.01) until ngx.shared.shared:get "kept"
        ngx.shared.shared:delete "kept"
    } }
    location = /kept_before_exec { content_by_lua_block {
        client:using("x", function(l)
            keep(l)
            ngx.exec "/waiting"
        end)
    } }
    location = /redirect { content_by_lua_block {
        client:using("x", function() ngx.redirect "/over" end)
    } }
    location = /thread_exits { content_by_lua_block {
        ngx.thread.spawn(client.using, client, "x", function()
            ngx.sleep(0.01)
            ngx.exit(204)
        end)
        ngx.sleep(60)
    } }
    location = /exec_within { content_by_lua_block {
        client:using("x", function() ngx.exec("/goes_on", ngx.var.args) end)
    } }
    location = /error_within {
        error_page 500 = /goes_on;
        content_by_lua_block { client:using("x", function() ngx.exit(500) end) }
    }
    location = /goes_on { content_by_lua_block {
        if ngx.var.arg_lock then
            say(try_lock())
        elseif ngx.var.arg_using then
            say(try_using())
        else
            stay()
            ngx.say "gone on"
        end
    } }
    location = /kill { content_by_lua_block {
        local function hold()
            client:using("x", function() ngx.sleep(60) end)
        end
        for _ = 1, 3 do
            local thread = ngx.thread.spawn(hold)
            ngx.sleep(0.05)
            assert(ngx.thread.kill(thread))
        end
        say(in_thread(try_using))
        local thread = ngx.thread.spawn(hold)
        ngx.sleep(0.05)
        assert(ngx.thread.kill(thread))
        say(try_lock())
    } }

    location = /release_all {
        content_by_lua_block {
            for _, name in ipairs { "a", "b", "b" } do
                assert(client:getLock(name):lock())
            end
            assert(client:getFencedLock("f"):lock())
            local inside
            ngx.thread.spawn(client.using, client, "t", function()
                inside = true
                ngx.sleep(60)
            end)
            while not inside do ngx.sleep(0.001) end
            client:using("x", function()
                if ngx.var.arg_exit then
                    ngx.sleep(0.1)
                    ngx.exit(204)
                end
            end)
            say(tostring(client):match "%d+ held", client:releaseAll())
            say(tostring(client):match "%d+ held", client:releaseAll())
            ngx.exit(200)
        }
        log_by_lua_block {
            ngx.shared.shared:set("log", tostring(client) .. " "
                .. tostring(client:releaseAll()) .. " " .. tostring(client))
        }
    }
    location = /release_within { content_by_lua_block {
        client:using("x", function(l)
            assert(client:getLock("y"):lock() and l:tryLock())
            say(client:releaseAll(), l:isValid(), client:getLock("y"):isValid())
        end)
    } }
    location = /logged { content_by_lua_block { ngx.print(ngx.shared.shared:get "log") } }

    location = /sub { content_by_lua_block {
        local l = client:getLock "x"
        assert(l:lock())
        ngx.print(ngx.location.capture("/lock").body, ngx.location.capture("/using").body)
        l:unlock()
        client:using("x", function()
            local a, b = ngx.location.capture_multi { { "/lock" }, { "/deep" } }
            ngx.print(a.body, b.body)
        end)
        ngx.print(ngx.location.capture("/using").body)
    } }
    location = /other_kind { content_by_lua_block {
        local l = client:getFencedLock "x"
        assert(l:lock())
        say(try_lock())
        ngx.print(ngx.location.capture("/lock").body, ngx.location.capture("/using").body)
        l:unlock()
        say(try_lock())
    } }
    location = /beside_sub { content_by_lua_block {
        -- The one that holds it goes on: it is waited for.
        local thread = ngx.thread.spawn(client.using, client, "x", function() ngx.sleep(0.3) end)
        ngx.sleep(0.1)
        ngx.print(ngx.location.capture("/lock").body)
        ngx.thread.wait(thread)
    } }
    location = /auth { internal; content_by_lua_block {
        assert(client:getLock "x":tryLock(5))
        assert(client:getLock("named", { owner = "user 7" }):tryLock(5))
        ngx.exit(204)
    } }
    location = /behind_auth { auth_request /auth; content_by_lua_block {
        local named = client:getLock("named", { owner = "user 7" })
        say(client:getLock("x"):isLocked(), client:getLock("x"):unlock(), named:unlock())
    } }
    location = /shared_ctx { content_by_lua_block {
        local with = { ctx = ngx.ctx }
        client:using("x", function()
            ngx.print(ngx.location.capture("/using", with).body,
                ngx.location.capture("/lock", with).body)
        end)
        lock_x()
        ngx.print(ngx.location.capture("/lock", with).body)
        client:getLock("x"):unlock()
    } }
    location = /phases_sub {
        access_by_lua_block { in_thread(lock_x) }
        content_by_lua_block {
            ngx.print(ngx.location.capture("/lock").body)
            client:getLock("x"):unlock()
        }
    }
    location = /other_sub { content_by_lua_block {
        ngx.print(ngx.location.capture("/lock").body)
    } }
    location = /hold { content_by_lua_block {
        local l = client:getLock "x"
        assert(l:lock())
        stay()
        l:unlock()
    } }
    location = /waiting { content_by_lua_block { ngx.print(client:stats().waiting) } }
    location = /siblings { content_by_lua_block {
        local a, b, c = ngx.location.capture_multi { { "/take" }, { "/take" }, { "/take" } }
        ngx.say(a.body, b.body, c.body)
    } }
    location = /deep { content_by_lua_block { ngx.print(ngx.location.capture("/using").body) } }
    location = /take { content_by_lua_block { ngx.print(enter(), " ") } }
    location = /stuck { content_by_lua_block {
        lock_x()
        ngx.shared.shared:set("goes_on", true)
        repeat ngx.sleep(0.01) until ngx.worker.exiting()
        ngx.print(ngx.location.capture("/for_ever").body)
    } }
    location = /for_ever { content_by_lua_block {
        local ok, err = client:getLock("x"):lock()
        say(ok or err.code)
    } }
]]

describe("in nginx", function()
    local cluster, ng, other

    setup(function()
        cluster = support.cluster(3)
        other = support.warm_client(cluster)
        ng = support.nginx { nodes = cluster, init = requests.INIT, server = SERVER }
    end)

    teardown(function() other:close() end)

    local function free()
        cluster:await_none("x", "y", "a", "b", "f", "t")
    end

    describe("what using() took", function()
        for _, path in ipairs { "/exit", "/redirect", "/thread_exits" } do
            it("is released also by " .. path:sub(2), function()
                ng:get(path)
                assert.is_true(other:getLock("x"):tryLock(20))
                assert.is_true(other:getLock("x"):unlock())
                ng:get(path)
                ng:says("/lock", "in 1 true")
                free()
            end)
        end

        -- As nginx tells when a request has ended, the collector need not find it.
        for _, path in ipairs { "/kept", "/kept_lock", "/kept_by_timer", "/kept_before_exec" } do
            it("is released also if something refers to it: " .. path:sub(2), function()
                for _ = 1, 3 do
                    ng:get(path)
                    assert.is_true(other:getLock("x"):tryLock(20))
                    assert.is_true(other:getLock("x"):unlock())
                end
                free()
            end)
        end

        for _, path in ipairs { "/exec_within", "/error_within" } do
            it("is released also by " .. path:sub(2) .. ", while the request goes on", function()
                local request = ng:begin(path)
                support.eventually(function() return ng:get "/go" == "true\n" end)
                assert.is_true(other:getLock("x"):tryLock(20))
                assert.is_true(other:getLock("x"):unlock())
                ng:says("/go?on=1", "true")
                assert.equal("gone on\n", (request:finish()))
                free()
            end)
        end

        it("is free for the request itself when its coroutine is gone", function()
            ng:says("/exec_within?lock=1", "in 1 true")
            ng:says("/exec_within?using=1", "in 1 true")
            ng:says("/kill", "in 1 true; in 1 true")
            free()
        end)
    end)

    describe("releaseAll()", function()
        it("releases what the request has, and not what its light threads use", function()
            ng:says("/release_all", "4 held true; 1 held true")
            free()
            assert.equal("client(3 nodes, 1 held) true client(3 nodes, 0 held)",
                (ng:get "/logged"))
        end)

        it("releases in log_by_lua all that is left", function()
            ng:get "/release_all?exit=1"
            support.eventually(function()
                return ng:get "/logged" == "client(3 nodes, 5 held) true client(3 nodes, 0 held)"
            end)
            free()
        end)

        it("releases what the coroutine uses", function()
            ng:says("/release_within", "true false false")
            free()
        end)
    end)

    describe("a subrequest", function()
        it("is told at once that its parent has what it asks for", function()
            ng:says("/sub", "deadlock true; deadlock true; deadlock true; deadlock true; in 1 true")
            free()
        end)

        it("is told so of what its parent, or the request itself, has as another kind", function()
            ng:says("/other_kind", "deadlock true; deadlock true; deadlock true; in 1 true")
            free()
        end)

        it("waits for what the parent lets go while it runs", function()
            ng:says("/beside_sub", "in 1 true")
            free()
        end)

        it("that has its parent's ctx enters what that has by getLock, and is told else", function()
            ng:says("/shared_ctx", "deadlock true; deadlock true; in 2 true")
            free()
        end)

        it("is told that its parent has it since an earlier phase", function()
            ng:says("/phases_sub", "deadlock true")
            free()
        end)

        it("waits for other requests", function()
            local holder = ng:begin "/hold"
            support.eventually(function() return ng:get "/go" == "true\n" end)
            local request = ng:begin "/other_sub"
            support.eventually(function() return ng:get "/waiting" == "1" end)
            ng:get "/go?on=1"
            assert.equal("in 1 true\n", (request:finish()))
            holder:finish()
            free()
        end)

        it("waits for another one", function()
            ng:says("/siblings", "1 1 1 ")
            free()
        end)

        it("of auth_request keeps its lock, which the request cannot release", function()
            ng:says("/behind_auth", "true nil true")
            free()
        end)

        it("does not keep a worker that is told to quit", function()
            local request = ng:begin "/stuck"
            support.eventually(function() return ng:get "/go" == "true\n" end)
            assert.equal(0, ng:stop "QUIT")
            assert.equal("deadlock\n", request:finish())
            assert.equal("", ng:complaints())
        end)
    end)
end)
