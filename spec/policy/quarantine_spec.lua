-- What the answers of a server in quarantine count for: nothing that may make two holders. In
-- worlds, as each client's messages to each server are late in turn.

local library = require "redlock.testing.library"
local testing = require "redlock.testing"

local LEASE, LONG = 0.5, 2.8
local OPTIONS = { max_lease = 3, lease = LEASE, timeout = 0.25, connect_timeout = 0.3 }

local own = require("redlock").primitive {
    name = "desk",
    acquire = [[
        if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
        return redis.call('get', KEYS[1]) == ARGV[1] and 2 or 0]],
    extend = [[
        if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
        redis.call('pexpire', KEYS[1], ARGV[2])
        return 1]],
    release = [[
        return redis.call('get', KEYS[1]) == ARGV[1] and redis.call('del', KEYS[1]) or 0]],
}

-- kind -> function(client, whether it is the second one): what it takes
local KINDS = {
    ["a lock"] = function(c) return c:getLock "job" end,
    ["a fair lock"] = function(c) return c:getFairLock "job" end,
    ["a fenced lock"] = function(c) return c:getFencedLock "job" end,
    ["several names"] = function(c) return c:getMultiLock { "job", "other" } end,
    ["a writer"] = function(c) return c:getReadWriteLock("job"):writeLock() end,
    ["a reader beside a writer"] = function(c, second)
        local pair = c:getReadWriteLock "job"
        return second and pair:writeLock() or pair:readLock()
    end,
    ["a permit"] = function(c)
        local permit
        return { tryLock = function(_, wait, lease)
            permit = c:getSemaphore("job", 1):tryAcquire(wait, lease)
            return permit
        end, extend = function(_, lease) return permit:extend(lease) end,
            isValid = function() return permit and permit:isValid() or false end,
            settle = function(_, s) return permit:settle(s) end }
    end,
    ["a lock of one's own"] = function(c) return c:get(own, "job") end,
}

local world, x, y
local C = library.core()

local function process(client)
    for _, one in ipairs(world.world.clients) do
        if one.client == client then
            return one.process
        end
    end
end

-- What a client sends to server i comes at the time `till`.
local function late(client, i, till)
    C.sim_silence(process(client), i - 1, till * 1e6, 0)
end

local function await(at)
    world:advance(math.max(at - world:now(), 0))
end

-- X holds on {2, 3}. Y has the vote of 1, and its message to 2 is late; it is stopped, and server 1
-- forgets. X's extensions heal 1, which is in quarantine.
-- @return the time, for what comes later; and a function: whether Y has got it
local function half_taken(first, second, wait_for)
    world:cut(1)
    assert(first:tryLock(0, LEASE))
    world:mend(1)
    local at, got = world:now(), nil
    late(y, 2, at + 2.3)
    late(y, 3, 1e6)
    world:spawn(function() got = second:tryLock(0, LONG) and second or false end)
    world:advance(0.02)
    C.sim_stop(process(y), (at + 2.36) * 1e6, 0)
    world:call(1, "FLUSHALL")
    while world:now() < at + 1.5 do
        world:advance(wait_for or 0.1)
        if not wait_for then
            assert(first:extend(LEASE))
        end
    end
    assert(not got and first:isValid())
    return at, function() return got end
end

