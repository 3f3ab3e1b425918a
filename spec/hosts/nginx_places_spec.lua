-- Other places of nginx: stream {}, whose sessions are owners as requests are, threads of a pool,
-- and the privileged agent.
local build = require "spec.support.build"
local nginx = require "spec.support.nginx"
local support = require "spec.support"
local sys = require "spec.support.sys"

-- A session says what its steps come to, until its peer leaves.
local STREAM = [[
    stream {
        lua_package_path "%(root)/lua/?.lua;%(root)/lua/?/init.lua;%(root)/build/?.lua;;";
        lua_package_cpath "%(root)/build/?.so;;";
        init_by_lua_block {
            client = require("redlock").new { nodes = "%(nodes)", cluster = "spec", timeout = 2,
                connect_timeout = 5 }
        }
        server {
            listen 127.0.0.1:%(port);
            preread_by_lua_block {
                assert(client:getLock("session:" .. ngx.var.remote_port):tryLock(5))
            }
            content_by_lua_block {
                local sock = assert(ngx.req.socket(true))
                assert(client:getLock("session:" .. ngx.var.remote_port):check():unlock())
                local lock, step = client:getLock "both", sock:receive()
                while step do
                    local ok, err
                    if step == "give" then
                        ok, err = lock:unlock()
                    else
                        ok, err = lock:tryLock(tonumber(step))
                    end
                    sock:send((ok and "ok" or err.code) .. "\n")
                    step = sock:receive()
                end
            }
        }
    }
]]

