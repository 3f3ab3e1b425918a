local ffi = require "ffi"
local support = require "spec.support"
local build = require "spec.support.build"
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

    it("knows how a call has failed", function()
        local held = { code = "held" }
        assert.equal(held, support.fails("held", nil, held))
        for _, got in ipairs { { false, held }, { true }, { nil, "held" }, { nil, nil },
            { nil, { code = "lost" } } } do
            assert.has_error(function() support.fails("held", got[1], got[2]) end)
        end
        local _, message = pcall(function() support.fails("held", true) end)
        assert.matches('support_spec.lua:%d+: not nil and an error "held", but true and nil',
            message)
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
end)
