-- redlock.resource.owned: resources in Redis that only who claimed them last can write to.
local support = require "spec.support"
local resource = require "redlock.resource"

local function sender(server)
    return function(...)
        return server:call(...)
    end
end

describe("a resource by random value", function()
    local server, stock

    setup(function()
        server = support.server()
    end)

    before_each(function()
        assert(server:call "FLUSHALL")
        stock = resource.owned("stock", sender(server))
    end)

    it("is not claimed without an answer", function()
        local gone = support.server()
        local lost = resource.owned("stock", sender(gone))
        assert.is_string(lost:claim())
        gone:kill()
        local value, err = lost:claim()
        assert.is_nil(value)
        assert.is_string(err)
    end)

    it("lets only the latest claim work on it", function()
        local old = stock:claim()
        assert.is_true(stock:set(old, "1"))
        local new = stock:claim()
        for _, result in ipairs { { stock:set(old, "2") }, { stock:append(old, "2") },
            { stock:delete(old) }, { stock:get(old) }, { stock:call(old, "INCR", "stock") },
            { stock:eval(old, "return {1, redis.call('del', KEYS[2])}", "stock") } } do
            assert.same({ nil, "stale" }, result)
        end
        assert.same({ true, "1" }, { stock:get(new) })
        assert.is_true(stock:append(new, "!"))
        assert.equal("1!", server:call("GET", "stock"))
    end)

    it("claims with a random value, or with a given one", function()
        local value = stock:claim()
        assert.matches("^%x+$", value)
        assert.equal(40, #value)
        assert.not_equal(value, stock:claim())
        assert.equal("mine", stock:claim "mine")
        assert.is_true(stock:set("mine", "x"))
        assert.equal("mine", server:call("GET", "redlock:{stock}:owner"))
        assert.has_error(function() stock:claim "" end)
        assert.has_error(function() stock:set(nil, "x") end)
        assert.has_error(function() stock:set(7, "x") end)
    end)

    it("belongs to nobody before the first claim, and after it was forgotten", function()
        assert.same({ nil, "stale" }, { stock:set("anybody", "x") })
        local value = stock:claim()
        assert(server:call("DEL", "redlock:{stock}:owner"))
        assert.same({ nil, "stale" }, { stock:set(value, "x") })
        assert.equal(0, server:call "DBSIZE")
    end)

    it("forgets an unused claim after `keep`, and every use renews it", function()
        local kept = resource.owned("stock", sender(server), { keep = 600 })
        local value = kept:claim()
        local function ttl()
            return server:call("PTTL", "redlock:{stock}:owner")
        end
        assert.is_true(ttl() > 500000)
        assert(server:call("PEXPIRE", "redlock:{stock}:owner", 5000))
        assert.is_nil((kept:get "other"))
        assert.is_true(ttl() <= 5000)
        assert.is_true(kept:set(value, "x"))
        assert.is_true(ttl() > 500000)
    end)

    it("has the weaker order: a late claim takes it from a newer holder", function()
        local newer = stock:claim()
        local late = stock:claim()           -- had the lock before, and was paused
        assert.same({ nil, "stale" }, { stock:set(newer, "lost in the open") })
        assert.is_true(stock:set(late, "x"))
    end)

    it("loses no update, whoever claims when", function()
        local procs = {}
        for i = 1, 4 do
            procs[i] = support.lua(([[
                local support = require "spec.support"
                local conn = support.connect(%d, 10)
                local g = require("redlock.resource").owned("n",
                    function(...) return conn:call(...) end)
                local done = 0
                for i = 1, 500 do
                    local mine = g:claim()
                    local read, n = g:get(mine)
                    done = done + (read and g:set(mine, (n or 0) + 1) and 1 or 0)
                end
                print(done)
            ]]):format(server.port))
        end
        local done = 0
        for _, p in ipairs(procs) do
            done = done + assert(p:read_line(60))
        end
        assert.equal(tostring(done), server:call("GET", "n"))
    end)
end)
