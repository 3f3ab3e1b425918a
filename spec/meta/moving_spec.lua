-- What the pages "from ..." say of locks that do, and do not, exclude each other while one moves.
local redlock = require "redlock"
local support = require "spec.support"

describe("beside Redisson", function()
    local server, uris

    setup(function()
        server = support.server()
        uris = { server.uri }
    end)
    before_each(function() server:call("FLUSHALL") end)

    -- As its RLock stores a hold.
    local function hold_as_redisson()
        server:call("HSET", "invoice:42", "8743c9c0-0795-4907-87fd-6c719a6b4586:1", 1)
        server:call("PEXPIRE", "invoice:42", 20000)
    end

    it("the same name on one server is refused in both directions", function()
        local client = redlock.new { nodes = uris, timeout = 2 }
        hold_as_redisson()
        local ok, err = client:getLock("invoice:42"):tryLock(0)
        assert.is_nil(ok)
        assert.equal("held", err.code)
        server:call("DEL", "invoice:42")
        local lock = client:getLock "invoice:42"
        assert(lock:tryLock(5))
        local _, why = server:call("HEXISTS", "invoice:42", "x")     -- its first command
        assert.matches("^WRONGTYPE", why)
        assert(lock:unlock())
        client:close()
    end)

    it("a prefix excludes nothing", function()
        hold_as_redisson()
        local client = redlock.new { nodes = uris, timeout = 2, prefix = "lua:" }
        assert(client:getLock("invoice:42"):tryLock(5))
        client:close()
    end)
end)
