-- The files of TLS: a CA, a certificate and its key, which are read again when they are replaced.
local support = require "spec.support"

local function output(...)
    local p = support.spawn { stdout = "pipe", ... }
    local text = p:read_all(20)
    assert.equal(0, p:wait(10), text)
end

describe("files of TLS", function()
    local dir

    -- Settings with files of the folder: opts { ca_file = "ca.crt", ... }
    local function files(opts)
        local o = {}
        for name, value in pairs(opts) do
            o[name] = dir .. "/" .. value
        end
        return o
    end

    local function put(list)
        for to, from in pairs(list) do
            output("cp", dir .. "/" .. from, dir .. "/" .. to)
        end
    end

    setup(function()
        dir = support.certificates()
    end)

    describe("that are no good", function()
        local good

        setup(function()
            good = support.tls_server(dir, "good")
        end)

        local function config(opts, pattern)
            local client = support.client({ good.tls_uri }, files(opts))
            for _ = 1, 2 do
                local err = support.fails("config", client:getLock("x"):tryLock(1))
                assert.matches(pattern, tostring(err))
            end
            assert.is_nil(client:getLock("x"):isLocked())
            client:close()
        end

        it("are named", function()
            config({ ca_file = "none.crt" }, "ca_file %S+/none%.crt: ")
            config({ ca_file = "ca.key" }, "ca_file %S+/ca%.key: ")
            config({ cert_file = "none.crt", key_file = "client.key" }, "cert_file %S+/none%.crt: ")
            config({ cert_file = "client.crt", key_file = "none.key" }, "key_file %S+/none%.key: ")
            config({ cert_file = "client.crt", key_file = "good.key" },
                "key_file %S+/good%.key is not the key of cert_file %S+/client%.crt")
        end)

        it("also a key with a passphrase, without a prompt", function()
            output("openssl", "pkey", "-in", dir .. "/client.key", "-aes256", "-passout", "pass:pw",
                "-out", dir .. "/locked.key")
            config({ cert_file = "client.crt", key_file = "locked.key" }, "passphrase")
        end)

        it("are good as soon as they are there", function()
            local client = support.client({ good.tls_uri }, files { ca_file = "later.crt" })
            assert.is_nil(client:getLock("x"):tryLock(1))
            output("cp", dir .. "/ca.crt", dir .. "/later.crt")
            assert.is_true(client:getLock("x"):tryLock(5))
            client:close()
        end)
    end)

    describe("that are replaced", function()
        local client, l, server, port

        -- The server with another certificate: the client has to connect again.
        local function serve(cert, ca)
            if server then
                server:kill()
            end
            server = support.server { args = { "--tls-port", port,
                "--tls-cert-file", ("%s/%s.crt"):format(dir, cert),
                "--tls-key-file", ("%s/%s.key"):format(dir, cert),
                "--tls-ca-cert-file", ("%s/%s.crt"):format(dir, ca),
                "--tls-auth-clients", "yes" } }
        end

        local function fails(code, pattern)
            support.eventually(function()
                local ok, err = l:tryLock(0)
                assert.is_nil(ok)
                local row = err.nodes[1]
                return row.code == code and row.message:find(pattern)
            end, 10, pattern)
        end

        local function succeeds()
            support.eventually(function()
                return l:tryLock(0) and l:unlock()
            end, 10)
        end

        before_each(function()
            port = support.free_port()
            put { ["trust.crt"] = "ca.crt", ["me.crt"] = "client.crt", ["me.key"] = "client.key" }
            serve("good", "ca")
            client = support.client({ "rediss://127.0.0.1:" .. port },
                files { ca_file = "trust.crt", cert_file = "me.crt", key_file = "me.key" })
            l = client:getLock "x"
            succeeds()
        end)

        after_each(function()
            client:close()
            server:kill()
            server = nil
        end)

        it("are read for the next connection", function()
            put { ["trust.crt"] = "other-ca.crt", ["me.crt"] = "stranger.crt",
                ["me.key"] = "stranger.key" }
            serve("elsewhere", "other-ca")
            succeeds()
            serve("good", "ca")              -- is not trusted any more
            fails("tls", "unknown CA")
            put { ["trust.crt"] = "ca.crt" }
            fails("tls", "does not accept our certificate")
            put { ["me.crt"] = "client.crt", ["me.key"] = "client.key" }
            succeeds()
        end)

        it("are used as soon as they are good, and nothing else is meanwhile", function()
            put { ["me.crt"] = "stranger.crt" }
            serve("good", "ca")
            fails("tls", "key_file %S+/me%.key is not the key of cert_file %S+/me%.crt")
            put { ["me.crt"] = "client.crt" }
            succeeds()
            os.remove(dir .. "/trust.crt")
            serve("good", "ca")
            fails("tls", "ca_file %S+/trust%.crt: ")
            put { ["trust.crt"] = "good.key" }
            fails("tls", "ca_file %S+/trust%.crt: ")
            put { ["trust.crt"] = "ca.crt" }
            succeeds()
        end)

        it("by one on a disk that hangs: the connection is late, until there is another file",
            function()
                for _, file in ipairs { "trust.crt", "me.key" } do
                    local path = dir .. "/" .. file
                    os.remove(path)
                    output("mkfifo", path)           -- which nobody writes to
                    serve("good", "ca")
                    fails("timeout", file .. " was not read in time")
                    os.remove(path)
                    put { ["trust.crt"] = "ca.crt", ["me.key"] = "client.key" }
                    succeeds()
                end
            end)

        it("leave alone what stands", function()
            os.remove(dir .. "/trust.crt")
            put { ["me.crt"] = "stranger.crt" }
            for _ = 1, 3 do
                assert.is_true(l:tryLock(5))
                assert.is_true(l:unlock())
            end
            assert.equal(1, client:stats().nodes[1].connects)
        end)

        it("also by a link that names another folder", function()
            output("mkdir", dir .. "/1", dir .. "/2")
            put { ["1/ca"] = "ca.crt", ["2/ca"] = "other-ca.crt" }
            output("ln", "-s", "1", dir .. "/now")
            local other = support.client({ "rediss://127.0.0.1:" .. port },
                files { ca_file = "now/ca", cert_file = "me.crt", key_file = "me.key" })
            client:close()
            client, l = other, other:getLock "x"
            succeeds()
            output("ln", "-sfn", "2", dir .. "/now")
            serve("good", "ca")
            fails("tls", "unknown CA")
        end)
    end)
end)
