-- Messages that come late are of no use to anybody, and harm nobody: each names what it is for.
local semaphore = require "redlock.kinds.semaphore"
local support = require "spec.support"

-- How many scripts a server has executed.
local function executed(server)
    local n = 0
    for calls in server:call("INFO", "commandstats"):gmatch "cmdstat_eval%w*:calls=(%d+)" do
        n = n + calls
    end
    return n
end

-- Lets what the proxy holds go on, and waits until the server has executed it.
local function comes_late(proxy, server)
    support.eventually(function() return proxy:held() > 0 end)
    local before = executed(server)
    proxy:release()
    support.eventually(function() return executed(server) > before end)
end

describe("a late message", function()
    local cluster, proxy, client, cut_off

    before_each(function()
        cluster = support.cluster(3)
        proxy = support.proxy(cluster[2].port)
        client = support.warm_client(cluster, { lease = 20 })
        cut_off = support.warm_client({ cluster[1].uri, proxy.uri, cluster[3].uri },
            { lease = 20, cluster = support.CLUSTER })
    end)
    after_each(function()
        client:close()
        cut_off:close()
        proxy:stop()
    end)

    -- How each kind is taken, given back, and removed by somebody else; its key, and how a server
    -- is asked for its value.
    local NAME = "late-name"
    local function own(what) return "redlock:{" .. NAME .. "}:" .. what end
    local function unlock(lock) lock:unlock() end
    local KINDS = {
        lock = { key = NAME, give = unlock, value = { "GET", NAME }, take = function(c)
            local lock = c:getFencedLock(NAME, { owner = {} })
            return lock:tryLock(5) and lock
        end, force = function(c) return c:getFencedLock(NAME):forceUnlock() end },
        reader = { key = NAME, give = unlock, value = { "ZRANGE", NAME, "0", "0" },
            take = function(c)
                local lock = c:getReadWriteLock(NAME, { owner = {} }):readLock()
                return lock:tryLock(5) and lock
            end, force = function(c) return c:getReadWriteLock(NAME):forceUnlockBoth() end },
        permit = { key = own "slots", give = unlock, value = { "HGET", own "who", "1" },
            take = function(c) return c:getSemaphore(NAME, 1):tryAcquire(5) end,
            force = function(c) return semaphore.open(c, NAME) end },
        latch = { key = own "latch", value = { "HGET", own "latch", "id" }, take = function(c)
            local latch = c:getCountDownLatch(NAME)
            return latch:trySetCount(2) and latch
        end, give = function(latch) latch:delete() end,
            force = function(c) return c:getCountDownLatch(NAME):delete() end },
    }

    local function is_there_on_all(key)
        cluster:each(function(server)
            support.eventually(function() return server:call("EXISTS", key) == 1 end)
        end)
    end

    for name, kind in pairs(KINDS) do
        local function is_there(n)
            support.eventually(function() return cluster[2]:call("EXISTS", kind.key) == n end)
        end

        -- What it asks first, and what it removes then, which names the holder by 20 digits.
        for _, what in ipairs { "question", "removal" } do
            it(("does not force another %s open: the %s"):format(name, what), function()
                local held = assert(kind.take(client))
                is_there_on_all(kind.key)
                local value = cluster[2]:call(unpack(kind.value))
                value = type(value) == "table" and value[1]:sub(3) or value
                proxy:hold_request(what == "question" and kind.key or cluster[2]:call("EVAL",
                    "return redis.sha1hex(ARGV[1])", "0", value):sub(1, 20))
                assert.is_true(kind.force(cut_off))
                kind.give(held)
                is_there(0)
                local later = assert(kind.take(client))
                is_there(1)
                comes_late(proxy, cluster[2])
                assert.equal(1, cluster[2]:call("EXISTS", kind.key))
                kind.give(later)
            end)
        end
    end

    -- The first latch was open before it was deleted. Its arrivals have a name, or a random one.
    it("counts nobody in a later latch of the same name", function()
        for _, who in ipairs { "shard 1", false } do
            local function latch(c) return c:getCountDownLatch(NAME) end
            assert.is_true(latch(client):trySetCount(2))
            is_there_on_all(own "latch")
            proxy:hold_request(who and who or ":arrived\r\n$40\r\n")
            assert.is_true(latch(cut_off):countDown(who or nil))
            assert.is_true(latch(client):countDown "shard 2")
            assert.is_true(latch(client):await(5))
            assert.is_true(latch(client):delete())
            assert.is_true(latch(client):trySetCount(2))
            is_there_on_all(own "latch")
            assert.is_true(latch(client):countDown "shard 2")
            support.eventually(function() return cluster[2]:call("ZCARD", own "arrived") == 1 end)
            comes_late(proxy, cluster[2])
            assert.equal(1, cluster[2]:call("ZCARD", own "arrived"))
            assert.equal(1, latch(client):getCount())
            assert.is_true(latch(client):delete())
        end
    end)

    -- The exporter's first attempt comes late to the second server, which was healed meanwhile.
    -- The first importer does not reach the third one, which keeps what was exported.
    for _, kind in ipairs { "getLock", "getFencedLock" } do
        it("gives an exported hold to no second importer: " .. kind, function()
            local third = support.proxy(cluster[3].port)
            third:hold("both", true)
            local one = support.client({ cluster[1].uri, cluster[2].uri, third.uri },
                { lease = 20, connect_timeout = 0.3, timeout = 5 })
            local hasty = support.warm_client({ cluster[1].uri, proxy.uri, cluster[3].uri },
                { lease = 20, timeout = 1, connect_timeout = 5 })
            proxy:hold_request(NAME)
            local lock = hasty[kind](hasty, NAME)
            assert.is_true((lock:tryLock(5)))
            support.eventually(function() return proxy:held() == 1 end)
            proxy:hold_request "of no later message"
            support.eventually(function()
                return lock:extend(20) and cluster[2]:call("EXISTS", NAME) == 1
            end, 30)
            local text = assert(lock:export())
            local first = assert(one:import(text))
            assert.is_true(first:unlock())
            comes_late(proxy, cluster[2])
            local second, err = client:import(text)
            assert.is_true(second == nil)
            assert.equal("lost", err.code)
            one:close()
            hasty:close()
            third:stop()
        end)
    end
end)
