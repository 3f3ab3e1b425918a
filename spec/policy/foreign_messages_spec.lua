-- Whoever may publish on a lock's channel wakes those who wait for it. That costs the servers no
-- more than that: a waiter who is woken in vain tries less and less often.
local plain_lock = require "redlock.kinds.plain_lock"
local support = require "spec.support"

local CHANNEL = "redlock:{x}:free"

-- What a refusal says of whose a key is, when asked for by hand.
local function refusal(server)
    return server:call("EVAL", plain_lock.acquire_script, 1, "x", ("v"):rep(40), 1000)
end

describe("messages that no release has sent", function()
    local cluster, holder

    before_each(function()
        cluster = support.cluster(3)
        holder = support.warm_client(cluster)
    end)

    -- Script calls so far, of those servers that run.
    local function requests()
        local n = 0
        cluster:each(function(s)
            n = n + (s.frozen and 0 or s:calls_of "evalsha")
        end)
        return n
    end

    local function subscribers()
        local n = 0
        cluster:each(function(s) n = n + s:call("PUBSUB", "NUMSUB", CHANNEL)[2] end)
        return n
    end

    -- A process that waits for "x", and has tried for it and subscribed.
    local function waiter(opts, kind)
        local before = subscribers()
        local p = support.child(cluster, opts, ([[
            local mine = client:%s "x"
            print "waits"
            assert(mine:tryLock(60, 10))
            print(("%%.6f"):format(support.now()))
            assert(mine:unlock())
        ]]):format(kind or "getLock"))
        assert.equal("ready", p:read_line(10))
        assert.equal("waits", p:read_line(10))
        support.eventually(function() return subscribers() == before + 3 end)
        return p
    end

    -- Sends messages from some of the servers for some seconds. Returns how many requests followed.
    local function flood(seconds, ...)
        local before, finish, sent = requests(), support.now() + seconds, 0
        while support.now() < finish do
            for _, i in ipairs { ... } do
                cluster[i]:call("PUBLISH", CHANNEL, "")
            end
            sent = sent + 1
            support.sleep(0.001)
        end
        assert.is_true(sent > 10 * seconds)
        return requests() - before
    end

    -- 12 attempts until it listens but once in 0.5 to 1 s, then 2 a second at most, and one a
    -- second without any message: 3 requests each, and 3 that let it go.
    local function few(n, waiters)
        assert.is_true(n > 0 and n <= 6 * (12 + 3 * 4) * (waiters or 1), n)
    end

    for _, kind in ipairs { "getLock", "getFencedLock" } do
        it("are not multiplied: " .. kind, function()
            local lock = holder[kind](holder, "x")
            assert.is_true(lock:tryLock(5, 30))
            local p = waiter("{}", kind)
            few(flood(3, 1, 2, 3))
            few(flood(3, 2))                          -- from a minority
            cluster[3]:freeze()
            few(flood(3, 1, 2))                       -- while one does not answer
            cluster[3]:thaw()
            assert.is_true(lock:unlock())
            assert.is_number(tonumber((p:read_line(10))))
        end)
    end

    it("are not multiplied by the coroutines that wait in one process", function()
        assert.is_true(holder:getLock("x"):tryLock(5, 30))
        local p = support.child(cluster, "{ host = require 'redlock.host.luv' }", [[
            local uv = require "luv"
            for i = 1, 20 do
                coroutine.wrap(function()
                    client:getLock("x", { owner = i }):tryLock(60, 10)
                end)()
            end
            print "waits"
            uv.run()
        ]])
        assert.equal("ready", p:read_line(10))
        assert.equal("waits", p:read_line(10))
        support.eventually(function() return subscribers() == 3 end)
        few(flood(3, 1, 2, 3))
    end)

    it("do not hide a release for more than a second", function()
        local lock = holder:getLock "x"
        assert.is_true(lock:tryLock(5, 50))
        local p = waiter "{ fallback = 40 }"
        few(flood(3, 1, 2, 3))
        assert.is_true(lock:unlock())
        local gave = support.now()
        local got = tonumber((p:read_line(15)))
        assert.is_true(got - gave < 8, got - gave)    -- else after 20 to 60
    end)

    -- Each of them is followed by another holder: a server keeps a key that nobody lets go.
    it("are told from releases that others were faster to answer", function()
        cluster[3]:call("SET", "x", "left behind", "PX", 50000)
        assert.is_true(holder:getLock("x"):tryLock(5, 50))
        local p = waiter "{ fallback = 40 }"
        local began = support.now()
        for i = 1, 60 do
            local before = requests()
            for n = 1, 2 do
                cluster[n]:call("SET", "x", ("%040d"):format(i):reverse(), "PX", 50000)
            end
            cluster[1]:call("PUBLISH", CHANNEL, "")
            cluster[2]:call("PUBLISH", CHANNEL, "")
            support.eventually(function() return requests() > before end)
        end
        assert.is_true(support.now() - began < 29)    -- else 30 and more
        cluster:each(function(s) s:call("DEL", "x") end)
        cluster:each(function(s) s:call("PUBLISH", CHANNEL, "") end)
        assert.is_number(tonumber((p:read_line(20))))
    end)

    it("find the beginning of the holder's value, if it has one", function()
        local server = cluster[1]
        server:call("SET", "x", ("0123456789"):rep(4), "PX", 5000)
        local reply = refusal(server)
        assert.equal(("0123456789"):rep(2), reply[3])
        assert.is_true(reply[2] > 0)
        server:call("SET", "x", "", "PX", 5000)
        assert.equal("", refusal(server)[3])
        server:call("DEL", "x")
        server:call("ZADD", "x", "1", "1 " .. ("0123456789"):rep(4))
        server:call("PEXPIRE", "x", 5000)
        assert.equal("", refusal(server)[3])
    end)
end)
