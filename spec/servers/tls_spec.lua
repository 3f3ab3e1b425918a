-- TLS against real servers, with certificates made on the spot.
local support = require "spec.support"
local redlock = require "redlock"

local function output(...)
    local p = support.spawn { stdout = "pipe", ... }
    local text = p:read_all(120)             -- one of them compiles
    assert.equal(0, p:wait(10))
    return text
end

-- The URI of TLS for a server of another kind.
local function secure(server)
    return (server.uri:gsub("^redis:", "rediss:"))
end

-- Takes and releases a lock; the client.
local function works(nodes, opts)
    local client = support.client(nodes, opts)
    local l = client:getLock "x"
    local ok, err = l:tryLock(5)
    assert.is_true(ok, tostring(err))
    assert.is_true(l:extend(20))
    assert.is_true(l:isLocked())
    assert.is_true(l:unlock())
    return client
end

-- The row of a single node that cannot vote.
local function row_of(uri, opts)
    local client = support.client({ uri }, opts)
    local l = client:getLock "x"
    local row
    support.eventually(function()
        local ok, err = l:tryLock()
        assert.is_nil(ok)
        row = err.nodes and err.nodes[1] or error(tostring(err))
        return row.code ~= "pending" and row.message ~= "not connected yet"
            and (row.code ~= "timeout" or opts and opts.connect_timeout)     -- it may be late
    end, 10)
    client:close()
    return row
end

