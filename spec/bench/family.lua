-- A part of make bench: what the family costs beside the plain lock, on five servers.
--
-- One process; the competitors take turns, a short batch each, and what counts is the ratio of the
-- medians within one round of turns. Of the servers: what a script takes there, by their own count.
local support = require "spec.support"

local _M = {}

local NAMES = 100
local LEASE = 30

local function median(list)
    table.sort(list)
    return list[math.ceil(#list / 2)]
end

function _M.run(rounds, cycles)
    local cluster = support.cluster(5)
    local client = support.warm_client(cluster, {})
    local names = {}
    for i = 1, NAMES do
        names[i] = "name " .. i
    end
    local function locked(l)
        assert(l:tryLock(0, LEASE))
        assert(l:unlock())
    end
    local limiter = 0
    local leader = client:getElection("led", { id = "10.0.0.1:80" })
    assert(leader:campaign(5))
    local latch = client:getCountDownLatch "latch"
    local ROWS = {
        { "lock", function() locked(client:getLock "plain") end },
        { "read", function() locked(client:getReadWriteLock("rw"):readLock()) end },
        { "write", function() locked(client:getReadWriteLock("rw"):writeLock()) end },
        { "write with a token", function()
            locked(client:getReadWriteLock("rw", { fenced = true }):writeLock())
        end },
        { "fair", function() locked(client:getFairLock "fair") end },
        { "permit of 8", function()
            assert(assert(client:getSemaphore("few", 8):tryAcquire(0, LEASE)):release())
        end },
        { "permit with a token", function()
            local semaphore = client:getSemaphore("numbered", 8, { fenced = true })
            assert(assert(semaphore:tryAcquire(0, LEASE)):release())
        end },
        { "permit of 64, 60 taken", function()
            assert(assert(client:getSemaphore("many", 64):tryAcquire(0, LEASE)):release())
        end },
        { "start of a rate", function()
            limiter = limiter + 1
            assert(client:getRateLimiter("rate " .. limiter, 1, LEASE):tryAcquire())
        end },
        { NAMES .. " names", function() locked(client:getMultiLock(names)) end },
        { "arrival", function() assert(latch:countDown "one") end },
        { "who leads", function() assert(leader:leader()) end },
    }
    local taken = {}
    for i = 1, 60 do
        taken[i] = assert(client:getSemaphore("many", 64):tryAcquire(0, 59))
    end
    assert(#taken == 60)
    assert(latch:trySetCount(2))
    for _, row in ipairs(ROWS) do
        row.ratios, row.times, row.used = {}, {}, 0
    end
    local function used()
        local info = cluster[1]:call("INFO", "commandstats")
        return tonumber(info:match "cmdstat_evalsha:.-usec=(%d+)") or 0
    end
    local function batch(row)
        local times, before = {}, used()
        for i = 1, cycles do
            local from = support.now()
            row[2]()
            times[i] = support.now() - from
        end
        row.used = row.used + used() - before
        return median(times)
    end
    for round = 0, rounds do                     -- the first one warms up
        local plain
        for i, row in ipairs(ROWS) do
            local p50 = batch(row)
            plain = i == 1 and p50 or plain
            if round == 0 then
                row.used = 0
            else
                row.ratios[round], row.times[round] = p50 / plain, p50
            end
        end
    end
    print ""
    print "THE FAMILY, 5 servers: a cycle, or a call where nothing is released"
    for _, row in ipairs(ROWS) do
        print(("%-24s p50 %7.1f us, / lock %.2f, server %6.1f us"):format(row[1],
            median(row.times) * 1e6, median(row.ratios), row.used / rounds / cycles))
    end
    client:close()
    cluster:stop()
end

return _M
