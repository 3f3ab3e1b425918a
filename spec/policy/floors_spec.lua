-- Servers that do not know yet what fencing tokens to go on from get floors: in the time that
-- the caller has.
local quarantine = require "spec.support.quarantine"
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

describe("all names, of servers without floors", function()
    local floors = require "redlock.servers.floors"
    local cluster, proxies, view
    local KEY = "redlock:{server}:floor"

    before_each(function()
        cluster = support.cluster(3)
        proxies = support.proxies(cluster)
        view = support.warm_client(proxies):getFencedLock "x"
        for i = 1, 2 do
            for bucket = 0, 1023 do
                cluster[i]:call("HSET", KEY, bucket, cluster[i]:memory() .. 1000 + bucket * 32)
            end
        end
    end)
    after_each(support.cleanup)

    it("get them from what the others have, each its own", function()
        local buckets = {}
        for bucket = 0, 1023 do
            buckets[bucket + 1] = ("%d"):format(bucket)
        end
        -- A server that is slow is left out of some.
        support.eventually(function()
            assert.is_number(floors.seed_all(view, buckets, 30))
            return cluster[3]:call("HLEN", KEY) > 1024      -- they, and the marker
        end, 30)
        -- Where one of the others was slow as well they come from the clock, which is far above.
        local exact = 0
        for bucket = 0, 1023 do
            local text = cluster[3]:call("HGET", KEY, bucket)
            assert.equal(cluster[3]:memory(), text:sub(1, 8))
            if text:sub(9) == tostring(1000 + bucket * 32) then
                exact = exact + 1
            else
                assert.is_true(tonumber(text:sub(9)) > 1e13, text)
            end
        end
        assert.is_true(exact > 0)
    end)

    it("get them at once, not one after the other", function()
        support.all(proxies):delay("down", 40)
        local one, began = {}, support.now()
        for bucket = 0, 15 do
            assert.is_true(floors.seed(view, ("%d"):format(bucket), nil, 30))
            one[#one + 1] = ("%d"):format(bucket + 16)
        end
        local took = support.now() - began
        assert.is_number(floors.seed_all(view, one, 30))
        assert.is_true(support.now() - began - took < took / 3)
        assert.is_truthy(cluster[3]:call("HGET", KEY, 31))
    end)

    it("get none without a majority, and say so", function()
        cluster[1]:kill()
        cluster[2]:kill()
        local ok, err = floors.seed_all(view, { "1", "2", "3" }, 0.2)
        assert.is_nil(ok)
        assert.equal("no_quorum", err.code)
    end)
end)

-- Nobody takes a lock of its bucket meanwhile, which would have the servers taught.
describe("a fenced lock that is held while servers forget, one after the other", function()
    after_each(support.cleanup)

    it("is lent to them, and kept; the next token is a larger one", function()
        local cluster = support.cluster(3, { new = true }):admit(3)
        -- So long that a busy machine renews it in time.
        local client = support.warm_client(cluster, quarantine.options { max_lease = 3,
            lease = 3, timeout = 1 })
        local l = client:getFencedLock "x"
        assert.is_true(l:lock())
        local token = l:token()
        for i = 1, 3 do
            local value = cluster[i % 3 + 1]:call("GET", "x")
            cluster[i]:restart()
            support.eventually(function()
                quarantine.turn(client)
                assert(l:check())
                local marked = cluster[i]:marked()
                return marked and marked.state == "a" and cluster[i]:call("GET", "x") == value
            end, 30, "the server to vote, with the lock")
        end
        assert.is_true(l:isValid())
        assert.is_true(l:stillMine())
        assert.is_true(client:checkSequencer(l:sequencer()))
        assert.is_true(l:unlock())
        local ok, larger = l:tryLock(5)
        assert.is_true(ok and larger > token)
    end)
end)
