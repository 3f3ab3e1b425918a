-- Workers come and go: reloads under load, exits, no code cache, no timers left [45].
local nginx = require "spec.support.nginx"
local support = require "spec.support"

local INIT = [[
    function await_told(seconds)
        local till = ngx.now() + seconds
        repeat
            ngx.sleep(0.01)
        until ngx.shared.shared:get "lost" or ngx.now() >= till
    end
    function await_quit()
        ngx.shared.shared:set("begun", true)
        repeat
            ngx.sleep(0.01)
        until ngx.worker.exiting()
    end
]]

local SERVER = [[
    location /cycle { content_by_lua_block {
        local l = client:getLock("n" .. ngx.var.connection)
        local ok, err = l:tryLock(5, 10)
        if ok then
            ok, err = l:unlock()
        end
        if not ok then
            ngx.log(ngx.ERR, err)
            ngx.exit(500)
        end
        ngx.print "ok"
    } }
    location /same { content_by_lua_block {
        local l = client:getLock "same"
        local ok, err = l:tryLock(20, 10)
        if ok then
            local shared = ngx.shared.shared
            if shared:incr("inside", 1, 0) ~= 1 then
                ngx.log(ngx.ERR, "two inside")
            end
            if ngx.var.arg_hold then
                ngx.sleep(tonumber(ngx.var.arg_hold))
            end
            shared:incr("inside", -1)
            ok, err = l:unlock()
        end
        if not ok then
            ngx.log(ngx.ERR, err)
            ngx.exit(500)
        end
        ngx.print "ok"
    } }
    location /leave { content_by_lua_block {
        assert(client:getLock("left"):tryLock(1))
        ngx.print "taken"
    } }
    location /hold { content_by_lua_block {
        assert(client:getLock("held"):tryLock(1))
        repeat
            ngx.sleep(0.01)
        until ngx.shared.shared:get "go"
        ngx.print(tostring(client:getLock("held"):isValid()), " ",
            tostring(client:getLock("held"):unlock()))
    } }
    location /late { content_by_lua_block {
        await_quit()
        local l = client:getLock "late"
        assert(l:tryLock(8))
        if not ngx.var.arg_leave then
            ngx.sleep(0.3)             -- so that the other waits
            assert(l:unlock())
        end
        ngx.print "ok"
    } }
    location /go { content_by_lua_block {
        ngx.shared.shared:set("go", true)
    } }
    location /begun { content_by_lua_block {
        ngx.print(tostring(ngx.shared.shared:get "begun"))
    } }
    location /lost { content_by_lua_block {
        if ngx.var.arg_late then
            await_quit()
        end
        local l = client:getLock("lost", { owner = ngx.var.arg_own })
        assert(l:tryLock(1))
        l:onLost(function(_, why)
            ngx.sleep(0.001)           -- it may wait: a timer of its own runs it
            ngx.shared.shared:set("lost", why .. " " .. ngx.get_phase())
        end)
        await_told(tonumber(ngx.var.arg_s))
        ngx.print(tostring(l:isValid()))
    } }
    location /ending { content_by_lua_block {
        local l = client:getLock "ending"
        assert(l:tryLock(1, 1.5))
        assert(l:onEnding(1, function(_, left)
            ngx.sleep(0.001)
            ngx.shared.shared:set("lost", (left > 0 and left <= 1 and l.getName(l) or left)
                .. " " .. ngx.get_phase())
        end))
        await_told(20)
    } }
    location /nightly { content_by_lua_block {
        local l = client:getLock("nightly", { owner = "nightly" })
        assert(l:tryLock(1))
        if ngx.var.arg_listens then
            assert(l:onLost(function() end))
        end
        ngx.print "taken"
    } }
    location /two_losses { content_by_lua_block {
        local inside, most, told = 0, 0, 0
        for i = 1, 2 do
            local l = client:getLock("short" .. i)
            assert(l:tryLock(1, 0.3))
            l:onLost(function()
                assert(client:getLock("both"):tryLock(10))
                inside = inside + 1
                most = math.max(most, inside)
                ngx.sleep(0.05)
                inside, told = inside - 1, told + 1
                client:getLock("both"):unlock()
            end)
        end
        repeat ngx.sleep(0.01) until told == 2
        ngx.print(tostring(most == 1))
    } }
    location /said { content_by_lua_block {
        ngx.print(ngx.shared.shared:get "lost" or "nothing")
    } }
]]

