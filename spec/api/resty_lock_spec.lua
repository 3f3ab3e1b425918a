-- redlock.resty_lock outside nginx: an exptime that no lease is as long as. The rest is in
-- spec/hosts/nginx_resty_lock_spec.lua.
local redlock = require "redlock"
local resty_lock = require "redlock.resty_lock"

describe("redlock.resty_lock", function()
    local world, client, other

    before_each(function()
        world = redlock.testing.new { client = { lease = 5, max_hold = 60 } }
        client, other = world:client(), world:client()
    end)
    after_each(function() world:close() end)

    it("holds for an exptime over max_lease, and no longer than a lease more", function()
        local lock = assert(resty_lock:new(client, { exptime = 1800 }))
        assert.equal(0, lock:lock "renew")
        world:advance(1799)
        assert.is_true(other:getLock("renew"):isLocked())
        local late = assert(resty_lock:new(other, { timeout = 0 }))
        assert.same({ nil, "timeout" }, { late:lock "renew" })
        world:advance(7)
        assert.is_false(other:getLock("renew"):isLocked())
        assert.matches("^redlock: expired: ", select(2, lock:unlock()))
    end)

    it("takes one to expire, from then on", function()
        local lock = assert(resty_lock:new(client, { exptime = 50 }))
        assert.equal(0, lock:lock "renew")
        world:advance(40)
        assert.is_true(lock:expire(300))
        world:advance(299)
        assert.is_true(lock:expire(100))
        world:advance(99)
        assert.is_true(other:getLock("renew"):isLocked())
        world:advance(7)
        assert.is_false(other:getLock("renew"):isLocked())
        assert.same({ nil, "not found" }, { lock:expire(100) })
    end)

    it("ends with its process, long before exptime", function()
        assert(assert(resty_lock:new(client, { exptime = math.huge })):lock "renew")
        world:advance(100)
        world:crash(client)
        world:advance(6)
        assert.is_false(other:getLock("renew"):isLocked())
    end)
end)
