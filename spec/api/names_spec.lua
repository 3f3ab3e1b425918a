-- Names of different things, whatever they are, never meet in a key.
local support = require "spec.support"

local PREFIXES = { "", "a", "a:", "app:ra", "x:rate", "redlock:", "redlock:{", "{", "}:" }
local NAMES = { "a", "te", "rate", "api", "api:rate", "api:rate:rate", "api:rate:", ":rate",
    "a:slots", "a:latch", "a:leader", "a}:slots", "a}:fence", "{a}", "{a}:queue", "{a}:slots",
    "redlock:{a}:slots", "redlock:{a:rate}:slots", "redlock:{server}:marker", "a\0", "a\n", "a ",
    "*", "1:a", "a:free" }

-- One of each kind that has keys of its own. Kinds that exclude each other under a name share keys.
local KINDS = {
    lock = function(c, name)
        local rw = c:getReadWriteLock(name)
        for _, l in ipairs { c:getLock(name), c:getFencedLock(name), rw:readLock(),
            rw:writeLock(), c:getReadWriteLock(name, { fenced = true }):writeLock(),
            c:getMultiLock { name } } do
            assert(l:tryLock(0, 20))
            assert(l:unlock())
        end
        assert(c:getFairLock(name):tryLock(0))
        local wait = c:getFairLock(name, { owner = {} }):tryLockAsync(5)
        c:getReadWriteLock(name, { owner = {} }):writeLock():tryLock(0)
        return function()
            wait:cancel()
        end
    end,
    semaphore = function(c, name)
        assert(c:getSemaphore(name, 2, { fenced = true }):tryAcquire(0))
    end,
    limiter = function(c, name) assert(c:getRateLimiter(name, 2, 30):acquire(0)) end,
    latch = function(c, name) assert(c:getCountDownLatch(name):trySetCount(2)) end,
}

describe("names", function()
    local server, clients

    setup(function()
        server, clients = support.server(), {}
        for _, prefix in ipairs(PREFIXES) do
            clients[prefix] = support.client({ server }, { prefix = prefix, cluster = false,
                timeout = 5, connect_timeout = 10 })
        end
    end)

    it("of two things never stand for one key", function()
        local owner, kept = {}, 0
        for _, prefix in ipairs(PREFIXES) do
            for _, name in ipairs(NAMES) do
                for kind, make in pairs(KINDS) do
                    server:call "FLUSHALL"
                    local ok, finish = pcall(make, clients[prefix], name)
                    assert(ok or tostring(finish):find "bad name", finish)
                    local thing = kind .. " " .. prefix .. name
                    for _, key in ipairs(ok and server:call("KEYS", "*") or {}) do
                        local of_all = key:find "^redlock:{server}:" and not key:find "marker"
                        assert.equal(thing, of_all and thing or owner[key] or thing, key)
                        owner[key], kept = thing, kept + 1
                    end
                    if ok and finish then
                        finish()
                    end
                end
            end
        end
        assert.is_true(kept > 4 * #NAMES)
    end)
end)
