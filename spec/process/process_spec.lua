-- The process around a client: memory, descriptors, threads, signals, fork, values.
local inspect = require "spec.support.inspect"
local support = require "spec.support"

local child = support.child

-- Traces, and records of releases that a slow server owes, come late on a busy machine: 250
-- bytes a cycle would be found.
local GROWTH_KIB = 2048

describe("10,000 cycles", function()
    -- Not with lag: the releases that a late server owes are memory, too.
    it("leak nothing, through restarts and lost scripts [34] #nolag", function()
        local cluster = support.cluster(5)
        local c = child(cluster, "{ timeout = 5 }", [[
            local function cycles(n)
                for i = 1, n do
                    local l = client:getLock("name" .. i % 100)
                    assert(l:tryLock(5, 30))
                    assert(l:unlock())
                end
                jit.flush()              -- what was compiled counts as well
                collectgarbage()
                collectgarbage()
                print(support.rss(), collectgarbage "count", support.fds(), support.threads())
                io.read()
            end
            cycles(2000)
            cycles(3000)
            cycles(3000)
            cycles(4000)
            local stats = client:stats()
            assert(stats.acquired == 12000 and stats.failed == 0 and stats.lost == 0)
        ]])
        assert.equal("ready", c:read_line(10))
        local rss, memory, fds
        for round = 1, 4 do
            local line = c:read_line(60)
            local r, m, f, t = line:match "^(%d+)\t([%d.]+)\t(%d+)\t(%d+)$"
            assert.truthy(r, line)
            r, m, f, t = tonumber(r), tonumber(m), tonumber(f), tonumber(t)
            if rss then
                assert.is_true(r - rss < GROWTH_KIB, ("resident %d KiB, was %d"):format(r, rss))
                assert.is_true(m - memory < 64, ("Lua %d KiB, was %d"):format(m, memory))
                assert.is_true(f - fds <= 1)     -- a keeper's timer
            end
            -- The keeper, once a release had to wait for a server (one that
            -- restarted, or a slow one): one for the process, never more.
            assert.is_true(t <= 2, ("%d threads"):format(t))
            rss, memory, fds = rss or r, memory or m, fds or f
            if round == 1 then
                cluster:each(function(s) s:call("SCRIPT", "FLUSH") end)
            elseif round == 2 then
                cluster[1]:restart():admit()
                cluster[5]:restart():admit()
            elseif round == 3 then
                cluster[2]:restart():admit()
                cluster:each(function(s) s:call("SCRIPT", "FLUSH") end)
            end
            c:write "\n"
        end
        assert.equal(0, c:wait(10))
        cluster:await_free()
        cluster:each(function(s)
            support.eventually(function() return s:connections() == 0 end)
        end)
    end)

    -- Not with lag: as many attempts follow each other.
    it("leak nothing when each attempt fails #nolag", function()
        local cluster = support.cluster(3)
        cluster[1]:call("SET", "x", "other")
        cluster[2]:call("SET", "x", "other")
        local c = child(cluster, nil, [[
            local function cycles(n)
                for i = 1, n do
                    assert(not client:getLock("x"):tryLock())
                end
                jit.flush()              -- what was compiled counts as well
                collectgarbage()
                collectgarbage()
                print(support.rss(), collectgarbage "count", support.fds())
            end
            cycles(2000)
            cycles(8000)
        ]])
        assert.equal("ready", c:read_line(10))
        local r1, m1, f1 = c:read_line(60):match "^(%d+)\t([%d.]+)\t(%d+)$"
        local r2, m2, f2 = c:read_line(60):match "^(%d+)\t([%d.]+)\t(%d+)$"
        assert.is_true(r2 - r1 < GROWTH_KIB, ("resident %d KiB, was %d"):format(r2, r1))
        assert.is_true(m2 - m1 < 64, ("%g KiB, was %g"):format(m2, m1))
        assert.is_true(f2 - f1 <= 1)         -- a keeper's timer
        assert.equal(0, c:wait(10))
        assert.is_nil(cluster[3]:call("GET", "x"))
    end)

    -- Not with lag: 62,000 attempts follow each other.
    it("leak nothing when each attempt is cancelled #nolag", function()
        local cluster = support.cluster(3)
        local c = child(cluster, "{ timeout = 5 }", [[
            local function cycles(n)
                for i = 1, n do
                    local future = client:getLock("x"):tryLockAsync(5, 1)
                    if not future:cancel() then
                        assert(l:unlock())
                    end
                    if i % 100 == 0 then         -- behind all of them, on all servers
                        repeat
                            assert(l:lock(30))
                            assert(l:unlock())
                        until client:stats().owed <= 1
                    end
                end
                jit.flush()              -- what was compiled counts as well
                collectgarbage()
                collectgarbage()
                print(support.rss(), collectgarbage "count")
            end
            cycles(2000)
            while io.read() do cycles(10000) end
        ]])
        assert.equal("ready", c:read_line(10))
        local r1, m1 = c:read_line(60):match "^(%d+)\t([%d.]+)$"
        local r2, m2 = r1, m1
        for _ = 1, 6 do              -- what waits for slow servers takes its room once
            r1, m1 = r2, m2
            c:write "\n"
            r2, m2 = c:read_line(60):match "^(%d+)\t([%d.]+)$"
            if r2 - r1 < GROWTH_KIB then
                break
            end
        end
        assert.is_true(r2 - r1 < GROWTH_KIB, ("resident %d KiB, was %d"):format(r2, r1))
        assert.is_true(m2 - m1 < 64, ("%g KiB, was %g"):format(m2, m1))
        c:close()
        assert.equal(0, c:wait(10))
        cluster:await_free()
    end)

    it("leak nothing when holds are forgotten", function()
        local cluster = support.cluster(1)
        local c = child(cluster, nil, [[
            local k = 0
            local function cycles(n)
                for i = 1, n do
                    coroutine.wrap(function()       -- an owner that dies holding
                        k = k + 1
                        assert(client:getLock("x" .. k):tryLock(5, 0.1))
                    end)()
                end
                jit.flush()              -- what was compiled counts as well
                collectgarbage()
                collectgarbage()
                print(support.rss(), collectgarbage "count")
            end
            cycles(8000)
            while io.read() do cycles(8000) end
            assert(tostring(client) == "client(1 nodes, 0 held)", tostring(client))
        ]])
        assert.equal("ready", c:read_line(10))
        local resident, lua = c:read_line(60):match "^(%d+)\t([%d.]+)$"
        local more, more_lua
        -- Tables grow with how many are there at once: they last 0.1 s, so on a busy machine more
        -- do, at some time. What leaks grows in each round.
        for _ = 1, 6 do
            c:write "\n"
            local r, m = c:read_line(60):match "^(%d+)\t([%d.]+)$"
            more, more_lua, resident, lua = r - resident, m - lua, r, m
            if more < 2 * GROWTH_KIB and more_lua < 256 then
                break
            end
        end
        assert.is_true(more < 2 * GROWTH_KIB, ("resident %d KiB more"):format(more))
        assert.is_true(more_lua < 256, ("%g KiB more"):format(more_lua))
        c:close()
        assert.equal(0, c:wait(10))
        cluster:await_free()
    end)
end)

