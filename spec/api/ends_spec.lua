-- No call of a holder makes a key end sooner than its hold: not `settle` with `keep`, no import,
-- and no request that comes late.
local redlock = require "redlock"
local support = require "spec.support"
local testing = redlock.testing

-- How each kind with a settle is taken.
local KINDS = {
    lock = function(c) return c:getLock "a" end,
    ["fenced lock"] = function(c) return c:getFencedLock "a" end,
    ["fair lock"] = function(c) return c:getFairLock "a" end,
    ["write lock"] = function(c) return c:getReadWriteLock("a"):writeLock() end,
    ["fenced write lock"] = function(c)
        return c:getReadWriteLock("a", { fenced = true }):writeLock()
    end,
    permit = function(c) return c:getSemaphore("a", 1) end,
}

local function acquire(kind, client, lease)
    local object = kind(client)
    if object.tryAcquire then
        return object:tryAcquire(0, lease)
    end
    return object:tryLock(0, lease) and object
end

describe("a key that a holder shortens", function()
    local world, holder, other

    before_each(function()
        world = testing.new { nodes = 3, client = { lease = 10 } }
        holder, other = world:client(), world:client()
    end)
    after_each(function() world:close() end)

    for name, kind in pairs(KINDS) do
        for _, lease in ipairs { 10, false } do
            it(("is still that of a valid %s, %s"):format(name, lease and "of 10 s" or "kept"),
                function()
                    local lock = assert(acquire(kind, holder, lease or nil))
                    assert.is_true(lock:settle(0.3, { keep = true }))
                    world:advance(0.5)
                    assert.is_true(lock:isValid())
                    assert.is_true(not acquire(kind, other, 10))
                    assert.is_true(lock:stillMine())
                    assert.is_true(lock:unlock())
                    local after = assert(acquire(kind, other, 10))
                    assert.is_true(after:settle(0.3))        -- which ends the hold
                    assert.is_false(after:isValid())
                    world:advance(0.5)
                    assert.is_true(acquire(kind, holder, 10) ~= nil)
                end)
        end

        it("is not the one that " .. name .. "'s settle makes longer", function()
            local lock = assert(acquire(kind, holder, 2))
            assert.is_true(lock:settle(8, { keep = true }))
            world:advance(5)
            assert.is_true(not acquire(kind, other, 10))
            world:advance(4)
            assert.is_true(acquire(kind, other, 10) ~= nil)
        end)
    end

    it("is refused where the script is the user's", function()
        local mine = redlock.primitive { name = "mine",
            acquire = "return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0",
            release = "return redis.call('del', KEYS[1])",
            settle = "return redis.call('pexpire', KEYS[1], ARGV[2])" }
        local lock = holder:get(mine, "a")
        assert(lock:tryLock(0, 10))
        assert.error_matches(function() lock:settle(9, { keep = true }) end,
            "bad seconds: .*at least its lease")
        assert.is_true(lock:settle(10, { keep = true }))
        assert.is_true(lock:settle(0.1))
    end)
end)

describe("a request that a server executes again", function()
    local cluster
    before_each(function() cluster = support.cluster(1) end)

    -- As after a broken connection, which may bring the first one later.
    it("shortens no fair lock that was extended since", function()
        local fair = require "redlock.kinds.fair_lock"
        local server, value = cluster[1], ("a"):rep(40)
        local keys = { "k", "redlock:{k}:queue", "redlock:{k}:living", "redlock:{k}:standing" }
        for _, ticket in ipairs { "0", "1" } do
            local function ask(role, lease)
                return server:call("EVAL", fair[role .. "_script"], "4", keys[1], keys[2], keys[3],
                    keys[4], value, lease, "a1", ticket, "600000", "0")
            end
            assert.equal(1, ask("acquire", "9000"))
            assert.equal(1, ask("extend", "100000"))
            assert.equal(2, ask("acquire", "9000"))
            assert.is_true(server:call("PTTL", "k") > 90000)
            assert.not_nil(ask("release", "1000"))
        end
    end)
end)

describe("an import of a hold that has more time left than its lease", function()
    it("leaves it the time", function()
        local world = testing.new { nodes = 3, client = { lease = 10 } }
        local giver, taker = world:client(), world:client()
        for _, kind in pairs(KINDS) do
            local lock = assert(acquire(kind, giver, 2))
            assert.is_true(lock:settle(60, { keep = true }))
            local got = assert(taker:import(assert(lock:export())))
            got:onLost(function() end)
            world:advance(0.1)
            local longest = 0
            for i = 1, 3 do
                for _, key in ipairs { "a", "redlock:{a}:slots" } do
                    longest = math.max(longest, world:call(i, "PTTL", key))
                end
            end
            assert.is_true(longest > 50000)
            assert.is_true(got:unlock())
        end
        world:close()
    end)
end)
