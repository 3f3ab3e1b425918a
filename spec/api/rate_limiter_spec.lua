-- At most so many starts in any window of a period.
local support = require "spec.support"
local torture = require "spec.support.torture"

describe("a rate limiter", function()
    local cluster, client, other

    support.two_clients(3, { fallback = 0.3, timeout = 5 },
        function(...) cluster, client, other = ... end)

    it("lets so many start in a period, and the next one when it is over", function()
        local a, b = client:getRateLimiter("x", 3, 2), other:getRateLimiter("x", 3, 2)
        local from = support.now()
        assert.equal(3, a:availablePermits())
        assert.is_true(a:tryAcquire())
        assert.is_true(b:tryAcquire())
        assert.is_true(a:acquire())
        support.fails("held", b:tryAcquire())
        support.fails("held", a:acquire(0.05))
        assert.equal(0, b:availablePermits())
        assert.is_true(b:acquireAsync(30):get(40))
        assert.is_true(support.now() - from > 1.97)
    end)

    it("is not reset by the end of who started", function()
        local limiter = client:getRateLimiter("x", 1, 10)
        assert.is_true(limiter:tryAcquire())
        client:close()
        support.sleep(0.1)
        support.fails("held", other:getRateLimiter("x", 1, 10):tryAcquire())
    end)

    it("has periods far longer than a lease", function()
        assert.is_true(client:getRateLimiter("x", 1, 3600):tryAcquire())
        support.eventually(function()
            return cluster[1]:call("PTTL", "redlock:{x:rate}:slots") > 3.5e6
        end)
        support.fails("held", other:getRateLimiter("x", 1, 3600):tryAcquire(0.1))
    end)

    it("has no strays in its way", function()
        -- Where slot 1 is taken, the server gives slot 2.
        cluster[3]:call("ZADD", "redlock:{x:rate}:slots", 4e12, 1)
        cluster[3]:call("HSET", "redlock:{x:rate}:who", "format", 1, 1, "other", "other", 1)
        local limiter = client:getRateLimiter("x", 2, 10)
        limiter.from = 0
        assert.is_true(limiter:tryAcquire())
        support.eventually(function()
            return cluster[3]:call("ZCARD", "redlock:{x:rate}:slots") == 1
        end)
    end)

    it("is checked, and prints itself", function()
        assert.equal("rate limiter(x, 3 in 60 s)", tostring(client:getRateLimiter("x", 3, 60)))
        for pattern, call in pairs {
            ["bad n: .* 1 to 128"] = function() client:getRateLimiter("x", 129, 1) end,
            ["bad period"] = function() client:getRateLimiter("x", 1, 0) end,
            ["bad name"] = function() client:getRateLimiter("", 1, 1) end,
            ["bad wait"] = function() client:getRateLimiter("x", 1, 1):acquire(-1) end,
        } do
            assert.error_matches(call, pattern)
        end
    end)
end)

local CODE = [[
    local from = sys.now()
    if client:getRateLimiter("x", 3, 0.5):tryAcquire() then
        log("start", ("%.6f"):format(from))
    end
    sys.sleep(random(20) / 1000)
]]

-- What is wrong with a history of starts, n of which there may be in a period; nil: nothing.
local function wrong(history, n, period)
    for _, first in ipairs(history) do
        local from, starts = tonumber(first[4]), 0
        for _, start in ipairs(history) do                   -- some are written late
            starts = starts + (tonumber(start[4]) >= from and 1 or 0)
            if starts > n and start.t - from < period * 0.99 - 0.003 then
                return ("%d starts in %.3f s"):format(starts, start.t - from)
            end
        end
    end
end

describe("a history of starts", function()
    it("has never more in a period, whatever fails", function()
        assert.is_nil(wrong(torture.run { code = CODE,
            enough = function(history) return #history > 15 end }, 3, 0.5))
    end)

    it("shows if slots are let go", function()
        local broken = { "kinds/rate_limiter.lua",
            "closing.settle_unconfirmed(permit, permit.owner, hold, self.period)",
            "self.client.holds:remove(permit.owner, permit.id) "
                .. "rounds.give(hold.lease, \"orphan\")" }
        torture.run { code = CODE, broken = { broken },
            enough = function(history) return wrong(history, 3, 0.5) end }
    end)
end)