describe("a process", function()
    it("has no thread until it holds something, nor one left after a name; then one", function()
        local cluster = support.cluster(1)
        local c = support.lua(([[
            local support = require "spec.support"
            local client = support.client({ "redis://localhost:%d" }, { timeout = 5 })
            local l = client:getLock "x"
            assert(l:isLocked() == false)
            support.eventually(function() return support.threads() == 1 end)
            for _ = 1, 3 do
                assert(l:tryLock(5, 30))
                assert(support.threads() == 2)
                assert(l:unlock())
            end
            print "one"
        ]]):format(cluster[1].port))
        assert.equal("one", c:read_line(10))
    end)

    it("that ends holding a lock leaves it for its lease at most [15]", function()
        local cluster = support.cluster(3)
        local c = child(cluster, nil, [[
            assert(client:getLock("x"):tryLock(0, 1))
            print "held"
            io.read()
        ]])
        assert.equal("ready", c:read_line(10))
        assert.equal("held", c:read_line(10))
        local t = support.now()
        c:kill "KILL"
        local client = support.warm_client(cluster)
        assert.is_true(client:getLock("x"):tryLock(25))
        assert.is_true(support.now() - t < 25)       -- else it is 30 s
    end)

    it("is interrupted while it waits for a lock [12]", function()
        local cluster = support.cluster(3)
        cluster:each(function(s) s:call("SET", "x", "other", "PX", 120000) end)
        local c = child(cluster, "{ fallback = 60 }", [[
            print(pcall(function() client:getLock("x"):lock() end))
            print(client:getLock("y"):tryLock())
            io.read()
        ]])
        assert.equal("ready", c:read_line(10))
        support.eventually(function()             -- it has been refused, and pauses
            return cluster[1]:call("INFO", "commandstats"):find "cmdstat_pttl"
        end)
        support.sleep(0.1)
        local t = support.now()
        c:kill "INT"
        assert.matches("^false.*interrupted", c:read_line(10))
        assert.is_true(support.now() - t < 50)
        assert.equal("true", c:read_line(10))     -- the client is as good as before
    end)

    it("is interrupted in the middle of an attempt, which is released [12]", function()
        local cluster = support.cluster(3)
        local proxies = support.proxies(cluster)
        local c = child(proxies, "{ timeout = 20, patience = 60 }", [[
            io.read()
            print(pcall(function() client:getLock("x"):lock() end))
            io.read()
        ]])
        assert.equal("ready", c:read_line(10))
        support.all(proxies):hold("down", true)
        c:write "\n"
        support.eventually(function() return cluster:keys() == 3 end)
        -- Before the attempt waits, the signal would come too early.
        support.sleep(0.05)
        c:kill "INT"
        assert.matches("^false.*interrupted", c:read_line(10))
        cluster:await_free()
    end)

    -- Compiled code looks for no signal by itself, and its attempts wait in the core.
    -- Not with lag: 2,000 attempts, each of which needs the vote of every server.
    it("is interrupted in an attempt that LuaJIT has compiled #nolag", function()
        local cluster = support.cluster(3)
        for i = 1, 2 do
            cluster[i]:call("SET", "x", "other")
        end
        local c = child(cluster, "{ timeout = 60, connect_timeout = 60 }", [[
            local function try() return l:tryLock(0, 50) end
            for _ = 1, 2000 do assert(not try()) end
            print "compiled"
            io.read()
            print "trying"
            print(pcall(try))
            os.exit(0, false)
        ]])
        assert.equal("ready", c:read_line(10))
        assert.equal("compiled", c:read_line(60))
        cluster:each(function(s) s:freeze() end)
        c:write "\n"
        assert.equal("trying", c:read_line(10))
        support.eventually(function() return inspect.state(c.pid) == "S" end)
        local t = support.now()
        c:kill "INT"
        assert.matches("^false.*interrupted", c:read_line(10))
        assert.is_true(support.now() - t < 25)       -- else it is 50 s
        cluster:each(function(s) s:thaw() end)
    end)

    it("is interrupted in a release, which is no loss [12]", function()
        local cluster = support.cluster(3)
        local c = child(cluster, "{ timeout = 60 }", [[
            jit.off()
            local lost = 0
            assert(l:tryLock(1, 50))
            l:onLost(function() lost = lost + 1 end)
            print "held"
            io.read()
            print "releasing"
            print(pcall(l.unlock, l))
            print(l:isValid(), l:getHoldCount(), lost, client:stats().lost)
            os.exit(0, false)
        ]])
        assert.equal("ready", c:read_line(10))
        assert.equal("held", c:read_line(10))
        cluster:each(function(s) s:freeze() end)
        c:write "\n"
        assert.equal("releasing", c:read_line(10))
        support.eventually(function() return inspect.state(c.pid) == "S" end)
        c:kill "INT"
        assert.matches("^false.*interrupted", c:read_line(10))
        assert.equal("false\t0\t0\t0", c:read_line(10))
        cluster:each(function(s) s:thaw() end)
        cluster:await_free()
    end)

    it("is interrupted anywhere, and keeps no lock that nobody knows of [12]", function()
        local cluster = support.cluster(3)
        for round = 1, 25 do
            local c = child(cluster, nil, [[
                local function spin()
                    while true do
                        assert(l:tryLock(5, 30))
                        assert(l:unlock())
                    end
                end
                print "spinning"
                local ok, err = pcall(spin)
                print(err)
                -- What this owner knows of it can let go.
                if l:getHoldCount() > 0 then l:unlock() end
                print "done"
                io.read()
            ]])
            assert.equal("ready", c:read_line(10))
            assert.equal("spinning", c:read_line(10))
            support.sleep(0.01 + round * 0.0007)
            c:kill "INT"
            assert.matches("interrupted", c:read_line(10))
            assert.equal("done", c:read_line(10))
            cluster:await_free()
            c:write "\n"
            c:wait(5)
        end
    end)

    it("is interrupted at each line that notes what is held [12]", function()
        local cluster = support.cluster(3)
        local c = child(cluster, nil, [[
            jit.off()
            local n, line = 0
            repeat
                n, line = n + 1, 0
                debug.sethook(function()
                    if debug.getinfo(2, "S").source:find "redlock/lock/holds%.lua$" then
                        line = line + 1
                        if line == n then
                            debug.sethook()
                            error("interrupted!", 0)
                        end
                    end
                end, "l")
                local ok, err = pcall(l.tryLock, l, 5, 30)
                debug.sethook()
                assert(ok or err == "interrupted!", err)
                if l:getHoldCount() > 0 then assert(l:unlock()) end
            until ok
            print(n > 20 and "done" or n)
            io.read()
        ]], { stderr = "stdout" })
        assert.equal("ready", c:read_line(10))
        assert.equal("done", c:read_line(60))
        cluster:await_free()
    end)

    -- What runs functions of users, or has to go on whatever happens, catches errors.
    it("is interrupted also where errors are caught", function()
        local cluster = support.cluster(3)
        local c = child(cluster, nil, [[
            jit.off()
            local redlock, rounds = require "redlock", require "redlock.runtime.rounds"
            local function interrupt() error("x.lua:1: interrupted!", 0) end
            local function raises(what, fn, ...)
                local ok, err = pcall(fn, ...)
                print(what, not ok and tostring(err):match "interrupted!$" or err)
            end
            -- Where close() waits for the servers, if they have not answered already.
            assert(l:tryLock(5, 30))
            debug.sethook(function()
                if debug.getinfo(2, "f").func == rounds.await_all then
                    debug.sethook()
                    interrupt()
                end
            end, "c")
            raises("close", client.close, client)
            debug.sethook()
            print("closed", l:tryLock() == nil)
        ]] .. ([[
            local nodes = %s
            local function get(opts)
                opts.nodes, opts.cluster = nodes, "spec"
                return redlock.new(opts)
            end
            local armed = false
            local function trap() if armed then interrupt() end return "word" end
            local lost = get {}
            local x = lost:getLock "lost"
            assert(x:tryLock(5, 30))
            x:onLost(trap)
            armed = true
            raises("onLost", lost.close, lost)
            armed = false
            local eventful = get { on_event = trap }
            armed = true
            raises("on_event", function() eventful:getLock("e"):tryLock(5, 30) end)
            armed = false
            local secret = get { password = trap }
            armed = true
            raises("password", secret.connect, secret, 1)
        ]]):format(('{ "%s" }'):format(table.concat(cluster:uris(), '", "'))),
            { stderr = "stdout" })
        assert.equal("ready", c:read_line(10))
        for _, what in ipairs { "close", "closed", "onLost", "on_event", "password" } do
            assert.equal(what .. "\t" .. (what == "closed" and "true" or "interrupted!"),
                c:read_line(30))
        end
    end)

    -- LuaJIT's handler raises once: a second Ctrl-C ends the program.
    it("is interrupted in a function of the user: what it had got is released", function()
        local cluster = support.cluster(3)
        local c = child(cluster, nil, ([[
            local redlock, resty = require "redlock", require "redlock.resty_lock"
            local metrics = require "redlock.metrics"
            local function interrupt() error("x.lua:1: interrupted!", 0) end
            local function get(opts)
                opts.nodes, opts.cluster = { "%s" }, "spec"
                return redlock.new(opts)
            end
            local function left(what, c, fn, ...)
                local ok, err = pcall(fn, ...)
                print(what, not ok and err:match "interrupted!$" or err, c.holds:count())
            end
            local c = get {
                on_event = function(e) if e.type == "acquired" then interrupt() end end,
            }
            local l = c:getLock "on_event"
            left("on_event", c, l.tryLock, l, 5, 30)
            local future = c:getLock("future", { owner = 1 }):tryLockAsync(5, 30)
            left("future", c, future.get, future)
            c = get { metrics = metrics.new { group = interrupt } }
            l = c:getLock "group"
            left("group", c, l.tryLock, l, 5, 30)
            future = c:getLock("direct", { owner = 1 }):tryLockAsync(5, 30)
            left("direct", c, future.get, future)
            c = get {}
            local e = c:getElection("on_elected", { id = "a", on_elected = interrupt })
            left("on_elected", c, e.campaign, e, 5)
            for _, fails in ipairs { false, true } do
                left("using", c, c.using, c, "using", { wait = 5, lease = 10 }, function(l)
                    l:onEnding(9.8, interrupt)     -- due when it is released
                    local from = c.now()
                    repeat until c.now() > from + 0.2
                    if fails then error("mine", 0) end
                end)
            end
            c.getLock = interrupt
            l = resty:new(c)
            left("resty", c, l.lock, l, "x")
            print "over"
            io.read()
        ]]):format(table.concat(cluster:uris(), '", "')), { stderr = "stdout" })
        assert.equal("ready", c:read_line(10))
        for _, what in ipairs { "on_event", "future", "group", "direct", "on_elected", "using",
            "using", "resty" } do
            assert.equal(what .. "\tinterrupted!\t0", c:read_line(30))
        end
        assert.equal("over", c:read_line(10))
        cluster:await_none("on_event", "future", "group", "direct", "on_elected", "using")
    end)

    it("shares nothing with its child after fork", function()
        local cluster = support.cluster(3)
        local c = child(cluster, nil, [[
            local ffi = require "ffi"
            ffi.cdef "int fork(void); int waitpid(int, int *, int); void _exit(int);"
            assert(l:tryLock(0, 20))
            assert(client:health())
            local before = client:stats().nodes
            io.stdout:flush()
            local pid = ffi.C.fork()
            if pid == 0 then
                local ok, err = xpcall(function()
                    assert(client:health())
                    assert(not l:isValid() and l:remaining() == 0)
                    local ok, err = l:extend()
                    assert(not ok and err.code == "lost", tostring(err))
                    ok, err = l:unlock()
                    assert(not ok and err.code == "not_held", tostring(err))
                    ok, err = l:tryLock()
                    assert(not ok and err.code == "held", tostring(err))
                    local mine = client:getLock "y"
                    assert(mine:tryLock(5))
                    assert(mine:unlock())
                    client:close()
                end, debug.traceback)
                if not ok then print(err) end
                io.stdout:flush()
                ffi.C._exit(ok and 0 or 1)
            end
            local status = ffi.new "int[1]"
            ffi.C.waitpid(pid, status, 0)
            print(status[0], l:isValid(), (l:extend()), (l:unlock()))
            local same = 0           -- a server that is late is spared
            for i, node in ipairs(client:stats().nodes) do
                same = same + (node.requests - before[i].requests == 2 and 1 or 0)
            end
            print(same >= 2)
        ]])
        assert.equal("ready", c:read_line(10))
        assert.equal("0\ttrue\ttrue\ttrue", c:read_line(10))
        assert.equal("true", c:read_line(10))
        cluster:await_free()
    end)
end)

