-- Servers of the wrong kind: the right code for each, and no harm to the others.
local support = require "spec.support"
local sys = require "spec.support.sys"

-- One attempt with two good servers and the one in question: the majority must work, and
-- the row of the third must say why it did not vote.
-- @param silent  whether it gives no answer at all; else one that is late is waited for
local function row_of(uri, good, opts, silent)
    local client = support.client({ good[1], good[2], uri }, opts)
    local l = client:getLock "probe-1"
    assert.is_true(l:tryLock(5))
    assert.is_true(l:unlock())
    -- With one good server taken away the odd one is asked for its reason.
    good[2]:call("SET", "probe-2", "other", "PX", 60000)
    local err
    support.eventually(function()
        local ok
        ok, err = client:getLock("probe-2"):tryLock()
        assert.is_nil(ok)
        local row = err.nodes[3]
        return row.code ~= "pending" and row.message ~= "not connected yet"
            and (silent or row.code ~= "timeout")
    end, 60)
    local row = err.nodes[3]
    client:close()
    return row
end

describe("servers of the wrong kind", function()
    local good

    setup(function() good = support.cluster(2) end)
    before_each(function() good:flush() end)

    local function hostile(opts, code, pattern)
        local h = support.hostile(opts)
        local before = support.rss()
        local silent = code == "timeout"
        local row = row_of(h.uri, good, { timeout = silent and 0.2 or 3,
            connect_timeout = silent and 0.3 or 5 }, silent)
        assert.equal(code, row.code, row.message)
        assert.matches(pattern or "", row.message)
        assert.is_true(support.rss() - before < 16 * 1024)
        h:stop()
        return row.message
    end

    it("a port that says nothing", function()
        hostile({}, "timeout", "handshake")
    end)

    it("a port that closes at once", function()
        hostile({ close = true }, "refused", "^read: ")
    end)

    -- Whether or not it waits for a question; what it says is about the connection.
    for text, code in pairs {
        ["ERR max number of clients reached"] = "refused",
        ["DENIED Redis is running in protected mode because"] = "refused",
        ["ERR backend is gone"] = "refused",
        ["NOAUTH come back later"] = "auth",
    } do
        it("a server that says before it closes: " .. text, function()
            for _, how in ipairs { "greet", "reply" } do
                hostile({ [how] = "-" .. text .. "\r\n", close = true }, code, text)
            end
        end)
    end

    it("a server that has all the clients that it takes", function()
        local server = support.server()
        server:call("CONFIG", "SET", "maxclients", 1)       -- which is this connection
        for _, user in ipairs { "", ":pw@" } do
            local row = row_of("redis://" .. user .. "127.0.0.1:" .. server.port, good)
            assert.equal("refused", row.code)
            assert.matches("max number of clients reached", row.message)
        end
        server:kill()
    end)

    it("a port nobody listens to", function()
        local row = row_of("redis://127.0.0.1:" .. support.free_port(), good)
        assert.equal("refused", row.code)
        assert.matches("refused", row.message)
    end)

    -- What may listen on a port instead, and what is told of it. In TLS, too: each says so.
    local OTHERS = {
        { "a web server", "protocol", 'it began with "HTTP/1.1 400 Bad Request"',
            { reply = "HTTP/1.1 400 Bad Request\r\n\r\n", close = true } },
        { "SSH", "protocol", 'it began with "SSH%-2.0%-x"', { greet = "SSH-2.0-x\r\n" } },
        { "SMTP", "protocol", 'it began with "220 mx ESMTP"', { greet = "220 mx ESMTP\r\n" } },
        { "MySQL", "protocol", "J%?%?%?%?5%.5%.5%-MariaDB%?x",
            { greet = "J\0\0\0\n5.5.5-MariaDB\0" .. ("x"):rep(50) } },
        { "PostgreSQL", "protocol", "SFATAL%?",
            { reply = "E\0\0\0\140SFATAL\0VFATAL\0", close = true } },
        { "memcached", "protocol", 'it began with "ERROR"', { reply = "ERROR\r\n" } },
        { "garbage", "protocol", "Protocol error", { greet = ("\0\255\1x"):rep(1000) } },
        { "a TLS port that answers", "tls", "use rediss://", { reply = "\21\3\1\0\2\2\70" },
            "TLS: " },
        { "a TLS port that closes, or twemproxy", "refused", "a TLS port .* or a proxy",
            { reply = "", close = true }, "is it a TLS port" },
        { "twemproxy after a password", "refused", "during the greeting; is it a proxy",
            { reply = "+OK\r\n", close = true } },
    }
    for _, other in ipairs(OTHERS) do
        it(other[1], function()
            local h = support.hostile(other[4])
            local row = row_of(h.uri, good, { timeout = 60, connect_timeout = 60 })
            assert.equal(other[2], row.code, row.message)
            assert.matches(other[3], row.message)
            row = row_of(h.uri:gsub("redis:", "rediss:"), good, { timeout = 60,
                connect_timeout = 60 })
            assert.equal("tls", row.code, row.message)
            assert.matches(other[5] or "is %d+ its TLS port%?", row.message)
            h:stop()
        end)
    end

    it("a Sentinel", function()
        local port = support.free_port()
        local conf = support.tmpdir() .. "/sentinel.conf"
        sys.write_file(conf, "bind 127.0.0.1\nport " .. port .. "\n")
        local sentinel = support.spawn { "redis-server", conf, "--sentinel", stdout = "null" }
        support.eventually(function() return support.connect(port) end)
        local row = row_of("redis://127.0.0.1:" .. port, good)
        assert.equal("config", row.code, row.message)
        assert.matches("a Sentinel: name the masters", row.message)
        sentinel:kill "KILL"
        sentinel:wait()
    end)

    it("an answer that nobody asked for", function()
        local said = hostile({ reply = ("+OK\r\n"):rep(100) }, "protocol")
        -- Or one that comes when the next request was made already.
        assert.is_truthy(said == "it sent a reply without a request"
            or said:find "^a script's reply has no vote", said)
    end)

    it("answers that drip", function()
        hostile({ reply = "+PONG\r\n", drip = 1000 }, "timeout")
    end)

    it("an answer that breaks off in the middle", function()
        hostile({ reply = "$100\r\nabc", close = true }, "refused", "^read: ")
        hostile({ reply = "*3\r\n$1\r\nx", close = true }, "refused", "^read: ")
    end)

    it("a name that does not resolve", function()
        local row = row_of("redis://no-such-host.invalid", good)
        assert.equal("dns", row.code)
        assert.matches("no%-such%-host", row.message)
    end)

    it("a unix socket that is not there", function()
        local row = row_of("unix:///nonexistent/redis.sock", good)
        assert.equal("refused", row.code)
        assert.matches("No such file", row.message)
    end)
end)

