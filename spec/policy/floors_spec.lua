-- Servers that do not know yet what fencing tokens to go on from get floors: in the time that
-- the caller has.
local floors = require "redlock.servers.floors"
local quarantine = require "spec.support.quarantine"
local redlock = require "redlock"
local script_text = require "redlock.runtime.script_text"
local support = require "spec.support"

describe("a fenced lock of servers without floors", function()
    local DELAY, TIMEOUT = 1, 1.4
    local proxies, client

    before_each(function()
        local cluster = support.cluster(3)
        support.all(cluster):call("HDEL", "redlock:{server}:floor", "base", "most")
        proxies = support.proxies(cluster)
        client = support.warm_client(proxies, { timeout = TIMEOUT })
        support.all(proxies):delay("down", DELAY * 1000)
    end)
    after_each(function() client:close() end)

    -- How long a call took, and what it said.
    local function timed(lock, wait)
        local started = support.now()
        local ok, err = lock:tryLock(wait, 10)
        return support.now() - started, ok, err
    end

    it("is tried within the time of the call, and had by the third at the latest", function()
        local lock = client:getFencedLock "x"
        for call = 1, 3 do
            local took, ok, err = timed(lock, 0)
            assert.is_true(took < DELAY + TIMEOUT, took)
            assert.is_true(ok or err.code == "no_quorum")
            assert.is_true(ok or call < 3, tostring(err))
            if ok then
                break
            end
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
end)

describe("a server", function()
    -- As after a restart with data of before: it may have given out more since they were saved.
    it("knows no floors of another life, whatever its marker says", function()
        local server, tell = support.cluster(1)[1], script_text.own "fenced.tell"
        local function told(life)
            server:mark(("0123456789abcdef v4 a %s 0 60000 spec"):format(life))
            return server:call("EVAL", tell, 1, floors.KEY, "100000000000000", "1")
        end
        local most = told(server:life())[2]
        assert.same({ 1, most }, told(server:life()))
        assert.same({ 0, most }, told(("0"):rep(16)))
    end)
end)

describe("a program that may not write floors", function()
    it("has plain locks again, and no tokens, after servers lost their memory", function()
        local world = redlock.testing.new()
        local client = world:client()
        assert.is_true(client:getLock("x"):tryLock(1))
        assert.is_true(client:getLock("x"):unlock())
        for i = 1, 3 do
            world.world.servers[i].denied = { hset = true }
            world:kill(i)
            world:start(i)
        end
        support.fails("no_quorum", client:getLock("x"):tryLock(1))       -- it notices
        for seconds = 10, 300, 10 do
            world:advance(10)
            local ok = client:getLock("x"):tryLock(1)
            assert.is_true(ok or seconds < 80, seconds)
            assert.is_true(not ok or client:getLock("x"):unlock())
        end
        local err = support.fails("no_quorum", client:getFencedLock("x"):tryLock(1))
        assert.matches("needs all ACL rules that examples/access/README.md lists", tostring(err), 1,
            true)
        world:close()
    end)
end)

describe("a server that lost its memory", function()
    local KEY, MARKER = "redlock:{server}:floor", "redlock:{server}:marker"
    local cluster, client

    before_each(function()
        cluster = support.cluster(3, { new = true }):admit(quarantine.MAX_LEASE)
        client = support.warm_client(cluster, quarantine.options { patience = 60, timeout = 1 })
    end)

    local function number(server, field)
        return tonumber(server:call("HGET", KEY, field):sub(9))
    end

    local function count_far(n)
        for _ = 1, n do
            local lock = client:getFencedLock "far"
            assert.is_true(lock:lock(0.4))
            lock:unlock()                            -- which may be late on a busy machine
        end
    end

    local function await_vote(server)
        support.eventually(function()
            quarantine.turn(client)
            client:getLock("other"):tryLock(0, 0.4)
            client:getLock("other"):unlock()
            local marked = server:marked()
            return marked and marked.state == "a"
        end, 30, "a vote")
    end

    it("gets a base above all that the others have given out, with its vote", function()
        count_far(100)
        local most = math.max(number(cluster[1], "most"), number(cluster[2], "most"))
        cluster[3]:restart()
        await_vote(cluster[3])
        assert.equal(most, number(cluster[3], "base"))
        assert.equal(cluster[3]:memory(), cluster[3]:call("HGET", KEY, "base"):sub(1, 8))
        local requests = client:stats().nodes[3].requests
        local lock = client:getFencedLock "a name that nobody used"
        assert.is_true(lock:lock(0.4) and lock:unlock())
        assert.is_true(client:stats().nodes[3].requests - requests <= 3)     -- one confirms
    end)

    it("votes without one while a server that may know more is silent", function()
        local before = client:getFencedLock "x"
        assert.is_true(before:lock(0.4))
        local last = before:token()
        assert.is_true(before:unlock())
        cluster[2]:kill()
        cluster[3]:restart()
        await_vote(cluster[3])
        assert.is_nil(cluster[3]:call("HGET", KEY, "base"))
        local lock = client:getFencedLock "x"
        local err = support.fails("no_quorum", lock:tryLock(0, 0.4))
        assert.equal("unseeded", err.nodes[3].code)
        assert.matches("it forgot the fencing tokens, and " .. cluster[2].uri .. ", which may know "
            .. "them, does not answer: start", err.nodes[3].message, 1, true)
        local found = assert(client:check())
        assert.equal("none", found[3].floors)
        assert.equal("warning", found[3].verdict)
        assert.is_true(client:getLock("plain"):tryLock(0, 0.4))
        cluster[2]:start()               -- with nothing: it says that it lacks them, too
        assert.is_true(lock:lock(0.4) and lock:token() > last)
    end)

    it("is taught by the client that admitted it when the silent server answers again", function()
        count_far(1)
        cluster[2]:freeze()
        cluster[3]:restart()
        await_vote(cluster[3])
        assert.is_nil(cluster[3]:call("HGET", KEY, "base"))
        cluster[2]:thaw()
        -- Nothing is called meanwhile.
        support.eventually(function() return cluster[3]:call("HGET", KEY, "base") end, 20)
        assert.equal(cluster[3]:memory(), cluster[3]:call("HGET", KEY, "base"):sub(1, 8))
    end)

    for what, spoil in pairs { ["deleted"] = function(s) s:call("DEL", KEY) end,
        ["of another type"] = function(s) s:call("SET", KEY, "x") end,
        ["out of range"] = function(s)
            s:call("HSET", KEY, "most", s:memory() .. "99999999999999")
        end } do
        it("begins when floors are " .. what .. ", and lets no token come twice", function()
            cluster:admit(3)
            client = support.warm_client(cluster, quarantine.options { patience = 60, timeout = 1,
                max_lease = 3 })
            count_far(40)
            local lock = client:getFencedLock "far"
            assert.is_true(lock:lock(0.4))
            local last, inc = lock:token(), cluster[3]:marked().inc
            assert.is_true(lock:unlock())
            local began = support.now()
            spoil(cluster[3])
            cluster[1]:call("SET", "busy", "somebody", "PX", 60000)      -- so that all are asked
            support.eventually(function()
                local other = client:getFencedLock "other"
                if other:tryLock(0, 0.4) then
                    other:unlock()
                end
                return cluster[3]:marked().inc ~= inc
            end, 20, "another marker")
            assert.equal("l", cluster[3]:marked().state)
            await_vote(cluster[3])
            assert.is_true(support.now() - began >= quarantine.guard(3))
            assert.is_true(number(cluster[3], "base") >= last)
            assert.equal(cluster[3]:marked().inc, cluster[3]:call("HGET", KEY, "marker"))
        end)
    end

    it("begins also where the others always answer before it", function()
        local slow = support.proxy(cluster[3].port)
        client = support.warm_client({ cluster[1], cluster[2], slow }, quarantine.options())
        slow:delay("up", 30)
        local inc = cluster[3]:marked().inc
        cluster[3]:call("DEL", KEY)
        support.eventually(function()
            count_far(1)
            return cluster[3]:marked().inc ~= inc
        end, 20, "another marker")
    end)

    it("is in quarantine and counts, whatever its floors are", function()
        cluster[3]:restart()
        cluster[3]:call("SET", KEY, "x")
        support.eventually(function()
            client:getLock("other"):tryLock(0, 0.4)
            client:getLock("other"):unlock()
            return cluster[3]:marked()
        end, 20, "a marker")
        cluster[3]:call("SET", KEY, "x")
        await_vote(cluster[3])
        assert.equal("hash", cluster[3]:call("TYPE", KEY))
        assert.is_truthy(cluster[3]:call("GET", MARKER))
    end)
end)

-- Nobody takes a lock of its bucket meanwhile, which would have the servers taught.
describe("a fenced lock that is held while servers forget, one after the other", function()
    it("is lent to them, and kept; the next token is a larger one", function()
        local cluster = support.cluster(3, { new = true }):admit(3)
        -- So long that a busy machine renews it in time.
        local client = support.warm_client(cluster, quarantine.options { max_lease = 3,
            lease = 3, timeout = 1 })
        local l = client:getFencedLock "x"
        assert.is_true(l:lock())
        local token = l:token()
        for i = 1, 3 do
            local value = support.eventually(function()
                return cluster[i % 3 + 1]:call("GET", "x")
            end)
            cluster[i]:restart()
            support.eventually(function()
                quarantine.turn(client)
                assert(l:check())
                local marked = cluster[i]:marked()
                return marked and marked.state == "a" and cluster[i]:call("GET", "x") == value
            end, 30, "the server to vote, with the lock")
        end
        -- What stands there instead of a counter stays as long as one.
        support.all(cluster):call("PEXPIRE", "redlock:{x}:fence", 5000)
        cluster:each(function(server)
            support.eventually(function()
                quarantine.turn(client)
                return server:call("PTTL", "redlock:{x}:fence") > 5000
            end)
        end)
        assert.is_true(l:isValid())
        assert.is_true(l:stillMine())
        assert.is_true(client:checkSequencer(l:sequencer()))
        assert.is_true(l:unlock())
        local ok, larger = l:tryLock(5)
        assert.is_true(ok and larger > token)
    end)
end)
