-- The whole library, Lua and core, under AddressSanitizer and under valgrind, while
-- servers are killed, frozen and restarted.
local build = require "spec.support.build"
local support = require "spec.support"

-- Says a word at each stage and waits for a line where the spec has to do something.
local CODE = [[
    local redlock = require "redlock"
    local support = require "spec.support"
    local uris = { ... }
    local KNOWN = { held = true, no_quorum = true, expired = true, lost = true,
        not_held = true, unknown = true, deadlock = true }

    -- What may go wrong when servers do.
    local function try(ok, err)
        if not ok then
            assert(redlock.is_error(err) and KNOWN[err.code], tostring(err))
            assert(#tostring(err) > 0)
        end
        return ok
    end

    local function fails(code, ok, err)
        assert(not ok and err.code == code, tostring(err))
        return tostring(err)
    end

    local function stage(word)
        print(word)
        io.read()
    end

    -- Somebody else has it when its owner lets it go, and all servers have said so.
    local function taken(nodes)
        local client = support.warm_client(nodes, { restart_guard = true, cluster = "spec" })
        local l, other = client:getLock "t", client:getLock("t", { owner = "other" })
        for _, opts in ipairs { {}, { closed_for = 1 } } do
            for _ = 1, 20 do
                assert(l:lock(5) == true and other:forceUnlock() and other:tryLock(1, 5))
                fails("held", l:unlock(opts))
                assert(other:unlock())
            end
        end
        client:close()
    end

    local function basics()
        assert(not pcall(redlock.new, { nodes = { "http://x" } }))
        local client = support.warm_client(uris, { prefix = "p:" })
        local l = client:getLock "x\0y"
        assert(l:tryLock(5, 10) and l:tryLock() and l:getHoldCount() == 2)
        assert(l:extend(20) and l:remaining() > 15 and l:check() == l)
        assert(l:isLocked() and l:remainTimeToLive() > 15)
        local other = client:getLock("x\0y", { owner = "other" })
        fails("held", other:tryLock())
        fails("deadlock", other:tryLock(0.05))
        fails("held", other:tryLockAsync(0.05):get())
        fails("not_held", other:unlock())
        assert(not pcall(other.check, other))
        assert(l:unlock() and l:unlock())
        fails("not_held", l:unlock())
        assert(other:tryLock(1, 0.1))
        support.sleep(0.15)
        assert(not other:isValid())
        fails("expired", other:unlock())
        assert(l:lock(5) == true and other:forceUnlock() == true)
        fails("lost", l:extend())
        assert(select(2, client:using("u", { lease = 5 }, function(held)
            return held:remaining()
        end)) > 4)
        assert(not pcall(client.using, client, "u", error))
        local long = client:getLock(("n"):rep(65536))
        assert(long:tryLock(1, 5) and long:unlock())
        local own = client:get(redlock.primitive {
            name = "own", acquire = "return redis.call('set', KEYS[1], ARGV[1], 'NX', "
                .. "'PX', ARGV[2]) and 1 or 0",
            release = "return redis.call('del', KEYS[1])",
            peek = "return no_such_thing()",
        }, "own")
        assert(own:tryLock(1, 5))
        fails("unsupported", own:extend())
        fails("no_quorum", own:isLocked())
        assert(own:unlock())
        for i = 1, 50 do               -- owners that die holding
            coroutine.wrap(function()
                assert(client:getLock("dead" .. i):tryLock(1, 5))
            end)()
        end
        collectgarbage()
        collectgarbage()
        taken(uris)
        taken { uris[1] }
        assert(client:close() and client:close())
        fails("closed", l:tryLock())
        assert(tostring(client):find "closed" and client:stats().acquired > 50)
    end

    local told = 0
    local function on_lost(l, reason)
        assert(l:remaining() == 0 and #reason > 0)
        told = told + 1
    end

    local function one(client)
        local l = client:getLock("name" .. math.random(5), { owner = math.random(3) })
        local what = math.random(4)
        if what == 1 then
            local ok, err = client:using("used", { wait = 0.2, lease = 0.5 }, function()
                support.sleep(0.005)
            end)
            try(ok ~= nil, err)
        elseif what == 2 then
            local locked, err = l:isLocked()
            try(locked ~= nil, err)
        elseif try(l:tryLock(0.1, what == 3 and 0.3 or nil)) then
            l:onLost(on_lost)
            support.sleep(0.001 * math.random(20))
            if math.random(3) == 1 then try(l:extend()) end
            if math.random(8) ~= 1 then try(l:unlock()) end
        end
    end

    -- Both have a keeper and owe clean-ups; one has to look up a name.
    local function trouble()
        local by_name = { (uris[1]:gsub("127.0.0.1", "localhost")), uris[2], uris[3] }
        local client = support.warm_client(by_name, { lease = 0.3, timeout = 0.1 })
        local kept = client:getLock "kept"
        assert(kept:tryLock(1))
        kept:onLost(on_lost)
        print "trouble"
        repeat one(client) until told > 0 and not kept:isValid()
        stage "lost"
        local finish = support.now() + 0.5
        repeat one(client) until support.now() > finish
        support.eventually(function() return kept:tryLock(0.5) end, 5)
        assert(client:stats().lost > 0)
        return client
    end

    local function interrupts(client)
        local l = client:getLock "foreign"
        stage "foreign"
        print "waiting"
        local ok, err = pcall(l.lock, l)
        assert(not ok and tostring(err):find "interrupted", tostring(err))
        support.eventually(function() return l:forceUnlock { foreign = true } end, 5)
        support.eventually(function() return l:tryLock(1, 5) end, 5)
        try(l:unlock())
    end

    jit.opt.start("hotloop=10")
    basics()
    print(io.open("/proc/self/maps"):read("*a"):match "(/%S+)/redlock/core%-%d+%.so")
    local client = trouble()
    interrupts(client)
    if client:stats().acquired % 2 == 0 then client:close() end     -- else at exit
    print "done"
]]

local function run(core, opts)
    local dir = support.certificates()
    local cluster = support.cluster(2)
    cluster[3] = support.tls_server(dir, "good"):admit()
    opts.args = { cluster[1].uri, cluster[2].uri, cluster[3].tls_uri }
    opts.stderr = "stdout"
    opts.env = opts.env or {}
    opts.env.SSL_CERT_FILE = dir .. "/ca.crt"
    local c = support.lua(CODE, opts)
    local function expect(word)
        local line = c:read_line(120)
        if line ~= word then
            error(tostring(line) .. "\n" .. (c:read_all(5) or ""), 0)
        end
    end
    expect(core)
    expect "trouble"
    support.sleep(0.3)
    cluster[1]:restart()
    support.sleep(0.3)
    cluster[2]:freeze()
    support.sleep(0.3)
    cluster[1]:kill()                   -- and the majority is gone
    expect "lost"
    cluster[2]:thaw()
    cluster[1]:start()
    c:write "\n"
    expect "foreign"
    cluster:each(function(s) assert(s:call("SET", "foreign", "theirs", "PX", 60000)) end)
    c:write "\n"
    expect "waiting"
    support.eventually(function()          -- it has subscribed, and is about to sleep
        return cluster[2]:call("PUBSUB", "NUMSUB", "redlock:{foreign}:free")[2] > 0
    end)
    support.sleep(0.2)
    c:kill "INT"
    expect "done"
    assert.equal("", c:read_all(20))
    assert.equal(0, c:wait(10))
    cluster:await_free()
end

local BUILD = support.lua_env().LUA_CPATH:match "^(.-)/%?"

describe("the library", function()
    it("is clean under AddressSanitizer", function()
        run(BUILD .. "/asan", {
            env = {
                LD_PRELOAD = build.library "libasan.so",
                -- LuaJIT's memory is not searched for pointers to ours.
                ASAN_OPTIONS = "detect_leaks=0",
                UBSAN_OPTIONS = "print_stacktrace=1",
                LUA_CPATH = BUILD .. "/asan/?.so",
            },
        })
    end)

    it("is clean under valgrind, and leaks nothing", function()
        run(BUILD, {
            argv_prefix = {
                "valgrind", "-q", "--error-exitcode=9", "--leak-check=full",
                "--errors-for-leak-kinds=definite", "--show-leak-kinds=definite",
                "--suppressions=spec/support/luajit.supp",
            },
        })
    end)
end)