-- Whatever one server sends, the others are not affected, and it costs little.
describe("a server that never ends", function()
    local good

    before_each(function() good = support.cluster(2) end)

    -- A client waits two seconds for a lock that somebody else has, and gets it then.
    local function endures(uri)
        local other = support.warm_client { good[1], good[2] }
        local client = support.client({ good[1], good[2], uri }, { connect_timeout = 0.3 })
        local theirs, l = other:getLock "x", client:getLock "x"
        assert.is_true(theirs:tryLock(0, 20))
        local rss, cpu = support.rss(), os.clock()
        assert.is_nil((l:tryLock(2)))
        assert.is_true(os.clock() - cpu < 1, os.clock() - cpu)
        assert.is_true(support.rss() - rss < 16 * 1024)
        assert.is_true(theirs:unlock())
        assert.is_true(l:tryLock(5))
        assert.is_true(l:unlock())
        return client
    end

    local MESSAGE = "*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$1\r\ny\r\n"

    it("sending messages", function()
        -- The first two lines are what a subscriber takes for its handshake.
        local h = support.hostile { greet = "+OK\r\n+PONG\r\n" .. MESSAGE:rep(1000),
            reply = MESSAGE:rep(1000), repeat_ = 1000000 }
        endures(h.uri)
        assert.is_true(h:accepted() >= 2)
        assert.is_true(h:accepted() < 50)            -- it backs off
        h:stop()
    end)

    it("sending answers", function()
        local h = support.hostile { reply = ("+OK\r\n"):rep(10000), repeat_ = 1000000 }
        endures(h.uri)
        assert.is_true(h:accepted() < 50)
        h:stop()
    end)

    it("announcing a gigabyte", function()
        local h = support.hostile { reply = "$1073741824\r\n" .. ("x"):rep(65536),
            repeat_ = 1000000 }
        endures(h.uri)
        h:stop()
    end)

    it("dripping, after a good handshake", function()
        local server = support.server()
        local proxy = support.proxy(server.port)
        local client = support.warm_client({ good[1], good[2], proxy }, { timeout = 2 })
        proxy:bandwidth(5)                           -- bytes a second
        local t, cpu = support.now(), os.clock()
        for k = 1, 20 do
            assert.is_true(client:getLock("x" .. k):tryLock())
            assert.is_true(client:getLock("x" .. k):unlock())
        end
        assert.is_true(support.now() - t < 20)       -- each would cost 2 s
        local ok
        support.eventually(function()
            good[2]:call("SET", "y", "somebody", "PX", 60000)
            local err
            ok, err = client:getLock("y"):tryLock()
            return not ok and err.nodes[3].code == "timeout"
        end)
        assert.is_true(os.clock() - cpu < 2)
    end)
end)

