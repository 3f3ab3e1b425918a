-- redlock.metrics: what is counted is what has happened, and Prometheus can read it.
local metrics = require "redlock.metrics"
local prometheus = require "spec.support.prometheus"
local redlock = require "redlock"
local support = require "spec.support"

local TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

describe("metrics", function()
    local cluster = support.shared_cluster(3)
    local m, client

    before_each(function()
        m = metrics.new()
        client = support.warm_client(cluster, { metrics = m, timeout = 5 })
    end)
    after_each(function() client:close() end)

    local function sample(name)
        return prometheus.samples(m:text())[name]
    end

    -- The outcomes of a group that are not 0: "held 1, no_quorum 2".
    local function outcomes(family, label, group)
        local list = {}
        for name, value in pairs(prometheus.samples(m:text())) do
            local word = name:match("^redlock_" .. family .. '_total{group="' .. group .. '",'
                .. label .. '="(.*)"}$')
            if word and value > 0 then
                list[#list + 1] = word .. " " .. value
            end
        end
        table.sort(list)
        return table.concat(list, ", ")
    end

    it("do not take a pause of this program for a server's", function()
        local servers, watched = support.cluster(3), metrics.new()
        servers[1]:kill()
        servers[2]:kill()
        local c = support.client(servers, { metrics = watched, patience = 1,
            timeout = 0.25, connect_timeout = 1 })
        for _ = 1, 2 do
            c:getLock("x"):tryLock(0)
            support.sleep(2)
        end
        c:getLock("x"):tryLock(0)
        local seen
        for name, value in pairs(prometheus.samples(watched:text())) do
            if name:find "^redlock_server_clock" or name:find "^redlock_server_round" then
                seen = true
                assert.is_true(math.abs(value) < 0.45, name .. " " .. value)
            end
        end
        assert.is_true(seen)
        c:close()
    end)

    it("count calls by their outcome, in groups", function()
        for i = 1, 3 do
            local l = client:getLock("invoice:" .. i)
            assert(l:tryLock(5) and l:tryLock() and l:unlock() and l:unlock())
        end
        local one = client:getLock("mail", { owner = 1 })
        local other = client:getLock("mail", { owner = 2 })
        assert(one:tryLock(5))
        support.fails("held", other:tryLock())
        assert.equal("acquired 3", outcomes("acquires", "outcome", "invoice"))
        assert.equal("released 3", outcomes("releases", "outcome", "invoice"))
        assert.equal("acquired 1, held 1", outcomes("acquires", "outcome", "mail"))
        assert.equal("", outcomes("releases", "outcome", "mail"))
        assert.equal(1, sample 'redlock_contended_total{group="mail"}')
        assert.equal(1, sample "redlock_locks_held")
        assert.equal(3, sample 'redlock_wait_duration_seconds_count{group="invoice"}')
        assert.equal(3, sample 'redlock_hold_duration_seconds_count{group="invoice"}')
        assert.equal(4, sample "redlock_acquire_duration_seconds_count")
        assert.equal(3, sample "redlock_release_duration_seconds_count")
    end)

    it("have sums in whole microseconds, however they add up", function()
        for i = 1, 50 do
            local l = client:getLock("invoice:" .. i)
            assert(l:tryLock(5) and l:unlock())
        end
        local n = 0
        for value in m:text():gmatch "_sum%S* (%S+)\n" do
            assert.matches("^%d+%.?%d?%d?%d?%d?%d?%d?$", value)
            n = n + 1
        end
        assert.is_true(n >= 4)
    end)

    it("say why locks were lost, and what became of their release", function()
        local l = client:getLock "job:1"
        assert(l:tryLock(5, 0.1))
        support.eventually(function() return not l:isValid() end)
        support.fails("expired", l:unlock())
        l = client:getLock "job:2"
        assert(l:tryLock(5, 20))
        cluster:flush()
        support.fails("expired", l:unlock())
        assert.equal("expired 1, forgotten 1", outcomes("losses", "reason", "job"))
        assert.equal("acquired 2", outcomes("acquires", "outcome", "job"))
        assert.equal("expired 2", outcomes("releases", "outcome", "job"))
        assert.equal(0, sample "redlock_locks_held")
    end)

    it("remember the last losses, and no more", function()
        for i = 1, 60 do
            m.meter:lost("name " .. i, "expired")
        end
        assert.equal(50, #m.meter.recent)
        assert.equal("name 11", m.meter.recent[1].name)
        assert.equal("name 60", m.meter.recent[50].name)
    end)

    it("count each of thousands of locks that are held once", function()
        local futures = {}
        for i = 1, 2100 do
            futures[i] = client:getLock("job:" .. i):tryLockAsync(30, 60)
        end
        assert(redlock.wait_all(futures))
        assert.equal(2100, sample "redlock_locks_held")
    end)

    it("count what the watchdog renews", function()
        local kept = support.client(cluster, { metrics = m, lease = 0.6, timeout = 5 })
        local l = kept:getLock "kept"
        assert(l:lock())
        support.eventually(function()
            assert(l:isValid() or l:lock())         -- it is lost in a pause
            return sample 'redlock_renewals_total{group="kept"}' >= 2
        end)
        kept:close()
    end)

    it("say who leads, and in which term", function()
        local NAME = 'redlock_leader_term{election="jobs",leader="web-1"}'
        local short = support.warm_client(cluster, { metrics = m, lease = 3, timeout = 5 })
        local election = short:getElection("jobs", { id = "web-1" })
        assert.is_nil(sample(NAME))
        assert.equal(assert(election:campaign(5)), sample(NAME))
        local other = client:getElection("jobs", { id = "web-2" })
        support.fails("held", other:campaign(0))
        assert.is_nil(sample 'redlock_leader_term{election="jobs",leader="web-2"}')
        assert(election:resign())
        assert.is_nil(sample(NAME))
        assert.equal(assert(election:campaign(5)), sample(NAME))
        cluster:flush()                  -- the next renewal finds that it leads no more
        support.eventually(function() return not sample(NAME) end)
        short:close()
    end)

    it("add up the clients that share them, and keep what closed ones have done", function()
        local second = support.warm_client(cluster, { metrics = m, timeout = 5 })
        for _, c in ipairs { client, second } do
            assert(c:getLock("a"):tryLock(5) and c:getLock("a"):unlock())
        end
        assert.equal(2, sample "redlock_clients")
        local address = ('{server_address="127.0.0.1",server_port="%d"}'):format(cluster[1].port)
        assert.equal(2, sample("redlock_server_connected" .. address))
        assert.equal(2, sample("redlock_server_voting" .. address))
        local before = sample("redlock_server_requests_total" .. address)
        assert.is_true(before >= 4)
        second:close()
        assert.equal(1, sample "redlock_clients")
        assert.equal(2, sample "redlock_acquire_duration_seconds_count")
        assert.is_true(sample("redlock_server_requests_total" .. address) >= before)
        assert.equal("acquired 2", outcomes("acquires", "outcome", "a"))
    end)

    it("take the time of rounds, which is less than that of the calls", function()
        local began = support.now()
        for _ = 1, 20 do
            assert(client:getLock("a"):tryLock(5) and client:getLock("a"):unlock())
        end
        local took = support.now() - began
        for _, name in ipairs { "acquire", "release" } do
            local family = "redlock_" .. name .. "_duration_seconds"
            local sum = sample(family .. "_sum")
            assert.is_true(sum > 0 and sum < took, sum)
            assert.equal(20, sample(family .. '_bucket{le="+Inf"}'))
            assert.equal(20, sample(family .. "_count"))
        end
        -- A round that is not granted, or not waited for, has no time.
        assert(client:getLock("a", { owner = 1 }):tryLock(5))
        support.fails("held", client:getLock("a", { owner = 2 }):tryLock())
        assert.equal(21, sample "redlock_acquire_duration_seconds_count")
    end)

    it("count what futures do", function()
        local futures = {}
        for i = 1, 10 do
            futures[i] = client:getLock("f:" .. i):tryLockAsync(5, 10)
        end
        assert(redlock.wait_all(futures, 20))
        for i = 1, 10 do
            assert(futures[i]:get())
            futures[i] = client:getLock("f:" .. i):unlockAsync()
        end
        assert(redlock.wait_all(futures, 20))
        assert.equal("acquired 10", outcomes("acquires", "outcome", "f"))
        assert.equal("released 10", outcomes("releases", "outcome", "f"))
        assert.equal(10, sample 'redlock_hold_duration_seconds_count{group="f"}')
        assert.equal(10, sample "redlock_acquire_duration_seconds_count")
        assert.equal(10, sample "redlock_release_duration_seconds_count")
    end)

    it("know servers that are down", function()
        local all = support.cluster(3)
        local c = support.warm_client(all, { metrics = m, timeout = 5 })
        all[3]:kill()
        local address = ('{server_address="127.0.0.1",server_port="%d"}'):format(all[3].port)
        support.eventually(function()
            assert(c:getLock("b"):tryLock(5) and c:getLock("b"):unlock())
            return sample("redlock_server_connected" .. address) == 0
        end)
        assert.equal(0, sample("redlock_server_voting" .. address))
        c:close()
    end)

    -- ---- groups and times --------------------------------------------------------------

    local function count(name, seconds)
        m.meter:acquired(name, seconds or 0)
    end

    it("put a time on a bound into its bucket", function()
        for _, ms in ipairs { 0, 1, 2, 3, 4, 5, 1024, 1025, 4194304, 4194305, 1e9 } do
            -- As clocks that have run for a year give it.
            count("x", (31536000.123 + ms / 1000) - 31536000.123)
        end
        local samples = prometheus.samples(m:text())
        for le, n in pairs { ["0.001"] = 2, ["0.002"] = 3, ["0.004"] = 5, ["0.008"] = 6,
            ["0.512"] = 6, ["1.024"] = 7, ["2.048"] = 8, ["2097.152"] = 8, ["4194.304"] = 9,
            ["+Inf"] = 11 } do
            assert.equal(n, samples[('redlock_wait_duration_seconds_bucket{group="x",le="%s"}')
                :format(le)], le)
        end
        assert.is_true(math.abs(samples['redlock_wait_duration_seconds_sum{group="x"}']
            - 1008390.674) < 0.01)
    end)

    it("have 64 groups, and the last one is for all others", function()
        for i = 1, 100 do
            count(("g%d:x"):format(i))
            count(("g%d:y"):format(i))
        end
        count ":nothing before it"
        local groups, sum = 0, 0
        for name, value in pairs(prometheus.samples(m:text())) do
            if name:find 'redlock_acquires_total{.*outcome="acquired"' then
                groups, sum = groups + 1, sum + value
            end
        end
        assert.equal(64, groups)
        assert.equal(201, sum)
        assert.equal("acquired 2", outcomes("acquires", "outcome", "g63"))
        assert.equal("acquired 75", outcomes("acquires", "outcome", "other"))
    end)

    it("ask the user's function for the group, and go on without its answer", function()
        m = metrics.new { group = function(name) return name:match "^%a+(%d)" end }
        count "a1b"
        count "c1d"
        count "none"
        assert.equal("acquired 2", outcomes("acquires", "outcome", "1"))
        assert.equal("acquired 1", outcomes("acquires", "outcome", "other"))
        local child = support.lua([[
            local m = require("redlock.metrics").new { group = function() error "no idea" end }
            m.meter:acquired("a", 0)
            m.meter:acquired("b", 0)
            print(m:text():match 'acquires_total{group="other",outcome="acquired"} (%d)')
        ]], { stderr = "stdout" })
        assert.matches("^redlock: the group function failed: .*no idea$", child:read_line(10))
        assert.equal("2", child:read_line(10))
    end)

    it("allocate nothing for names that they know", function()
        local meter = m.meter
        local function cycle()
            meter:acquired("a:b", 0.003)
            meter:released("a:b", 7)
            meter:failed("a:b", "held")
        end
        for _ = 1, 1000 do
            cycle()
        end
        collectgarbage()
        collectgarbage "stop"
        local before = collectgarbage "count"
        for _ = 1, 100000 do
            cycle()
        end
        local grown = collectgarbage "count" - before
        collectgarbage "restart"
        assert.is_true(grown < 64, grown)        -- of which LuaJIT may compile something
    end)

    it("stay small, whatever the names", function()
        for i = 1, 20000 do
            count("job:" .. i)
        end
        local known = 0
        for _ in pairs(m.meter.known) do
            known = known + 1
        end
        assert.is_true(known <= 1000)
        assert.equal("acquired 20000", outcomes("acquires", "outcome", "job"))
    end)

    -- ---- for who reads them ------------------------------------------------------------

    local function work_with_odd_names()
        assert(client:getLock("a"):tryLock(5) and client:getLock("a"):unlock())
        for _, name in ipairs { 'quo"te', "back\\slash", "new\nline", "\255\254", "ünï", "sp ace",
            "{}", ("long"):rep(1000) } do
            count(name)
        end
    end

    for _, how in ipairs { "prometheus", "openmetrics" } do
        it("are clean in the format " .. how, function()
            work_with_odd_names()
            local complaints = prometheus.complaints(m:text(how), how)
            if not complaints then
                return pending "no promtool is installed (PROMTOOL=path)"
            end
            assert.equal("", complaints)
            -- The checker does complain.
            local broken = m:text(how):gsub("redlock_contended_total{", "%0,x")
            assert.is_not.equal("", prometheus.complaints(broken, how))
        end)
    end

    it("have samples of one family together, behind its type and help", function()
        work_with_odd_names()
        for _, how in ipairs { "prometheus", "openmetrics" } do
            local family, seen = nil, {}
            for line in m:text(how):gmatch "[^\n]+" do
                local head, name = line:match "^# (%u+) ?(%S*)"
                if head == "HELP" then
                    assert.is_nil(seen[name], name)
                    family, seen[name] = name, true
                elseif head and head ~= "EOF" then
                    assert.equal(family, name)
                elseif not head then
                    assert.equal(1, (line:find(family, 1, true)), line)
                end
            end
            assert.is_true(seen.redlock_locks_held)
        end
    end)

    it("refuse what they do not know", function()
        assert.has_error(function() metrics.new { grupe = print } end)
        assert.has_error(function() metrics.new { group = "a" } end)
        assert.has_error(function() metrics.new { dict = "shared" } end)
        assert.has_error(function() m:text "xml" end)
        assert.has_error(function() m:serve() end)
        assert.has_error(function() redlock.new { nodes = "redis://127.0.0.1", metrics = {} } end)
        assert.equal("metrics(0 groups)", tostring(metrics.new()))
    end)

    -- ---- traces ------------------------------------------------------------------------

    it("are beside events, which carry the trace that a lock was given", function()
        local told = {}
        local c = support.warm_client(cluster, { timeout = 5, on_event = function(e)
            if e.name then
                told[#told + 1] = e.type .. " " .. tostring(e.traceparent)
            end
        end })
        local l = c:getLock("t", { traceparent = TRACE })
        assert(l:tryLock(5, 2))
        support.fails("held", c:getLock("t", { owner = 1, traceparent = TRACE }):tryLock())
        support.eventually(function() return not l:isValid() end)
        l = c:getLock "u"
        assert(l:tryLock(5) and l:unlock())
        c:using("v", { traceparent = TRACE }, function() end)
        l = c:getLock("w", { traceparent = TRACE })
        assert(l:tryLockAsync(5):get() and l:unlockAsync():get())
        assert.same({ "acquired " .. TRACE, "contended " .. TRACE, "lost " .. TRACE,
            "acquired nil", "released nil", "acquired " .. TRACE, "released " .. TRACE,
            "acquired " .. TRACE, "released " .. TRACE }, told)
        c:close()
        for _, bad in ipairs { "", "00-0-0-0", TRACE:upper(), TRACE .. "-x", TRACE .. " ",
            "ff" .. TRACE:sub(3), "\n" .. TRACE, { TRACE, TRACE } } do      -- of somebody else
            assert.is_nil(client:getLock("t", { traceparent = bad }).traceparent)
        end
        local later = "cc" .. TRACE:sub(3) .. "-what"
        assert.equal(later, client:getLock("t", { traceparent = later }).traceparent)
        assert.has_error(function() client:getLock("t", { traceparent = 1 }) end)
    end)
end)
