-- Requests that die: what they hold ends, what they wait for is cleaned up [44].
local support = require "spec.support"

local SERVER = [[
    location /take { content_by_lua_block {
        local l = client:getLock "x"
        ngx.print(tostring(l:tryLock(tonumber(ngx.var.arg_wait) or 0)))
        l:unlock()
    } }
    location /leave { content_by_lua_block {
        assert(client:getLock("x"):tryLock(1))
        ngx.print "taken"
    } }
    location /pinned { content_by_lua_block {
        assert(client:getLock("x", { owner = ngx.var.arg_own and {} }):tryLock(1))
        -- Something refers to the hold for longer than to its owner, as the stack of a
        -- coroutine that waited for it may.
        for _, hold in pairs(client.holds.live) do
            package.loaded.pinned = hold
        end
        assert(ngx.timer.at(3, function() package.loaded.pinned = nil end))
        ngx.print "taken"
    } }
    location /early { content_by_lua_block {
        local core, wait = require("redlock.runtime.ffi").load(), client.host.wait
        function client.host.wait(round, ...)
            while core.rl_round_outcome(round) == 0 do end
            return wait(round, ...)
        end
        assert(client:getLock("x"):tryLock(10))
        client.host.wait = wait
        ngx.print "taken"
    } }
    location /collecting { content_by_lua_block {
        assert(client:getLock("x"):tryLock(1))
        collectgarbage()
        local steps = 0
        repeat
            steps = steps + 1
        until collectgarbage "step" or steps == 10000
        for _ = 1, steps * ngx.var.arg_part do
            collectgarbage "step"
        end
        ngx.print "taken"
    } }
    location /closed { content_by_lua_block {
        local closed = {}
        for i = 1, 20 do
            closed[i] = redlock.new { nodes = nodes, cluster = "spec", prefix = "other:" }
            assert(closed[i]:getLock("y"):tryLock(1))
            closed[i]:close()
        end
        package.loaded.closed = closed       -- not for the collector
        ngx.print "closed"
    } }
    location /exit { content_by_lua_block {
        assert(client:getLock("x"):tryLock(1))
        ngx.thread.spawn(function() ngx.sleep(0.01) ngx.exit(444) end)
        ngx.sleep(30)
    } }
    location /wait { lua_check_client_abort on; content_by_lua_block {
        ngx.shared.shared:incr("waiting", 1, 0)
        local l = client:getLock "x"
        local ok = l:tryLock(30)
        ngx.sleep(0.01)
        ngx.print(tostring(ok))
        l:unlock()
    } }
    location /waiting { content_by_lua_block {
        ngx.print(ngx.shared.shared:get "waiting" or 0)
    } }
    location /future { lua_check_client_abort on; content_by_lua_block {
        local future = client:getLock "x":lockAsync()
        package.loaded.future = future
        if ngx.var.arg_how == "get" then
            future:get()
        else
            redlock.wait_all { future }
        end
    } }
    location /exits { content_by_lua_block {
        local how = ngx.var.arg_how
        if how == "using" then
            client:using("y", { wait = 5 }, function() ngx.exit(200) end)
        end
        assert(client:getLock("y"):tryLock(5))
        if how == "error" then ngx.exit(500) end
        ngx.exit(200)
    } }
    location /of_another { content_by_lua_block {
        repeat ngx.sleep(0.01) until package.loaded.future
        local ok, err = package.loaded.future:get()
        ngx.print(ok and "ok" or err.code)
    } }
    location /waits { content_by_lua_block {
        local n = 0
        for _ in pairs(require("redlock.host.nginx").box.waiting) do n = n + 1 end
        ngx.print(n)
    } }
    location /tasks { content_by_lua_block {
        collectgarbage() collectgarbage()
        ngx.print(next(require("redlock.host.nginx").box.tasks) and "some" or "none")
    } }
    location /kill { content_by_lua_block {
        local threads = {}
        for i = 1, 20 do
            threads[i] = ngx.thread.spawn(function()
                return client:getLock("x", { owner = i }):tryLock(30)
            end)
        end
        ngx.sleep(0.05)
        for i = 1, 20 do
            assert(ngx.thread.kill(threads[i]))
        end
        ngx.print "killed"
    } }
    location /kill_offered { content_by_lua_block {
        local function take(owner)
            local l = client:getLock("x", { owner = owner })
            assert(l:lock(60))
            return l
        end
        local first = take(0)
        local dies = ngx.thread.spawn(take, 1)
        local lives = ngx.thread.spawn(take, 2)
        ngx.sleep(0.02)              -- who held it for 50 ms passes nothing on
        collectgarbage "stop"        -- which would release what is lost
        assert(first:unlock())       -- offered to the first waiter, which dies before it runs
        assert(ngx.thread.kill(dies))
        local _, l = ngx.thread.wait(lives)
        collectgarbage "restart"
        assert(l:unlock())
        ngx.print "served"
    } }
    location /abort { lua_check_client_abort on; content_by_lua_block {
        local l = client:getLock "x"
        assert(ngx.on_abort(function()
            l:unlock()
            ngx.exit(499)
        end))
        assert(l:tryLock(1))
        ngx.sleep(60)
    } }
]]

