-- The end of a client: what is held is let go, and the end takes 50 ms at most, whatever the
-- servers do. Their own time-outs are far longer here, so that nothing else can be the bound.
local support = require "spec.support"

local SLOW = "{ timeout = 8, connect_timeout = 8 }"
local SOON = 20              -- for processes to end on a busy machine
local STABLE = 1.1           -- a connection that broke sooner is not made again at once

-- How a process may end.
local ENDS = {
    ["the end of the script"] = "",
    ["an error"] = "error('on purpose', 0)",
    ["os.exit()"] = "os.exit(1)",
    ["client:close()"] = "local t = support.now() client:close() print(support.now() - t)",
}

describe("the end of a process", function()
    local cluster

    setup(function()
        cluster = support.cluster(3)
    end)
    before_each(function() cluster:flush() cluster:admit() end)

    local function is_free()
        cluster:await_free(5)
    end

    -- A process that holds x, and ends that way when it is told to.
    local function holder(nodes, how)
        local c = support.child(nodes, SLOW, ([[
            assert(l:tryLock(0, 60))
            support.eventually(function()      -- also where no majority needed it
                support.sleep(0.05)
                l:isLocked()                   -- that question may be the only one under way
                for _, node in ipairs(client:stats().nodes) do
                    if node.in_flight > 1 then return false end
                end
                return true
            end)
            print "held"
            io.read()
            %s
        ]]):format(how), { stderr = "stdout" })
        assert.equal("ready", c:read_line(30))
        local said = c:read_line(10) assert.equal("held", said)
        assert.equal(3, cluster:keys())
        return c
    end

    local function ends_soon(c, name)
        local started = support.now()
        c:write "go\n"
        if name == "client:close()" then
            local took = tonumber(c:read_line(SOON))
            assert.is_true(took and took < SOON)
        end
        assert.is_number(c:wait(SOON))
        assert.is_true(support.now() - started < SOON)
    end

    -- Ends a process, again if a server was not reached in the 50 ms that it takes for that: a busy
    -- machine may not come to it.
    local function reaches_all(fn)
        support.eventually(function()
            cluster:flush()
            fn()
            return (pcall(is_free))
        end, 60, "the release on all servers")
    end

    for name, how in pairs(ENDS) do
        it("releases: " .. name, function()
            ends_soon(holder(cluster, how), name)
            is_free()
        end)

        it("waits for no server that hangs, and they release when they go on: " .. name,
            function()
                local c = holder(cluster, how)
                cluster:each(function(s) s:freeze() end)
                ends_soon(c, name)
                cluster:each(function(s) s:thaw() end)
                is_free()
            end)

        it("waits for none that is down: " .. name, function()
            local c = holder(cluster, how)
            cluster[1]:kill()
            cluster[2]:kill()
            ends_soon(c, name)
            support.eventually(function() return cluster[3]:keys() == 0 end, 5, "the release")
            cluster[1]:start()
            cluster[2]:start()
        end)

        -- Nobody has noticed that they are gone; the links are slow, too.
        it("makes connections again that were cut: " .. name, function()
            local proxies = support.proxies(cluster)
            reaches_all(function()
                local c = holder(proxies, how)
                support.sleep(STABLE)
                for i = 1, 3 do
                    proxies[i]:cut()
                    proxies[i]:delay("both", 1)
                end
                ends_soon(c, name)
            end)
        end)

        it("gives up connections that are not made in time: " .. name, function()
            local proxies = support.proxies(cluster)
            local c = holder(proxies, how)
            for i = 1, 3 do
                proxies[i]:blackhole_connect(true)
                proxies[i]:cut()
            end
            ends_soon(c, name)
            assert.equal(3, cluster:keys())          -- they end with their time
        end)
    end

    -- How many keys there are after a child has exported 60 locks and ended. Two servers were
    -- enough for it; the third one goes on to read only 20 ms later.
    local function exported(how)
        cluster:flush()
        local c = support.child(cluster, SLOW, [[
            io.read()
            local futures = {}
            local function name(i) return i .. ("n"):rep(1000) end
            for i = 1, 60 do
                futures[i] = client:getLock(name(i)):tryLockAsync(0, 60)
            end
            assert(require("redlock").wait_all(futures))
            for i = 1, 60 do
                assert(client:getLock(name(i)):export())
            end
            print "exported"
            io.stdout:flush()
        ]] .. how, { stdin = "pipe", stderr = "null" })
        assert.equal("ready", c:read_line(30))
        cluster[3]:freeze()
        c:write "go\n"
        assert.equal("exported", c:read_line(30))
        support.sleep(0.02)
        cluster[3]:thaw()
        c:read_all(30)
        assert.is_number(c:wait(SOON))
        return cluster:keys()
    end

    -- It waits for 50 ms, in which a busy machine may not come to it: a process that does not wait
    -- is gone before the third server reads on, and leaves fewer each time.
    for name, how in pairs(ENDS) do
        it("leaves what was exported on all servers: " .. name, function()
            support.eventually(function() return exported(how) == 180 end, 60, "all 180 keys")
        end)
    end

    -- Whether a child has left none of the hundreds of locks that it had when it ended. It waits
    -- until servers have answered: one that is behind need not get all of them.
    local function released_hundreds()
        cluster:flush()
        local c = support.child(cluster, SLOW, [[
            local futures = {}
            for i = 1, 400 do
                futures[i] = client:getLock("n" .. i):tryLockAsync(0, 60)
            end
            assert(require("redlock").wait_all(futures))
            support.eventually(function()
                local pending = 0
                for _, node in ipairs(client:stats().nodes) do
                    pending = pending + node.in_flight
                end
                return pending == 0
            end)
            print "held"
            io.read()
        ]])
        assert.equal("ready", c:read_line(30))
        assert.equal("held", c:read_line(30))
        assert.is_true(cluster:keys() >= 800)
        ends_soon(c)
        return (pcall(cluster.await_free, cluster, 5))
    end

    -- What a server has not read when we are gone would be lost with its first answer. (As above.)
    it("releases hundreds of locks", function()
        support.eventually(released_hundreds, 60, "a child that leaves nothing")
    end)
end)

