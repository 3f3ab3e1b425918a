-- redlock.resource: resources in Redis that refuse late writers.
local support = require "spec.support"
local resource = require "redlock.resource"

local LAST = 99999999999999          -- 10^14 - 1, the largest token there is

local function sender(server)
    return function(...)
        return server:call(...)
    end
end

local function list(...)
    return { n = select("#", ...), ... }
end

describe("a resource", function()
    local server, stock

    setup(function()
        server = support.server()
    end)

    before_each(function()
        assert(server:call "FLUSHALL")
        stock = resource.new("stock", sender(server))
    end)

    local function mark()
        return server:call("GET", "redlock:{stock}:mark")
    end

    local function refused(highest, ...)
        assert.same({ n = 3, nil, "stale", highest }, list(...))
    end

    it("is reachable as redlock.resource", function()
        assert.equal(resource, require("redlock").resource)
    end)

    it("is readable", function()
        assert.equal("resource(stock)", tostring(stock))
        assert.equal("resource(stock)", tostring(resource.owned "stock"))
    end)

    it("accepts the first token, any larger one, and one holder's again", function()
        assert.is_true(stock:set(5, "a"))
        assert.is_true(stock:set(5, "b"))
        assert.is_true(stock:set(9, "c"))
        assert.equal("c", server:call("GET", "stock"))
        assert.equal("9", mark())
    end)

    it("refuses every kind of work under a smaller token, and touches nothing", function()
        assert.is_true(stock:set(7, "new"))
        refused(7, stock:set(6, "old"))
        refused(7, stock:set(6, "old", 10))
        refused(7, stock:append(1, "old"))
        refused(7, stock:delete(6))
        refused(7, stock:get(6))
        refused(7, stock:fence_in(6))
        refused(7, stock:call(6, "RPUSH", "other", "old"))
        refused(7, stock:eval(6, "return {1, redis.call('del', KEYS[2])}", "stock"))
        assert.equal("new", server:call("GET", "stock"))
        assert.equal(-1, server:call("PTTL", "stock"))
        assert.equal(0, server:call("EXISTS", "other"))
        assert.equal("7", mark())
    end)

    it("returns what the command returned", function()
        assert.same({ n = 2, true, nil }, list(stock:get(1)))
        assert.same({ n = 2, true, 3 }, list(stock:append(1, "abc")))
        assert.same({ n = 2, true, 5 }, list(stock:append(1, "de")))
        assert.same({ n = 2, true, "abcde" }, list(stock:get(1)))
        assert.same({ n = 2, true, 1 }, list(stock:delete(1)))
        assert.same({ n = 2, true, 0 }, list(stock:delete(1)))
        assert.same({ n = 2, true, 2 }, list(stock:call(1, "HSET", "h", "a", 1, "b", 2)))
        assert.same({ n = 2, true, { "1", "2" } }, list(stock:call(1, "HMGET", "h", "a", "b")))
        assert.same({ n = 2, true, "OK" }, list(stock:call(1, "RENAME", { "h", "i" })))
        assert.equal("2", server:call("HGET", "i", "b"))
    end)

    it("keeps any bytes, and numbers as they are", function()
        local bytes = {}
        for i = 0, 255 do
            bytes[i + 1] = string.char(i)
        end
        bytes = table.concat(bytes)
        assert.is_true(stock:set(1, bytes))
        assert.equal(bytes, select(2, stock:get(1)))
        assert.is_true(stock:set(1, ""))
        assert.equal("", select(2, stock:get(1)))
        assert.is_true(stock:set(1, 123456789012345))
        assert.equal("123456789012345", select(2, stock:get(1)))
        assert.is_true(stock:set(1, 0.1))
        assert.equal(0.1, tonumber((select(2, stock:get(1)))))
        local big = ("x"):rep(1024 * 1024)
        assert.is_true(stock:set(1, big))
        assert.equal(big, select(2, stock:get(1)))
    end)

    it("refuses older holders once a newer one has read or fenced in", function()
        assert.is_true(stock:set(1, "100"))
        local _, seen = stock:get(2)
        refused(2, stock:set(1, "110"))
        assert.equal("100", seen)
        assert.is_true(stock:set(2, seen + 5))
        assert.is_true(stock:fence_in(3))
        refused(3, stock:append(2, "0"))
        assert.equal("105", server:call("GET", "stock"))
    end)

    it("keeps the mark when the data is deleted, overwritten or has expired", function()
        assert.is_true(stock:set(8, "x"))
        assert.same({ true, 1 }, { stock:delete(8) })
        refused(8, stock:set(7, "back"))
        assert.is_true(stock:set(8, "y"))
        assert(server:call("SET", "stock", "by somebody who knows of no marks"))
        assert(server:call("DEL", "stock"))
        refused(8, stock:set(7, "back"))
        assert.is_true(stock:set(9, "short", 0.02))
        assert.equal(-1, server:call("PTTL", "redlock:{stock}:mark"))
        support.eventually(function()
            return server:call("EXISTS", "stock") == 0
        end)
        refused(9, stock:append(8, "back"))
        assert.equal(0, server:call("EXISTS", "stock"))
    end)

    it("ends the data after its ttl, and set() without one takes it back", function()
        local sent
        assert.is_true(resource.new("stock", function(...)
            sent = { ... }
            return server:call(...)
        end):set(1, "x", 60.0004))
        assert.same({ "PX", "60001" }, { sent[#sent - 1], sent[#sent] })
        local ttl = server:call("PTTL", "stock")
        assert.is_true(ttl > 0 and ttl <= 60001, tostring(ttl))
        assert.is_true(stock:set(1, "x"))
        assert.equal(-1, server:call("PTTL", "stock"))
    end)

    it("forgets an unused mark after `keep`, and every use renews it", function()
        local kept = resource.new("stock", sender(server), { keep = 600 })
        assert.is_true(kept:set(4, "x"))
        assert(server:call("PEXPIRE", "redlock:{stock}:mark", 5000))
        refused(4, kept:set(3, "y"))
        assert.is_true(server:call("PTTL", "redlock:{stock}:mark") <= 5000)
        assert.is_true(kept:fence_in(4))
        assert.is_true(server:call("PTTL", "redlock:{stock}:mark") > 500000)
        assert.is_true(kept:get(5))
        assert.is_true(server:call("PTTL", "redlock:{stock}:mark") > 500000)
        -- Whoever keeps marks for ever does so for all.
        assert.is_true(stock:set(6, "z"))
        assert.equal(-1, server:call("PTTL", "redlock:{stock}:mark"))
    end)

    it("tells the largest tokens apart", function()
        assert.is_true(stock:set(LAST - 1, "a"))
        assert.is_true(stock:set(LAST, "b"))
        assert.equal("99999999999999", mark())
        refused(LAST, stock:set(LAST - 1, "c"))
        assert.is_true(stock:set("99999999999999", "d"))
        assert.equal("d", server:call("GET", "stock"))
        refused(LAST, stock:set(1, "e"))
    end)

    it("compares numbers, not texts", function()
        assert.is_true(stock:set("9", "a"))
        assert.is_true(stock:set("10", "b"))
        refused(10, stock:set("9", "c"))
        assert.is_true(stock:set("0011", "d"))
        assert.equal("11", mark())
    end)

    it("names a bad argument, at the caller's line", function()
        local tokens = { 0, -1, 1.5, 1e14, 2 ^ 53, 0 / 0, 1 / 0, "", "0", "-1", "12a", "1e3",
            "0x10", " 1", "100000000000000", true, {} }
        for _, token in ipairs(tokens) do
            local ok, err = pcall(stock.set, stock, token, "x")
            assert.is_false(ok, tostring(token))
            assert.matches("bad token", err)
        end
        local _, err = pcall(stock.set, stock, nil, "x")
        assert.matches("the hold is over", err)
        _, err = pcall(function() stock:set(1, nil) end)
        assert.matches("^[^:]*resource_spec.lua:%d+: redlock: bad argument", err)
        assert.has_error(function() stock:set(1, {}) end)
        assert.has_error(function() stock:set(1, "x", 0) end)
        assert.has_error(function() stock:set(1, "x", -1) end)
        assert.has_error(function() stock:set(1, "x", 0 / 0) end)
        assert.has_error(function() stock:call(1, "GET", {{}}) end)
        assert.has_error(function() resource.new "" end)
        assert.has_error(function() resource.new(7) end)
        assert.has_error(function() resource.new("x", "y") end)
        assert.has_error(function() resource.new("x", print, { kept = 1 }) end)
        assert.has_error(function() resource.new("x", print, { keep = 0 }) end)
        _, err = pcall(function() resource.new "x":set(1, "y") end)
        assert.matches("without a function that sends", err)
        assert.equal(0, server:call "DBSIZE")
    end)

    it("reports a command that fails; the mark is raised, the data as it was", function()
        assert(server:call("RPUSH", "stock", "a"))
        local ok, err = stock:append(3, "b")
        assert.is_nil(ok)
        assert.matches("^WRONGTYPE", err)
        assert.same({ "a" }, server:call("LRANGE", "stock", 0, -1))
        assert.equal("3", mark())
        ok, err = stock:call(3, "NOSUCH", "stock")
        assert.is_nil(ok)
        assert.matches("nknown", err)
    end)

    it("refuses everybody at a mark that is none, and says so", function()
        for _, bad in ipairs { "", "abc", "-5", "1e3", "1.5", "100000000000000" } do
            assert(server:call("SET", "redlock:{stock}:mark", bad))
            local ok, err = stock:set(LAST, "x")
            assert.is_nil(ok)
            assert.matches("not a token: redlock:{stock}:mark", err, 1, true)
        end
        assert(server:call("DEL", "redlock:{stock}:mark"))
        assert(server:call("RPUSH", "redlock:{stock}:mark", "5"))
        local ok, err = stock:set(LAST, "x")
        assert.is_nil(ok)
        assert.matches("WRONGTYPE", err)
        assert.equal(0, server:call("EXISTS", "stock"))
    end)

    it("checks tokens on the server as well, for those who use the script alone", function()
        local words = stock:words(1, "SET", "stock", "x")
        for _, bad in ipairs { "", "0", "-1", "1.5", "1e3", "nan", "0x10", "1 ",
            "100000000000000", "99999999999999999999" } do
            words[6] = bad
            local reply, err = server:call(unpack(words))
            assert.is_nil(reply)
            assert.matches("^ERR the token", err)
        end
        assert.equal(0, server:call "DBSIZE")
    end)

    it("gives its words to clients of any kind", function()
        local words = stock:words(17, "SET", "stock", "x", "PX", 1000)
        for _, word in ipairs(words) do
            assert.equal("string", type(word))
        end
        assert.same({ "EVAL", resource.scripts.token, "2", "redlock:{stock}:mark", "stock", "17",
            "0", "SET", "x", "PX", "1000" }, words)
        assert.same({ "EVAL", resource.scripts.token, "1", "redlock:{stock}:mark", "17", "0" },
            stock:words(17))
        local p = support.spawn { "redis-cli", "-p", server.port, stdout = "pipe",
            unpack(stock:words(17, "SET", "stock", "x")) }
        assert.equal("1\nOK\n", p:read_all())
        p = support.spawn { "redis-cli", "-p", server.port, stdout = "pipe",
            unpack(stock:words(16, "SET", "stock", "y")) }
        assert.equal("0\n17\n", p:read_all())
    end)

    it("works by EVALSHA, and a server that lost the script is an error", function()
        local sha = server:call("SCRIPT", "LOAD", resource.scripts.token)
        local words = stock:words(2, "SET", "stock", "x")
        words[1], words[2] = "EVALSHA", sha
        assert.is_true(resource.read(server:call(unpack(words))))
        assert(server:call("SCRIPT", "FLUSH"))
        local ok, err = resource.read(server:call(unpack(words)))
        assert.is_nil(ok)
        assert.matches("^NOSCRIPT", err)
        assert.is_true(stock:set(2, "y"))        -- sends the whole script
        refused(2, stock:set(1, "z"))
    end)

    it("works in a transaction", function()
        local conn = support.connect(server.port)
        conn:call "MULTI"
        assert.is_nil(resource.read(conn:call(unpack(stock:words(2, "SET", "stock", "x")))))
        conn:call(unpack(stock:words(1, "SET", "stock", "y")))
        local replies = conn:call "EXEC"
        assert.is_true(resource.read(replies[1]))
        refused(2, resource.read(replies[2]))
        conn:close()
    end)

    it("reads the null of other clients", function()
        local null = newproxy()
        assert.same({ n = 2, true, nil }, list(resource.read { 1, null }))
        assert.same({ n = 2, true, false }, list(resource.read { 1, false }))
        assert.same({ nil, "closed" }, { resource.read(nil, "closed") })
        assert.same({ nil, "ERR x" }, { resource.read(false, "ERR x") })
        assert.same({ nil, "no reply" }, { resource.read "QUEUED" })
        assert.is_nil((resource.read {}))
    end)

    it("runs a script of your own in one step", function()
        local bank = resource.new("bank", sender(server))
        assert.is_true(bank:eval(4, [[
            redis.call('decrby', KEYS[2], ARGV[3])
            redis.call('incrby', KEYS[3], ARGV[3])
            return {1, token}
        ]], { "from", "to" }, { 30 }))
        assert.same({ "-30", "30" }, server:call("MGET", "from", "to"))
        refused(4, bank:eval(3, "redis.call('del', KEYS[2]) return {1}", "from"))
        assert.equal("-30", server:call("GET", "from"))
        -- All keys of the resource are behind its one mark.
        refused(4, bank:call(3, "INCR", "to"))
    end)

    it("keeps marks of different resources apart", function()
        local names = { "a", "b", "{a}", "{a}b", "b{a}", "{a", "a}", "{}a", "{}{a}", "a:mark" }
        for i, name in ipairs(names) do
            assert.is_true(resource.new(name, sender(server)):fence_in(i))
        end
        assert.equal(#names, server:call "DBSIZE")
        for i, name in ipairs(names) do
            local g = resource.new(name, sender(server))
            assert.is_true(g:fence_in(i))
            if i > 1 then
                refused(i, g:fence_in(i - 1))
            end
        end
    end)

    it("needs no memory when the mark is there already", function()
        assert.is_true(stock:set(3, "x"))
        assert(server:call("CONFIG", "SET", "maxmemory", 1))
        local ok, err = stock:set(4, "y")
        assert.is_true(stock:delete(3))
        assert(server:call("CONFIG", "SET", "maxmemory", 0))
        assert.is_nil(ok)
        assert.matches("%f[%u]OOM ", err)       -- wrapped by Redis before 7.0
        assert.equal(0, server:call("EXISTS", "stock"))
        assert.equal("3", mark())
    end)

    it("is an error when the server is gone", function()
        local other = support.server()
        local g = resource.new("x", sender(other))
        assert.is_true(g:set(1, "a"))
        other:kill()
        local ok, err = g:set(1, "b")
        assert.is_nil(ok)
        assert.matches("connection", err)
    end)
end)

describe("a resource's mark", function()
    it("survives a restart with the data", function()
        local server = support.server { args = { "--appendonly", "yes", "--appendfsync",
            "always" } }
        local g = resource.new("x", sender(server))
        assert.is_true(g:set(LAST, "a"))
        server:restart()
        support.eventually(function()
            return server:call "PING"              -- it may be loading still
        end, 10)
        assert.same({ nil, "stale", LAST }, { g:set(LAST - 1, "b") })
        assert.is_true(g:append(LAST, "c"))
        assert.equal("ac", server:call("GET", "x"))
    end)

    it("is in the data's slot of a cluster, whatever the name", function()
        local server = support.server { new = true, args = { "--cluster-enabled", "yes" } }
        for first = 0, 16383, 1024 do
            local words = { "CLUSTER", "ADDSLOTS" }
            for slot = first, first + 1023 do
                words[#words + 1] = slot
            end
            assert(server:call(unpack(words)))
        end
        support.eventually(function()
            return server:call("CLUSTER", "INFO"):find "cluster_state:ok"
        end, 10)
        for _, name in ipairs { "a", "stock:7", "{user1}:doc", "a{user1}", "a{b}{c}", "a{{b}}",
            "{", "a{b", "a{{b", "{a}", "a b\n" } do
            local g, o = resource.new(name, sender(server)), resource.owned(name, sender(server))
            assert.is_true(g:set(2, "v"), name)
            assert.same({ true, "v" }, { g:get(2) })
            assert.same({ nil, "stale", 2 }, { g:set(1, "w") })
            assert.is_true(o:set(o:claim(), "x"), name)
            for _, key in ipairs { g:words(1)[4], o:words("v")[4] } do
                assert.equal(server:call("CLUSTER", "KEYSLOT", name),
                    server:call("CLUSTER", "KEYSLOT", key))
            end
        end
        -- No other key can be in the slot of such a name; nor is a resource of two slots.
        for _, name in ipairs { "{}", "a}", "{}{a}" } do
            local ok, err = resource.new(name, sender(server)):set(1, "v")
            assert.is_nil(ok)
            assert.matches("CROSSSLOT", err)
        end
        local account = resource.new("{acct}", sender(server))
        assert.is_true(account:call(1, "SUNIONSTORE", { "{acct}:a", "{acct}:b" }))
        assert.is_nil((account:call(1, "SUNIONSTORE", { "{acct}:a", "b" })))
    end)
end)