describe("servers that refuse", function()
    local good, server

    setup(function() good = support.cluster(2) end)
    before_each(function() good:flush() end)
    after_each(function() server:kill() end)

    local function refuses(code, pattern, uri)
        local row = row_of(uri or server.uri, good)
        assert.equal(code, row.code, row.message)
        assert.matches(pattern, row.message)
    end

    it("without a password [36]", function()
        server = support.server { password = "secret" }
        refuses("auth", "NOAUTH")
    end)

    it("with a wrong password, which is not repeated [36]", function()
        server = support.server { password = "secret" }
        local row = row_of("redis://:hunter2@127.0.0.1:" .. server.port, good)
        assert.equal("auth", row.code)
        assert.matches("WRONGPASS", row.message)
        assert.is_nil(row.message:find "hunter2")
        assert.is_nil(row.node:find "hunter2")
    end)

    it("when a password is given but none is set", function()
        server = support.server()
        refuses("auth", "AUTH", "redis://:pw@127.0.0.1:" .. server.port)
    end)

    it("without permission [36]", function()
        server = support.server()
        server:user("app", "on", ">pw", "~*", "+@all", "-eval", "-evalsha")
        refuses("noperm", "NOPERM", "redis://app:pw@127.0.0.1:" .. server.port)
    end)

    it("in a script without permission for a command [36]", function()
        server = support.server():admit()
        server:user("app", "on", ">pw", "~*", "+@all", "-set")
        refuses("noperm", "", "redis://app:pw@127.0.0.1:" .. server.port)
    end)

    it("a database that is not there", function()
        server = support.server()
        refuses("config", "DB index", "redis://127.0.0.1:" .. server.port .. "/99")
    end)

    it("as a replica [35, 36]", function()
        server = support.server()
        local master = support.server()
        assert.equal("OK", server:call("REPLICAOF", "127.0.0.1", master.port))
        refuses("readonly", "replica of 127.0.0.1:" .. master.port)
    end)

    -- As the other side of a failover, which does not know of it yet.
    it("cut off from their replicas, where they must not be", function()
        if not support.since(6, 2) then
            return pending "Redis 6.0 lets scripts write there"
        end
        server = support.server()
        local replica = support.server()
        assert.equal("OK", replica:call("REPLICAOF", "127.0.0.1", server.port))
        support.eventually(function()
            return server:call("INFO", "replication"):find "state=online"
        end, 20)
        server:admit()                 -- the first replica makes its history another one
        for name, value in pairs { ["min-replicas-to-write"] = 1, ["min-replicas-max-lag"] = 1 } do
            assert.equal("OK", server:call("CONFIG", "SET", name, value))
        end
        support.eventually(function() return server:call("SET", "k", "v") == "OK" end, 20)
        replica:freeze()
        support.eventually(function()
            return server:call("INFO", "replication"):find "min_slaves_good_slaves:0"
        end, 20)
        refuses("readonly", "NOREPLICAS")
        replica:kill()
    end)

    it("out of memory, but let go what they have [36]", function()
        server = support.server():admit()
        local client = support.warm_client { good[1], good[2], server }
        local l = client:getLock "x"
        assert.is_true(l:tryLock())
        support.eventually(function() return server:call("EXISTS", "x") == 1 end)
        assert.equal("OK", server:call("CONFIG", "SET", "maxmemory", "1"))
        refuses("oom", "OOM")
        good[1]:call("DEL", "x")                   -- so that its yes is needed
        assert.is_true((l:extend(40)))
        assert.is_true(server:call("PTTL", "x") > 35000)
        assert.is_true(l:unlock())
        support.eventually(function() return server:call("EXISTS", "x") == 0 end)
    end)

    it("that cannot save [36]", function()
        server = support.server { args = { "--dbfilename", "d.rdb" } }:admit()
        assert.is_true(support.sh("mkdir -p " .. server.dir .. "/d.rdb/x"))
        server:call("CONFIG", "SET", "save", "3600 1")
        server:call("SET", "k", "v")
        server:call "BGSAVE"
        support.eventually(function()
            return server:call("INFO", "persistence"):find "rdb_last_bgsave_status:err"
        end)
        refuses("readonly", "MISCONF")
    end)

    it("while they load their data [36]", function()
        if not support.since(7, 0) then
            return pending "Redis before 7.0 answers only every 2 MiB of what it loads"
        end
        server = support.server { args = { "--save", "3600 1000000" } }
        server:call("EVAL", "for i = 1, 20000 do redis.call('set', i, i) end", 0)
        server:call "SAVE"
        server:kill()
        local starting = support.spawn { "redis-server", "--bind", "127.0.0.1", "--port",
            tostring(server.port), "--dir", server.dir, "--save", "", "--key-load-delay", "300",
            "--loading-process-events-interval-bytes", "1024", stdout = "null" }
        support.eventually(function()
            local _, err = server:call "PING"
            return err and err:find "LOADING"
        end)
        refuses("loading", "LOADING")
        starting:kill "KILL"
        starting:wait()
    end)

    it("while a script runs [36]", function()
        server = support.server { args = { "--lua-time-limit", "10" } }
        local busy = support.lua(([[
            local c = require("spec.support").connect(%d, 20)
            print "started"
            c:call("EVAL", "while true do end", 0)
        ]]):format(server.port))
        assert.equal("started", busy:read_line(5))
        support.eventually(function()
            local _, err = server:call "PING"
            return err and err:find "BUSY"
        end)
        refuses("loading", "BUSY")
        server:call("SCRIPT", "KILL")
    end)
end)