describe("a server in quarantine", function()
    before_each(function()
        world = testing.new { nodes = 3, client = OPTIONS }
        x, y = world:client(), world:client()
        assert(x:check() and y:check())
    end)

    after_each(function() world:close() end)

    for kind, make in pairs(KINDS) do
        it("keeps no hold beside another one: " .. kind, function()
            local first, second = make(x, false), make(y, true)
            local at, got = half_taken(first, second)
            late(x, 2, 1e6)                      -- from now on {1, 3} would have to do
            assert.equal(1, world:call(1, "EXISTS", kind == "a permit" and "redlock:{job}:slots"
                or "job"))                       -- it is healed
            local ok, err
            while world:now() < at + 2.28 do
                world:advance(0.1)
                ok, err = first:extend(LEASE)
            end
            assert.is_nil(ok)
            assert.equal("guarded", err.nodes and err.nodes[1].code or "guarded")
            while world:now() < at + 2.6 do
                world:advance(0.01)
                assert.is_false(first:isValid() and got() and got():isValid())
            end
        end)
    end

    for kind, make in pairs(KINDS) do
        it("keeps what is taken meanwhile when the next one restarts: " .. kind, function()
            world:call(3, "FLUSHALL")
            x:check()
            world:advance(2.2)
            local l = make(x, false)
            assert(l:tryLock(0, LONG))
            repeat
                world:advance(0.1)
            until y:check().voting == 3
            world:kill(1):start(1, { forgotten = true })
            world:advance(0.5)
            assert.is_true((l:extend(LONG)))
        end)
    end

    it("keeps no renewed hold beside another one, in a batch", function()
        local many = {}
        for i = 1, 5 do
            many[i] = x:getLock("many" .. i)
        end
        local first, second = x:getLock "job", y:getLock "job"
        world:cut(1)
        for i = 1, #many do
            assert(many[i]:tryLock(0))
        end
        assert(first:tryLock(0))
        world:mend(1)
        local at, got = world:now(), nil
        late(y, 2, at + 2.3)
        late(y, 3, 1e6)
        world:spawn(function() got = second:tryLock(0, LONG) end)
        world:advance(0.02)
        C.sim_stop(process(y), (at + 2.36) * 1e6, 0)
        world:call(1, "FLUSHALL")
        await(at + 1.5)
        assert.is_true(first:isValid())
        assert.equal(1, world:call(1, "EXISTS", "job"))
        late(x, 2, 1e6)
        await(at + 1.9)
        assert.is_true(world:call(1, "PTTL", "many1") > 200)   -- it extends them all the same
        while world:now() < at + 2.6 do
            world:advance(0.01)
            assert.is_false(first:isValid() and got and second:isValid() or false)
        end
        assert.is_false(first:isValid())
    end)

    for _, how in ipairs { "settle", "closed_for" } do
        it("closes no name that another client has: " .. how, function()
            local first, second = x:getLock "job", y:getLock "job"
            local at, got = half_taken(first, second)
            late(x, 2, 1e6)
            await(at + 1.7)
            local ok, err
            if how == "settle" then
                ok, err = first:settle(60)
            else
                ok, err = first:unlock { closed_for = 60 }
            end
            assert.is_nil(ok)
            assert.equal("unknown", err.code)
            assert.equal("guarded", err.nodes[1].code)
            await(at + 2.6)
            assert.is_true(got() ~= nil)
        end)
    end

    it("says nothing about who holds a name", function()
        local l = x:getLock "job"
        assert.is_true(l:tryLock(0, 3))
        x:check()
        for i = 1, 2 do
            world:call(i, "FLUSHALL")
        end
        for _, method in ipairs { "isLocked", "holder", "remainTimeToLive" } do
            local ok, err = y:getLock "job"[method](y:getLock "job")
            assert.is_nil(ok, method)
            assert.equal("no_quorum", err.code)
            assert.equal("guarded", err.nodes[1].code)
        end
        local still, why = l:stillMine()
        assert.is_nil(still or nil)
        assert.equal("lost", why and why.code or "lost")
        assert.is_nil((y:getCountDownLatch("gate"):getCount()))
    end)

    it("is counted as ever without the guard, and where a majority is all servers", function()
        for n, guard in pairs { [1] = true, [2] = true, [3] = false } do
            world = testing.new { nodes = n, new_cluster = not guard, client = {
                max_lease = 3, lease = LEASE, timeout = 0.25, restart_guard = guard } }
            x = world:client()
            local l = x:getLock "job"
            assert.is_true(l:tryLock(10, LEASE))
            for i = 1, n do
                local marker = world:call(i, "GET", "redlock:{server}:marker")
                if marker then
                    world:call(i, "DEL", "redlock:{server}:marker")
                end
            end
            for _ = 1, 30 do
                world:advance(0.1)
                assert.is_true((l:extend(LEASE)), n .. " servers")
            end
            assert.is_true(x:getLock "job":isLocked())
            assert.is_true(l:unlock())
        end
    end)
end)
