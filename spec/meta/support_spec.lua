local ffi = require "ffi"
local support = require "spec.support"
local build = require "spec.support.build"
local stream = require "spec.support.stream"
local sys = require "spec.support.sys"

local now, eventually = support.now, support.eventually

local function elapsed(fn, ...)
    local start = now()
    fn(...)
    return now() - start
end

local function read(path)
    local file = io.open(path)
    local data = file and file:read "*a"
    if file then
        file:close()
    end
    return data
end

local function await_end(conn)
    eventually(function()
        return not conn:usable()
    end, 5, "the end of a connection")
end

describe("support", function()
    teardown(support.cleanup)

    describe("eventually", function()
        it("returns the values once the first is true", function()
            local n = 0
            local a, b, c = eventually(function()
                n = n + 1
                return n == 3 and n, nil, "c"
            end)
            assert.same({ 3, nil, "c" }, { a, b, c })
        end)

        it("names what it waited for in vain", function()
            assert.has_error(function()
                eventually(function() end, 0.01, "godot")
            end, "timed out after 0.01 s waiting for godot")
        end)
    end)

    describe("free_port", function()
        it("gives no port twice, whoever asks, until its process ends", function()
            local other = support.lua("print(require('spec.support').free_port()) io.read()",
                { env = { LUA_PATH = build.root .. "/?.lua;" .. build.root .. "/?/init.lua" },
                    stdin = "pipe" })
            local port = tonumber(other:read_line(10))
            assert.is_false(sys.take_port(port))
            other:close_stdin()
            assert.equal(0, other:wait(10))
            assert.is_true(sys.take_port(port))
            assert.is_false(sys.take_port(port))
        end)

        it("gives none that somebody listens on", function()
            local server = support.hostile {}
            sys.release_ports()
            assert.is_false(sys.take_port(server.port))
            server:stop()
            assert.is_true(sys.take_port(server.port))
        end)
    end)

    describe("spawn", function()
        it("talks to a child and tells how it ended", function()
            local cat = support.spawn { "cat", stdin = "pipe", stdout = "pipe" }
            cat:write "one\ntwo\nthr"
            assert.equal("one", cat:read_line())
            assert.equal("two", cat:read_line())
            assert.same({ nil, "timeout" }, { cat:read_line(0.01) })
            assert.same({ nil, "timeout" }, { cat:wait(0.01) })
            cat:write "ee"
            cat:close_stdin()
            assert.equal("three", cat:read_line())
            assert.same({ nil, "eof" }, { cat:read_line() })
            assert.same({ 0 }, { cat:wait() })
            assert.is_nil((cat:write "x"))
        end)

        it("reports exit codes and signals", function()
            local sh = support.spawn { "sh", "-c", "exit 3" }
            assert.same({ 3 }, { sh:wait() })
            local sleep = support.spawn { "sleep", 60 }
            assert.is_true(sleep:alive())
            assert.is_true(sleep:kill())
            assert.same({ 143, 15 }, { sleep:wait() })
            assert.is_false(sleep:alive())
            assert.is_false(sleep:kill())
            local none = support.spawn { "/no/such/program", stderr = "null" }
            assert.same({ 127 }, { none:wait() })
        end)

        it("sets up streams, directory and environment", function()
            local dir = support.tmpdir()
            local sh = support.spawn {
                "sh", "-c", 'pwd; echo "$A$HOME"; echo e >&2; ls /proc/self/fd | wc -l',
                stdout = "pipe", stderr = dir .. "/log", cwd = dir,
                env = { A = "b", HOME = false },
            }
            assert.equal(dir .. "\nb\n4\n", sh:read_all())
            sh:wait()
            assert.equal("e\n", read(dir .. "/log"))
        end)

        it("survives writing to a dead child", function()
            local dead = support.spawn { "true", stdin = "pipe" }
            local data = ("x"):rep(1e6)
            assert.is_nil((dead:write(data)))
        end)

        it("does not let a child outlive its parent", function()
            local parent = support.lua [[
                local support = require "spec.support"
                print(support.spawn { "sleep", "60" }.pid)
                io.read()
            ]]
            local pid = parent:read_line()
            local function running()
                local stat = read("/proc/" .. pid .. "/stat")
                return stat and not stat:find ") Z"
            end
            assert.is_true(running())
            parent:kill "KILL"
            eventually(function()
                return not running()
            end, 5, "the grandchild to end")
        end)

        it("undoes everything at exit", function()
            local child = support.lua [[
                local support = require "spec.support"
                print(support.server().pid)
                print(support.tmpdir())
                os.exit(7, true)
            ]]
            local pid, dir = child:read_line(), child:read_line()
            assert.equal(7, (child:wait()))
            assert.is_nil(io.open("/proc/" .. pid))
            assert.is_nil(io.open(dir))
        end)
    end)

    describe("lua", function()
        it("runs code with arguments", function()
            local child = support.lua("print(arg[1], io.read())", {
                args = { "a" }, argv_prefix = { "env" },
            })
            child:write "b\n"
            assert.equal("a\tb", child:read_line())
            assert.equal(0, (child:wait()))
        end)
    end)

    it("counts descriptors, threads and memory", function()
        local before = support.fds()
        local file = io.open "/dev/null"
        assert.equal(before + 1, support.fds())
        file:close()
        assert.equal(before, support.fds())
        local sleep = support.spawn { "sleep", 60 }
        eventually(function()
            return support.fds(sleep.pid) == 3
        end)
        assert.equal(1, support.threads(sleep.pid))
        assert.is_true(support.rss() > 1000)
    end)

    describe("server", function()
        local server
        setup(function()
            server = support.server { unixsocket = true }
        end)

        it("answers with Lua values", function()
            assert.equal("PONG", server:call "PING")
            assert.equal("OK", server:call("SET", "a\0b", "x\0\r\ny"))
            assert.equal("x\0\r\ny", server:call("GET", "a\0b"))
            assert.equal(1, server:call("EXISTS", "a\0b"))
            assert.is_nil(server:call("GET", "none"))
            local script = "return { 1, 'b', { err = 'E x' } }"
            assert.same({ 1, "b", { err = "E x" } }, server:call("EVAL", script, 0))
            local value, err = server:call("INCR", "a\0b")
            assert.is_nil(value)
            assert.matches("^ERR value is not an integer", err)
            assert.is_true(support.sh("test -S " .. server.socket))
        end)

        it("counts the connections of others", function()
            assert.equal(0, server:connections())
            local conn = support.connect(server.port)
            assert.equal("PONG", conn:call "PING")
            assert.equal(1, server:connections())
            conn:close()
            eventually(function()
                return server:connections() == 0
            end)
        end)

        it("reconnects", function()
            server:call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no")
            await_end(server.conn)
            assert.equal("PONG", server:call "PING")
        end)

        it("freezes and thaws", function()
            local conn = support.connect(server.port, 0.5)
            server:freeze()
            assert.is_nil((conn:call "PING"))
            server:thaw()
            assert.equal("PONG", server:call "PING")
        end)

        it("stops, starts and restarts empty on the same port", function()
            server:call("SET", "k", 1)
            server:restart()
            assert.is_nil(server:call("GET", "k"))
            server:freeze():kill()
            local ok, err = server:call "PING"
            assert.is_nil(ok)
            assert.matches("refused", err)
            assert.equal("PONG", server:start():call "PING")
            server:stop()
            assert.is_false(server:alive())
        end)

        it("may need a password", function()
            local guarded = support.server { password = "s3cret" }
            assert.equal("PONG", guarded:call "PING")
            local stranger = support.connect(guarded.port)
            assert.matches("NOAUTH", select(2, stranger:call "PING"))
            guarded:stop()
        end)
    end)

    it("starts a cluster quickly", function()
        local c
        assert.is_true(elapsed(function() c = support.cluster(5) end) < 5)
        c:each(function(server, i)
            server:call("SET", "k", i)
        end)
        assert.equal(5, c:keys())
        c[1]:kill()
        c[2]:freeze()
        assert.equal(3, c:keys())
        c:flush()
        assert.equal(0, c:keys())
        assert.equal("redis://127.0.0.1:" .. c[5].port, c:uris()[5])
        c:stop()
        assert.is_false(c[2]:alive())
    end)

    describe("the clock shim", function()
        local offsets

        local function step(wall_us, steady_us)
            local file = assert(io.open(offsets, "r+b"))
            file:write(ffi.string(ffi.new("int64_t[2]", wall_us, steady_us), 16))
            file:close()
        end

        before_each(function()
            offsets = support.tmpdir() .. "/offsets"
            sys.write_file(offsets, ("\0"):rep(16))
        end)

        it("steps the clocks of a process, and the timers that were set", function()
            local p = support.lua([[
                local ffi = require "ffi"
                local sys = require "spec.support.sys"
                ffi.cdef "int timerfd_create(int, int);"
                ffi.cdef "int timerfd_settime(int, int, const long *, long *);"
                local steady, wall = sys.now(), os.time()
                local fd = ffi.C.timerfd_create(7, 0)
                local when = ffi.new("long[4]", 0, 0, math.floor(steady) + 60, 0)
                assert(ffi.C.timerfd_settime(fd, 1, when, nil) == 0)
                print "armed"
                io.read()
                print(os.time() - wall >= 3600, sys.now() - steady >= 100)
                print(sys.ready(fd, sys.now() + 5))
                -- A time that is past for the process and before the kernel's boot.
                local past = ffi.new("long[4]", 0, 0, 99, 999999999)
                assert(ffi.C.timerfd_settime(fd, 1, past, nil) == 0)
                print(sys.ready(fd, sys.now() + 5))
            ]], { env = { LD_PRELOAD = build.program "clockshim.so", CLOCKSHIM = offsets } })
            assert.equal("armed", p:read_line())
            p:kill "STOP"
            step(3600e6, 100e6)
            p:kill "CONT"
            p:write "\n"
            assert.equal("true\ttrue", p:read_line())
            assert.equal("true", p:read_line())
            assert.equal("true", p:read_line())
            assert.equal(0, p:wait())
        end)
    end)

    describe("proxy", function()
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

    describe("hostile", function()
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
end)