describe("one server under two addresses [35]", function()
    it("is refused by name [35]", function()
        local server = support.server { unixsocket = true }
        local client = support.client { server.uri, "unix://" .. server.socket,
            "redis://localhost:" .. server.port }
        local ok, err, said
        support.eventually(function()    -- two of the three have been greeted
            ok, err = client:getLock("x"):tryLock(0.2)
            said = {}
            for _, row in ipairs(err.nodes) do
                said[row.code] = (said[row.code] or 0) + 1
            end
            return said.config == 2
        end, 60)
        support.fails("config", ok, err)
        assert.matches("two addresses", tostring(err))
        server:await_free()
    end)
end)

describe("a name with two addresses", function()
    local NAME = "127.0.0.1-127.0.0.2.test"
    local hole

    before_each(function() hole = support.proxy(support.free_port()) end)

    -- What one attempt says, in a process that can resolve the name.
    local function attempt(connect_timeout)
        local child = support.lua(([[
            local client = require "redlock".new { nodes = "redis://%s:%d",
                connect_timeout = %g, timeout = 60 }
            print(client:getLock "x":tryLock())
        ]]):format(NAME, hole.port, connect_timeout), { env = support.names() })
        local said = child:read_line()
        child:wait()
        return said
    end

    local function serve()
        local server = support.spawn { "redis-server", "--bind", "127.0.0.2", "--port",
            tostring(hole.port), "--save", "", stdout = "null" }
        support.eventually(function()
            return support.sh(("redis-cli -h 127.0.0.2 -p %d ping >&- 2>&-"):format(hole.port))
        end)
        return server
    end

    it("is reached at the second one where the first one is silent", function()
        local server = serve()
        hole:blackhole_connect(true)
        assert.equal("true", attempt(6))
        server:kill "KILL"
        server:wait()
    end)

    it("says what became of each", function()
        hole:blackhole_connect(true)
        assert.matches("127%.0%.0%.1: Connection timed out; 127%.0%.0%.2: Connection refused",
            attempt(3))
        hole:stop()
        assert.matches("127%.0%.0%.1: Connection refused; 127%.0%.0%.2: Connection refused",
            attempt(60))
    end)
end)

