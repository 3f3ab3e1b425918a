-- Functions of users that raise: what was held, waited for or subscribed to is given back, and the
-- caller gets the error that was raised.
local redlock = require "redlock"
local support = require "spec.support"

local MINE = { "an error of any type" }

local function raise()
    error(MINE, 0)
end

local function raises(fn, ...)
    local ok, err = pcall(fn, ...)
    assert.is_false(ok)
    assert.equal(MINE, err)
end

describe("a function of the user that raises", function()
    local world, client, other

    before_each(function()
        world = redlock.testing.new()
        client, other = world:client(), world:client()
        assert(client:connect(5) and other:connect(5))
    end)
    after_each(function() world:close() end)

    local function subscribers(channel)
        return world:call(1, "PUBSUB", "NUMSUB", channel)[2]
    end

    describe("on_elected:", function()
        local function candidate(on_elected)
            return client:getElection("x", { id = "a", on_elected = on_elected })
        end

        it("the candidate resigns, and campaign raises", function()
            local a = candidate(function() world:advance(0.05) raise() end)
            local b, seen = other:getElection("x", { id = "b" }), {}
            local watch = b:observe(function(leader)
                seen[#seen + 1] = not leader and "-" or leader.id
            end)
            world:advance(0.05)
            for _, campaign in ipairs {
                function() return a:campaign() end,
                function() return a:campaign(1) end,
                function() return a:campaignAsync(1):get() end,
            } do
                raises(campaign)
                assert.is_false(a:isLeader())
                support.fails("not_held", a:resign())
                assert.is_false((b:leader()))
                world:advance(0.05)
            end
            assert.is_true(watch:cancel())
            assert.equal("- a - a - a -", table.concat(seen, " "))
            local from = world:now()
            assert.is_number((b:campaign(5)))
            assert.is_true(world:now() - from < 0.1)
        end)

        it("campaign returns no term that was given up, lost or replaced meanwhile", function()
            local a = candidate(function(e) assert(e:resign()) end)
            support.fails("not_held", a:campaign(1))
            support.fails("lost", candidate(function(e)
                assert(other:getFencedLock("x"):forceUnlock())
                world:advance(60)
                assert.is_false(e:isLeader())
            end):campaign(1))
            local first, second
            a = candidate(function(e, term)
                if not first then
                    first = term
                    assert(e:resign())
                    second = assert(e:campaign(1))
                end
            end)
            assert.equal(a:campaign(1), second)
            assert.is_true(second > first and a:isLeader())
            assert.is_true(a:resign())
            support.fails("closed", candidate(function() client:close() end):campaign(1))
        end)

        it("the candidate resigns also what it has won again meanwhile", function()
            local calls = 0
            local a = candidate(function(e)
                calls = calls + 1
                if calls == 1 then
                    assert(e:resign() and e:campaign(1))
                    raise()
                end
            end)
            raises(a.campaign, a, 1)
            assert.same({ 2, false }, { calls, a:isLeader() })
            assert.is_number((other:getElection("x", { id = "b" }):campaign(1)))
        end)

        it("what somebody else has by then stays his", function()
            local b = other:getElection("x", { id = "b" })
            local a = candidate(function(e)
                assert(e:resign() and b:campaign(1))
                raise()
            end)
            raises(a.campaign, a, 1)
            assert.is_true(b:isLeader())
        end)
    end)

    it("observe: the future ends, and so does the subscription", function()
        local e, channel = client:getElection("x", { id = "a" }), "redlock:{x:leader}:free"
        local watch = e:observe(function() world:advance(0.1) raise() end)
        world:advance(0.05)
        assert.equal(1, subscribers(channel))
        raises(watch.get, watch, 5)
        world:advance(0.1)
        assert.equal(0, subscribers(channel))
        watch = e:observe(function() end)
        world:advance(0.1)
        assert.equal(1, subscribers(channel))
        assert.is_true(watch:cancel())
        world:advance(0.1)
        assert.equal(0, subscribers(channel))
    end)

    it("a latch that nobody waits for any more is not subscribed to", function()
        local latch, channel = client:getCountDownLatch "x", "redlock:{x:latch}:free"
        assert(latch:trySetCount(1))
        local waiting = latch:awaitAsync()
        world:advance(0.1)
        assert.equal(1, subscribers(channel))
        assert.is_true(waiting:cancel())
        world:advance(0.1)
        assert.equal(0, subscribers(channel))
    end)

    it("once: the name is open; with `before` it stays closed", function()
        raises(client.once, client, "x", 60, raise)
        assert.is_true(other:once("x", 60, function() end))
        raises(client.once, client, "y", 60, raise, { before = true })
        support.fails("held", other:once("y", 60, error))
    end)

    it("using: also when its future is cancelled meanwhile", function()
        raises(client.using, client, "x", raise)
        assert.is_true(other:getLock("x", { owner = 1 }):tryLock())
        assert.is_true(other:getLock("x", { owner = 1 }):unlock())
        local future
        world:spawn(function()
            future = client:getLock("z"):lockAsync()
            raises(client.using, client, "x", function()
                world:spawn(function() future:cancel() end)
                raise()
            end)
        end)
        world:advance(0.1)
        assert.is_true(other:getLock("x", { owner = 1 }):tryLock())
    end)

    -- ---- primitives ------------------------------------------------------------------

    local function primitive(def)
        def.name = "mine"
        def.acquire = [[
            local value = redis.call('get', KEYS[1])
            if value == ARGV[1] then return 2 end
            if value then return {0, redis.call('pttl', KEYS[1])} end
            redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
            return 1
        ]]
        def.extend = "return redis.call('pexpire', KEYS[1], ARGV[2])"
        def.import = [[
            if redis.call('get', KEYS[1]) ~= ARGV[3] then return 0 end
            redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
            return 1
        ]]
        def.settle = "return redis.call('pexpire', KEYS[1], ARGV[2])"
        def.release = [[
            if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
            redis.call('publish', 'redlock:{' .. KEYS[1] .. '}:free', '')
            return redis.call('del', KEYS[1])
        ]]
        def.channel = def.channel or function(_, name) return "redlock:{" .. name .. "}:free" end
        return redlock.primitive(def)
    end

    it("granted: nobody has the lock, with or without a lease", function()
        local mine = primitive { granted = raise }
        local theirs = other:get(primitive {}, "x", { owner = 1 })
        for _, lease in ipairs { false, 30 } do
            local l = client:get(mine, "x", { owner = 2 })
            raises(l.lock, l, lease or nil)
            assert.same({ 0, false, 0 }, { l:getHoldCount(), l:isValid(), client.holds:count() })
            assert.is_true(theirs:tryLock(0.1))
            assert.is_true(theirs:unlock())
        end
        assert.equal(0, client:stats().lost)
    end)

    it("granted: the next in line gets it, also what was handed over", function()
        local fails, got = { [1] = true, [3] = true }, {}
        local mine = primitive {
            granted = function(l) if fails[l.owner] then raise() end end,
        }
        local first = client:get(mine, "x", { owner = 0 })
        assert.is_true(first:lock())
        for owner = 1, 4 do
            world:spawn(function()
                local l = client:get(mine, "x", { owner = owner })
                local ok, err = pcall(l.lock, l)
                got[#got + 1] = owner .. (ok and " has" or err == MINE and " raised" or " odd")
                if ok then
                    world:advance(0.1)
                    assert(l:unlock())
                end
            end)
        end
        world:advance(0.1)
        assert.is_true(first:unlock())
        world:advance(1)
        table.sort(got)
        assert.same({ "1 raised", "2 has", "3 raised", "4 has" }, got)
        assert.equal(0, client:stats().waiting)
        assert.is_true(other:get(primitive {}, "x", { owner = 9 }):tryLock(0.1))
    end)

    it("args, while the name is to stay closed: it is still held", function()
        local armed = false
        local l = client:get(primitive {
            args = function() return armed and raise() or {} end,
        }, "x", { owner = 1 })
        for _, call in ipairs { "unlock", "settle" } do
            assert.is_true(l:tryLock())
            armed = true
            raises(l[call], l, call == "unlock" and { closed_for = 60 } or 60)
            armed = false
            assert.is_true(l:isValid())
            assert.is_true(l:unlock())
            assert.is_true(other:get(primitive {}, "x", { owner = 2 }):tryLock(0.1))
            assert.is_true(other:get(primitive {}, "x", { owner = 2 }):unlock())
        end
    end)

    it("args, channel and refused, while it waits: the line goes on", function()
        local holder = other:get(primitive {}, "x", { owner = 1 })
        for _, field in ipairs { "args", "channel", "refused" } do
            assert.is_true(holder:lock())
            local n = field == "args" and 2 or 0         -- calls that do not raise
            local bad, good = primitive { [field] = function()
                n = n - 1
                return n < 0 and raise() or {}
            end }, primitive {}
            local l, outcome = client:get(bad, "x", { owner = 1 }), nil
            world:spawn(function() outcome = { pcall(l.lock, l) } end)
            local task = world:spawn(function()
                assert(client:get(good, "x", { owner = 2 }):lock())
                assert(client:get(good, "x", { owner = 2 }):unlock())
            end)
            world:advance(5)
            assert.same({ false, MINE }, outcome, field)
            assert.is_true(holder:unlock())
            task:join()
            assert.equal(0, client:stats().waiting)
        end
    end)

    it("gave_up: hides no other error, and ends no other wait", function()
        local bad = primitive { refused = raise, gave_up = function() error("late", 0) end }
        local l = client:get(bad, "x", { owner = 1 })
        assert.is_true(other:get(primitive {}, "x", { owner = 1 }):lock())
        local outcome
        world:spawn(function() outcome = { pcall(l.tryLock, l, 1) } end)
        assert.error_matches(function() world:advance(2) end, "a gave_up function failed: late")
        assert.same({ false, MINE }, outcome)
        l = client:get(primitive { gave_up = raise }, "x", { owner = 1 })
        raises(l.tryLock, l, 0.1)
    end)

    -- ---- errors that cannot be printed ---------------------------------------------------

    local odd = setmetatable({}, { __tostring = function() error "no text" end })

    it("on_event, onLost and a password: an error without a text does not reach the caller",
        function()
            local c = world:client { on_event = function() error(odd, 0) end }
            assert.error_matches(function() c:getLock("x"):tryLock(1) end,
                "the on_event function failed: table")
            local l = client:getLock("y", { owner = 1 })
            assert.is_true(l:tryLock())
            l:onLost(function() error(odd, 0) end)
            assert.error_matches(function()
                for i = 1, 3 do
                    world:call(i, "DEL", "y")
                end
                world:advance(60)
            end, "an onLost function failed: table")
            local secret = redlock.new { nodes = { "redis://127.0.0.1:1" },
                password = function() error(odd, 0) end }
            local err = support.fails("config", secret:connect(1))
            assert.matches("the password function failed: table", err.message)
            secret:close()
        end)
end)