describe("TLS", function()
    local dir, good

    -- Settings with files of the folder: opts { ca_file = "ca.crt", ... }
    local function files(opts)
        local o = {}
        for name, value in pairs(opts) do
            o[name] = type(value) == "string" and dir .. "/" .. value or value
        end
        return o
    end

    local function refused(server, opts, pattern)
        local row = row_of(type(server) == "table" and server.tls_uri or server, opts)
        assert.equal("tls", row.code, row.message)
        assert.matches(pattern, row.message)
        return row
    end

    setup(function()
        dir = support.certificates()
        good = support.tls_server(dir, "good")
    end)
    before_each(function() good:call "FLUSHALL" end)

    describe("trusts", function()
        it("a certificate of the given CA, by address and by name", function()
            works({ good.tls_uri }, files { ca_file = "ca.crt" })
            works({ "rediss://localhost:" .. good.tls_port }, files { ca_file = "ca.crt" })
            works({ "valkeys://localhost:" .. good.tls_port .. "/3" }, files { ca_file = "ca.crt" })
            works({ { host = "127.0.0.1", port = good.tls_port, tls = true } },
                files { ca_file = "ca.crt" })
            assert.matches("rediss://127", row_of({ host = "127.0.0.1", tls = true,
                port = support.free_port() }).node)
        end)

        it("an IPv6 address in the certificate", function()
            local server = support.tls_server(dir, "good",
                { args = { "--bind", "::1", "127.0.0.1" } })
            works({ "rediss://[::1]:" .. server.tls_port }, files { ca_file = "ca.crt" })
        end)

        it("what the system trusts, without a ca_file", function()
            local code = ([[
                local client = require("redlock").new { nodes = %q }
                local ok, err = client:getLock("x"):tryLock(5)
                print(ok and "fine" or err)
            ]]):format(good.tls_uri)
            local function run(env)
                return support.lua(code, { env = env }):read_line(20)
            end
            assert.equal("fine", run { SSL_CERT_FILE = dir .. "/ca.crt" })
            assert.matches("tls.*unknown CA.*ca_file", run { SSL_CERT_FILE = false })
        end)

        it("a name that is not the address, if told so", function()
            local server = support.tls_server(dir, "named")
            local node = { host = "127.0.0.1", port = server.tls_port, tls = true }
            refused(node, files { ca_file = "ca.crt" }, "not for '127%.0%.0%.1'")
            node.server_name = "localhost"
            works({ node }, files { ca_file = "ca.crt" })
            local wildcard = support.tls_server(dir, "wildcard")
            node.port, node.server_name = wildcard.tls_port, "redis-1.example.org"
            works({ node }, files { ca_file = "ca.crt" })
            node.server_name = "a.b.example.org"
            refused(node, files { ca_file = "ca.crt" }, "not for 'a%.b%.example%.org'")
        end)

        it("a certificate that ends soon, of which check() warns", function()
            local uri = support.tls_server(dir, "named").tls_uri:gsub("127.0.0.1", "localhost")
            local row = support.client({ uri }, files { ca_file = "ca.crt" }):check()[1]
            local ends = row.certificate_ends - os.time()
            assert.is_true(ends > 86400 and ends <= 2 * 86400)
            assert.matches("a certificate of its connection .- ends on "
                .. os.date("!%Y-%m-%d", row.certificate_ends):gsub("%-", "%%-"), row.remedy)
            row = support.client({ good.tls_uri }, files { ca_file = "ca.crt" }):check()[1]
            assert.is_true(row.certificate_ends > os.time() + 59 * 86400)
            assert.not_matches("certificate", row.remedy or "")
        end)

        it("anything, without tls_verify, of which check() warns", function()
            local server = support.tls_server(dir, "expired")
            local client = works({ server.tls_uri }, { tls_verify = false })
            local report = client:check()
            assert.equal("warning", report.verdict)
            assert.equal("tls_verify", report.findings[1].kind)
            assert.matches("\nall: certificates are not verified .*ca_file", tostring(report))
            report = works({ good.tls_uri }, files { ca_file = "ca.crt" }):check()
            assert.same({}, report.findings)
            report = works({ good.uri }, { tls_verify = false }):check()
            assert.same({}, report.findings)         -- nothing to verify
        end)
    end)

    describe("refuses, and says why:", function()
        it("an unknown CA", function()
            refused(good, nil, "unknown CA; set ca_file to the CA's certificate")
            refused(good, files { ca_file = "other-ca.crt" }, "unknown CA")
        end)

        it("an expired certificate", function()
            refused(support.tls_server(dir, "expired"), files { ca_file = "ca.crt" }, "expired")
        end)

        it("a certificate that is not valid yet", function()
            local clock = support.clock()
            clock:set(5 * 86400)
            local p = support.spawn { "openssl", "x509", "-req", "-in", dir .. "/good.csr", "-CA",
                dir .. "/ca.crt", "-CAkey", dir .. "/ca.key", "-days", "2", "-extfile",
                dir .. "/good.ext", "-out", dir .. "/early.crt", stderr = "null",
                env = clock.env }
            assert.equal(0, p:wait(20))
            output("cp", dir .. "/good.key", dir .. "/early.key")
            refused(support.tls_server(dir, "early"), files { ca_file = "ca.crt" },
                "not valid yet; compare the clocks")
        end)

        it("a certificate made by one who is no CA", function()
            refused(support.tls_server(dir, "forged"), files { ca_file = "ca.crt" },
                "invalid CA certificate")
        end)

        it("a certificate for another host", function()
            local server = support.tls_server(dir, "wrong-host")
            refused(server, files { ca_file = "ca.crt" }, "not for '127%.0%.0%.1'")
            refused("rediss://localhost:" .. server.tls_port, files { ca_file = "ca.crt" },
                "not for 'localhost'")
        end)

        it("a certificate with its name as a CN only", function()
            local server = support.tls_server(dir, "localhost")
            refused("rediss://localhost:" .. server.tls_port, files { ca_file = "ca.crt" },
                "must have DNS:localhost as a subjectAltName, and has none; its CN does not count")
            refused(server, files { ca_file = "ca.crt" },
                "must have IP:127%.0%.0%.1 as a subjectAltName")
            works({ server.tls_uri }, { tls_verify = false })
        end)

        it("TLS before 1.2", function()
            local server = support.tls_server(dir, "good", { args = { "--tls-protocols", "TLSv1.1",
                "--tls-ciphers", "ALL:@SECLEVEL=0" } })
            local openssl = io.popen("openssl version"):read "*a"
            refused(server, files { ca_file = "ca.crt" },      -- which 1.1 cannot say
                openssl:find("^OpenSSL 1%.1") and "alert internal error" or "1%.2")
        end)

        it("TLS before what the system's policy allows", function()
            local server = support.tls_server(dir, "good", { args = { "--tls-protocols",
                "TLSv1.2" } })
            local folder = support.tmpdir()
            require("spec.support.sys").write_file(folder .. "/strict.cnf", "openssl_conf = a\n"
                .. "[a]\nssl_conf = b\n[b]\nsystem_default = c\n[c]\nMinProtocol = TLSv1.3\n")
            local cli = require "spec.support.command"
            local function taken(conf)
                local p = support.spawn { cli.REDLOCK, "status", "x", "--nodes", server.tls_uri,
                    "--ca-file", dir .. "/ca.crt", "--timeout", "3", stdout = "pipe",
                    stderr = "stdout", env = { OPENSSL_CONF = conf } }
                return cli.ends(p)
            end
            assert.equal(3, (taken(nil)))
            local status, text = taken(folder .. "/strict.cnf")
            assert.equal(125, status)
            assert.matches("no version of TLS that this machine allows", text, 1, true)
        end)

        it("something that is not TLS", function()
            local h = support.hostile { reply = "-ERR unknown command\r\n" }
            refused(secure(h), files { ca_file = "ca.crt" }, "is " .. h.uri:match "%d+$"
                .. " its TLS port%?$")
            h:stop()
            h = support.hostile { close = true }
            refused(secure(h), files { ca_file = "ca.crt" },
                "during the TLS handshake; is it a TLS port%?")
            h:stop()
            h = support.hostile { reply = "\21\3\3\0\2\2\80" }         -- an alert
            refused(secure(h), files { ca_file = "ca.crt" }, "internal error")
            h:stop()
        end)
    end)

    it("to a plain port, which waits for the end of a line, times out and says so", function()
        local row = row_of(secure(good), { connect_timeout = 0.3 })
        -- By chance there is the end of a line in what we say.
        assert.is_true(row.code == "timeout" or row.code == "tls", row.code)
        assert.matches("is " .. good.port .. " its TLS port%?", row.message)
    end)

    it("is what a TLS port hints at when it is spoken to in plain text", function()
        local row = row_of("redis://127.0.0.1:" .. good.tls_port)
        assert.equal("refused", row.code)
        assert.matches("before any answer; a TLS port %(use rediss://%)", row.message)
    end)

    describe("with client certificates", function()
        for _, version in ipairs { "TLSv1.2", "TLSv1.3" } do
            it("by " .. version, function()
                local server = support.tls_server(dir, "good", { clients = "yes",
                    args = { "--tls-protocols", version } })
                works({ server.tls_uri }, files { ca_file = "ca.crt", cert_file = "client.crt",
                    key_file = "client.key" })
                for _ = 1, 10 do     -- whether the reason is seen must not depend on luck
                    refused(server, files { ca_file = "ca.crt" }, "client certificate")
                end
                refused(server, files { ca_file = "ca.crt", cert_file = "stranger.crt",
                    key_file = "stranger.key" }, "does not accept our certificate")
                refused(server, files { ca_file = "ca.crt", cert_file = "expired.crt",
                    key_file = "expired.key" }, "our certificate %(cert_file%) has expired")
            end)
        end
    end)

    describe("moves bytes", function()
        it("of all sizes, in pieces of all sizes, both ways", function()
            local proxy = support.proxy(good.tls_port)
            proxy:bandwidth(400 * 1000)
            local client = support.client({ secure(proxy) },
                files { ca_file = "ca.crt", timeout = 10, connect_timeout = 10 })
            for _, size in ipairs { 1, 100, 16383, 16384, 16385, 65536 } do
                local l = client:getLock(("n"):rep(size))
                local ok, err = l:tryLock(10)
                assert.is_true(ok, tostring(err))
                assert.is_true(l:unlock())
            end
            client:close()
            proxy:stop()
        end)

        it("that do not fit into the socket, when it takes them", function()
            local proxy = support.proxy(good.tls_port)
            local client = support.client({ secure(proxy) },
                files { ca_file = "ca.crt", timeout = 20, connect_timeout = 20 })
            assert.is_true(client:getLock("first"):tryLock(5))
            good:freeze()
            local locks, futures = {}, {}
            for i = 1, 200 do        -- 13 MB
                locks[i] = client:getLock(i .. ("n"):rep(65000))
                futures[i] = locks[i]:tryLockAsync(20, 50)
            end
            good:thaw()
            for i, future in ipairs(futures) do
                local ok, err = future:get(30)
                assert.is_true(ok, i .. ": " .. tostring(err):sub(-200))
            end
            for i, lock in ipairs(locks) do
                futures[i] = lock:unlockAsync()
            end
            assert.is_true(redlock.wait_all(futures, 30))
            client:close()
            good:await_free(20)
            proxy:stop()
        end)
    end)

    it("wakes waiters over its own connections, and keeps leases", function()
        local servers, uris = {}, {}
        for i = 1, 3 do
            servers[i] = support.tls_server(dir, "good"):admit()
            uris[i] = servers[i].tls_uri
        end
        local opts = files { ca_file = "ca.crt", lease = 3, fallback = 60 }
        local holder, waiter = support.client(uris, opts), support.client(uris, opts)
        local l = holder:getLock "x"
        assert.is_true(l:tryLock(5))
        local future = waiter:getLock("x"):tryLockAsync(20)
        assert.is_nil(future:get(4.5))           -- more than a lease
        assert.is_true(l:isValid())
        servers[1]:restart()
        assert.is_nil(future:get(1))
        assert.is_true(l:isValid())
        assert.is_true(l:unlock())
        assert.is_true((future:get(10)))
        holder:close()
        waiter:close()
    end)

    it("costs nothing when a server hangs in the handshake", function()
        local hang = support.hostile {}
        local other = support.tls_server(dir, "good"):admit()
        good:admit()
        local client = support.client({ good.tls_uri, other.tls_uri, secure(hang) },
            files { ca_file = "ca.crt", connect_timeout = 30 })
        local l = client:getLock "y"
        assert.is_true(l:tryLock(10))
        assert.is_true(l:unlock())
        local began = support.now()
        for _ = 1, 20 do
            assert.is_true(l:tryLock(10))
            assert.is_true(l:unlock())
        end
        assert.is_true(support.now() - began < 25)
        client:close()
        hang:stop()
    end)

    it("survives a fork, and an exit in the middle", function()
        local c = support.lua(([[
            local ffi = require "ffi"
            local support = require "spec.support"
            ffi.cdef "int fork(void); int waitpid(int, int *, int);"
            local client = support.warm_client({ %q }, { ca_file = %q, lease = 2.5 })
            local l = client:getLock "kept"
            assert(l:tryLock(5))
            io.stdout:flush()
            local pid = ffi.C.fork()
            if pid == 0 then
                local ok, err = xpcall(function()
                    assert(not l:isValid())
                    assert(client:getLock("child's"):tryLock(5))
                end, debug.traceback)
                if not ok then print(err) end
                io.stdout:flush()
                os.exit(ok and 0 or 1)
            end
            local status = ffi.new "int[1]"
            ffi.C.waitpid(pid, status, 0)
            support.sleep(3)
            print(status[0], l:isValid(), client:stats().nodes[1].connects)
            os.exit(0)
        ]]):format(good.tls_uri, dir .. "/ca.crt"), { stderr = "stdout" })
        assert.equal("0\ttrue\t1", c:read_line(20))
        assert.equal(0, c:wait(10))
        good:await_free(20)
    end)

    -- The program has an OpenSSL of its own, as OpenResty does; ours must not mix with it.
    it("works beside another OpenSSL, and in a program that cleans up its own", function()
        local lib = support.tmpdir()
        local f = assert(io.open(lib .. "/other.c", "w"))
        f:write "#include <stdlib.h>\n"
        for name in io.open("c/io/openssl.h"):read("*a"):gmatch "X%((%u[%w_]+)%)" do
            f:write(("void %s(void) { abort(); }\n"):format(name))
        end
        f:close()
        assert(support.sh(("cc -w -shared -fPIC -o %s/other.so %s/other.c"):format(lib, lib)))
        local code = ([[
            local redlock = require "redlock"
            assert(redlock.new({ nodes = %q }):getLock("plain"):tryLock(5))
            if arg[1] then           -- its exit handler will run before ours
                local ffi = require "ffi"
                ffi.cdef "int OPENSSL_init_crypto(uint64_t, void *);"
                local found, lib = pcall(ffi.load, "libcrypto.so.3")
                lib = found and lib or ffi.load "libcrypto.so.1.1"
                lib.OPENSSL_init_crypto(0, nil)
            end
            local ok, err = redlock.new({ nodes = %q, ca_file = %q }):getLock("x"):tryLock(5)
            assert(ok, tostring(err))
            print "fine"
            os.exit(0)
        ]]):format(good.uri, good.tls_uri, dir .. "/ca.crt")
        for _, opts in ipairs { { env = { LD_PRELOAD = lib .. "/other.so" } },
            { args = { "cleans up" } } } do
            opts.stderr = "stdout"
            local c = support.lua(code, opts)
            assert.equal("fine", c:read_line(10))
            assert.equal(0, c:wait(10))
            good:await_free(20)
        end
    end)
end)

