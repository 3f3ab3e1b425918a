-- Clients of one nginx worker: those that look the same to the core share its connections.
local support = require "spec.support"

-- Options that the core does not see, for the i-th client.
local INIT = [[
    unseen = {
        function(i) return { prefix = "tenant" .. i .. ":" } end,
        function(i) return { fallback = 1 + i / 100 } end,
        function(i) return { lease = 10 + i } end,
        function(i) return { patience = 10 + i, max_hold = 100 + i } end,
        function(i) return { handover = i, max_waiting = 1000 + i } end,
        function(i) return { label = "client " .. i } end,
        function() return { on_event = false } end,
        function(i) return { on_event = function(e)
            events[#events + 1] = i .. " " .. e.type
        end } end,
    }
    events, clients = {}, {}
    function make(opts)
        opts.nodes, opts.timeout, opts.connect_timeout, opts.cluster = nodes, 2, 5, "spec"
        local c = redlock.new(opts)
        clients[#clients + 1] = c
        return c
    end
    function cycle(c, name)
        local l = c:getLock(name)
        assert(l:tryLock(20))
        assert(l:unlock())
    end
]]

describe("the clients of an nginx worker", function()
    local cluster = support.shared_cluster(3)
    local ng

    -- Serves each of these at /NAME.
    local function start(pages)
        local server = {}
        for name, code in pairs(pages) do
            server[#server + 1] = ("location = /%s { content_by_lua_block { %s } }")
                :format(name, code)
        end
        ng = support.nginx { nodes = cluster, init = INIT, server = table.concat(server, "\n") }
    end

    -- How many connections for requests each server has; who waited has one more, to listen. A
    -- majority has answered, so one server's may come yet.
    local function has_connections(want)
        for i = 1, 3 do
            local n
            support.eventually(function()
                n = 0
                for line in cluster[i]:call("CLIENT", "LIST"):gmatch "name=redlock[^\n]+" do
                    n = n + (line:find "cmd=u?n?subscribe" and 0 or 1)
                end
                return n >= want
            end)
            assert.equal(want, n)
        end
    end

    it("share three connections to three servers, and all but what the core sees", function()
        start { twenty = [[
            for i = 1, 20 do
                cycle(make(unseen[1 + i % #unseen](i)), "x")
            end
            -- Of these, one ends, and one is only forgotten.
            clients[3]:close()
            clients[5] = nil
            collectgarbage() collectgarbage()
            local l = clients[4]:getLock "y"
            assert(l:tryLock(20))
            clients[20]:close()
            assert(l:stillMine() and l:unlock())
            cycle(make { fallback = 3 }, "z")
            ngx.print "ok" ]],
            down = [[
                local told = {}
                repeat
                    for i = 1, 20 do
                        if clients[i] and not clients[i].closed then clients[i]:connect(0) end
                    end
                    told = {}
                    for _, e in ipairs(events) do told[e] = true end
                    ngx.sleep(0.01)
                until told["7 node_down"] and told["15 node_down"]
                ngx.print "ok" ]] }
        assert.equal("ok", (ng:get "/twenty"))
        has_connections(1)
        cluster[3]:kill()
        assert.equal("ok", (ng:get "/down"))
        cluster[3]:start()
        support.eventually(function() return cluster:keys() == 0 end, 20)
        ng:ends "QUIT"
    end)

    it("share with others that count for the same metrics, and only with these", function()
        start { counted = [[
            local metrics = require "redlock.metrics"
            local all = { metrics.new(), metrics.new() }
            for i = 1, 12 do             -- every third has none
                local c = make { fallback = 1 + i / 100, metrics = all[i % 3] or false }
                for _ = 1, i do cycle(c, "x") end
            end
            for k = 1, 2 do
                local text = all[k]:text()
                ngx.say(text:match "redlock_acquire_duration_seconds_count (%d+)", " ",
                    text:match 'redlock_acquires_total{group="x",outcome="acquired"} (%d+)', " ",
                    text:match "redlock_clients (%d+)")
            end ]] }
        assert.equal("22 22 4\n26 26 4\n", (ng:get "/counted"))
        has_connections(3)
        ng:ends "QUIT"
    end)

    it("have room for scripts each, whatever the others and those before have", function()
        start { scripts = [[
            local function own(i)
                return redlock.primitive { name = "own",
                    acquire = "return 1 -- " .. i, release = "return 1 -- " .. i }
            end
            for i = 1, 3 do
                local c, n = make { fallback = 1 + i / 100 }, 0
                local ok, err = true, nil
                cycle(c, "x")
                while ok do
                    n = n + 1
                    ok, err = pcall(function()
                        local l = c:get(own(1000 * i + n), "y")
                        assert(l:tryLock(20) and l:unlock())
                    end)
                end
                assert(n > 120 and err:find("room for 256 different scripts", 1, true), err)
                cycle(c, "x")            -- what it has, it has
                if i == 1 then c:close() end
            end
            local permit = assert(make({}):getSemaphore("s", 2):tryAcquire(20))
            assert(permit:release())
            ngx.print "ok" ]] }
        assert.equal("ok", (ng:get("/scripts", 60)))
        has_connections(1)
        ng:ends "QUIT"
    end)

    it("hear of no renewals of others, even when more than are remembered are new", function()
        start { renewed = [[
            local told = 0
            local function listen(i)
                return make { fallback = 1 + i / 100, on_event = function(e)
                    told = told + (e.type == "renewed" and e.count or 0)
                end }
            end
            local holder, idle = make { lease = 0.9 }, listen(1)
            cycle(idle, "x")
            local futures = {}
            for i = 1, 700 do
                futures[i] = holder:getLock("n" .. i):tryLockAsync(20)
            end
            assert(redlock.wait_all(futures))
            local from = holder.now()
            repeat                       -- the event loop stands still
                local renewals = holder:stats().renewals
            until renewals > 4500 or holder.now() - from > 30
            for _, c in ipairs { idle, listen(2) } do
                cycle(c, "x")
            end
            holder:close()
            ngx.print(told) ]] }
        assert.equal("0", (ng:get("/renewed", 60)))
        support.eventually(function() return cluster:keys() == 0 end, 20)
        ng:ends "QUIT"
    end)

    it("come and go while others work", function()
        start { storm = [[
            local inside, most = 0, 0
            local threads = {}
            for t = 1, 12 do
                threads[t] = ngx.thread.spawn(function()
                    for i = 1, 8 do
                        local c = make { fallback = 0.1 + t / 1000 + i / 100000 }
                        local l = c:getLock("x", { owner = t * 100 + i })
                        assert(l:tryLock(60))
                        inside = inside + 1
                        most = math.max(most, inside)
                        if i % 2 == 0 then ngx.sleep(0.001) end
                        inside = inside - 1
                        if i % 4 == 3 then
                            c:close()                  -- which releases it
                        else
                            assert(l:unlock())
                            if i % 4 == 1 then c:close() end
                        end
                        clients[#clients] = nil
                        if i == 5 then collectgarbage() end
                    end
                end)
            end
            for t = 1, 12 do assert(ngx.thread.wait(threads[t])) end
            ngx.print("at most ", most) ]] }
        assert.equal("at most 1", (ng:get("/storm", 60)))
        support.eventually(function() return cluster:keys() == 0 end, 20)
        ng:ends "QUIT"
    end)
end)
