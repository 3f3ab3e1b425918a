-- OpenResty: a request that waits yields; owners are requests; phases.
local nginx = require "spec.support.nginx"
local support = require "spec.support"
local sys = require "spec.support.sys"

describe("nginx", function()
    local cluster = support.shared_cluster(3)
    local ng

    local function start(server, opts)
        opts = opts or {}
        opts.nodes, opts.server = cluster, server
        ng = support.nginx(opts)
        return ng
    end

    after_each(function()
        if ng then
            ng:ends "QUIT"
            ng = nil
        end
    end)

    local function free(n)
        support.eventually(function() return cluster:keys() == (n or 0) end, 5, "the release")
    end

    describe("requests", function()
        it("learn whether servers are silent, and do not delay others meanwhile", function()
            start [[ location = /healthz { content_by_lua_block {
                local healthy, err = client:health()
                ngx.print(healthy and "ok" or err.code)
            } } ]]
            local function says(what)
                support.eventually(function() return ng:get "/healthz" == what end, 60)
            end
            says "ok"
            cluster[1]:freeze()
            cluster[2]:freeze()
            support.sleep(1)             -- then the next one asks
            local waiting = {}
            for i = 1, 5 do
                waiting[i] = ng:begin "/healthz"
            end
            assert.matches("^pong", (ng:get "/ping"))
            for i = 1, 5 do
                assert.equal("no_quorum", waiting[i]:finish())
            end
            cluster[1]:thaw()
            cluster[2]:thaw()
            says "ok"
        end)

        it("do not delay others of their worker while they wait [43]", function()
            start()
            local other = support.warm_client(cluster)
            local l = other:getLock "x"
            assert.is_true(l:tryLock(1, 30))
            local waiting = {}
            for i = 1, 20 do
                waiting[i] = ng:begin "/once?wait=20"
            end
            -- One of ours, two of the worker's.
            support.eventually(function() return cluster[1]:connections() == 3 end)
            local worst = 0
            for _ = 1, 20 do
                local from = support.now()
                assert.truthy(ng:get "/ping")
                worst = math.max(worst, support.now() - from)
            end
            assert.is_true(worst < 2)
            assert.equal(3, cluster[1]:connections())
            assert.is_true(l:unlock())
            for i = 1, 20 do
                assert.equal("ok", waiting[i]:finish())
            end
            other:close()
            free()
        end)
    end)

    -- What is posted in a turn that ngx.sleep(0) began OpenResty runs only after its next poll,
    -- which may be long: a signalled descriptor ends that at once.
    it("is told by the mailbox's descriptor, too, that something came", function()
        start [==[ location = /rings { content_by_lua_block {
            local ffi, box = require "ffi", require("redlock.host.nginx").box
            ffi.cdef [=[
                struct spec_pollfd { int fd; short events, revents; };
                int poll(struct spec_pollfd *, unsigned long, int);
            ]=]
            local fds = ffi.new("struct spec_pollfd[1]")
            local function signalled()
                fds[0].fd, fds[0].events = box:fd(), 1
                return ffi.C.poll(fds, 1, 0)
            end
            assert(client:getLock("x"):tryLock())        -- the reader waits for the bell
            repeat ngx.sleep(0.01) until signalled() == 0
            for _ = 1, 2 do
                box.C.rl_mailbox_ring(box.mailbox)
                ngx.print(signalled(), " ")
                ngx.sleep(0.1)
            end
            ngx.print(signalled())
            client:getLock("x"):unlock()
        } } ]==]
        ng:says("/rings", "1 1 0")
    end)

    describe("phases", function()
        it("that can yield take the lock", function()
            start [[
                location /rewrite { rewrite_by_lua_block {
                    ngx.ctx.ok = client:getLock("x"):tryLock(1, 5)
                    ngx.ctx.ok = ngx.ctx.ok and client:getLock("x"):unlock()
                } content_by_lua_block { ngx.print(tostring(ngx.ctx.ok)) } }
                location /access { access_by_lua_block {
                    ngx.ctx.ok = client:getLock("x"):tryLock(1, 5)
                    ngx.ctx.ok = ngx.ctx.ok and client:getLock("x"):unlock()
                } content_by_lua_block { ngx.print(tostring(ngx.ctx.ok)) } }
                location /timer { content_by_lua_block {
                    local sem = require "ngx.semaphore".new(0)
                    local said
                    ngx.timer.at(0, function()
                        local ok, err = client:getLock("x"):tryLock(1, 5)
                        said = ok and client:getLock("x"):unlock() or tostring(err)
                        sem:post(1)
                    end)
                    sem:wait(5)
                    ngx.print(tostring(said))
                } }
            ]]
            assert.equal("true", ng:get "/rewrite")
            assert.equal("true", ng:get "/access")
            assert.equal("true", ng:get "/timer")
            free()
        end)

        it("that cannot answer `phase`, without a word to the servers", function()
            start [[
                location /set { set_by_lua_block $v {
                    local ok, err = client:getLock("x"):tryLock(1, 5)
                    return err and err.code or tostring(ok)
                } content_by_lua_block { ngx.print(ngx.var.v) } }
                location /header { content_by_lua_block { ngx.print "x" }
                    header_filter_by_lua_block {
                        local ok, err = client:getLock("x"):lock()
                        ngx.header["X-Code"] = err and err.code or tostring(ok)
                        ngx.shared.shared:set("header", ngx.header["X-Code"])
                    } body_filter_by_lua_block {
                        local ok, err = client:getLock("x"):isLocked()
                        ngx.shared.shared:set("body", err and err.code or tostring(ok))
                    } log_by_lua_block {
                        local ok, err = client:getLock("x"):tryLock(0)
                        ngx.shared.shared:set("log", err and err.code or tostring(ok))
                    } }
                location /held { access_by_lua_block {
                    assert(client:getLock("held"):tryLock(1, 5))
                } content_by_lua_block { ngx.print "x" } log_by_lua_block {
                    local l = client:getLock "held"
                    local _, err = l:extend(10)
                    local again = l:lock(20) and l:lock() and l:remaining() < 5
                    ngx.shared.shared:set("log", err.code .. " " .. tostring(again))
                    l:unlock() l:unlock() l:unlock()
                } }
                location /others { content_by_lua_block { ngx.print "x" } log_by_lua_block {
                    local codes = {}
                    local function note(_, err) codes[#codes + 1] = err and err.code or "none" end
                    note(client:check())
                    note(client:connect(1))
                    note(client:init())
                    note(client:getLock("x"):tryLockAsync(0):get())
                    ngx.shared.shared:set("log", table.concat(codes, " "))
                } }
                location /said { content_by_lua_block {
                    ngx.print(ngx.shared.shared:get "header", " ", ngx.shared.shared:get "body",
                        " ", ngx.shared.shared:get "log")
                } }
            ]]
            assert.equal("phase", ng:get "/set")
            assert.equal("x", ng:get "/header")
            assert.equal("phase phase phase", ng:get "/said")
            assert.equal(0, cluster:keys())
            assert.equal("x", ng:get "/held")
            free()
            assert.equal("phase phase phase true", ng:get "/said")
            assert.equal("x", ng:get "/others")
            assert.equal("phase phase phase phase phase phase", ng:get "/said")
        end)

        it("share what their request holds: lock in access, unlock in log", function()
            start [[
                location /x { access_by_lua_block {
                    assert(client:getLock("x"):lock())
                } content_by_lua_block {
                    ngx.print(tostring(client:getLock("x"):isValid()), " ",
                        client:getLock("x"):getHoldCount())
                } log_by_lua_block {
                    ngx.shared.shared:set("log", tostring(client:getLock("x"):unlock()))
                } }
                location /said { content_by_lua_block {
                    ngx.print(ngx.shared.shared:get "log")
                } }
            ]]
            for _ = 1, 5 do
                assert.equal("true 1", ng:get "/x")
                free()
                assert.equal("true", ng:get "/said")
            end
        end)

        it("of a TLS handshake can wait, too, and are owners of their own", function()
            local openresty, _, debian = nginx.patches()
            if not openresty and not debian then
                return pending "this nginx has no patch for that"
            end
            local dir, port = support.tmpdir(), support.free_port()
            assert(support.sh(("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=x "
                .. "-keyout %s/key -out %s/cert 2> /dev/null"):format(dir, dir)))
            start("", { http = ([[server {
                listen 127.0.0.1:%d ssl;
                ssl_certificate %s/cert;
                ssl_certificate_key %s/key;
                ssl_certificate_by_lua_block {
                    local l = client:getLock "handshake"
                    assert(l:tryLock(5, 10))
                    ngx.shared.shared:set("phase", ngx.get_phase())
                }
                location / { content_by_lua_block {
                    local ok, err = client:getLock("handshake"):tryLock(0)
                    ngx.print(ngx.shared.shared:get "phase", " ", tostring(ok or err.code))
                } }
            }]]):format(port, dir, dir) })
            local p = support.spawn { "curl", "-sk", "-m", "10",
                ("https://127.0.0.1:%d/"):format(port), stdout = "pipe" }
            assert.equal("ssl_cert held", p:read_all(15))
            assert.equal(0, p:wait(5))
        end)

        -- That of others resets a connection whose handshake waits where it has no patch for it, or
        -- forgets the code that waits.
        it("that nginx waits in are those that the library waits in", function()
            local dir, port = support.tmpdir(), support.free_port()
            assert(support.sh(("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=x "
                .. "-keyout %s/key -out %s/cert 2> /dev/null"):format(dir, dir)))
            local openresty, openssl, debian = nginx.patches()
            local precontent = nginx.knows "precontent_by_lua_block"
            local upstream = nginx.knows "proxy_ssl_verify_by_lua_block"
            local try = { init = [[function try()
                local lock = client:getLock(ngx.get_phase())
                local ok, err = lock:tryLock(5, 10)
                ngx.shared.shared:set(ngx.get_phase(), ok and "yes" or err.code)
                if ok then lock:unlock() end
            end]] }
            try.http = ([[
            ssl_session_fetch_by_lua_block { try() }
            ssl_session_store_by_lua_block { try() }
            upstream be { server 127.0.0.1:1; balancer_by_lua_block { try()
                require("ngx.balancer").set_current_peer("127.0.0.1", %d) } }
            server {
                listen 127.0.0.1:%d ssl;
                ssl_session_cache none;
                ssl_session_tickets off;
                ssl_protocols TLSv1.2;
                ssl_certificate %s/cert;
                ssl_certificate_key %s/key;
                ssl_verify_client optional_no_ca;
                ssl_client_hello_by_lua_block { try() }
                %s
                location / { content_by_lua_block { ngx.print "tls" } }
            }]]):format(port, port, dir, dir,
                (openresty or debian) and "ssl_certificate_by_lua_block { try() }" or "")
            start(([[
                server_rewrite_by_lua_block { try() }
                location /all {
                    set_by_lua_block $v { try() }
                    rewrite_by_lua_block { try() }
                    access_by_lua_block { try() }
                    %s
                    content_by_lua_block { try() ngx.timer.at(0, try) ngx.print "all" }
                    header_filter_by_lua_block { try() }
                    body_filter_by_lua_block { try() }
                    log_by_lua_block { try() }
                }
                location /up { proxy_pass https://be/; %s }
                location /said { content_by_lua_block {
                    ngx.print(ngx.shared.shared:get(ngx.var.arg_phase)) } }
            ]]):format(precontent and "precontent_by_lua_block { try() }" or "", upstream and [[
                proxy_ssl_verify on;
                proxy_ssl_trusted_certificate ]] .. dir .. [[/cert;
                proxy_ssl_name x;
                proxy_ssl_certificate_by_lua_block { try() }
                proxy_ssl_verify_by_lua_block { try()
                    require("ngx.ssl.proxysslverify").set_verify_result(0) }
            ]] or ""), try)
            ng:says("/all", "all")
            ng:says("/up", "tls")
            -- The second connection resumes the session of the first.
            assert(support.sh(("for how in out in; do openssl s_client -connect 127.0.0.1:%d "
                .. "-tls1_2 -sess_$how %s/session < /dev/null > %s/said 2>&1 || exit 1; done")
                :format(port, dir, dir)))
            local waits = { set = false, rewrite = true, server_rewrite = true, access = true,
                content = true, header_filter = false, body_filter = false, log = false,
                timer = true, balancer = false, ssl_client_hello = openresty,
                ssl_session_fetch = openresty and openssl, ssl_session_store = false }
            if openresty or debian then
                waits.ssl_cert = true
            end
            if precontent then
                waits.precontent = true
            end
            if upstream then
                waits.proxy_ssl_cert, waits.proxy_ssl_verify = openresty, openresty
            end
            local page = sys.read_file "examples/nginx/README.md"
            for phase, yes in pairs(waits) do
                assert.is_truthy(page:match "\n| rewrite, [^\n]*":find(phase, 1, true) or not yes)
                assert.equal(phase .. (yes and " yes" or " phase"), phase .. " "
                    .. ng:get("/said?phase=" .. phase))
            end
        end)

        it("of a worker's start do not break it", function()
            start("", {
                init = [[
                    local ok, err = client:getLock("x"):tryLock(0)
                    in_init = err.code
                ]],
                init_worker = [[
                    local ok, err = client:getLock("x"):tryLock(0)
                    assert(err.code == "phase" and in_init == "phase")
                ]],
            })
            assert.equal("ok", ng:get "/once")
        end)
    end)

    describe("an owner", function()
        it("is the request: its light threads share it", function()
            start [[
                location /x { content_by_lua_block {
                    local l = client:getLock "x"
                    assert(l:tryLock(1, 10))
                    local t = ngx.thread.spawn(function()
                        ngx.sleep(0.01)
                        return client:getLock("x"):isValid(), client:getLock("x"):tryLock(0)
                    end)
                    local _, valid, again = ngx.thread.wait(t)
                    ngx.print(tostring(valid), " ", tostring(again), " ", l:getHoldCount())
                    l:unlock() l:unlock()
                } }
                location /both { content_by_lua_block {
                    local function enter()
                        local l = client:getLock "x"
                        assert(l:lock())
                        ngx.sleep(0.01)
                        return l:getHoldCount()
                    end
                    local a, b = ngx.thread.spawn(enter), ngx.thread.spawn(enter)
                    ngx.thread.wait(a)
                    ngx.thread.wait(b)
                    ngx.print(client:getLock("x"):getHoldCount())
                    client:getLock("x"):unlock() client:getLock("x"):unlock()
                } }
            ]]
            assert.equal("true true 2", ng:get "/x")
            assert.equal("2", ng:get "/both")
            free()
        end)

        it("is not the coroutine, which the module uses again", function()
            start [[
                location /take { content_by_lua_block {
                    assert(client:getLock("x"):tryLock(0, 20))
                    ngx.print(tostring(coroutine.running()))
                } }
                location /look { content_by_lua_block {
                    local l = client:getLock "x"
                    local ok, err = l:tryLock(0)
                    if ok then       -- the end of the request that took it was found
                        l:unlock()
                    end
                    ngx.print(tostring(coroutine.running()), " ", ok and "free" or err.code, " ",
                        tostring(l:isValid()), " ", select(2, l:unlock()).code)
                } }
            ]]
            local thread = ng:get "/take"
            local seen = false
            for _ = 1, 20 do
                local co, rest = ng:get("/look"):match "^(thread: %S+) (.*)$"
                assert.matches("^%l+ false not_held$", rest)
                seen = seen or co == thread
            end
            assert.is_true(seen)         -- else this spec shows nothing
        end)

        it("survives ngx.exec, and no other request has it", function()
            start [[
                location /from { content_by_lua_block {
                    assert(client:getLock("x"):tryLock(0, 20))
                    collectgarbage()
                    return ngx.exec("/to")
                } }
                location /to { content_by_lua_block {
                    collectgarbage() collectgarbage()
                    local l = client:getLock "x"
                    ngx.print(tostring(l:isValid()), " ", tostring(l:unlock()))
                } }
                location /go { return 418; error_page 418 = /to2; }
                location /to2 { content_by_lua_block {
                    local ok, err = client:getLock("x"):unlock()
                    ngx.print(tostring(ok or err.code))
                } }
            ]]
            for _ = 1, 5 do
                assert.equal("true true", ng:get "/from")
                assert.equal("not_held", ng:get "/to2")
            end
            free()
        end)

        it("in a timer is the run; opts.owner is anybody", function()
            start [[
                location /x { content_by_lua_block {
                    local sem = require "ngx.semaphore".new(0)
                    local l = client:getLock("x", { owner = "me" })
                    assert(client:getLock("y"):tryLock(0, 10))
                    assert(l:tryLock(0, 10))
                    local said
                    ngx.timer.at(0, function()
                        local mine = client:getLock("x", { owner = "me" })
                        said = tostring(mine:isValid()) .. " "
                            .. tostring(client:getLock("y"):isValid())
                        mine:unlock()
                        sem:post(1)
                    end)
                    sem:wait(5)
                    ngx.print(said, " ", tostring(l:isValid()))
                    client:getLock("y"):unlock()
                } }
            ]]
            assert.equal("true false false", ng:get "/x")
            free()
        end)
    end)
end)