describe("in nginx a request that dies", function()
    local cluster = support.shared_cluster(3)
    local ng

    before_each(function()
        ng = support.nginx { nodes = cluster, server = SERVER, options = "lease = 1.5",
            shutdown = "3s" }
    end)

    after_each(function()
        ng:ends("TERM", "client prematurely closed")
    end)

    local function held()
        return cluster:keys() > 0
    end

    local function waiting(n)
        support.eventually(function()
            return tonumber((ng:get "/waiting")) == n
        end)
    end

    local function ends()
        support.eventually(function() return not held() end, 30, "the end of the lease")
    end

    it("without unlocking is not renewed for long, in an idle worker", function()
        assert.equal("taken", ng:get "/leave")
        ends()
        assert.equal("true", ng:get "/take?wait=1")
    end)

    it("counts as one that has released what it held", function()
        for _ = 1, 3 do
            assert.equal("taken", ng:get "/leave")
            ends()
        end
        support.eventually(function()
            local acquired, released, lost = ng:get("/stats"):match "^(%d+) (%d+) %d+ %d+ (%d+)"
            return acquired == "3" and released == "3" and lost == "0"
        end)
    end)

    it("is noticed where the servers answered before it began to wait", function()
        assert.equal("taken", ng:get "/early")
        ends()
    end)

    it("is noticed where it dies in the middle of a collection", function()
        for part = 0.3, 0.9, 0.2 do
            assert.equal("taken", ng:get("/collecting?part=" .. part))
            ends()
        end
    end)

    it("is noticed where its owner is collected long before its hold", function()
        for _, query in ipairs { "", "?own=1" } do
            assert.equal("taken", ng:get("/pinned" .. query))
            ends()
        end
    end)

    it("is noticed beside clients that were closed", function()
        assert.equal("closed", ng:get "/closed")
        support.eventually(function() return not held() end)
        assert.equal("taken", ng:get "/leave")
        ends()
    end)

    it("without unlocking is renewed for long where others wait", function()
        assert.equal("taken", ng:get "/leave")
        assert.equal("true", ng:get "/take?wait=30")
    end)

    it("by ngx.exit does not keep its lock", function()
        ng:get "/exit"
        ends()
    end)

    it("by an abort releases at once with an on_abort handler", function()
        local request = ng:begin "/abort"
        support.eventually(held)
        support.sleep(2)               -- renewed as long as it lives
        assert.is_true(held())
        request:abort()
        support.eventually(function() return not held() end, 1.4, "the release")
    end)

    it("while it waits leaves the queue, and the others go on", function()
        local other = support.warm_client(cluster)
        local l = other:getLock "x"
        assert.is_true(l:tryLock(1, 30))
        local requests = {}
        for i = 1, 10 do
            requests[i] = ng:begin "/wait"
            waiting(i)
        end
        for i = 1, 9 do                -- the first one, who contends, among them
            requests[i]:abort()
        end
        support.sleep(0.2)
        assert.is_true(l:unlock())
        assert.equal("true", requests[10]:finish())
        support.eventually(function() return not held() end)
        other:close()
    end)

    it("while it is the next one does not get the lock that is passed on", function()
        local requests = {}
        for i = 1, 12 do
            requests[i] = ng:begin "/wait"
        end
        for i = 1, 12, 2 do
            requests[i]:abort()
        end
        for i = 2, 12, 2 do
            -- What one held who died is let go when nginx has cleaned up behind him.
            assert.equal("true", requests[i]:finish(60))
        end
        support.eventually(function() return not held() end)
    end)

    it("by ngx.thread.kill passes on what the dead had just been offered", function()
        for _ = 1, 3 do
            assert.equal("served", ng:get("/kill_offered", 50))
        end
    end)

    it("by ngx.thread.kill leaves nothing", function()
        local other = support.warm_client(cluster)
        local l = other:getLock "x"
        assert.is_true(l:tryLock(1, 30))
        for _ = 1, 5 do
            assert.equal("killed", ng:get "/kill")
        end
        assert.is_true(l:unlock())
        assert.equal("true", ng:get "/take?wait=5")
        support.eventually(function() return not held() end)
        other:close()
    end)

    -- The reader looks by itself four times a second.
    for _, how in ipairs { "using", "exit", "error" } do
        it("holding something opens it at once: " .. how, function()
            local other = support.warm_client(cluster)
            local l = other:getLock "y"
            support.eventually(function()
                local slowest = 0
                for _ = 1, 25 do
                    ng:get("/exits?how=" .. how, 60)
                    local from = support.now()
                    assert(l:tryLock(10))
                    slowest = math.max(slowest, support.now() - from)
                    assert(l:unlock())
                    support.sleep(0.013)     -- any time between two of its looks
                end
                return slowest < 0.1
            end, 60, "25 in less than 100 ms each")
            other:close()
        end)
    end

    it("while it waits for a future leaves no wait, and ends the future", function()
        local other = support.warm_client(cluster)
        assert.is_true(other:getLock("x"):tryLock(1, 30))
        local function waits(n)
            support.eventually(function() return n(tonumber((ng:get "/waits"))) end, 60, "waits")
        end
        for _, how in ipairs { "get", "wait_all" } do
            local request = ng:begin("/future?how=" .. how)
            waits(function(n) return n >= 2 end)
            local another = ng:begin "/of_another"
            waits(function(n) return n >= 3 end)
            request:abort()
            assert.equal("cancelled", another:finish(60))
            waits(function(n) return n == 0 end)
            ng:says("/tasks", "none")
        end
        other:close()
    end)

    it("in the middle of an attempt gives back what it was granted", function()
        support.all(cluster, 1, 3):freeze()
        local requests = {}
        for i = 1, 5 do
            requests[i] = ng:begin "/wait"
        end
        support.sleep(0.1)
        support.all(requests, 1, 5):abort()
        support.all(cluster, 1, 3):thaw()
        support.eventually(function() return not held() end, 5, "the clean-up")
        assert.equal("true", ng:get "/take?wait=5")
    end)
end)

