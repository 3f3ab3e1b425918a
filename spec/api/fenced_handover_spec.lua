-- Passing a fenced lock on within a process: each hold has a larger token of its own.
local crowd = require "spec.support.crowd"
local support = require "spec.support"
local redlock = require "redlock"
local hash = require("redlock.runtime.encoding").hash

local FENCE, FLOORS = "redlock:{x}:fence", "redlock:{server}:floor"
local BUCKET = ("%d"):format(hash "x" % 1024)

local function counter(server)
    return tonumber((server:call("GET", FENCE):match("^%d+", 9)))
end

describe("a fenced lock that is passed on among futures", function()
    local cluster, client

    before_each(function()
        cluster = support.cluster(5, { new = true }):admit(60)
        client = support.warm_client(cluster, { timeout = 5 })
    end)
    after_each(function()
        client:close()
        cluster:stop()
    end)

    local function own(owner)
        return client:getFencedLock("x", { owner = owner })
    end

    local function take(owner)
        local ok, token = own(owner):tryLock(5, 10)
        assert.is_true(ok, tostring(token))
        return token
    end

    it("has a larger token each time, in one round trip", function()
        local futures, last = {}, take(0)
        for i = 1, 12 do
            futures[i] = own(i):tryLockAsync(10, 10)
        end
        local before, passed, late = client:stats().nodes[1].requests, 0, 0
        local acquired = client.now()
        for i = 1, 12 do
            local value = cluster[1]:call("GET", "x")
            -- After 50 ms it is the turn of others.
            local is_late = client.now() - acquired > 0.04
            assert.is_true(own(i - 1):unlock())
            local ok, token = futures[i]:get(60)
            if client:stats().handed_over == passed then
                acquired = client.now()
                late = late + (is_late and 1 or 0)
            end
            passed = client:stats().handed_over
            assert.is_true(ok, tostring(token))
            assert.equal(last + 1, token)
            assert.equal(token, own(i):token())
            assert.is_true(own(i):stillMine())
            assert.are_not.equal(value, cluster[1]:call("GET", "x"))
            last = token
        end
        -- A server that is behind the others for once may want a second round.
        assert.is_true(passed >= 10 - late, passed .. " were passed on, " .. late .. " late")
        assert.is_true(client:stats().nodes[1].requests - before <= 24 + 4 * (12 - passed))
        assert.is_true(own(12):unlock())
        cluster:await_none "x"
        assert.equal(last + 1, take(13))
    end)

    it("leaves the one before a token that guards and sequencers refuse", function()
        local stock = redlock.resource.new("stock", function(...) return cluster[1]:call(...) end)
        local first = take(1)
        local told = own(1):sequencer()
        local waiter = own(2):tryLockAsync(10, 10)
        assert.is_true(client:checkSequencer(told))
        assert.is_true(own(1):unlock())
        local _, second = waiter:get(60)
        assert.equal(1, client:stats().handed_over)
        assert.is_true(stock:set(second, "new"))
        local written, why, highest = stock:set(first, "late")
        assert.is_nil(written)
        assert.equal("stale", why)
        assert.equal(second, highest)
        assert.equal("new", cluster[1]:call("GET", "stock"))
        assert.is_false(client:checkSequencer(told))
        assert.is_true(client:checkSequencer(own(2):sequencer()))
        support.fails("not_held", own(1):token())
        assert.is_true(own(2):unlock())
    end)

    it("keeps it when it is extended and entered again", function()
        take(1)
        local waiter = own(2):tryLockAsync(10, 10)
        own(1):unlock()
        local _, token = waiter:get(60)
        assert.same({ true, token }, { own(2):tryLock() })
        assert.is_true((own(2):extend(20)))
        assert.equal(token, own(2):token())
        assert.is_true(own(2):unlock() and own(2):unlock())
    end)

    it("confirms the largest counter where they differ", function()
        local first = take(1)
        local waiter = own(2):tryLockAsync(10, 10)
        cluster:each(function(s)
            support.eventually(function() return s:call("EXISTS", FENCE) == 1 end)
        end)
        for i = 1, 3 do
            local run = cluster[i]:call("GET", FENCE):sub(1, 8)
            cluster[i]:call("SET", FENCE, ("%s%.0f 01234567"):format(run, first + 10 * i))
        end
        assert.is_true(own(1):unlock())
        local ok, token = waiter:get(60)
        assert.is_true(ok, tostring(token))
        assert.is_true(token > first + 10)           -- some majority's largest
        assert.is_true(own(2):stillMine())
        local agreed = 0
        cluster:each(function(s) agreed = agreed + (counter(s) == token and 1 or 0) end)
        assert.is_true(agreed >= 3)
        assert.is_true(own(2):unlock())
        cluster:await_none "x"
    end)

    it("leaves nothing behind when it fails half-way", function()
        local first = take(1)
        local waiter = own(2):tryLockAsync(0.6, 10)
        support.all(cluster, 1, 3):freeze()
        assert.is_true(own(1):unlock())
        local ok, err = waiter:get(60)
        assert.is_nil(ok)
        assert.is_true(err.code == "no_quorum" or err.code == "held", tostring(err))
        assert.equal(0, client:stats().handed_over)
        assert.is_true(counter(cluster[4]) > first and counter(cluster[5]) > first)
        support.all(cluster, 1, 3):thaw()
        cluster:await_none "x"
        assert.is_true(take(3) > first + 1)          -- that one was on the way
    end)

    it("is not taken from those who got it meanwhile, nor where it is free", function()
        local other = support.warm_client(cluster)
        local theirs = other:getFencedLock "x"
        take(1)
        local waiter = own(2):tryLockAsync(10, 10)
        support.all(cluster, 1, 3):call("DEL", "x")
        local ok, foreign = theirs:tryLock(0, 10)
        assert.is_true(ok, tostring(foreign))
        assert.is_true(own(1):unlock())              -- by the local clock
        support.fails("timeout", waiter:get(0.3))
        assert.is_true(theirs:stillMine())
        support.all(cluster, 1, 5):call("DEL", "x")
        local token
        ok, token = waiter:get(60)
        assert.is_true(ok, tostring(token))
        assert.is_true(token > foreign)

        waiter = own(3):tryLockAsync(10, 10)
        support.all(cluster, 1, 3):call("DEL", "x")
        assert.is_true(own(2):unlock())
        ok, token = waiter:get(60)
        assert.is_true(ok, tostring(token))
        assert.equal(0, client:stats().handed_over)
        other:close()
    end)

    it("counts once what is sent twice", function()
        local alone = support.proxy(cluster[1].port)
        local c = support.warm_client({ alone.uri }, { timeout = 1, restart_guard = true })
        local first = c:getFencedLock("x", { owner = 1 })
        local second = c:getFencedLock("x", { owner = 2 })
        local ok, token = first:tryLock(5, 10)
        assert.is_true(ok, tostring(token))
        local waiter = second:tryLockAsync(10, 10)
        alone:cut_after_request(cluster[1]:call("GET", "x"))
        assert.is_true(first:unlock())
        local next_token
        ok, next_token = waiter:get(60)
        assert.is_true(ok, tostring(next_token))
        assert.equal(1, alone:fired())
        assert.equal(token + 1, next_token)
        assert.equal(1, c:stats().handed_over)
        assert.is_true(second:unlock())
        c:close()
    end)

    it("is taken anew where the servers do not know what they have counted", function()
        local first = take(1)
        local waiter = own(2):tryLockAsync(10, 10)
        for i = 1, 3 do
            cluster[i]:call("DEL", FENCE)
            cluster[i]:call("HDEL", FLOORS, BUCKET)
        end
        assert.is_true(own(1):unlock())
        local ok, token = waiter:get(60)
        assert.is_true(ok, tostring(token))
        assert.is_true(token > first)
        assert.equal(0, client:stats().handed_over)
        assert.is_true(own(2):unlock())
        cluster:await_none "x"
    end)

    it("goes on with servers that are gone, and in their next run", function()
        local last = take(0)
        cluster[1]:kill()
        cluster[2]:freeze()
        for i = 1, 5 do
            local waiter = own(i):tryLockAsync(10, 10)
            assert.is_true(own(i - 1):unlock())
            local ok, token = waiter:get(60)
            assert.is_true(ok, tostring(token))
            assert.is_true(token > last)
            last = token
        end
        cluster[1]:start()
        cluster[2]:thaw()
        assert.is_true(own(5):unlock())
        cluster:await_none "x"
        assert.is_true(take(6) > last)
    end)
end)

