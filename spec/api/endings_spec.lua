-- Time that is left: onEnding tells when it becomes short, min_validity takes no lock with less.
local support = require "spec.support"

local fails = support.fails

describe("time that is left", function()
    local cluster, client

    local function new(n, opts)
        cluster = support.cluster(n)
        client = support.warm_client(cluster, opts)
        return client
    end

    after_each(function() client:close() end)

    -- Calls the library until fn() is true, as a program does.
    local function work_until(l, fn)
        support.eventually(function()
            l:isValid()
            return fn()
        end, 20)
    end

    it("is told of when renewals fail, before it is over, and again at the next time", function()
        new(3, { lease = 5, timeout = 0.1 })
        local l, told, lost = client:getLock "x", {}, nil
        assert.is_true(l:lock())
        assert.is_true(l:onEnding(2, function(lock, left)
            assert.equal("x", lock:getName())
            assert.is_true(lock:isValid())
            told[#told + 1] = left
        end))
        l:onLost(function(_, why) lost = { why, #told } end)
        local renewed = support.now() + 2.5
        work_until(l, function() return support.now() > renewed end)
        assert.same({}, told)
        for round = 1, 2 do
            cluster[1]:freeze()
            cluster[2]:freeze()
            work_until(l, function() return #told == round end)
            assert.is_true(told[round] > 0 and told[round] <= 2)
            assert.is_true(l:isValid())
            if round == 1 then
                cluster[1]:thaw()
                cluster[2]:thaw()
                work_until(l, function() return l:remaining() > 2.5 end)
            end
        end
        work_until(l, function() return lost end)
        assert.same({ "expired", 2 }, lost)
        cluster[1]:thaw()
        cluster[2]:thaw()
        fails("lost", l:onEnding(1, print))
    end)

    it("is told of at once when there is no more, and not of what is let go", function()
        new(3)
        local l, n = client:getLock "x", 0
        fails("not_held", l:onEnding(1, print))
        assert.is_true(l:tryLock(0, 4))
        assert.is_true(l:onEnding(5, function() n = n + 1 end))
        assert.equal(1, n)
        assert.is_true(l:unlock())
        assert.is_true(l:tryLock(0, 1.5))
        assert.is_true(l:onEnding(0.2, function() n = n + 1 end))
        assert.is_true(l:unlock())
        local after = support.now() + 1.6
        support.eventually(function() l:isLocked(); return support.now() > after end, 20)
        assert.equal(1, n)
        assert.has_error(function() l:onEnding("soon", print) end)
        assert.has_error(function() l:onEnding(1) end)
        client:close()
        fails("closed", l:onEnding(1, print))
    end)

    it("is told of by functions that may fail", function()
        local p = support.lua(([[
            local redlock = require "redlock"
            local client = redlock.new { nodes = %q }
            local l = client:getLock "x"
            assert(l:tryLock(20, 5))
            l:onEnding(10, function() error("mine", 0) end)
            print "on"
        ]]):format(new(1) and cluster[1].uri), { stderr = "stdout" })
        assert.equal("redlock: an onEnding function failed: mine\non\n", p:read_all(20))
    end)

    it("is to be enough: less is no lock, and said", function()
        new(1, { min_validity = 2.8, timeout = 3 })
        local l = client:getLock "x"
        assert.is_true(l:tryLock(10, 3))
        assert.is_true(l:unlock())
        cluster[1]:call("CLIENT", "PAUSE", "1500")
        local err = fails("expired", l:tryLock(0, 3))
        assert.matches("less than min_validity, 2.8 s, was left", tostring(err))
        support.eventually(function() return cluster[1]:call("EXISTS", "x") == 0 end, 20)
        cluster[1]:call("CLIENT", "PAUSE", "400")
        assert.is_true(l:tryLock(10, 3))               -- as of any attempt that failed
        assert.is_true(l:remaining() > 1.5)
        assert.is_true(l:unlock())
        assert.has_error(function() l:tryLock(0, 2.8) end)
    end)

    it("is at most what a lease leaves", function()
        new(1)
        assert.has_error(function() support.client(cluster, { min_validity = 30 }) end)
        assert.has_error(function() support.client(cluster, { min_validity = -1 }) end)
        support.client(cluster, { min_validity = 29 }):close()
    end)
end)