describe("in an nginx that does not poll for the library a request that dies", function()
    local cluster, ng

    setup(function()
        cluster = support.cluster(3)
        ng = support.nginx { nodes = cluster, server = SERVER, options = "lease = 1.5",
            first = [[require("ffi").cdef
                'int redlock_ngx_sema_post(void *, int) __asm__("none_such");']] }
    end)
    teardown(function() ng:ends("TERM", "this nginx does not poll for the library") end)

    it("is noticed while nobody waits", function()
        for _, path in ipairs { "/early", "/leave", "/pinned" } do
            assert.equal("taken", ng:get(path))
            cluster:await_free(30)
        end
    end)
end)

-- What a dead request held is let go when that is found: with the usual lease nobody would get
-- it within half a minute else.
describe("in nginx what a dead request held", function()
    local cluster, ng, storm

    local DYING = [[
        location /leave { content_by_lua_block {
            assert(client:getLock("x", { owner = ngx.var.arg_own and {} }):tryLock(1))
            ngx.print "taken"
        } }
        location /kill { content_by_lua_block {
            local function hold()
                local l = client:getLock("x", { owner = {} })
                assert(l:tryLock(1))
                ngx.sleep(60)
                l:unlock()
            end
            assert(ngx.thread.kill(ngx.thread.spawn(hold)))
            ngx.print "taken"
        } }
        location /short { lua_check_client_abort on; content_by_lua_block {
            local l = client:getLock "x"
            if l:tryLock(5) then
                ngx.sleep(0.002)
                l:unlock()
            end
        } }
        location /take { content_by_lua_block {
            local l = client:getLock "x"
            ngx.print(tostring(l:tryLock(20)), " ", tostring(l:unlock()))
        } }
        location /held { content_by_lua_block {
            ngx.print(ngx.worker.pid(), " ", tostring(client))
        } }
    ]]

    -- So many requests whose clients go away.
    local STORM = [[
        location /storm { content_by_lua_block {
            local threads = {}
            for i = 1, 100 do
                threads[i] = ngx.thread.spawn(function()
                    local sock = ngx.socket.tcp()
                    assert(sock:connect("127.0.0.1", tonumber(ngx.var.arg_port)))
                    assert(sock:send "GET /short HTTP/1.0\r\n\r\n")
                    ngx.sleep(0.001 + math.random() * 0.15)
                    sock:close()
                end)
            end
            for i = 1, #threads do
                assert(ngx.thread.wait(threads[i]))
            end
            ngx.print "over"
        } }
    ]]

    setup(function()
        cluster = support.cluster(3)
        ng = support.nginx { nodes = cluster, server = DYING, workers = 2 }
        storm = support.nginx { nodes = cluster, server = STORM }
    end)
    teardown(function()
        for _, one in ipairs { ng, storm } do
            one:ends("TERM", "client prematurely closed")
        end
    end)

    it("goes to the next one, in any process", function()
        local other = support.warm_client(cluster)
        for _, path in ipairs { "/leave", "/leave?own=1", "/kill" } do
            assert.equal("taken", ng:get(path))
            assert.equal("true true", ng:get("/take", 25))
            assert.equal("taken", ng:get(path))
            assert.is_true(other:getLock("x"):tryLock(20))
            assert.is_true(other:getLock("x"):unlock())
        end
        other:close()
    end)

    it("is let go, however many die for one name", function()
        for _ = 1, tonumber(os.getenv "STORMS") or 3 do
            assert.equal("over", storm:get("/storm?port=" .. ng.port))
            cluster:await_free(20)
            local idle = {}
            support.eventually(function()
                local pid, held = ng:get("/held"):match "^(%d+) .* (%d+) held"
                idle[pid] = held == "0" or nil
                return idle[tostring(ng:workers()[1])] and idle[tostring(ng:workers()[2])]
            end, 20, "workers without holds")
        end
    end)
end)