local SERVER = [[
    location /excludes { content_by_lua_block {
        local said, lock = {}, client:getLock "both"
        local function note(word, err) said[#said + 1] = word and "ok" or err.code end
        local function session()
            local sock = ngx.socket.tcp()
            sock:settimeouts(20000, 20000, 20000)
            assert(sock:connect("127.0.0.1", %(port)))
            return sock
        end
        local function step(sock, how) sock:send(how .. "\n") said[#said + 1] = sock:receive() end
        local a, b = session(), session()
        note(lock:tryLock(5))
        step(a, "0")
        a:send "10\n"                -- this worker goes on meanwhile
        note(lock:unlock())
        said[#said + 1] = a:receive()
        note(lock:tryLock(0))
        step(b, "0")
        step(a, "give")
        step(b, "5")
        b:close()                    -- its session ends with the lock
        note(lock:tryLock(10))
        note(lock:unlock())
        a:close()
        ngx.print(table.concat(said, " "))
    } }
]]

describe("in nginx", function()
    it("stream {} locks beside http {} in one worker, without stopping it", function()
        if not nginx.knows "ngx_stream_lua_module" then
            return pending "this nginx has no stream-lua-nginx-module"
        end
        local cluster, port = support.cluster(3), support.free_port()
        local values = { root = build.root, port = port, nodes = table.concat(cluster:uris(), " ") }
        local ng = support.nginx { nodes = cluster, main = STREAM:gsub("%%%((%w+)%)", values),
            server = SERVER:gsub("%%%((%w+)%)", values) }
        for _ = 1, 5 do
            ng:says("/excludes", "ok held ok ok held held ok ok ok ok")
        end
        cluster:await_free()
        ng:reload()
        ng:says("/excludes", "ok held ok ok held held ok ok ok ok")
        ng:ends()
    end)

    it("stream {} waits in the phases of a proxy's handshake", function()
        if not (nginx.knows "ngx_stream_lua_module" and nginx.knows "proxy_ssl_verify_by") then
            return pending "this nginx has no stream-lua-nginx-module with these phases"
        end
        local cluster, port, tls = support.cluster(3), support.free_port(), support.free_port()
        local dir = support.tmpdir()
        assert(support.sh(("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=x -addext "
            .. "subjectAltName=DNS:x -keyout %s/key -out %s/cert 2> /dev/null"):format(dir, dir)))
        local ng = support.nginx { nodes = cluster, main = ([[
            stream {
                lua_package_path "%s/lua/?.lua;%s/lua/?/init.lua;%s/build/?.lua;;";
                lua_package_cpath "%s/build/?.so;;";
                init_by_lua_block {
                    client = require("redlock").new { nodes = "%s", cluster = "spec", timeout = 2,
                        connect_timeout = 5 }
                    function try()
                        local lock = client:getLock(ngx.get_phase())
                        assert(lock:tryLock(10))
                        assert(lock:unlock())
                    end
                }
                server {
                    listen 127.0.0.1:%d ssl;
                    ssl_certificate %s/cert;
                    ssl_certificate_key %s/key;
                    ssl_verify_client optional_no_ca;
                    return both;
                }
                server {
                    listen 127.0.0.1:%d;
                    proxy_pass 127.0.0.1:%d;
                    proxy_ssl on;
                    proxy_ssl_verify on;
                    proxy_ssl_trusted_certificate %s/cert;
                    proxy_ssl_name x;
                    proxy_ssl_certificate_by_lua_block { try() }
                    proxy_ssl_verify_by_lua_block { try() }
                }
            }]]):format(build.root, build.root, build.root, build.root,
            table.concat(cluster:uris(), " "), tls, dir, dir, port, tls, dir) }
        local other = support.warm_client(cluster)
        local certs, verifies = other:getLock "proxy_ssl_cert", other:getLock "proxy_ssl_verify"
        assert(certs:tryLock(5) and verifies:tryLock(5))
        local session = support.spawn { "curl", "-s", "-m", "20",
            "telnet://127.0.0.1:" .. port, stdin = "null", stdout = "pipe" }
        for _, lock in ipairs { verifies, certs } do     -- the order of TLS 1.3
            support.eventually(function()
                return assert(other:locks(lock.name))[1].waiting == 1
            end)
            assert(lock:unlock())
        end
        assert.equal("both", session:read_all(15))
        ng:ends()
    end)

    it("threads of a pool lock as plain LuaJIT does, and their worker goes on", function()
        local cluster, dir = support.cluster(3), support.tmpdir()
        assert(support.sh("chmod 755 " .. dir))
        sys.write_file(dir .. "/in_a_thread.lua", ([[
            local client
            return { run = function(path, cpath)
                package.path, package.cpath = path, cpath
                client = client or require("redlock").new { nodes = "%s", cluster = "spec",
                    timeout = 2, connect_timeout = 5 }
                local ok, err = client:getLock("thread"):tryLock(20)
                ok = ok and client:getLock("thread"):unlock()
                return ok and "ok" or tostring(err)
            end }
        ]]):format(table.concat(cluster:uris(), " ")))
        local ng = support.nginx { nodes = cluster, main = "thread_pool pool threads=2;",
            http = "lua_worker_thread_vm_pool_size 4;",
            init = ("package.path = '%s/?.lua;' .. package.path"):format(dir),
            server = [[ location /thread { content_by_lua_block {
                local fine, said = ngx.run_worker_thread("pool", "in_a_thread", "run",
                    package.path, package.cpath)
                ngx.print(tostring(said or fine))
            } } ]] }
        local held = ng:begin "/once?name=thread&hold=1"
        support.eventually(function() return cluster:keys() > 0 end)
        local a, b = ng:begin "/thread", ng:begin "/thread"
        assert.matches("^pong", (ng:get "/ping"))
        assert.equal("ok", held:finish())
        assert.equal("ok ok", a:finish() .. " " .. b:finish())
        cluster:await_free()
        ng:ends()
    end)

    it("the privileged agent locks in its timers", function()
        if not nginx.patches() then
            return pending "this nginx has no privileged agent"
        end
        local cluster = support.cluster(3)
        local ng = support.nginx { nodes = cluster,
            init = [[assert(require("ngx.process").enable_privileged_agent())]],
            init_worker = [[
                if require("ngx.process").type() == "privileged agent" then
                    ngx.timer.at(0, function()
                        local ok, err = client:getLock("agent"):tryLock(5)
                        ok = ok and client:getLock("agent"):unlock()
                        ngx.shared.shared:set("agent", ok and "ok" or tostring(err))
                    end)
                end
            ]],
            server = [[ location /said { content_by_lua_block {
                ngx.print(ngx.shared.shared:get "agent" or "nothing") } } ]] }
        support.eventually(function() return ng:get "/said" == "ok" end)
        ng:ends()
    end)
end)
