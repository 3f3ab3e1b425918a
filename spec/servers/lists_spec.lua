-- The list of servers changes: which steps are safe, and what the others lead to.
local quarantine = require "spec.support.quarantine"
local support = require "spec.support"

local MAX_LEASE, GUARD, options = quarantine.MAX_LEASE, quarantine.GUARD, quarantine.options

-- Until the client sees that the server votes.
local function await_admitted(client, server, within)
    support.eventually(function()
        client:getLock("turn"):tryLock(0)
        client:getLock("turn"):unlock()
        local marked = server:marked()
        return marked ~= nil and marked.state == "a"
    end, within or 20, "the admission of a server")
end

-- As if the server had never heard of the lock.
local function forget(server, name)
    support.eventually(function() return server:call("EXISTS", name) == 1 end, 20)
    server:call("DEL", name)
end

-- Whether the key is there (1), or gone (0), on all servers.
local function everywhere(cluster, key, there)
    for _, server in ipairs(cluster) do
        if server:call("EXISTS", key) ~= there then
            return false
        end
    end
    return true
end

-- What README and ATTACKS.md warn of: nobody looks whose list a server is in. So it is without
-- the restart guard, too.
local UNGUARDED = { restart_guard = "ignore", lease = 5 }

local function unguarded(...)
    return support.warm_client({ ... }, UNGUARDED)
end

describe("lists that are in use at the same time", function()
    local cluster, a, b, c, d
    after_each(support.cleanup)

    before_each(function()
        cluster = support.cluster(4, { new = true })
        a, b, c, d = unpack(cluster)
    end)

    it("exclude each other where a server was added or taken out: each majority shares a server "
        .. "with all of the other list", function()
        local three, four = unguarded(a, b, c), unguarded(a, b, c, d)
        local l = three:getLock "x"
        assert.is_true(l:tryLock())
        forget(c, "x")
        support.fails("held", four:getLock("x"):tryLock())         -- 2 of 4 are no majority
        assert.is_true(l:isValid())
        assert.is_true(l:unlock())
        assert.is_true(four:getLock("x"):tryLock(5))
        forget(d, "x")                         -- 3 of 4, all of them in the list of three
        support.fails("held", three:getLock("x"):tryLock())
    end)

    -- {A, B, C} -> {A, B, C, D} -> {B, C, D}, the second before all have made the first.
    it("have two holders when they are two changes apart", function()
        local before, between, after = unguarded(a, b, c), unguarded(a, b, c, d),
            unguarded(b, c, d)
        local l = before:getLock "x"
        assert.is_true(l:tryLock())
        forget(c, "x")
        support.fails("held", between:getLock("x"):tryLock())
        local rival = after:getLock "x"
        assert.is_true((rival:tryLock()))
        assert.is_true(l:isValid() and rival:isValid())
    end)

    -- Those with the list {A, B, C} have B, and do not reach C; those with {D, B, C} do.
    local function held_twice()
        local before = unguarded(a, b, c, d):getFencedLock "y"
        assert.is_true((before:tryLock(5)))
        support.eventually(function() return everywhere(cluster, "y", 1) end)
        assert.is_true(before:unlock())
        support.eventually(function() return everywhere(cluster, "y", 0) end)
        local gap = support.proxy(c.port)
        gap:refuse(true)
        local old, new = support.client({ a, b, gap }, UNGUARDED), unguarded(d, b, c)
        local l, rival = old:getFencedLock "y", new:getFencedLock "y"
        local held, token = l:tryLock(5)
        assert.is_true(held, tostring(token))
        local also, same = rival:tryLock(0)
        assert.is_true(also, tostring(same))
        assert.equal(token, same)
        assert.is_true(l:isValid() and rival:isValid())
        return l, rival
    end

    it("have two holders, and one fencing token twice, where a server was replaced while it "
        .. "lives", function()
        held_twice()
    end)

    it("have them also when the old server is stopped after the new one is in use", function()
        local l, rival = held_twice()
        a:stop()
        assert.is_true(l:isValid() and rival:isValid())
        l:extend()                             -- does not know either, and cannot
        assert.is_true(l:isValid() and rival:isValid())
    end)
end)

