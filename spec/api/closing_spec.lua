-- unlock { closed_for = S }: the name stays closed until S seconds after it was taken.
local support = require "spec.support"
local redlock = require "redlock"
local testing = require "redlock.testing"

describe("unlock { closed_for }", function()
    local cluster, client, other

    setup(function()
        cluster = support.cluster(3)
        client = support.warm_client(cluster)
        other = support.warm_client(cluster)
    end)
    before_each(function()
        cluster:each(function(s) s:thaw() end)
        cluster:flush()
    end)

    -- The time from before it was taken to when somebody else has it.
    local function closed(lock, seconds)
        local from = support.now()
        assert(lock:tryLock(5))
        assert(lock:unlock { closed_for = seconds })
        assert.is_false(lock:isValid())
        assert.equal(0, lock:getHoldCount())
        support.fails("held", other:getLock(lock:getName()):tryLock())
        assert(other:getLock(lock:getName()):tryLock(30))
        local time = support.now() - from
        assert(other:getLock(lock:getName()):unlock())
        return time
    end

    -- Waits until each server keeps the name for more than `least` ms, and at most `most`.
    local function left(least, most)
        support.eventually(function()
            local n = 0
            cluster:each(function(s)
                local ms = s:call("PTTL", "x")
                n = n + (ms > least and ms <= most and 1 or 0)
            end)
            return n == #cluster
        end)
    end

    for kind, method in pairs { plain = "getLock", fenced = "getFencedLock" } do
        it("keeps a " .. kind .. " lock's name closed for as long as it says", function()
            local time = closed(client[method](client, "x"), 1.2)
            assert.is_true(time >= 1.2 and time < 20, time)      -- the lease: 30
        end)

        it("counts from when a " .. kind .. " lock was taken", function()
            local l = client[method](client, "x")
            assert(l:tryLock(5))
            support.sleep(1)
            assert(l:unlock { closed_for = 20 })
            left(0, 19700)
        end)
    end

    it("keeps it closed for longer than its lease", function()
        local l = client:getLock "x"
        assert(l:tryLock(5, 10))
        assert(l:unlock { closed_for = 50 })
        left(40000, 51000)
    end)

    it("has larger tokens behind it", function()
        local l = client:getFencedLock "x"
        local _, first = assert(l:tryLock(5))
        assert(l:unlock { closed_for = 0.3 })
        local ok, second = other:getFencedLock("x"):tryLock(10)
        assert.is_true(ok)
        assert.is_true(second > first)
        other:getFencedLock("x"):unlock()
    end)

    it("opens it where the time is over, as any unlock", function()
        local l = client:getLock "x"
        assert(l:tryLock(5))
        support.sleep(0.3)
        assert(l:unlock { closed_for = 0.2 })
        cluster:await_free()
        assert(l:tryLock(5))
        assert(l:unlock { closed_for = 0 })
        cluster:await_free()
        assert(l:tryLock(5))
        assert(l:unlock {})
        cluster:await_free()
    end)

    it("is for the last leave", function()
        local l = client:getLock "x"
        assert(l:tryLock(5))
        assert(l:tryLock(5))
        assert(l:unlock { closed_for = 5 })
        assert.is_true(l:isValid())
        assert(l:unlock())
        cluster:await_free()
    end)

    it("holds though the client is closed, and the process ends", function()
        for _, last in ipairs { "client:close()", "os.exit(0)", "" } do
            cluster:flush()
            local p = support.child(cluster, nil, [[
                assert(l:tryLock(5))
                assert(l:unlock { closed_for = 20 })
            ]] .. last)
            p:read_all(30)
            assert.equal(0, p:wait(10))
            support.sleep(0.1)               -- a release would have come
            assert.is_true(cluster:keys() >= 2)
        end
    end)

    it("is not renewed by the watchdog any more", function()
        local fast = support.warm_client(cluster, { lease = 2 })
        local l = fast:getLock "x"
        assert(l:tryLock(5))
        assert(l:unlock { closed_for = 1 })
        assert(other:getLock("x"):tryLock(10))
        support.sleep(1)
        assert.is_true(other:getLock("x"):isValid())
        assert.is_true(other:getLock("x"):unlock())
        fast:close()
    end)

    it("passes the lock to nobody of its process", function()
        local l = client:getLock("x", { owner = "a" })
        assert(l:tryLock(5))
        local from = support.now()
        local future = client:getLock("x", { owner = "b" }):tryLockAsync(20)
        assert.is_nil((future:get(0.1)))
        assert.is_true(l:unlockAsync({ closed_for = 1 }):get(5))
        assert.is_true((future:get(20)))
        assert.is_true(support.now() - from > 0.8)
        assert(client:getLock("x", { owner = "b" }):unlock())
    end)

    it("says whose it is, if it is not ours any more", function()
        local l = client:getLock "x"
        support.fails("not_held", l:unlock { closed_for = 5 })
        assert(l:tryLock(5))
        cluster:each(function(s) s:call("SET", "x", "theirs", "PX", 60000) end)
        local ok, err = l:unlock { closed_for = 5 }
        assert.is_nil(ok)
        assert.same({ "held", "taken" }, { err.code, err.reason })
        cluster:each(function(s) assert.is_true(s:call("PTTL", "x") > 50000) end)
        cluster:flush()
        local lost
        assert(l:tryLock(5))
        l:onLost(function(_, reason) lost = reason end)
        cluster:each(function(s) s:call("DEL", "x") end)
        ok, err = l:unlock { closed_for = 5 }
        assert.is_nil(ok)
        assert.same({ "expired", "forgotten", "forgotten" }, { err.code, err.reason, lost })
        cluster:await_none "x"
        assert(l:tryLock(5, 0.3))
        support.sleep(0.4)
        ok, err = l:unlock { closed_for = 5 }
        assert.is_nil(ok)
        assert.equal("expired", err.code)
    end)

    it("says so where no majority confirms it, and leaves it to its lease", function()
        local l = client:getLock "x"
        assert(l:tryLock(5, 2))
        support.eventually(function() return cluster:keys() == 3 end)
        cluster[1]:freeze()
        cluster[2]:freeze()
        local err = support.fails("unknown", l:unlock { closed_for = 50 })
        assert.equal(3, #err.nodes)
        assert.is_false(l:isValid())
        cluster[1]:thaw()
        cluster[2]:thaw()
        client:close()
        client = support.warm_client(cluster)
    end)

    it("is said where nobody can wait", function()
        local luv = support.warm_client(cluster, { host = require "redlock.host.luv" })
        local uv = require "luv"
        local l = luv:getLock("x", { owner = "me" })
        local got
        coroutine.wrap(function() got = l:tryLock(5) end)()
        while got == nil do
            uv.run "once"
        end
        assert.is_true(got)
        assert.is_true(l:unlock { closed_for = 50 })
        support.eventually(function()
            local n = 0
            cluster:each(function(s) n = n + (s:call("PTTL", "x") > 40000 and 1 or 0) end)
            return n >= 2 and n == cluster:keys()        -- of those that gave it
        end)
        luv:close()
    end)

    it("is not bounded by max_lease, but checked", function()
        local l = client:getLock "x"
        local function wrong(value, text)
            local line = debug.getinfo(1, "l").currentline + 1
            local ok, err = pcall(function() l:unlock { closed_for = value } end)
            assert.is_false(ok)
            assert.matches("closing_spec.lua:" .. line .. ": redlock: bad closed_for: ", err, 1,
                true)
            assert.matches(text, err, 1, true)
        end
        wrong(-1, "too short")
        wrong("5", "a number of seconds is needed")
        assert.is_false(pcall(l.unlock, l, { closed = 5 }))
        assert.is_false(pcall(l.unlockAsync, l, { closed_for = -1 }))
        assert(l:tryLock(5))
        assert(l:unlock { closed_for = 86400 })
        left(86000000, 86400000 * 1.02)
        support.fails("held", client:getLock("x", { owner = "b" }):tryLock(0))
    end)

    it("is not for primitives of one's own", function()
        local prim = redlock.primitive { name = "mine",
            acquire = "return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0",
            release = "return redis.call('del', KEYS[1])" }
        local l = client:get(prim, "x")
        assert(l:tryLock(5, 5))
        support.fails("unsupported", l:unlock { closed_for = 5 })
        assert.is_true(l:isValid())
        assert.is_true(l:unlock())
    end)
end)

-- A job of every day whose name is closed for a minute less runs every day.
describe("a name that is closed for long", function()
    local world

    after_each(function() world:close() end)

    for what, close in pairs {
        closed_for = function(client, name)
            local l = client:getLock(name)
            return l:tryLock() and l:unlock { closed_for = 86340 }
        end,
        once = function(client, name) return client:once(name, 86340, function() end) end,
        ["once, before"] = function(client, name)
            return client:once(name, 86340, function() end, { before = true })
        end,
    } do
        it("opens when it was said, within a second: " .. what, function()
            world = require("redlock.testing").new { nodes = 3 }
            local client = world:client()
            for _ = 1, 2 do
                local began = world:now()
                assert.is_true(close(client, "nightly"))
                world:advance(began + 86339 - world:now())
                assert.is_falsy((close(client, "nightly")))
                world:advance(began + 86340.1 - world:now())
            end
        end)
    end

    it("opens the name where no millisecond of that is left, in exact time", function()
        world = testing.new { nodes = 1, round_trip = 0 }
        local lock = world:client():getLock "x"
        for ms = 1, 100 do
            assert(lock:tryLock(0, 10))
            world:advance(ms / 1000)
            assert(lock:unlock { closed_for = ms / 1000 })
        end
    end)
end)