describe("a build without TLS", function()
    it("works, and says what is missing", function()
        local counted = os.getenv "SPEC_CORE"        -- by `make coverage`
        local dir = counted and counted .. "/no_tls" or support.tmpdir()
        if not counted then
            output("make", "-s", "-j2", "all", "CFLAGS=-O0", "TLS=no", "BUILD=" .. dir)
        end
        local server = support.server()
        local path = support.lua_env().LUA_PATH:gsub("[^;]*/build/%?%.lua", dir .. "/?.lua")
        local c = support.lua(([[
            local redlock = require "redlock"
            print(pcall(redlock.new, { nodes = "rediss://h" }))
            assert(redlock.new({ nodes = %q }):getLock("x"):tryLock(5))
            print "fine"
        ]]):format(server.uri), { env = { LUA_PATH = path, LUA_CPATH = dir .. "/?.so" } })
        assert.matches("^false.*bad nodes%[1%]: unsupported: this build has no TLS",
            c:read_line(10))
        assert.equal("fine", c:read_line(10))
        assert.equal(0, c:wait(10))
        assert.is_nil(output("strings", "-a", dir .. "/redlock/core.so"):find("libssl.so", 1, true))
    end)

    -- As on a machine that gets OpenSSL's headers after a first build.
    -- Nightly: three builds
    it("becomes one with TLS in the same folder, and such a one again #nightly", function()
        local dir = support.tmpdir()
        for _, tls in ipairs { "no", "yes", "no" } do
            output("make", "-s", "-j2", "all", "CFLAGS=-O0", "TLS=" .. tls, "BUILD=" .. dir)
            assert.equal(tls == "yes", dofile(dir .. "/redlock/cdef.lua").tls)
            local strings = output("strings", "-a", dir .. "/redlock/core.so")
            assert.equal(tls == "yes", strings:find("libssl.so", 1, true) ~= nil)
        end
    end)
end)