describe("a worker of nginx", function()
    local cluster = support.shared_cluster(3)
    local ng

    local function start(opts)
        opts = opts or {}
        opts.nodes, opts.init, opts.server = cluster, INIT, opts.server or SERVER
        ng = support.nginx(opts)
        return ng
    end

    after_each(function()
        if ng then
            if ng.proc:alive() then
                assert.equal(0, ng:stop "QUIT")
            end
            assert.equal("", ng:complaints(ng.expected))
            ng = nil
        end
    end)

    -- wrk's load until it ends by itself: requests, and those not answered well. A path with `hold`
    -- holds for some seconds: as many are served at a time, by less of a processor.
    local function load(path, seconds, connections)
        local wrk = support.spawn { "wrk", "-t1", "-c" .. connections, "-d" .. seconds .. "s",
            "--timeout", "30s", ("http://127.0.0.1:%d%s"):format(ng.port, path),
            stdout = "pipe", stderr = "stdout" }
        return {
            finish = function()
                local text = wrk:read_all(seconds + 40)
                assert.equal(0, wrk:wait(5), text)
                return tonumber(text:match "(%d+) requests in"),
                    tonumber(text:match "Non%-2xx or 3xx responses: (%d+)" or 0), text
            end,
        }
    end

    -- A request that awaits it goes on in the old worker.
    local function reload_beside_request()
        support.eventually(function() return (ng:get "/begun") == "true" end)
        ng:reload()
    end

    it("is reloaded under load without a failed request", function()
        start { workers = 2, user = "www-data", options = "max_lease = 60" }
        local a, b = load("/cycle", 3, 8), load("/same?hold=0.002", 3, 8)
        for _ = 1, 3 do
            support.sleep(0.7)
            ng:reload()
        end
        local requests, failed, text = a.finish()
        assert.equal(0, failed, text)
        assert.is_true(requests > 100, requests)
        requests, failed, text = b.finish()
        assert.equal(0, failed, text)
        assert.is_true(requests > 20, requests)
        support.eventually(function() return #ng:workers() == 2 end, 15, "old workers to end")
        cluster:await_free()
    end)

    it("ends on a reload although a lock was forgotten, and releases it", function()
        start()
        assert.equal("taken", ng:get "/leave")
        ng:reload()
        support.eventually(function() return #ng:workers() == 1 end, 60, "the old worker to end")
        cluster:await_free(5)
    end)

    it("keeps the lock of a running request while it is shut down", function()
        start { options = "lease = 2" }
        local request = ng:begin "/hold"
        support.eventually(function() return cluster:keys() == 3 end)
        ng:reload()
        support.sleep(2.5)
        assert.equal(3, cluster:keys())
        ng:get "/go"
        assert.equal("true true", request:finish())
        cluster:await_free()
        support.eventually(function() return #ng:workers() == 1 end, 15, "the old worker to end")
    end)

    -- nginx takes the connection behind a worker's timers for a leak when the first timer is
    -- made after it was told to quit.
    it("takes its first locks while it is shut down, and leaves no socket", function()
        for _, query in ipairs { "", "?leave=1" } do
            start { options = "lease = 3" }
            local a, b = ng:begin("/late" .. query), ng:begin("/late" .. query)
            reload_beside_request()
            assert.equal("ok", a:finish())
            assert.equal("ok", b:finish())
            support.eventually(function() return #ng:workers() == 1 end, 15,
                "the old worker to end")
            cluster:await_free(5)
            assert.equal("", ng:complaints())
            assert.is_nil(ng:log():find "no timer")
            ng:stop "QUIT"
        end
    end)

    it("releases what is held when it is told to end at once", function()
        start()
        ng:begin "/hold"
        support.eventually(function() return cluster:keys() >= 2 end)
        assert.equal("taken", ng:get "/leave")
        assert.equal(0, ng:stop "TERM")
        cluster:await_free(5)
    end)

    it("runs as root or not, and has no descriptors or threads too many", function()
        local all, pids, fds = {}, {}, {}
        for i, user in ipairs { "www-data", "root" } do
            all[i] = start { user = user }
            assert.equal("ok", ng:get "/cycle")
            pids[i] = ng:workers()[1]
        end
        -- A load of each, and a pause behind it.
        local function loads(pause)
            local those = {}
            for i, one in ipairs(all) do
                ng = one
                those[i] = load("/same?hold=0.005", 1, 16)
            end
            for _, one in ipairs(those) do
                one.finish()
            end
            support.sleep(pause)
            for _, one in ipairs(all) do
                assert.equal("ok", one:get "/cycle")
            end
        end
        loads(2.5)          -- connections for messages are open; the reader ends, and begins again
        for i, pid in ipairs(pids) do
            fds[i] = support.fds(pid)
        end
        loads(1.2)
        loads(1.2)
        for i, pid in ipairs(pids) do
            support.eventually(function() return support.fds(pid) <= fds[i] + 1 end, 10,
                "the descriptors of the requests to be closed")
            assert.equal(2, support.threads(pid))
            all[i]:ends "QUIT"
        end
        ng = nil
    end)

    it("tells of a loss in time, in a timer of its own", function()
        start { options = "lease = 3" }
        local request = ng:begin "/lost?s=20"
        support.eventually(function() return cluster:keys() >= 2 end)
        cluster:flush()
        support.eventually(function() return ng:get "/said" == "forgotten timer" end, 20, "onLost")
        assert.equal("false", request:finish())
    end)

    it("tells before the time of a lock is over, in a timer of its own", function()
        start()
        local request = ng:begin "/ending"
        support.eventually(function() return (ng:get "/said") == "ending timer" end, 20, "onEnding")
        request:finish()
    end)

    -- nginx drops a timer that is due when too many run.
    it("tells both where the reader has the last timer, each function as an owner of its own",
        function()
            start { options = "lease = 1", http = "lua_max_running_timers 2;",
                init_worker = "ngx.timer.at(0, function() ngx.sleep(600) end)", shutdown = "1s" }
            local request = ng:begin "/ending"
            support.eventually(function() return ng:get "/said" == "ending timer" end, 20,
                "onEnding")
            request:finish()
            assert.equal("true", ng:get "/two_losses")
            ng.expected = "lua_max_running_timers are not enough"
            ng:stop "TERM"
        end)

    it("that is told to quit does not wait for what nobody releases any more", function()
        for _, query in ipairs { "", "?listens=1" } do
            start { shutdown = "600s" }
            assert.equal("taken", ng:get("/nightly" .. query))
            assert.equal(0, ng:stop "QUIT")          -- max_hold: an hour
            cluster:await_free(60)
            assert.equal("", ng:complaints())
        end
    end)

    local function tells_beside_shutdown(query)
        start { options = "lease = 3" }
        local request = ng:begin("/lost?s=20&late=1" .. query)
        reload_beside_request()
        cluster:each(function(s)
            support.eventually(function() return s:call("EXISTS", "lost") == 1 end)
        end)
        cluster:flush()
        support.eventually(function() return ng:get "/said" == "forgotten timer" end, 20, "onLost")
        assert.equal("false", request:finish())
        ng.expected = "[alert]"      -- of nginx: this first timer of the worker comes too late
    end

    it("tells of a loss in time also of a lock that it takes while it is shut down", function()
        tells_beside_shutdown ""
    end)

    it("tells of a loss then also of one that another owner is to have", function()
        tells_beside_shutdown "&own=me"
    end)

    -- kB that Lua keeps in the worker, once the requests that a load has left are over.
    local function kept()
        local before, now
        support.eventually(function()
            before, now = now, tonumber((ng:get "/memory"))
            return before and math.abs(now - before) < 8
        end)
        return now
    end

    it("goes on without a timer for the reader, and says so once", function()
        start {
            http = "lua_max_running_timers 1;",
            init_worker = "ngx.timer.at(0, function() repeat ngx.sleep(0.1) "
                .. "until ngx.shared.shared:get 'enough' end)",
            server = SERVER .. [[location /enough { content_by_lua_block {
                ngx.shared.shared:set("enough", true)
            } }]],
        }
        support.sleep(0.2)
        assert.equal("ok", ng:get "/cycle")
        local requests, failed, text = load("/same", 2, 8).finish()
        assert.equal(0, failed, text)
        assert.is_true(requests > 20, requests)
        local _, times = ng:log():gsub("no timer wakes those who wait", "")
        assert.equal(1, times)
        -- A record of each wait would be more, each time; what the compiler makes is not.
        support.eventually(function()
            local before = kept()
            load("/same", 2, 8).finish()
            return kept() - before < 200
        end, 60, "an end of what is kept")
        ng:get "/enough"
        support.sleep(0.5)               -- the other timer is over
        assert.equal("ok", ng:get "/cycle")
        local log = ng:log():gsub("[^\n]*no timer wakes[^\n]*\n", "")
            :gsub("[^\n]*lua_max_running_timers are not enough[^\n]*\n", "")
        assert.is_nil(log:find "%[alert%]")
        assert.is_nil(log:find "%[error%]")
        ng:stop "QUIT"
        ng = nil
    end)

    -- Requests are served, and the log says why that is slow, once a second at most.
    local function goes_on(why)
        local began = support.now()
        assert.equal("ok", ng:get "/cycle")
        local requests, failed, text = load("/same?hold=0.002", 2, 8).finish()
        assert.equal(0, failed, text)
        assert.is_true(requests > 20, requests)
        local _, times = ng:log():gsub(why, "")
        assert.is_true(times >= 1 and times <= support.now() - began + 2, times .. " times")
    end

    -- Other symbols stand for those of nginx: the first declaration counts.
    for what, declaration in pairs {
        ["without that function of the Lua module"] = 'int redlock_ngx_sema_post(void *, int) '
            .. '__asm__("none_such");',
        ["without epoll"] = 'void redlock_ngx_epoll(void) __asm__("none_such");',
    } do
        it("goes on in an nginx " .. what .. ", and says so once", function()
            start { first = ("require('ffi').cdef %q"):format(declaration) }
            goes_on "this nginx does not poll for the library"
            goes_on "this nginx does not poll for the library"
            local _, times = ng:log():gsub("redlock:", "")
            assert.equal(1, times)
            ng:stop "QUIT"
            ng = nil
        end)
    end

    it("goes on where nginx has no connection for the reader, and says so at times", function()
        start { first = "require('ffi').cdef [[intptr_t redlock_ngx_add_event(void *, int, "
            .. 'intptr_t, void (*)(void *)) __asm__("getpid");]]' }
        goes_on "nginx has no connection for it %(worker_connections%)"
        ng:stop "QUIT"
        ng = nil
    end)

    it("goes on without any timer, and says so at times", function()
        start {
            options = "lease = 2",
            http = "lua_max_pending_timers 1;",
            init_worker = "ngx.timer.at(1000, function() end)",
        }
        goes_on "no timer for the reader: too many pending timers"
        local request = ng:begin "/lost?s=3"
        cluster:each(function(s)
            support.eventually(function() return s:call("EXISTS", "lost") == 1 end)
        end)
        cluster:flush()
        assert.equal("false", request:finish())
        assert.equal("forgotten content", (ng:get "/said"))
        assert.matches("no timer for a callback %(too many pending timers%); it runs now", ng:log())
        ng:stop "QUIT"
        ng = nil
    end)

    it("may have no code cache: a Lua state for each request", function()
        start { code_cache = false }
        -- Each state has a timer of its own for a second: fast machines run out of them.
        ng.expected = "lua_max_running_timers"
        assert.equal("ok", ng:get "/cycle")
        local pid = ng:workers()[1]
        for path, least in pairs { ["/cycle"] = 4, ["/same"] = 6 } do
            support.eventually(function()        -- slow machines need several times
                local requests, failed, text = load(path, 2, 4).finish()
                assert.equal(0, failed, text)
                least = least - requests
                return least <= 0
            end, 60)
        end
        cluster:await_free()
        support.eventually(function()
            return support.threads(pid) == 2 and cluster[1]:connections() <= 2
        end)
    end)

    it("may have another hiredis in it (nchan)", function()
        if not nginx.has_module "ngx_nchan_module.so" then
            return pending "this nginx has no nchan"
        end
        start { modules = { "ngx_nchan_module.so" } }
        assert.equal("ok", ng:get "/cycle")
        local requests, failed, text = load("/cycle", 1, 8).finish()
        assert.equal(0, failed, text)
        assert.is_true(requests > 10)
    end)
end)
