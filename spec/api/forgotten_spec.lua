-- What a holder is told when servers do not have his lock any more: that somebody has taken
-- it, or that they have forgotten it, and nobody has.
local redlock = require "redlock"
local support = require "spec.support"
local sys = require "spec.support.sys"

local FENCE, FLOORS = "redlock:{x}:fence", "redlock:{server}:floor"

for _, n in ipairs { 1, 3, 5 } do
    describe(("a hold on %d servers"):format(n), function()
        local cluster = support.shared_cluster(n)
        local client, lock, why

        setup(function() client = support.warm_client(cluster, { timeout = 5 }) end)
        before_each(function()
            lock, why = client:getLock "x", nil
            assert.is_true(lock:tryLock(0, 20))
            assert.is_true(lock:onLost(function(_, reason) why = reason end))
            client:check()                       -- all of them have it by now
        end)

        local function lose()
            cluster:each(function(s) s:call("DEL", "x") end)
        end

        local function take()
            cluster:each(function(s) s:call("SET", "x", "somebody else's", "PX", 20000) end)
        end

        for reason, act in pairs { forgotten = lose, taken = take } do
            it("is " .. reason .. ", says the extension", function()
                act()
                local err = support.fails("lost", lock:extend())
                assert.matches(("the lease is lost (%s)"):format(reason), tostring(err), 1, true)
                assert.equal(reason, why)
                local held, raised = pcall(lock.check, lock)
                assert.is_false(held)
                assert.matches(("the lease is lost (%s)"):format(reason), raised, 1, true)
                lock:unlock()
            end)
        end

        it("is forgotten, says the release", function()
            lose()
            local err = support.fails("expired", lock:unlock())
            assert.matches("the lease has ended (forgotten)", tostring(err), 1, true)
            assert.equal("forgotten", why)
        end)

        it("is taken, says the release", function()
            take()
            support.fails("held", lock:unlock())
            assert.equal("taken", why)
        end)
    end)
end

describe("a hold of any kind", function()
    it("is asked for, and says when the servers do not have it any more", function()
        local cluster = support.cluster(3)
        local client = support.warm_client(cluster)
        local rw = client:getReadWriteLock "rw"
        for kind, l in pairs {
            plain = client:getLock "plain", fenced = client:getFencedLock "fenced",
            fair = client:getFairLock "fair", multi = client:getMultiLock { "m1", "m2" },
            reader = client:getReadWriteLock("r"):readLock(), writer = rw:writeLock(),
            fenced_writer = client:getReadWriteLock("f", { fenced = true }):writeLock(),
            permit = client:getSemaphore("s", 2),
        } do
            l = kind == "permit" and assert(l:tryAcquire(1, 20)) or l
            assert.is_true(kind == "permit" or (l:tryLock(1, 20)), kind)
            assert.is_true(l:stillMine(), kind)
            assert.is_true(l:remaining() > 15, kind)
            if kind == "writer" then                     -- who reads beside it asks for that
                assert.is_true(rw:readLock():tryLock() and rw:readLock():stillMine())
            end
            client:check()                               -- all of them have it by now
            cluster:flush()
            assert.is_true(l:isValid(), kind)
            support.fails("lost", l:stillMine())
        end
    end)

    it("is not asked for if its scripts cannot", function()
        local client = support.warm_client(support.cluster(1))
        local l = client:get(redlock.primitive { name = "brief", acquire = "return 1",
            release = "return 1" }, "x")
        assert.is_true(l:tryLock())
        support.fails("unsupported", l:stillMine())
    end)
end)

describe("the reasons of a loss", function()
    it("are all in examples/locks, and in the reference", function()
        local read = sys.read_file
        local reasons = read "c/redlock.h":match "typedef enum rl_loss (%b{})"
        local row = read "examples/locks/README.md":match "\n%- `onLost` functions.-\n%- "
        local doc = read "lua/redlock/types.lua":match "@alias redlock.LossReason\n(.-)\n\n"
        local n = 0
        for word in reasons:gmatch "RL_LOSS_(%u[%u_]*)" do
            n = n + 1
            assert.truthy(row:find("`" .. word:lower() .. "`", 1, true), word)
            assert.truthy(doc:find(word:lower(), 1, true), word)
        end
        assert.is_true(n >= 6)
    end)
end)

describe("a fenced hold", function()
    local cluster

    before_each(function() cluster = support.cluster(3) end)

    -- Held by all, with the reason of its loss when the watchdog has found it.
    local function hold()
        local events = {}
        local client = support.warm_client(cluster, { lease = 2, on_event = function(e)
            events[e.type] = e
        end })
        local lock, why = client:getFencedLock "x", nil
        assert.is_true(lock:tryLock(5))
        lock:onLost(function(_, reason) why = reason end)
        client:check()
        return lock, function()
            support.eventually(function()
                lock:isValid()
                return why
            end, 20)
            assert.equal(why, events.lost.reason)
            return why
        end
    end

    it("is forgotten when its counters are, and nobody took it", function()
        local _, reason = hold()
        support.all(cluster, 1, 2):call("DEL", FENCE)
        assert.equal("forgotten", reason())
    end)

    it("is taken when somebody has counted on", function()
        local lock, reason = hold()
        local token = lock:token()
        for i = 1, 2 do
            local run = cluster[i]:call("GET", FENCE):sub(1, 8)
            cluster[i]:call("SET", FENCE, ("%s%.0f 01234567"):format(run, token + 1))
        end
        assert.equal("taken", reason())
    end)

    it("outlives a counter that one server forgot", function()
        local lock = hold()
        cluster[1]:call("DEL", FENCE)
        assert.is_true((lock:extend()))
        assert.is_true(lock:stillMine())
        assert.equal(0, cluster[1]:call("EXISTS", FENCE))     -- it goes on from its floor
        assert.equal(1, cluster[1]:call("EXISTS", FLOORS))
        assert.is_true(lock:unlock())
    end)
end)