-- While all timers are taken nothing of the library runs behind a request that ends.
for max, fill in pairs {
    pending = "ngx.timer.at(60, function() end)",
    running = "ngx.timer.at(0, function() ngx.sleep(60) end)",
} do
    describe("in a worker that has no timer to spare, by max_" .. max .. "_timers,", function()
        local cluster, ng, other

        setup(function()
            cluster = support.cluster(3)
            other = support.warm_client(cluster)
            ng = support.nginx { nodes = cluster, http = "lua_max_" .. max .. "_timers 2;",
                server = ([[
                    location /fill { content_by_lua_block {
                        for _ = 1, 2 do FILL end
                        ngx.print "filled"
                    } }
                    location /take { content_by_lua_block {
                        assert(client:getLock("x"):tryLock(5))
                        assert(client:getLock("y"):tryLock(5))
                        ngx.print "taken"
                    } }
                    location /using { content_by_lua_block {
                        client:using("x", { wait = 5 }, function() ngx.exit(200) end)
                    } }
                    location /stay { content_by_lua_block {
                        local lock = client:getLock "stays"
                        assert(lock:tryLock(5))
                        repeat ngx.sleep(0.02) until ngx.shared.shared:get "leave"
                        ngx.print(tostring(lock:unlock()))
                    } }
                    location /passed { content_by_lua_block {
                        assert(client:getLock("x"):tryLock(5))
                        local lock = client:getLock("y", { owner = 1 })
                        repeat           -- who held it for 50 ms passes nothing on
                            lock:unlock()
                            assert(client:getLock("y"):tryLock(5))
                            local taken = ngx.thread.spawn(lock.tryLock, lock, 5)
                            ngx.sleep(0.02)
                            assert(client:getLock("y"):unlock())
                            ngx.thread.wait(taken)
                        until client:stats().handed_over > 0
                        ngx.print "passed"
                    } }
                    location /leave { content_by_lua_block {
                        ngx.shared.shared:set("leave", true)
                        ngx.print(tostring(client:getLock("y", { owner = 1 }):unlock()))
                    } }
                ]]):gsub("FILL", fill) }
        end)
        teardown(function()
            other:close()
            ng:ends("TERM", "timer")
        end)

        it("what a dead request held is free at once, and nothing else", function()
            ng:says("/fill", "filled")
            local stays = ng:begin "/stay"
            support.eventually(function() return other:getLock("stays"):isLocked() end)
            for path, names in pairs { ["/take"] = { "x", "y" }, ["/using"] = { "x" } } do
                ng:get(path)
                for _, name in ipairs(names) do
                    local lock = other:getLock(name)
                    assert.is_true(lock:tryLock(5))
                    assert.is_true(lock:unlock())
                end
            end
            ng:says("/passed", "passed")
            assert.is_true(other:getLock("x"):tryLock(5))
            support.fails("held", other:getLock("stays"):tryLock(0))
            support.fails("held", other:getLock("y"):tryLock(0))     -- it has another owner now
            ng:says("/leave", "true")
            assert.equal("true", stays:finish())
        end)
    end)
