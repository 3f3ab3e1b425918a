-- The same behaviour over every host.
local behaviour = require "spec.support.behaviour"
local support = require "spec.support"

describe("over the host", function()
    local cluster = support.shared_cluster(3)
    local nodes

    setup(function() nodes = cluster:text() end)

    -- An unlock is done when a majority has answered; a process that ends does not wait for
    -- a slow machine.
    local SETTLE = [[
        local from = now()
        repeat
            local busy = 0
            for _, node in ipairs(client:stats().nodes) do busy = busy + node.in_flight end
            sleep(0.002)
        until busy == 0 or now() - from > 20
    ]]

    local function free()
        cluster:await_free(60)
    end

    -- No code of the process runs meanwhile.
    for name, loop in pairs { plain = "local function main(fn) fn() end", luv = behaviour.loops.luv,
        cqueues = behaviour.loops.cqueues, own_loop = behaviour.loops.own_loop } do
        it(name .. " a client that holds comes back to servers that lost their memory", function()
            local servers = support.cluster(3)
            local p = support.lua(([[NODES = %s %s %s main(function()
                assert(client:getLock("x"):tryLock(5, 40))
                print "held"
                io.stdout:flush()
                io.read()
            end)]]):format(servers:text(), loop, behaviour.prelude), { stderr = "stdout" })
            assert.equal("held", p:read_line(20))
            for _, server in ipairs(servers) do server:restart() end
            support.eventually(function()
                local back = 0
                servers:each(function(s) back = back + (s:marker() and s:connections() or 0) end)
                return back == 3
            end, 8)
            p:kill "KILL"
            servers:stop()
        end)
    end

    for name, loop in pairs(behaviour.loops) do
        describe(name, function()
            for _, one in ipairs(behaviour.list) do
                it("a client " .. one[1], function()
                    local main = "NODES = %s %s %s main(function() do %s end %s print 'ok' end)"
                    local p = support.lua(main:format(nodes, loop, behaviour.prelude, one[2],
                        SETTLE), { stderr = "stdout" })
                    -- That it ends shows that the host lets its loop end.
                    local text = p:read_all(60)
                    assert.equal("ok\n", text)
                    assert.equal(0, p:wait(60))
                    free()
                end)
            end

            it("a client asks silent servers for their health, and lets others go on", function()
                local server = support.server()
                server:freeze()
                local p = support.lua(([[NODES = %q %s %s main(function()
                    local went_on = 0
                    spawn(function()
                        while went_on >= 0 do
                            sleep(0.001)
                            went_on = went_on + 1
                        end
                    end)
                    local c = new { timeout = 0.5 }
                    local healthy, err = c:health()
                    assert(healthy == nil and err.code == "no_quorum" and went_on > 2, err)
                    went_on = -2
                    c:close()
                end) print "ok"]]):format(server.uri, loop, behaviour.prelude),
                    { stderr = "stdout" })
                assert.equal("ok\n", p:read_all(60))
                server:thaw()
            end)

            it("a client says so where it cannot wait", function()
                local p = support.lua(("NODES = %s %s %s print(select(2, "
                    .. "client:getLock('x'):lock()))"):format(nodes, loop, behaviour.prelude),
                    { stderr = "stdout" })
                assert.matches("redlock: phase: lock 'x'", p:read_all(10))
            end)

            it("a client says so of whatever waits, and of futures", function()
                local p = support.lua(([[
                    NODES = %s %s %s
                    local function code(_, err) print(err and err.code or "none") end
                    code(client:check())
                    code(client:init())
                    local f = client:getLock("x", { owner = 1 }):tryLockAsync(5)
                    code(f:get())
                    code(redlock.wait_all({ f }))
                ]]):format(nodes, loop, behaviour.prelude), { stderr = "stdout" })
                local text = p:read_all(10)
                -- Where futures can begin, the last one is pending still.
                assert.truthy(text == "phase\nphase\nphase\nphase\n"
                    or text == "phase\nphase\nphase\nnone\n", text)
            end)
        end)
    end

    local function somebody_has(name)
        cluster:each(function(server) server:call("SET", name, "theirs", "PX", 60000) end)
    end

    local function starts(loop, code, argv_prefix, others)
        return support.lua(("NODES = %s %s %s main(function() %s end) print 'over'")
            :format(others or nodes, loop, behaviour.prelude, code),
            { stderr = "stdout", argv_prefix = argv_prefix })
    end

    -- Runs beside the tests, as most of its time is waited, on a server of its own.
    local dropping, alone
    setup(function()
        alone = support.cluster(1)
        dropping = starts(behaviour.loops.luv, [[
            local function status(file, pattern)
                return tonumber(io.open(file):read "*a":match(pattern))
            end
            local function threads() return status("/proc/self/status", "Threads:%s*(%d+)") end
            assert(client:getLock("kept", { owner = "me" }):lock())
            local before = threads()
            for i = 1, 5 do
                local c = new { timeout = 2 + i / 100 }
                local l = c:getLock("x" .. i, { owner = "me" })
                assert(l:tryLock(5) and l:unlock())
            end
            assert(threads() == before + 5)
            local again, from = new { timeout = 2 + 1 / 100 }, now()
            assert(again:connect())
            repeat
                collectgarbage()
                sleep(0.1)
            until threads() == before + 1 or now() - from > 90
            assert(threads() == before + 1, threads() - before)
            -- They can be had again, and so can one that was never closed.
            for _, c in ipairs { again, new { timeout = 2 + 2 / 100 } } do
                local l = c:getLock("y", { owner = "me" })
                assert(l:tryLock(5) and l:unlock())
            end
            assert(client:getLock("kept", { owner = "me" }):unlock())
        ]], nil, alone:text())
    end)

    -- Runs that and returns what it says.
    local function says(loop, code, argv_prefix, seconds)
        local p = starts(loop, code, argv_prefix)
        local text = p:read_all(seconds or 30)
        assert.equal(0, p:wait(5), text)
        return text
    end

    it("luv, an answer is not taken for that of a call that was cancelled", function()
        somebody_has "held"
        local text = says(behaviour.loops.luv, [[
            local uv, rounds = require "luv", require "redlock.runtime.rounds"
            local c = new { fallback = 0.3 }
            local l = c:getLock("held", { owner = "A" })
            assert(l:isLocked())
            for try = 1, 3 do
                local pending, over
                spawn(function()
                    rounds.sleep(c, 0.05)
                    pending:cancel()         -- whose round is done as well
                    local yes, err = l:isLocked()
                    assert(yes == true, tostring(err))
                    over = true
                end)
                pending = c:getLock("held", { owner = try }):lockAsync()
                local timer = uv.new_timer()
                timer:start(30, 0, function()        -- until both are
                    local finish = now() + 0.7
                    while now() < finish do end
                    timer:close()
                end)
                while not over do sleep(0.01) end
            end
            c:close()
        ]])
        assert.equal("over\n", text)
    end)

    for name, loop in pairs(behaviour.loops) do
        it(name .. ", what an owner held who has ended is not renewed", function()
            local p = starts(loop, [[
                local c = new { lease = 1 }
                spawn(function()
                    assert(c:getLock("x"):tryLock(5))
                    print "taken"
                end)
                for _ = 1, 300 do
                    sleep(0.1)
                    collectgarbage()
                end
            ]])
            assert.equal("taken", p:read_line(10))
            cluster:await_free(10)
            p:kill "KILL"
            p:wait(5)
        end)

        it(name .. ", an answer is read that comes when nobody waits for it any more", function()
            assert.equal("over\n", says(loop, ([[
                local proxy = require("spec.support.proxy").proxy(%d)
                local function is_read(c)
                    local node = c:stats().nodes[3]
                    return node.ready and node.in_flight == 0
                end
                -- How long the third answer lies there that the two others have decided without.
                local function late(c)
                    local l = c:getLock "x"
                    proxy:hold("down", true)
                    assert(l:tryLock(5) and not is_read(c))
                    proxy:hold("down", false)
                    local from = now()
                    repeat sleep(0.001) until is_read(c)
                    local seconds = now() - from
                    assert(l:unlock())
                    repeat sleep(0.001) until is_read(c)
                    return seconds
                end
                local first, next_one = 60, 60
                for i = 1, 5 do
                    local c = new { nodes = { "%s", "%s", proxy.uri }, timeout = 2 + i / 100 }
                    first = math.min(first, late(c))     -- it is not connected yet
                    next_one = math.min(next_one, late(c))
                    c:close()
                end
                assert(first < 0.3 and next_one < 0.3, first .. " s, " .. next_one .. " s")
            ]]):format(cluster[3].port, cluster[1].uri, cluster[2].uri)))
            free()
        end)

        it(name .. ", what those begin who are woken together is written together", function()
            -- Of all servers: one that is late may have no part in it.
            local function counted()
                local reads, calls = 0, 0
                cluster:each(function(server)
                    reads = reads + server:call("INFO", "stats"):match "total_reads_processed:(%d+)"
                    calls = calls + server:calls_of "evalsha"
                end)
                return reads, calls
            end
            local reads, calls = counted()
            assert.equal("over\n", says(loop, [[
                local done = 0
                for i = 1, 32 do
                    spawn(function()
                        local l = client:getLock("together" .. i, { owner = i })
                        for _ = 1, 50 do assert(l:tryLock(5) and l:unlock()) end
                        done = done + 1
                    end)
                end
                while done < 32 do sleep(0.001) end
            ]], nil, 60))
            local reads_now, calls_now = counted()
            reads, calls = reads_now - reads, calls_now - calls
            assert.is_true(reads < calls / 2, reads .. " of " .. calls)
        end)

        it(name .. ", a loop that ended goes on with what is held", function()
            local p = support.lua(([[
                NODES = %s %s %s
                local c = new { lease = 2 }
                local l = c:getLock("x", { owner = "me" })
                main(function() assert(l:lock()) end)
                main(function()
                    sleep(2.5)
                    assert(l:isValid() and l:unlock())
                end)
                print "over"
            ]]):format(nodes, loop, behaviour.prelude), { stderr = "stdout" })
            assert.equal("over\n", p:read_all(30))
            assert.equal(0, p:wait(5))
            free()
        end)

        it(name .. ", what cannot be suspended raises, and leaves nothing", function()
            -- Who finds it free may have his answer before he looks, and need not wait.
            somebody_has "held"
            local code = [[
                local function within_c()
                    return ("x"):gsub("x", function() client:getLock("held"):tryLock(1) end)
                end
                for _ = 1, 3 do
                    local ok, err = pcall(within_c)
                    assert(not ok and err:find "across C%-call boundary", err)
                end
            ]]
            assert.equal("over\n", says(loop, code))       -- the loop ends, too
            assert.equal("over\n", says(loop, code .. [[
                local l = client:getLock("x", { owner = 1 })
                assert(l:tryLock(5) and l:unlock())
            ]]))
            cluster:each(function(server) assert.equal(1, server:call("DEL", "held")) end)
            free()
        end)

        it(name .. ", a wait that is cancelled lets the loop end", function()
            somebody_has "held"
            assert.equal("over\n", says(loop, [[
                local future = client:getLock("held"):tryLockAsync(60)
                sleep(0.05)
                assert(future:cancel())
                local ok, err = future:get(5)
                assert(not ok and err.code == "cancelled", err)
            ]]))
        end)

        it(name .. ", clients are closed at once in a callback, which must not wait", function()
            local p = starts(loop, [[
                local list, took = {}, nil
                for i = 1, 20 do             -- with a core each
                    list[i] = new { prefix = i .. ":", timeout = 2 + i / 100 }
                    assert(list[i]:getLock("x"):tryLock(5, 30))
                end
                print "held"
                io.read()
                local last = new { on_event = function(e)
                    if e.type == "acquired" then
                        local began = now()
                        for i = 1, 20 do list[i]:close() end
                        took = now() - began
                    end
                end }
                assert(last:getLock("last"):tryLock(5) and last:close())
                assert(took < 0.5, took)         -- 50 ms each if it waited for the third server
            ]])
            assert.equal("held", p:read_line(30))
            cluster[3]:freeze()
            p:write "\n"
            assert.equal("over\n", p:read_all(30))
            cluster[3]:thaw()
            for i = 1, 20 do
                cluster:await_none(i .. ":x")
            end
        end)

        it(name .. ", what finds no descriptor says so, and once open needs none", function()
            somebody_has "x"
            assert.equal("over\n", says(loop, [[
                local l = client:getLock "x"
                local function without(code)
                    local files = {}
                    for file in function() return io.open "/dev/null" end do
                        files[#files + 1] = file
                    end
                    for _ = 1, 3 do
                        local ok, err = l:tryLock(0.3)
                        assert(not ok and err.code == code, err)
                    end
                    for i = 1, #files do files[i]:close() end
                end
                without "nomem"
                assert(client:open())
                local C = require("redlock.runtime.ffi").load()
                client:scripts(require "redlock.kinds.plain_lock")
                local from, up = now(), nil
                repeat                                       -- until all are connected
                    local round = C.rl_check(client.core)
                    C.rl_wait(round)
                    C.rl_round_free(round)
                    up = 0
                    for _, node in ipairs(client:stats().nodes) do
                        up = up + (node.ready and 1 or 0)
                    end
                until up == 3 or now() - from > 20
                without "held"
                assert(l:forceUnlock { foreign = true } and l:tryLock(5) and l:unlock())
            ]], { "prlimit", "--nofile=100" }))
            free()
        end)
    end

    -- Hosts with a timer that looks for owners that are gone.
    for _, name in ipairs { "luv", "cqueues" } do
        local loop = behaviour.loops[name]

        it(name .. ", what an owner held who has ended is let go in a quiet process", function()
            local p = starts(loop, [[
                local c = new { lease = 3 }
                local taken = 0
                spawn(function()
                    assert(c:getLock("dead"):lock())
                    taken = taken + 1
                end)
                spawn(function()
                    assert(c:getLock("alive"):lock())
                    taken = taken + 1
                    sleep(30)
                end)
                repeat sleep(0.01) until taken == 2
                print "taken"
                sleep(30)
            ]])
            assert.equal("taken", p:read_line(10))
            support.eventually(function()
                return cluster[1]:call("EXISTS", "dead") == 0
            end, 10, "the end of what nobody has")
            support.sleep(3)             -- several looks
            assert.equal(1, cluster[1]:call("EXISTS", "alive"))
            p:kill "KILL"
            p:wait(5)
        end)

        it(name .. ", what is held does not keep the loop running", function()
            local began = support.now()
            -- The next look at it would be in 10 s.
            assert.equal("over\n", says(loop, [[
                spawn(function() assert(client:getLock("x"):tryLock(5)) end)
                assert(client:getLock("y"):tryLock(5))
            ]]))
            assert.is_true(support.now() - began < 8)
            free()
        end)
    end

    -- As test runners do between two tests.
    it("luv, a program that closes all handles of its loop goes on", function()
        for _, waits in ipairs { "no", "yes", "callback" } do
            local p = support.lua(([[
                NODES = %s %s %s
                local waits, waiting = %q, nil
                local function close_all()
                    uv.walk(function(h) if not h:is_closing() then h:close() end end)
                end
                local c = new { lease = 3 }
                spawn(function()
                    local l = c:getLock("x", { owner = 1 })
                    assert(l:tryLock(5))
                    if waits == "callback" then
                        l:onLost(function() end)
                    elseif waits == "yes" then
                        spawn(function()
                            waiting = assert(c:getLock("x", { owner = 2 }):tryLock(60))
                        end)
                    end
                    if waits == "no" then assert(l:unlock()) end
                    uv.new_timer():start(20, 0, close_all)
                end)
                uv.run()
                spawn(function()
                    assert(c:getLock("y"):tryLock(5))
                    if waits ~= "no" then assert(c:getLock("x", { owner = 1 }):unlock()) end
                    repeat           -- the next call that waits has the handle made again
                        assert(c:getLock("z"):isLocked() == false)
                        sleep(0.01)
                    until waits ~= "yes" or waiting
                    print "goes on"
                    os.exit(0)
                end)
                uv.run()
            ]]):format(nodes, behaviour.loops.luv, behaviour.prelude, waits), { stderr = "stdout" })
            assert.equal("goes on\n", p:read_all(60))
            p:wait(5)
        end
    end)

    it("luv, a function of onEnding may end the program, and its Lua state", function()
        local p = support.lua(([[
            NODES = %s %s %s
            spawn(function()
                local l = new { lease = 1 }:getLock("x", { owner = 1 })
                assert(l:tryLock(5, 1))
                l:onEnding(0.9, function()
                    print "ending"
                    os.exit(7, true)
                end)
                sleep(60)
            end)
            uv.run()
        ]]):format(nodes, behaviour.loops.luv, behaviour.prelude), { stderr = "stdout" })
        assert.equal("ending\n", p:read_all(60))
        assert.equal(7, p:wait(5))
        free()
    end)

    it("luv, connections of clients that were dropped are closed, but not what is held", function()
        assert.equal("over\n", dropping:read_all(120))
        assert.equal(0, dropping:wait(5))
        alone:await_free(60)
    end)

    it("cqueues, a coroutine that its program never resumes keeps no other call waiting", function()
        somebody_has "held"
        assert.equal("over\n", says(behaviour.loops.cqueues, [[
            for i = 1, 2 do
                coroutine.resume(coroutine.create(function()
                    client:getLock("held", { owner = i }):tryLock(0.1)
                end))
            end
            sleep(0.3)
            local l = client:getLock("x", { owner = 1 })
            assert(l:tryLock(5) and l:unlock())
            local c = new { max_waiting = 1001 }
            assert(c:connect(5) and c:close())
            assert(client:getLock("y"):tryLock(5) and client:close())
            print "over"
            os.exit(0)
        ]]))
    end)

    -- They share a core. One computes in a coroutine that was woken beside others, whose requests
    -- are sent together.
    it("luv, a thread that computes holds back no request of another thread's", function()
        local LOOP = ("NODES = %s %s %s"):format(nodes, behaviour.loops.luv, behaviour.prelude)
        local p = support.lua(([[
            local uv = require "luv"
            local function run(code) assert(loadstring(code))() end
            local a = uv.new_thread(run, %q)
            local b = uv.new_thread(run, %q)
            a:join()
            b:join()
            os.exit(0)           -- luv 1.48 crashes as it frees two threads
        ]]):format(LOOP .. [[
            main(function()
                for i = 1, 3 do
                    spawn(function()
                        local l = client:getLock("busy" .. i, { owner = i })
                        for _ = 1, 5 do
                            assert(l:tryLock(5))
                            local from = now()
                            repeat until i > 1 or now() - from > 0.6
                            assert(l:unlock())
                        end
                    end)
                end
            end)]], LOOP .. [[
            main(function()
                local l, from, late = client:getLock("quick", { owner = 1 }), now(), 0
                while now() - from < 2.5 do
                    local began = now()
                    assert(l:tryLock(5) and l:unlock())
                    late = late + (now() - began < 0.4 and 0 or 1)
                    sleep(0.005)
                end
                print(late < 2 and "quick" or late)      -- the machine may be, once
            end)]]), { stderr = "stdout" })
        assert.equal("quick\n", p:read_all(60))
        assert.equal(0, p:wait(5))
    end)

    it("luv, errors of the user are told, and the loop goes on", function()
        local text = says(behaviour.loops.luv, [[
            local l, y = client:getLock("x", { owner = 1 }), client:getLock("y", { owner = 1 })
            assert(l:tryLock(5, 10) and y:tryLock(5, 10))
            spawn(function()
                client:getLock("y"):tryLock(5, 10)
                error "mine"
            end)
            assert(y:unlock())
            l:onLost(function() error("and mine", 0) end)
            assert(client:getLock("x"):forceUnlock() and not l:extend())
            assert(client:getLock("y"):forceUnlock())
        ]])
        assert.matches("redlock: [^\n]*: mine\nstack traceback:", text)
        assert.matches("redlock: an onLost function failed: and mine\n", text)
        assert.matches("\nover\n$", text)
    end)

    describe("nginx", function()
        it("a client does all of that, too", function()
            local server = {}
            for i, one in ipairs(behaviour.list) do
                server[i] = ([[location /%d { content_by_lua_block {
                    local NODES, HOST = nodes
                    %s
                    local spawn, sleep = ngx.thread.spawn, ngx.sleep
                    local ok, err = pcall(function() %s end)
                    ngx.print(ok and "ok" or tostring(err))
                } }]]):format(i, behaviour.prelude, one[2])
            end
            local ng = support.nginx { nodes = cluster, server = table.concat(server, "\n") }
            for i, one in ipairs(behaviour.list) do
                assert.equal("ok", ng:get("/" .. i, 60), one[1])
                free()
            end
            ng:ends "QUIT"
        end)
    end)
end)