describe("a fenced lock that is passed on in nginx", function()
    local cluster, ng, other

    setup(function()
        cluster = support.cluster(3)
        ng = support.nginx { nodes = cluster, options = "timeout = 2", server = crowd.SERVER }
        other = support.warm_client(cluster, { timeout = 2 })
    end)
    teardown(function()
        ng:ends "QUIT"
        other:close()
        support.cleanup()
    end)

    -- Reads what /crowd says: one holder at a time, and tokens in the order of the holds.
    local function read(text)
        local most, handed, list = assert(text):match "^(%d+) (%d+) (%S+)$"
        assert.equal("1", most, text)
        local n, last = 0, 0
        for token in list:gmatch "%d+" do
            assert.is_true(tonumber(token) > last)
            n, last = n + 1, tonumber(token)
        end
        return n, tonumber(handed), last
    end

    it("has one owner at a time, with tokens that grow", function()
        local n, handed = read(ng:get("/crowd?kind=getFencedLock&lease=10&hold=0.001&n=200", 60))
        assert.equal(200, n)
        assert.is_true(handed >= 100)
        cluster:await_none "x"
    end)

    -- Another process takes the lock five times, beside a crowd.
    -- @param hold  seconds of each hold in the crowd
    -- @return what the crowd says, and the tokens; nil if it was through before
    local function beside(hold)
        local request = ng:begin("/crowd?kind=getFencedLock&lease=10&n=600&hold=" .. hold)
        local l, mine = other:getFencedLock "x", {}
        support.eventually(function()
            return cluster[1]:call("EXISTS", "x") == 1 or not request.proc:alive()
        end)
        for i = 1, 5 do
            local ok, token = l:tryLock(60, 10)
            assert.is_true(ok, tostring(token))
            mine[i] = token
            assert.is_true(l:unlock())
        end
        local early = request.proc:alive()
        local text = request:finish(60)
        return early and text, mine
    end

    it("is let go for another process in time, whose tokens fit in", function()
        local text, mine = beside(0.002)
        for _, hold in ipairs { 0.01, 0.05 } do     -- this process had no turn for that long
            if not text then
                text, mine = beside(hold)
            end
        end
        assert.is_string(text)
        local n, _, last = read(text)
        assert.equal(600, n)
        for i = 1, 5 do
            assert.is_true(mine[i] > (mine[i - 1] or 0) and mine[i] < last)
            assert.is_nil((text .. ","):find("," .. ("%.0f,"):format(mine[i]), 1, true))
        end
    end)
end)
