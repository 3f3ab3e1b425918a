-- The proxies of the specs, and servers that answer what they should not.
local ffi = require "ffi"
local stream = require "spec.support.stream"
local support = require "spec.support"

local eventually = support.eventually

local function elapsed(fn, ...)
    local start = support.now()
    fn(...)
    return support.now() - start
end

local function await_end(conn)
    eventually(function()
        return not conn:usable()
    end, 5, "the end of a connection")
end

describe("support's proxy", function()
    teardown(support.cleanup)

    local server, proxy
    setup(function()
        server = support.server()
    end)
    before_each(function()
        server:call "FLUSHALL"
        proxy = support.proxy(server.port)
    end)
    after_each(function()
        proxy:stop()
        eventually(function()
            return server:connections() == 0
        end)
    end)

    local function connect(timeout)
        return assert(support.connect(proxy.port, timeout))
    end

    local function fails(message, conn, ...)
        local ok, err = conn:call(...)
        assert.is_nil(ok)
        assert.matches(message, err)
    end

    -- The reset may arrive before the client has looked at the connection.
    local function resets(port)
        local conn = support.connect(port)
        if conn then
            fails("reset", conn, "PING")
        end
    end

    local function get(key)
        return server:call("GET", key)
    end

    it("passes bytes and ends on", function()
        local conn, value = connect(), ("v"):rep(3e6)
        assert.equal("OK", conn:call("SET", "k", value))
        assert.equal(value, conn:call("GET", "k"))
        assert.equal(1, server:connections())
        conn:close()
        eventually(function()
            return server:connections() == 0
        end)
        conn = connect()
        assert.equal("PONG", conn:call "PING")
        assert.equal(1, server:call("CLIENT", "KILL", "TYPE", "normal"))
        await_end(conn)
        fails("closed", conn, "PING")
        assert.equal(2, proxy:count())
    end)

    it("resets clients when the server is down", function()
        local other = support.server()
        local dead = support.proxy(other.port)
        other:kill()
        resets(dead.port)
        dead:stop()
    end)

    it("delays", function()
        local conn = connect()
        proxy:delay("up", 30)
        proxy:delay("down", 50)
        assert.is_true(elapsed(conn.call, conn, "PING") >= 0.08)
        proxy:delay("both", 0)
        eventually(function()
            return elapsed(conn.call, conn, "PING") < 0.08
        end)
    end)

    it("delays some chunks by a span of time", function()
        proxy:seed(7)
        proxy:spread("down", 500, 30, 40)
        local conn, slow = connect(), 0
        for _ = 1, 20 do
            slow = slow + (elapsed(conn.call, conn, "PING") >= 0.03 and 1 or 0)
        end
        assert.is_true(slow >= 3 and slow <= 19, slow .. " of 20")
        proxy:spread("down", 1000, 30, 30)
        assert.is_true(elapsed(conn.call, conn, "PING") >= 0.03)
        proxy:spread("both", 0, 0, 0)
        assert.is_true(elapsed(conn.call, conn, "PING") < 0.03)
    end)

    it("resets on some chunks", function()
        local conn = connect()
        assert.equal("PONG", conn:call "PING")
        proxy:reset(1000)
        fails("reset", conn, "PING")
        proxy:reset(0)
        assert.equal("PONG", connect():call "PING")
    end)

    it("ends one direction", function()
        local conn = connect()
        assert.equal("PONG", conn:call "PING")
        proxy:half_close "down"
        fails("closed", conn, "SET", "k", 1)
        conn = connect()
        assert.equal("PONG", conn:call "PING")
        proxy:half_close "up"                -- the server hangs up, then
        await_end(conn)
    end)

    it("drops", function()
        proxy:drop("down", true)
        fails("timeout", connect(0.5), "SET", "k", 1)
        assert.equal("1", get "k")
        proxy:drop("down", false)
        proxy:drop("up", true)
        fails("timeout", connect(0.05), "SET", "k", 2)
        assert.equal("1", get "k")
    end)

    -- Behind what is lost TCP passes on nothing. A request that vanished from the middle
    -- of a connection would leave its answer to be taken from the next one.
    it("makes no hole in a connection", function()
        for _, dir in ipairs { "up", "down" } do
            local conn = connect()
            local answers = stream.new(conn.fd)
            local function ask(timeout)
                assert.equal(6, tonumber(ffi.C.sup_send(conn.fd, "PING\r\n", 6, 0)))
                return answers:read_line(timeout)
            end
            assert.equal("+PONG\r", ask())
            proxy:drop(dir, true)
            assert.is_nil(ask(0.1))
            proxy:drop(dir, false)
            assert.is_nil(ask(0.1))
            assert.equal("PONG", connect():call "PING")
        end
    end)

    it("holds", function()
        proxy:hold("up", true)
        fails("timeout", connect(0.05), "SET", "k", 1)
        assert.is_nil(get "k")
        proxy:hold("up", false)
        eventually(function()
            return get "k" == "1"
        end)
    end)

    it("limits the bandwidth", function()
        local conn = connect()
        proxy:bandwidth(100000)
        assert.is_true(elapsed(conn.call, conn, "ECHO", ("x"):rep(5000)) > 0.05)
    end)

    it("cuts and closes connections", function()
        local a, b = connect(), connect()
        proxy:cut()
        fails("reset", a, "PING")
        fails("reset", b, "PING")
        a = connect()
        proxy:close()
        fails("closed", a, "PING")
        assert.equal("PONG", connect():call "PING")
    end)

    it("cuts off the reply to a request, once", function()
        proxy:cut_after_request "needle"
        local a, b = connect(), connect()
        assert.equal("OK", a:call("SET", "k", "hay"))
        assert.equal(0, proxy:fired())
        fails("reset", a, "SET", "k", "needle")
        assert.equal(1, proxy:fired())
        assert.equal("needle", get "k")
        assert.equal("OK", b:call("SET", "k", "needle"))
    end)

    it("holds a request beyond the life of the connection", function()
        proxy:hold_request "needle\0"
        local a, b = connect(1), connect()
        assert.equal("OK", a:call("SET", "k", "hay"))
        fails("timeout", a, "SET", "k", "needle\0")
        assert.equal("OK", b:call("SET", "l", "hay"))
        assert.equal(1, proxy:held())
        assert.equal("hay", get "k")
        proxy:release()
        assert.equal(0, proxy:held())
        eventually(function()
            return get "k" == "needle\0" and server:connections() == 1
        end)
        assert.equal("OK", b:call("SET", "k", "needle\0"))
    end)

    it("refuses connections", function()
        local old = connect()
        proxy:refuse(true)
        resets(proxy.port)
        assert.equal("PONG", old:call "PING")
        proxy:refuse(false)
        assert.equal("PONG", connect():call "PING")
        assert.equal(3, proxy:count())
    end)

    it("does not let connections be established", function()
        local old = connect()
        proxy:blackhole_connect(true)
        local conn, err = support.connect(proxy.port, 0.1)
        assert.is_nil(conn)
        assert.matches("timeout", err)
        assert.equal("PONG", old:call "PING")
        proxy:blackhole_connect(false)
        assert.equal("PONG", connect():call "PING")
        assert.equal(2, proxy:count())
    end)
end)

describe("support's hostile server", function()
    teardown(support.cleanup)

    local function with(opts, check)
        local hostile = support.hostile(opts)
        check(assert(support.connect(hostile.port, 1)), hostile)
        hostile:stop()
    end

    it("greets", function()
        with({ greet = "+HELLO\r\n" }, function(conn, hostile)
            assert.equal("HELLO", conn:call "PING")
            assert.is_nil((conn:call "PING"))
            assert.equal(1, hostile:accepted())
        end)
    end)

    it("replies again and again", function()
        with({ reply = "+\0\r\n", repeat_ = 3 }, function(conn)
            for _ = 1, 3 do
                assert.equal("\0", conn:call "PING")
            end
            assert.matches("timeout", select(2, conn:call "PING"))
        end)
    end)

    it("drips, then closes", function()
        with({ reply = "+PONG\r\n", drip = 10, close = true }, function(conn)
            assert.is_true(elapsed(conn.call, conn, "PING") >= 0.06)
            await_end(conn)
            assert.matches("closed", select(2, conn:call "PING"))
        end)
    end)
end)