describe("without file descriptors a process", function()
    it("is told so, loses nothing, and goes on when there are some", function()
        local cluster = support.cluster(3)
        local c = child(cluster, nil, [[
            local ffi = require "ffi"
            ffi.cdef "struct limit { unsigned long soft, hard; };"
            ffi.cdef "int getrlimit(int, struct limit *); int setrlimit(int, struct limit *);"
            ffi.cdef "int fork(void); int waitpid(int, int *, int); void _exit(int);"
            local was = ffi.new "struct limit"
            ffi.C.getrlimit(7, was)              -- RLIMIT_NOFILE
            local none = ffi.new("struct limit", 0, was.hard)

            local function try()
                assert(l:tryLock())
                ffi.C.setrlimit(7, none)
                local new = support.client { "redis://127.0.0.1:1" }
                local ok, err = new:getLock("x"):tryLock()
                assert(not ok and err.code == "nomem", tostring(err))
                assert(l:extend() and l:isValid() and l:unlock())  -- has its connections
                ffi.C.setrlimit(7, was)
                assert(not new:getLock("x"):tryLock())             -- nobody listens there
            end

            -- The child of a fork has to open connections of its own.
            local function in_child()
                ffi.C.setrlimit(7, none)
                local other = client:getLock "other"
                for _, call in ipairs {
                    function() return other:tryLock() end,
                    function() return other:tryLock(0.01) end,
                    function() return other:isLocked() end,
                    function() return other:forceUnlock() end,
                } do
                    local ok, err = call()
                    assert(not ok and err.code == "nomem", tostring(err))
                    assert(tostring(err):find "out of memory, threads or file descriptors")
                end
                ffi.C.setrlimit(7, was)
                assert(other:tryLock(5) and other:unlock())
            end

            try()
            io.stdout:flush()
            local pid = ffi.C.fork()
            if pid == 0 then
                local ok, err = xpcall(in_child, debug.traceback)
                if not ok then print(err) end
                io.stdout:flush()
                ffi.C._exit(ok and 0 or 1)
            end
            local status = ffi.new "int[1]"
            ffi.C.waitpid(pid, status, 0)
            print("done", status[0])
        ]], { stderr = "stdout" })
        assert.equal("ready", c:read_line(10))
        assert.equal("done\t0", c:read_line(20))
        cluster:await_free()
    end)
end)