describe("a server that is replaced by another one in the list", function()
    local cluster
    after_each(support.cleanup)

    before_each(function()
        cluster = support.cluster(4, { new = true }):admit(MAX_LEASE)
    end)

    local function lists(more)
        return support.warm_client({ cluster[1], cluster[2], cluster[3] }, options(more)),
            support.warm_client({ cluster[4], cluster[2], cluster[3] }, options(more))
    end

    -- A lock of the old list, of which the third server has not heard, and a rival for it with the
    -- new one. Between them the old server is stopped.
    -- @param moved  what happens to the servers then
    local function moves(moved)
        local old, new = lists { timeout = 0.1 }
        local _, token = old:getFencedLock("x"):tryLock(0)
        local l = old:getFencedLock "x"
        forget(cluster[3], "x")
        moved()
        local begun = support.now()
        local rival = new:getFencedLock "x"
        while l:isValid() and support.now() - begun < GUARD / 2 do
            local got = rival:tryLock(0, MAX_LEASE)
            assert.is_false(got == true and l:isValid())
            l:extend()
        end
        l:unlock()
        local ok, later
        support.eventually(function()
            ok, later = rival:tryLock(0, MAX_LEASE)
            return ok
        end, 20)
        assert.is_true(later > token, ("%s after %s"):format(later, token))
        await_admitted(new, cluster[4])
    end

    it("after it was stopped for good, by an empty one: one holder at most, larger tokens",
        function()
            moves(function()
                cluster[1]:kill()
                cluster[4]:call "FLUSHALL"     -- the one that was started empty
            end)
        end)

    it("by itself at another address, with its last data: one holder at most, larger tokens",
        function()
            moves(function()
                assert.equal("OK", cluster[1]:call("CONFIG", "SET", "save", "3600 1"))
                cluster[1]:stop()
                cluster[4]:kill()
                support.sh(("cp %s/dump.rdb %s/"):format(cluster[1].dir, cluster[4].dir))
                cluster[4]:start()
                assert.is_truthy(cluster[4]:marker())
            end)
        end)

    it("by an empty one at its address: the list stays, one holder at most", function()
        local old = support.warm_client({ cluster[1], cluster[2], cluster[3] }, options())
        local other = support.warm_client({ cluster[1], cluster[2], cluster[3] }, options())
        local l = old:getLock "x"
        assert.is_true(l:tryLock(0))
        forget(cluster[3], "x")
        cluster[1]:restart()
        while l:isValid() do
            local got = other:getLock("x"):tryLock(0, MAX_LEASE)
            assert.is_false(got == true and l:isValid())
            if cluster[3]:call("EXISTS", "x") == 1 then
                break                          -- healed: a majority without the new one
            end
        end
        l:unlock()
        await_admitted(other, cluster[1])
    end)

    it("by adding the new one everywhere, and then taking the old one out", function()
        cluster[4]:call "FLUSHALL"
        local three = support.warm_client({ cluster[1], cluster[2], cluster[3] }, options())
        local four = support.warm_client(cluster, options())
        local l = three:getFencedLock "x"
        local _, token = l:tryLock(0)
        assert.is_nil((four:getFencedLock("x"):tryLock(0)))
        assert.is_true(l:unlock())
        three:close()                          -- nobody has that list any more
        await_admitted(four, cluster[4])
        local _, second = assert(four:getFencedLock("x"):tryLock(5))
        assert.is_true(second > token)
        local last = support.warm_client({ cluster[4], cluster[2], cluster[3] }, options())
        assert.is_nil((last:getFencedLock("x"):tryLock(0)))
        assert.is_true(four:getFencedLock("x"):unlock())
        local ok, third = last:getFencedLock("x"):tryLock(5)
        assert.is_true(ok, tostring(third))
        assert.is_true(third > second)
    end)
end)
