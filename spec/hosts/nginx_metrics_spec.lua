-- redlock.metrics in nginx: whichever worker is asked, it tells of all.
local prometheus = require "spec.support.prometheus"
local support = require "spec.support"

local INIT = [[
    metrics = require("redlock.metrics").new { dict = "%s" }
    measured = redlock.new { nodes = nodes, cluster = "spec",
        timeout = 2, connect_timeout = 5, metrics = metrics }
]]
local SERVER = [[
    location = /metrics { content_by_lua_block { metrics:serve() } }
    location = /cycle { content_by_lua_block {
        local l = measured:getLock(ngx.var.arg_name or "a:x")
        local ok, err = l:tryLock(10, 20)
        if not ok then return ngx.print(err.code) end
        if ngx.var.arg_hold then
            ngx.sleep(tonumber(ngx.var.arg_hold))
        end
        ok, err = l:unlock()
        ngx.print(ngx.worker.pid(), " ", ok and "ok" or err.code)
    } }
    location = /hold { content_by_lua_block {
        local ok, err = measured:getLock(ngx.var.arg_name):tryLock(10, 50)
        ngx.print(ok and "ok" or tostring(err))
        ngx.flush(true)
        ngx.sleep(600)
    } }
    location = /instructions { content_by_lua_block {
        for _, array in pairs(metrics.meter.groups) do
            for i = 1, #array do
                array[i] = array[i] + 1
            end
        end
        turns.now, turns.most, turns.all = 0, 0, 0
        debug.sethook(function()
            turns.now, turns.all = turns.now + 100, turns.all + 100
        end, "", 100)
        local text = metrics:text()
        debug.sethook()
        os.clock()
        ngx.print(turns.most, " ", turns.all, " ", #text)
    } }
    location = /lead { content_by_lua_block {
        ngx.say(measured:getElection("jobs", { id = "me" }):campaign(5))
        ngx.flush(true)
        ngx.sleep(600)
    } }
    location = /say { content_by_lua_block {
        for i = ngx.var.arg_from, ngx.var.arg_to do
            metrics.meter:acquired("g" .. i .. ":x", 0)
        end
        ngx.print(ngx.worker.pid())
    } }
]]

-- With a limit that a slow machine keeps.
local function eventually(fn)
    return support.eventually(fn, 60)
end

describe("metrics of nginx", function()
    local cluster = support.shared_cluster(3)
    local ng

    local function start(opts)
        opts = opts or {}
        opts.nodes, opts.server, opts.workers = cluster, SERVER, opts.workers or 2
        opts.init = INIT:format(opts.dict or "shared")
        opts.init_worker = "assert(metrics:start())"
        ng = support.nginx(opts)
    end

    local function samples()
        local text, status = ng:get "/metrics"
        assert.equal(200, status)
        return prometheus.samples(text), text
    end

    -- How many groups there are, and what all of them have acquired.
    local function acquires_by_group()
        local groups, sum = 0, 0
        for name, value in pairs((samples())) do
            if name:find 'redlock_acquires_total{.*outcome="acquired"' then
                groups, sum = groups + 1, sum + value
            end
        end
        return groups, sum
    end

    local ACQUIRED = 'redlock_acquires_total{group="%s",outcome="acquired"}'

    local function acquired(group)
        return samples()[ACQUIRED:format(group)] or 0
    end

    -- Requests, until each worker has answered some; how many there were.
    local function cycles(n)
        local pids, count, sum = {}, 0, 0
        eventually(function()
            local pid, outcome = ng:get("/cycle"):match "^(%d+) (.*)$"
            assert.equal("ok", outcome)
            count = count + (pids[pid] and 0 or 1)
            pids[pid], sum = true, sum + 1
            return count == n
        end)
        return sum
    end

    it("are those of all workers, also of those that a reload has replaced", function()
        start()
        local sum = cycles(2)
        eventually(function() return acquired "a" == sum end)
        local found = samples()
        assert.equal(sum, found['redlock_hold_duration_seconds_count{group="a"}'])
        assert.equal(sum, found["redlock_acquire_duration_seconds_count"])
        assert.equal(sum, found["redlock_release_duration_seconds_count"])
        assert.equal(2, found["redlock_clients"])
        ng:reload()
        sum = sum + cycles(2)
        eventually(function() return acquired "a" == sum end)
        assert.equal(sum, acquired "a")
        ng:ends()
    end)

    it("have what requests do that outlive their worker's reload", function()
        start { workers = 1 }
        local request = ng:begin "/cycle?name=late:x&hold=6"
        eventually(function() return samples()["redlock_locks_held"] == 1 end)
        ng:reload()
        assert.equal(1, acquired "late")
        assert.matches("ok$", (request:finish()))
        eventually(function()
            return samples()['redlock_releases_total{group="late",outcome="released"}'] == 1
        end)
        ng:ends()
    end)

    it("say of whichever worker who leads", function()
        start()
        local request = ng:begin "/lead"
        eventually(function()
            return (samples()['redlock_leader_term{election="jobs",leader="me"}'] or 0) > 0
        end)
        request:abort()
        ng:stop "TERM"
    end)

    it("forget what a dead worker held", function()
        start()
        local requests = {}
        for i = 1, 4 do
            requests[i] = ng:begin("/hold?name=h:" .. i)
        end
        eventually(function() return samples()["redlock_locks_held"] == 4 end)
        for _, pid in ipairs(ng:workers()) do
            assert(support.sh("kill -9 " .. pid))
        end
        eventually(function() return samples()["redlock_locks_held"] == 0 end)
        for _, request in ipairs(requests) do
            request:abort()
        end
        ng:stop()
    end)

    it("have 64 groups, of all workers together", function()
        start()
        local said = {}
        eventually(function()        -- each worker 50 groups of its own
            local from = 1 + 50 * #said
            local pid = ng:get("/say?from=" .. from .. "&to=" .. from + 49)
            said[#said + 1] = pid
            return pid ~= said[1]
        end)
        local groups, sum
        eventually(function()
            groups, sum = acquires_by_group()
            return sum == 50 * #said
        end)
        assert.equal(64, groups)
        ng:ends()
    end)

    -- Where a pause for other requests is due, the processor's clock is read.
    it("leave other requests a turn after few instructions, also with all groups full",
        function()
            start { workers = 1, http = "lua_shared_dict large 4m;", dict = "large", first = [[
                jit.off()
                local clock = os.clock
                turns = { now = 0, most = 0, all = 0 }
                function os.clock()
                    turns.most, turns.now = math.max(turns.most, turns.now), 0
                    return clock()
                end
            ]] }
            ng:get "/say?from=1&to=64"
            local most, all, size = ng:get("/instructions", 60):match "^(%d+) (%d+) (%d+)$"
            assert.is_true(tonumber(size) > 300000, size)
            assert.is_true(tonumber(most) < 50000, most)
            assert.is_true(tonumber(all) < 2500000, all)
            ng:ends()
        end)

    it("lose nothing in a dictionary that is too small, and say so", function()
        start { http = "lua_shared_dict tiny 12k;", dict = "tiny", workers = 1 }
        ng:get "/say?from=1&to=60"
        local text = ng:get "/metrics"
        assert.matches("redlock_clients", text)
        assert.matches("the dictionary for metrics is too small", ng:log())
        ng:get "/metrics"
        local _, times = ng:log():gsub("dictionary for metrics is too small", "")
        assert.equal(1, times)
        assert.equal(0, ng:stop())
    end)

    it("come in the format that is asked for, with its type", function()
        start()
        ng:get "/cycle"
        local function get(accept, and_too)
            local p = support.spawn { "curl", "-s", "-i", "-H", "Accept: " .. accept,
                "-H", "Accept: " .. (and_too or accept),
                ("http://127.0.0.1:%d/metrics"):format(ng.port), stdout = "pipe" }
            local head, body = p:read_all(20):match "^(.-)\r\n\r\n(.*)$"
            return head:gsub("Date: [^\r]*", "Date: now"), body
        end
        local head, body = get("application/openmetrics-text;version=1.0.0;q=0.5,"
            .. "text/plain;version=0.0.4;q=0.3,*/*;q=0.1")
        assert.matches("Content%-Type: application/openmetrics%-text; version=1%.0%.0;", head)
        assert.matches("# EOF\n$", body)
        local complaints = prometheus.complaints(body, "openmetrics")
        assert.equal(head, (get("*/*", "application/openmetrics-text")))
        head, body = get "*/*"
        assert.matches("Content%-Type: text/plain; version=0%.0%.4;", head)
        assert.is_nil(body:find "# EOF")
        assert.equal("", complaints or "")
        assert.equal("", prometheus.complaints(body, "prometheus") or "")
        ng:ends()
    end)
end)