describe("ways to connect", function()
    local function works(uri, server, db)
        local client = support.client { uri }
        local l = client:getLock "x"
        local ok, err = l:tryLock(5)
        assert.is_true(ok, tostring(err))
        if db then
            server:call("SELECT", db)
            assert.equal(1, server:call "DBSIZE")
            server:call("SELECT", 0)
        end
        assert.is_true(l:unlock())
        return client
    end

    it("a name", function()
        local server = support.server()
        works("redis://localhost:" .. server.port, server)
    end)

    it("a unix socket, a database", function()
        local server = support.server { unixsocket = true }
        works("unix://" .. server.socket, server)
        works("unix://" .. server.socket .. "?db=3", server, 3)
        works("valkey://127.0.0.1:" .. server.port .. "/7", server, 7)
    end)

    it("IPv6", function()
        local server = support.server { args = { "--bind", "127.0.0.1", "::1" } }
        works("redis://[::1]:" .. server.port, server)
    end)

    it("a password, a user, special characters", function()
        local server = support.server()
        server:user("a:b", "on", ">p@/:w", "~*", "+@all")
        works("redis://a%3Ab:p%40%2F%3Aw@127.0.0.1:" .. server.port, server)
        works({ host = "127.0.0.1", port = server.port, user = "a:b", password = "p@/:w" }, server)
        server:call("CONFIG", "SET", "requirepass", "pw")
        works("redis://:pw@127.0.0.1:" .. server.port, server)
    end)

    it("a user over a unix socket and over IPv6", function()
        local server = support.server { unixsocket = true,
            args = { "--bind", "127.0.0.1", "::1" } }
        server:user("app", "on", ">pw", "~*", "&*", "+@all")
        server:user("default", "-@all", "+auth", "+ping")
        for _, uri in ipairs { "unix://app:pw@" .. server.socket,
            "redis://app:pw@[::1]:" .. server.port } do
            works(uri, server)
        end
    end)

    it("shows itself in CLIENT LIST, with a hash of its servers", function()
        local servers = support.cluster(2, { new = true })
        local function name_of(nodes)
            local client = support.warm_client(nodes, { restart_guard = false })
            local name = servers[1]:call("CLIENT", "LIST"):match "name=(%S+)"
            client:close()
            support.eventually(function() return servers[1]:connections() == 0 end)
            return name
        end
        local name = name_of { servers[1], servers[2] }
        assert.matches("^redlock:%x%x%x%x%x%x%x%x$", name)
        assert.equal(name, name_of { servers[2], servers[1] })
        assert.are_not.equal(name, name_of { servers[1] })
    end)
end)

describe("all servers refuse writes, of which none has counted tokens:", function()
    local KINDS = {
        lock = function(c) return c:getLock("x"):tryLock() end,
        fenced = function(c) return c:getFencedLock("x"):tryLock() end,
        once = function(c) return c:once("x", 5, function() end) end,
        reading = function(c) return c:getReadWriteLock("x"):readLock():tryLock() end,
        writing = function(c) return c:getReadWriteLock("x"):writeLock():tryLock() end,
        fair = function(c) return c:getFairLock("x"):tryLock() end,
        multi = function(c) return c:getMultiLock { "x", "y" }:tryLock() end,
        permit = function(c) return c:getSemaphore("x", 2):tryAcquire() end,
        numbered = function(c) return c:getSemaphore("x", 2, { fenced = true }):tryAcquire() end,
        election = function(c) return c:getElection("x", { id = "me" }):campaign(0) end,
        latch = function(c) return c:getCountDownLatch("x"):trySetCount(1) end,
    }

    -- @return the rows' codes with their messages' first words
    local function reasons(err)
        local list = {}
        for _, row in ipairs(err.nodes) do
            list[#list + 1] = row.code ~= "pending" and row.code .. " " .. row.message:match "^%u*"
                or nil
        end
        return table.concat(list, ", ", 1, 2)
    end

    for word, code in pairs { NOREPLICAS = "readonly", OOM = "oom", MISCONF = "readonly" } do
        it(word .. ", and every kind of lock says so", function()
            if word == "NOREPLICAS" and not support.since(6, 2) then
                return pending "Redis 6.0 lets scripts write there"
            end
            local cluster = support.cluster(3, { args = { "--dbfilename", "d.rdb" } })
            local client = support.warm_client(cluster)
            for _, server in ipairs(cluster) do
                if word == "MISCONF" then
                    assert.is_true(support.sh("mkdir -p " .. server.dir .. "/d.rdb/x"))
                    server:call("CONFIG", "SET", "save", "3600 1")
                    server:call("SET", "k", "v")
                    server:call "BGSAVE"
                else
                    server:call("CONFIG", "SET", word == "OOM" and "maxmemory"
                        or "min-replicas-to-write", 1)
                end
                support.eventually(function()
                    local ok, err = server:call("SET", "k", "v")
                    return not ok and err:find(word, 1, true)
                end)
            end
            for kind, take in pairs(KINDS) do
                local ok, err = take(client)
                local reason = code .. " " .. word
                if not ok or word ~= "OOM" then      -- scripts that freed something may write
                    assert.equal(reason .. ", " .. reason, reasons(err), kind)
                end
            end
        end)
    end
end)
