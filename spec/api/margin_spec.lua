-- The option margin: a lock is taken on more servers than a majority, and kept by a majority.
local quarantine = require "spec.support.quarantine"
local support = require "spec.support"

local fails, eventually = support.fails, support.eventually

describe("a margin", function()
    local cluster, client, events

    local function new(n, opts)
        opts.on_event = function(e) events[#events + 1] = e end
        cluster = support.cluster(n, { new = true }):admit(opts.max_lease)
        client = support.warm_client(cluster, opts)
    end

    local function event(kind)
        for i = #events, 1, -1 do
            if events[i].type == kind then
                return events[i]
            end
        end
    end

    before_each(function() events = {} end)

    for _, kind in ipairs { "getLock", "getFencedLock" } do
        it("of one wants four of five servers, of " .. kind, function()
            new(5, quarantine.options { margin = 1, timeout = 0.1 })
            local l = client[kind](client, "m")
            cluster[5]:stop()
            eventually(function()                          -- it is lost in a long pause
                assert.is_true((l:tryLock(5)))
                assert.is_true(l:votes() >= 4 or not l:isValid())
                return l:unlock()
            end)
            cluster[4]:stop()
            fails("no_quorum", l:tryLock(0))
            cluster[4]:start()
            eventually(function() return l:tryLock(20) and l:unlock() end)
        end)
    end

    it("refuses what a majority has, where one more refuses", function()
        new(5, { margin = 1 })
        for i = 1, 2 do
            cluster[i]:call("SET", "m", "of somebody else", "PX", 60000)
        end
        eventually(function()                              -- nobody has a majority
            local ok, err = client:getLock("m"):tryLock(0)
            assert.is_nil(ok)
            return err.code == "no_quorum"
        end)
        local wide = support.warm_client(cluster)          -- three of five are enough for this one
        assert.is_true(wide:getLock("m"):tryLock(20))
        cluster[2]:call("DEL", "m")
        eventually(function()                              -- as soon as three answer in time
            local ok, err = client:getLock("m"):tryLock(0)
            assert.is_nil(ok)
            return err.code == "held"
        end)
        assert.is_true(wide:getLock("m"):unlock())
        assert.is_true(client:getLock("m"):tryLock(20))
    end)

    it("is not needed to keep a lock; a thin one is told of, once", function()
        new(5, { margin = 1, lease = 3, timeout = 0.1 })
        local l = client:getLock "m"
        assert.is_true(l:lock())
        eventually(function() return l:votes() == 5 end, 20)
        cluster[4]:stop()
        cluster[5]:stop()
        eventually(function() client:getLock("n"):isLocked(); return event "thin" end, 30)
        assert.same({ "m", 3, 4 }, { event("thin").name, event("thin").votes,
            event("thin").wanted })
        assert.is_true(l:isValid())
        assert.equal(3, l:votes())
        cluster[4]:start()                                 -- it has forgotten
        eventually(function() client:getLock("n"):isLocked(); return l:votes() == 4 end, 30)
        assert.equal(1, cluster[4]:call("EXISTS", "m"))    -- it got the lock back
        assert.is_true(l:isValid())
        local thin = 0
        for _, e in ipairs(events) do
            thin = thin + (e.type == "thin" and 1 or 0)
        end
        assert.equal(1, thin)
        assert.is_true(l:unlock())
        assert.equal(0, l:votes())
    end)

    it("is at most what a majority leaves", function()
        local function make(n, margin)
            local nodes = {}
            for i = 1, n do
                nodes[i] = "redis://10.0.0." .. i
            end
            return pcall(require("redlock").new, { nodes = nodes, margin = margin })
        end
        assert.is_true(make(5, 2))
        assert.is_true(make(1, 0))
        local ok, err = make(3, 2)
        assert.is_false(ok)
        assert.is_truthy(err:find("option margin: at most 1: 3 servers have a majority of 2", 1,
            true), err)
        assert.is_false((make(5, -1)))
    end)

    it("hands a lock over to the next owner only with as many", function()
        new(5, { margin = 1, timeout = 0.1, lease = 5 })
        local l = client:getFencedLock("m", { owner = "one" })
        local _, first = l:tryLock(5)
        local second, token
        local done = client:getFencedLock("m", { owner = "two" }):tryLockAsync(20)
        l:unlock()
        second, token = done:get()
        assert.is_true(second)
        assert.is_true(token > first)
        eventually(function()
            return client:getFencedLock("m", { owner = "two" }):votes() >= 4
        end, 20)
    end)
end)