describe("a worker of nginx that ends", function()
    local cluster, proxies, ng

    local SERVER = [[
        location /leave { content_by_lua_block {
            repeat                   -- a server that is not connected yet is not asked
                assert(client:getLock("w"):isLocked() == false)
                local ready = true
                for _, node in ipairs(client:stats().nodes) do
                    ready = ready and node.ready
                end
            until ready
            assert(client:getLock("x", { owner = "kept" }):tryLock(1))
            ngx.print "taken"
        } }
        location /close { content_by_lua_block {
            local c = redlock.new { nodes = nodes, cluster = "spec",
                timeout = 60, connect_timeout = 60 }
            assert(c:getLock("y"):tryLock(1, 60))
            local red = ngx.shared.shared
            red:set("held", true)
            while red:get "held" do ngx.sleep(0.005) end
            ngx.update_time()
            local t = ngx.now()
            c:close()
            ngx.update_time()
            ngx.print(ngx.now() - t)
        } }
        location /held { content_by_lua_block {
            ngx.print(tostring(ngx.shared.shared:get "held"))
        } }
        location /go { content_by_lua_block { ngx.shared.shared:delete "held" } }
    ]]

    setup(function()
        cluster = support.cluster(3)
    end)
    before_each(function()
        cluster:flush()
        proxies = support.proxies(cluster)
        ng = support.nginx { nodes = proxies, server = SERVER, shutdown = "1s",
            options = "max_hold = 60" }
    end)
    after_each(function()
        if ng.proc:alive() then
            ng:stop "TERM"
        end
        assert.equal("", ng:complaints())
    end)

    local function take()
        assert.equal("taken", ng:get "/leave")
        support.eventually(function() return cluster:keys() == 3 end, 5, "all servers")
    end

    local function is_free()
        cluster:await_free(5)
    end

    local function ends_soon()
        local started = support.now()
        assert.equal(0, ng:stop "TERM")
        assert.is_true(support.now() - started < SOON)
    end

    it("waits for no server that hangs, and they release when they go on", function()
        take()
        cluster:each(function(s) s:freeze() end)
        ends_soon()
        cluster:each(function(s) s:thaw() end)
        is_free()
    end)

    it("makes connections again that were cut", function()
        support.eventually(function()        -- it has 50 ms for that, as above
            cluster:flush()
            if not ng.proc:alive() then
                ng:start()
            end
            take()
            support.sleep(STABLE)
            for i = 1, 3 do
                proxies[i]:cut()
                proxies[i]:delay("both", 1)
            end
            ends_soon()
            return (pcall(is_free))
        end, 60, "the release on all servers")
    end)

    it("gives up connections that are not made in time", function()
        take()
        for i = 1, 3 do
            proxies[i]:blackhole_connect(true)
            proxies[i]:cut()
        end
        ends_soon()
    end)

    it("closes a client of a request without waiting for servers that hang", function()
        local request = ng:begin "/close"
        support.eventually(function() return ng:get "/held" == "true" end)
        cluster:each(function(s) s:freeze() end)
        ng:get "/go"
        local took = tonumber((request:finish(SOON)))
        assert.is_true(took and took < SOON, tostring(took))
        cluster:each(function(s) s:thaw() end)
        is_free()
    end)
end)
