-- Servers that do not know yet what fencing tokens to go on from get floors: in the time that
-- the caller has.
local support = require "spec.support"

describe("a fenced lock of servers without floors", function()
    local DELAY, TIMEOUT = 1, 1.4
    local proxies, client

    before_each(function()
        local cluster = support.cluster(3)
        proxies = support.proxies(cluster)
        client = support.warm_client(proxies, { timeout = TIMEOUT })
        support.all(proxies):delay("down", DELAY * 1000)
    end)
    after_each(function()
        client:close()
        support.cleanup()
    end)

    -- How long a call took, and what it said.
    local function timed(lock, wait)
        local started = support.now()
        local ok, err = lock:tryLock(wait, 10)
        return support.now() - started, ok, err
    end

    it("is tried within the time of the call, and had by the third at the latest", function()
        local lock = client:getFencedLock "x"
        assert.is_true(timed(lock, 0) < DELAY + TIMEOUT)
        for call = 2, 3 do
            local took, ok, err = timed(lock, 0)
            assert.is_true(took < DELAY + TIMEOUT, took)
            assert.is_true(ok or err.code == "no_quorum")
            assert.is_true(ok or call < 3, tostring(err))
        end
        assert.is_true(lock:unlock())
        local took, ok = timed(lock, 0)      -- known from now on
        assert.is_true(ok)
        assert.is_true(took < DELAY + TIMEOUT)
    end)

    it("is had at once by who has the time", function()
        local took, ok = timed(client:getFencedLock "x", 8)
        assert.is_true(ok)
        assert.is_true(took >= DELAY * 3)
    end)

    it("says why it was not had", function()
        local lock = client:getFencedLock "x"
        local _, ok, err = timed(lock, 0)
        assert.is_nil(ok)
        assert.equal("no_quorum", err.code)
        assert.matches("unseeded", tostring(err), 1, true)
    end)
end)
