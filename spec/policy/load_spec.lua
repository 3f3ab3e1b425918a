-- Many watchdog leases in one process: what they cost, and that none is forgotten.
local support = require "spec.support"

-- A process with what both tests need; `owner` has all the leases.
local function child(cluster, opts, code)
    return support.lua(([[
        local ffi = require "ffi"
        local support = require "spec.support"
        ffi.cdef "struct load_spec_time { long sec, nsec; };"
        ffi.cdef "int clock_gettime(int, struct load_spec_time *);"
        local t = ffi.new "struct load_spec_time"
        local function cpu()
            ffi.C.clock_gettime(2, t)            -- CLOCK_PROCESS_CPUTIME_ID
            return tonumber(t.sec) + tonumber(t.nsec) / 1e9
        end
        local client = support.warm_client(%s, %s)
        local locks = {}
        local function acquire(n)
            local from = support.now()
            for i = 1, n do
                locks[i] = client:getLock("lock" .. i, { owner = "one" })
                assert(locks[i]:tryLock(5))
            end
            return support.now() - from
        end
        %s
    ]]):format(cluster:text(), opts, code))
end

-- Nightly: 20 s, and a bound on time; pace_spec counts the requests
describe("10,000 watchdog leases #nightly", function()
    teardown(support.cleanup)

    it("cost less than 5 % of a core, and are all kept", function()
        local cluster = support.cluster(5)
        local c = child(cluster, "{}", [[
            local seconds = acquire(10000)
            collectgarbage()
            local from = cpu()
            support.sleep(20)
            local share = (cpu() - from) / 20
            local valid, renewed = 0, 0
            for i, lock in ipairs(locks) do
                local left = lock:remaining()
                valid = valid + (left > 0 and 1 or 0)
                renewed = renewed + (left > 30 - 20 + 1 and 1 or 0)
            end
            print(share, valid, renewed, client:stats().lost)
            io.stderr:write(("acquired in %.1f s, %.2f %% of a core\n"):format(seconds,
                100 * share))
            io.read()
        ]])
        local line = assert(c:read_line(60))
        local share, rest = line:match "^(%S+)\t(.*)$"
        assert.equal("10000\t10000\t0", rest)
        assert.is_true(tonumber(share) < 0.05, share .. " of a core")
        c:kill "KILL"
        c:wait(5)
        cluster:stop()
    end)
end)

describe("2,000 watchdog leases with one server frozen [24]", function()
    teardown(support.cleanup)

    it("are renewed on the others in time", function()
        local cluster = support.cluster(5)
        local c = child(cluster, "{ lease = 6 }", [[
            acquire(2000)
            print "held"
            io.read()
            local least = math.huge
            for _ = 1, 20 do
                support.sleep(0.5)
                for _, lock in ipairs(locks) do
                    least = math.min(least, lock:remaining())
                end
            end
            print(client:stats().lost, least > 1)
            io.read()
        ]])
        assert.equal("held", c:read_line(60))
        cluster[3]:freeze()
        c:write "\n"
        -- Renewal begins after a third: nobody comes near the end of its 6 s.
        assert.equal("0\ttrue", c:read_line(60))
        for i = 1, 5 do
            if i ~= 3 then
                local stats = cluster[i]:call("INFO", "commandstats")
                assert.is_true(tonumber(stats:match "cmdstat_pexpire:calls=(%d+)") >= 2000)
            end
        end
        c:kill "KILL"
        c:wait(5)
        cluster:stop()
    end)
end)

describe("1,000 watchdog leases with the majority frozen", function()
    teardown(support.cleanup)

    it("are all reported lost in time, none too early, and leave nothing", function()
        local cluster = support.cluster(5)
        local c = child(cluster, "{ lease = 2 }", [[
            acquire(1000)
            local deadline, told, early, late, reasons = {}, 0, 0, 0, {}
            for i, lock in ipairs(locks) do
                lock:onLost(function(_, why)
                    local at = support.now()
                    told = told + 1
                    reasons[why] = (reasons[why] or 0) + 1
                    -- The last look at it was a turn ago; 2 ms for rounding.
                    early = early + (at < deadline[i] - 0.002 and 1 or 0)
                    late = late + (at > deadline[i] + 1 and 1 or 0)
                end)
            end
            print "held"
            io.read()
            support.sleep(0.3)           -- renewals that were confirmed before
            local valid, from = 1000, support.now()
            while valid > 0 and support.now() < from + 10 do
                valid = 0
                for i, lock in ipairs(locks) do
                    local now = support.now()
                    local left = lock:remaining()
                    if left > 0 then
                        valid, deadline[i] = valid + 1, now + left
                    end
                end
                support.sleep(0.005)
            end
            local invalid = 0
            for _, lock in ipairs(locks) do
                invalid = invalid + (lock:isValid() and 0 or 1)
            end
            print(told, invalid, early, late, reasons.expired, client:stats().lost)
            io.read()
            local results = {}
            for _, lock in ipairs(locks) do
                local ok, err = lock:unlock()
                local result = ok and "ok" or err.code
                results[result] = (results[result] or 0) + 1
            end
            print(results.expired)
            print(client:getLock("again", { owner = "one" }):tryLock(10, 1))
            client:getLock("again", { owner = "one" }):unlock()
            while io.read() do
                client:getLock("turn"):isLocked()
                print "turned"
            end
        ]])
        assert.equal("held", c:read_line(20))
        support.all(cluster, 1, 3):freeze()
        c:write "\n"
        assert.equal("1000\t1000\t0\t0\t1000\t1000", c:read_line(60))
        support.all(cluster, 1, 3):thaw()
        c:write "\n"
        assert.equal("1000", c:read_line(60))
        assert.equal("true", c:read_line(20))
        support.eventually(function()
            c:write "\n"
            c:read_line(5)
            return cluster:keys() == 0
        end, 10)
        c:close_stdin()
        assert.equal(0, c:wait(5))
    end)
end)