end

-- Where the collector has much to look at, and nothing else makes it run: a second's share of
-- it is a fraction of one collection.
describe("in a large worker of nginx a request that dies", function()
    local cluster, ng

    setup(function()
        cluster = support.cluster(3)
        ng = support.nginx { nodes = cluster, options = "lease = 6",
            server = SERVER .. "location /n { content_by_lua_block { ngx.print(collections) } }",
            init = [[
                collections = 0
                local function count()
                    collections = collections + 1
                    getmetatable(newproxy(true)).__gc = count
                end
                count()
                ballast = {}
                for i = 1, 1000 do
                    ballast[i] = {}
                    for k = 1, 400 do
                        ballast[i][k] = { i, i .. (" "):rep(40) .. k }
                    end
                end
            ]] }
    end)
    -- A master that is told TERM kills a worker that has not freed all its memory in a second.
    teardown(function() ng:ends "QUIT" end)

    -- The collector, which may find him, works in a hurry, and then rests for as long as 1 % of a
    -- core allows.
    it("is not looked for all the time where the holder lives", function()
        local function collections() return tonumber((ng:get "/n")) end
        local holder = ng:begin "/once?name=lives&hold=9"
        support.eventually(function() return cluster:keys() > 0 end)
        local waiter, before = ng:begin "/once?name=lives&wait=30", collections()
        support.eventually(function() return collections() >= before + 3 end)
        support.eventually(function()         -- one of before the hurry may have been among these
            before = collections()
            assert.equal("ok", ng:get "/once?name=other&hold=3")
            return collections() == before
        end, 4)
        assert.equal("ok ok", holder:finish() .. " " .. waiter:finish())
    end)

    it("is found in some seconds by those who wait for its lock", function()
        assert.is_true(tonumber((ng:get "/memory")) > 50000)
        for _ = 1, 2 do
            assert.equal("taken", ng:get "/leave")
            local started = support.now()
            assert.equal("true", ng:get "/take?wait=60")
            assert.is_true(support.now() - started < 50)
        end
    end)
end)

describe("in nginx a request that dies while servers learn what they have counted", function()
    -- The question what they know: a number of 14 digits comes right behind the floors.
    local FLOORS = "redlock:{server}:floor"
    local QUESTION = FLOORS .. "\r\n$14\r\n"

    local cluster, proxies, ng, other

    setup(function()
        cluster = support.cluster(3, { new = true }):admit(60)
        support.all(cluster):call("HDEL", FLOORS, "base", "most")
        proxies = support.proxies(cluster)
        ng = support.nginx { nodes = proxies, server = [[
            location /wait { lua_check_client_abort on; content_by_lua_block {
                local l = client:getFencedLock "x"
                local ok, err = l:tryLock(20)
                ngx.print(tostring(ok or err))
                if ok then l:unlock() end
            } }
            location = /waiting { content_by_lua_block { ngx.print(client:stats().waiting) } }
        ]] }
        other = support.warm_client(cluster)
    end)
    teardown(function()
        ng:ends("TERM", "client prematurely closed")
        other:close()
    end)

    local function held_back()
        local n = 0
        for i = 1, 3 do
            n = n + proxies[i]:held()
        end
        return n
    end

    it("makes way for those behind it", function()
        local l = other:getLock "x"
        assert.is_true(l:tryLock(1, 30))
        local requests = {}
        for i = 1, 2 do
            requests[i] = ng:begin "/wait"
            support.eventually(function() return ng:get "/waiting" == tostring(i) end)
        end
        support.all(proxies, 1, 3):hold_request(QUESTION)
        assert.is_true(l:unlock())
        support.eventually(function() return held_back() >= 2 end, 5, "the question")
        requests[1]:abort()
        support.eventually(function()
            return ng:log():find "client prematurely closed"
        end, 5, "the abort")
        support.all(proxies, 1, 3):release()
        assert.equal("true", requests[2]:finish())
        assert.equal("0", ng:get "/waiting")
    end)
end)
