-- The option `signals`: who is told to end lets go first what he holds.
local ffi = require "ffi"
local support = require "spec.support"
local redlock = require "redlock"

local OPTIONS = '{ signals = { "TERM", "HUP" }, max_lease = 600, lease = 300 }'
local SOON = 3               -- for processes to end on a busy machine; servers time out later

-- Where a process may be when the signal comes.
local PLACES = {
    ["reads"] = "io.read()",
    ["is in a system call"] = "repeat until ffi.C.poll(nil, 0, 60000) == 0",    -- not EINTR
    ["is in a compiled loop"] = "local n = 0 while true do n = (n + 1) % 7 end",
    ["waits for another lock"] = "client:getLock('theirs'):lock()",
    ["waits for a future"] = "client:getLock('theirs'):lockAsync():get()",
    ["sleeps in the middle of a coroutine"] =
        "coroutine.wrap(function() client:getLock('y'):lock() "
        .. "repeat until ffi.C.poll(nil, 0, 60000) == 0 end)()",
}

describe("a process that is told to end", function()
    local cluster

    setup(function() cluster = support.cluster(3):admit(600) end)
    before_each(function()
        cluster:each(function(s) s:thaw() end)
        cluster:flush()
    end)

    -- A process that holds x, and goes on with that.
    local function holder(options, code)
        local p = support.child(cluster, options, [[
            local ffi = require "ffi"
            ffi.cdef "int poll(void *, unsigned long, int);"
            assert(l:lock())
            client:getLock "turn":isLocked()
            print "held"
        ]] .. code, { stdin = "pipe" })
        assert.equal("ready", p:read_line(30))
        assert.equal("held", p:read_line(30))
        support.eventually(function() return cluster:having "x" >= 2 end)   -- a majority
        support.sleep(0.1)           -- it goes on
        return p
    end

    local function is_free(name)
        cluster:each(function(s)
            support.eventually(function() return s:call("EXISTS", name or "x") == 0 end)
        end)
    end

    for place, code in pairs(PLACES) do
        it("releases what it holds, and ends by the signal: it " .. place, function()
            cluster:each(function(s) s:call("SET", "theirs", "v", "PX", 60000) end)
            for _, signal in ipairs { "TERM", "HUP" } do
                local p = holder(OPTIONS, code)
                p:kill(signal)
                local status, signo = p:wait(SOON)
                assert.same({ signal == "TERM" and 143 or 129, signal == "TERM" and 15 or 1 },
                    { status, signo })
                is_free()
                is_free "y"
            end
        end)
    end

    -- It notes the time, again and again, where we can read it when it is gone. One server
    -- hangs: for 50 ms it waits for that one's answer, while others may have the lock.
    for what, code in pairs {
        ["computes"] = "",
        ["takes other locks"] = "local y = client:getLock 'y' y:tryLock() y:unlock()",
    } do
        it("does nothing under a lock that somebody else has by now: it " .. what, function()
            local file = support.tmpdir() .. "/time"
            local other = support.warm_client(cluster, { max_lease = 600, timeout = 5 })
            for _ = 1, 5 do
                local p = holder('{ signals = { "TERM" }, max_lease = 600, lease = 9 }', ([[
                    ffi.cdef "void *mmap(void *, size_t, int, int, int, long);"
                    ffi.cdef "int open(const char *, int, ...); int ftruncate(int, long);"
                    local fd = ffi.C.open("%s", 66, ffi.cast("int", 384))
                    assert(ffi.C.ftruncate(fd, 8) == 0)
                    local time = ffi.cast("volatile double *", ffi.C.mmap(nil, 8, 3, 1, fd, 0))
                    while true do
                        time[0] = client.now()
                        %s
                    end
                ]]):format(file, code))
                local future = other:getLock("x"):tryLockAsync(30)
                assert.is_nil(future:get(0.1))
                cluster[3]:freeze()
                p:kill "TERM"
                assert.is_true(future:get(30))
                local taken = other.now()
                assert.equal(143, p:wait(SOON))
                local f = assert(io.open(file, "rb"))
                local noted = ffi.cast("const double *", f:read(8))[0]
                f:close()
                assert.is_true(noted > 0 and noted <= taken, noted - taken)
                cluster[3]:thaw()
                assert(other:getLock("x"):unlock())
                cluster:flush()              -- the one that hung may have lost the release
            end
            other:close()
        end)
    end

    it("stands still, though it was in the middle of the engine", function()
        local p = support.spawn { "build/spec/ends", "a_signal_in_the_engine", cluster[1].port,
            cluster[2].port, cluster[3].port, stdin = "pipe", stdout = "pipe",
            stderr = "stdout", env = { ASAN_OPTIONS = "detect_leaks=0" } }
        assert.equal("held", p:read_line(20))
        cluster[3]:freeze()
        p:write "\n"
        local text = p:read_all(60)
        cluster[3]:thaw()
        assert.equal("", text)
        assert.equal(0, p:wait(10))
        is_free()
    end)

    it("releases a fixed lease, too, without a watchdog", function()
        local p = holder(OPTIONS, "l:unlock() assert(l:tryLock(0, 60)) print 'again' io.read()")
        assert.equal("again", p:read_line(10))
        p:kill "TERM"
        assert.equal(143, p:wait(SOON))
        is_free()
    end)

    it("releases nothing of clients without the option", function()
        local p = holder(OPTIONS, ([[
            local other = support.client({ "%s" }, { max_lease = 600, restart_guard = true })
            assert(other:getLock("y"):tryLock(5))
            print "both"
            io.read()
        ]]):format(cluster[1].uri))
        assert.equal("both", p:read_line(10))
        p:kill "TERM"
        assert.equal(143, p:wait(SOON))
        is_free()
        assert.equal(1, cluster[1]:call("EXISTS", "y"))
    end)

    it("leaves it to its lease without the option, or where that names others", function()
        for _, options in ipairs { "{ max_lease = 600 }",
            '{ max_lease = 600, signals = { "HUP", "USR1" } }' } do
            local p = holder(options, "io.read()")
            p:kill "TERM"
            assert.equal(143, p:wait(SOON))
            support.sleep(0.2)
            assert.is_true(cluster:having "x" >= 2)
            cluster:flush()
        end
    end)

    it("goes on, and keeps its lock, where the signal is ignored", function()
        local p = support.lua(([[
            local ffi = require "ffi"
            ffi.cdef "void *signal(int, intptr_t);"
            ffi.C.signal(1, 1)                   -- HUP, as nohup does
            local nodes = {}
            for uri in ("%s"):gmatch "%%S+" do
                nodes[#nodes + 1] = uri
            end
            local l = require("redlock").new({ nodes = nodes, signals = { "HUP" },
                cluster = "spec", max_lease = 600 }):getLock "x"
            assert(l:tryLock(20))
            print "held"
            io.read()
            print(l:isValid(), l:unlock())
        ]]):format(table.concat(cluster:uris(), " ")), { stdin = "pipe" })
        assert.equal("held", p:read_line(30))
        p:kill "HUP"
        support.sleep(0.3)
        assert.is_true(p:alive())
        p:write "\n"
        assert.equal("true\ttrue", p:read_line(10))
        assert.equal(0, p:wait(10))
    end)

    it("forked by another one ends by itself, and releases its own", function()
        local p = holder(OPTIONS, [[
            ffi.cdef "int fork(void);"
            local pid = ffi.C.fork()
            if pid == 0 then
                if io.read() == "take" then
                    assert(client:getLock("child"):lock())
                end
                print(0)
                repeat until ffi.C.poll(nil, 0, 60000) == 0
            end
            print(pid)
            repeat until ffi.C.poll(nil, 0, 60000) == 0
        ]])
        local pid = tonumber(p:read_line(10))
        p:write "take\n"
        assert.equal("0", p:read_line(10))
        assert.is_true(support.sh("kill -TERM " .. pid))
        is_free "child"
        support.sleep(0.2)
        assert.is_true(p:alive())
        assert.is_true(cluster:having "x" >= 2)
        p:kill "TERM"
        assert.equal(143, p:wait(SOON))
        is_free()
    end)

    it("has no thread for that before it is used, nor without the option", function()
        local p = support.child(cluster, "{}", [[
            local before = support.threads()
            local c = support.client({ "]] .. cluster[1].uri .. [[" }, { signals = { "TERM" } })
            local made = support.threads()
            c:getLock "z":isLocked()
            print(made - before, support.threads() - before)
        ]])
        assert.equal("ready", p:read_line(30))
        assert.equal("0\t1", p:read_line(10))
    end)
end)

describe("the option signals", function()
    it("is a list of names, for plain hosts", function()
        local function wrong(value, text, host)
            local ok, err = pcall(redlock.new, { nodes = "redis://a", signals = value,
                host = host })
            assert.is_false(ok)
            assert.matches("bad option signals: " .. text, err, 1, true)
        end
        wrong("TERM", 'a list such as { "TERM", "HUP" } is needed, not string')
        wrong({ "KILL" }, "a list of HUP, INT, QUIT, USR1, USR2, TERM is needed")
        wrong({ TERM = true }, "a list of HUP, INT")
        wrong({ "TERM" }, "for plain hosts only", require "redlock.host.luv")
        assert.truthy(redlock.new { nodes = "redis://a", signals = {} })
        assert.truthy(redlock.new { nodes = "redis://a", signals = false })
    end)
end)