describe("when a client is made a process", function()
    it("has loaded all that it will need: no descriptor may be left later", function()
        local p = support.lua(([[
            local redlock = require "redlock"
            local client = redlock.new { nodes = %s, cluster = "spec", fallback = 0.1 }
            for _, name in ipairs { "searchpath", "loadlib", "loaders" } do package[name] = nil end
            io.open, io.lines, loadfile, dofile = nil
            local pair = client:getReadWriteLock("rw", { fenced = true })
            for _, l in ipairs { client:getLock "a", client:getFencedLock "b", pair:readLock(),
                client:getFairLock "c", pair:writeLock(), client:getMultiLock { "d", "e" } } do
                assert(l:tryLock(5, 5))
                assert(l:extend(5) and l:isLocked())
                assert(l:unlock())
            end
            assert(client:getSemaphore("s", 2, { fenced = true }):tryAcquire(5, 5))
            assert(client:getRateLimiter("r", 1, 1):tryAcquire())
            assert(client:getCountDownLatch("l"):trySetCount(1))
            assert(client:getElection("e", { id = "a" }):campaign(5))
            assert(client:once("o", 1, function() end))
            assert(client:getLock("f"):tryLockAsync(5, 5):get(60))
            local _, err = client:getLock("f", { owner = 2 }):tryLock(0.2)
            assert(tostring(err):find "held")
            assert(client:locks() and client:check() and client:init() and client:stats())
            assert(client:import(assert(client:getLock("f"):export())))
            client:close()
            print "fine"
        ]]):format(support.cluster(3):text()), { stderr = "stdout" })
        assert.equal("fine", p:read_all(60):match "^(.-)\n")
        assert.equal(0, p:wait(60))
    end)

    it("has read each script once, and compiled none", function()
        local p = support.lua([[
            local opened, compiled, open, load = {}, 0, io.open, loadstring
            function io.open(path, ...)
                opened[#opened + 1], opened[path] = path, (opened[path] or 0) + 1
                return open(path, ...)
            end
            function loadstring(...)
                compiled = compiled + 1
                return load(...)
            end
            require("redlock").new { nodes = { "redis://127.0.0.1:1" } }
            for _, path in ipairs(opened) do
                assert(opened[path] == 1, path)
            end
            assert(#opened > 50 and compiled == 0, compiled)
            print "fine"
        ]], { stderr = "stdout" })
        assert.equal("fine\n", p:read_all(60))
    end)
end)

describe("values [37]", function()
    it("never repeat, in any process or after fork", function()
        local cluster = support.cluster(1)
        local code = [[
            local ffi = require "ffi"
            ffi.cdef "int fork(void); int waitpid(int, int *, int); void _exit(int);"
            io.read()
            io.stdout:flush()
            local pid = ffi.C.fork()
            local values = {}
            local value_of = require("redlock.runtime.ffi_values").value
            for i = 1, 500 do
                coroutine.wrap(function()
                    local l = client:getLock(("%d.%d"):format(pid, i))
                    assert(l:tryLock(5, 1))
                    local mine = client.holds:get(coroutine.running(), l.id)
                    values[i] = value_of(mine.lease):sub(1, 40)
                end)()
            end
            if pid ~= 0 then
                ffi.C.waitpid(pid, nil, 0)
            end
            io.write(table.concat(values, "\n"), "\n")
            io.stdout:flush()
            ffi.C._exit(0)
        ]]
        local children, seen, count = {}, {}, 0
        for i = 1, 4 do
            children[i] = child(cluster, nil, code)
            assert.equal("ready", children[i]:read_line(10))
        end
        support.all(children, 1, 4):write "\n"
        for i = 1, 4 do
            for value in children[i]:read_all(30):gmatch "[^\n]+" do
                assert.matches("^%x+$", value)
                assert.equal(40, #value)
                assert.is_nil(seen[value])
                seen[value] = true
                count = count + 1
            end
        end
        assert.equal(4 * 2 * 500, count)
    end)
end)

describe("a client for each job, none of them closed,", function()
    it("leaves descriptors to the others, also beside a large heap", function()
        local cluster = support.cluster(1)
        local c = support.lua(([[
            local support = require "spec.support"
            local ballast, most = {}, 0
            for i = 1, 20000 do
                ballast[i] = ("x"):rep(1000) .. i
            end
            collectgarbage()
            for i = 1, 150 do
                local lock = support.client({ %q }, { timeout = 5 }):getLock("x" .. i)
                assert(lock:tryLock(5) and lock:unlock())
                most = math.max(most, support.fds())
            end
            print(most, #ballast)
        ]]):format(cluster[1].uri), { stderr = "stdout" })
        local most = tonumber(c:read_all(120):match "^(%d+)\t20000")
        assert.is_true(most < 40 * 8, most)
    end)

    it("has the collector look for them only when many are open", function()
        local cluster = support.cluster(1)
        local c = support.lua(([[
            local support = require "spec.support"
            local looks, seen = 0, setmetatable({}, { __mode = "k" })
            for i = 1, 40 do
                collectgarbage()
                collectgarbage "stop"
                seen[{}] = true
                local lock = support.client({ %q }, { timeout = 5 }):getLock("x" .. i)
                assert(lock:tryLock(5) and lock:unlock())
                looks = looks + (next(seen) and 0 or 1)
            end
            print(looks)
        ]]):format(cluster[1].uri), { stderr = "stdout" })
        assert.equal("0\n", c:read_all(60))
    end)
end)
