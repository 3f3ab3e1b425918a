-- A primitive of one's own: everything of a lock, with other scripts.
local support = require "spec.support"
local redlock = require "redlock"

-- Two names at once, all or nothing: the second name is derived from the first.
local pair = redlock.primitive {
    name = "pair",
    acquire = [[
        for i = 1, 2 do
            local value = redis.call('get', KEYS[i])
            if value == ARGV[1] then return 2 end
            if value then return {0, redis.call('pttl', KEYS[i])} end
        end
        redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
        redis.call('set', KEYS[2], ARGV[1], 'PX', ARGV[2])
        redis.call('set', KEYS[1] .. ':note', ARGV[3], 'PX', ARGV[2])
        return 1
    ]],
    release = [[
        local n = 0
        for i = 1, 2 do
            if redis.call('get', KEYS[i]) == ARGV[1] then n = n + redis.call('del', KEYS[i]) end
        end
        redis.call('del', KEYS[1] .. ':note')
        return n > 0 and 1 or 0
    ]],
    peek = "return redis.call('exists', KEYS[1], KEYS[2]) > 0 and {1, 1000, 'x'} or 0",
    keys = function(client, name)
        return { client.options.prefix .. name .. "/a", client.options.prefix .. name .. "/b" }
    end,
    args = function(lock) return { "for " .. lock:getName() } end,
    methods = {
        both = function(self) return self:getName() .. " twice" end,
    },
}

describe("a primitive", function()
    local cluster = support.shared_cluster(3)
    local client

    setup(function() client = support.warm_client(cluster, { prefix = "p:" }) end)

    it("is not called free by servers that say what cannot be", function()
        local odd = redlock.primitive { name = "odd", acquire = "return 1", release = "return 1",
            peek = "return -3" }
        local l = client:get(odd, "x")
        for _, call in ipairs { "isLocked", "remainTimeToLive" } do
            local ok, err = l[call](l)
            assert.is_nil(ok)
            assert.equal("no_quorum", err.code)
        end
    end)

    it("is a lock with other scripts, keys, arguments and methods", function()
        local l = client:get(pair, "x")
        assert.equal("x twice", l:both())
        assert.is_true(l:tryLock(0, 60))
        support.eventually(function() return cluster:keys() == 9 end)
        assert.equal("for x", cluster[1]:call("GET", "p:x/a:note"))
        assert.matches("^pair%(x, held, 5%d%.%d s%)$", tostring(l))
        assert.is_true(l:isLocked())
        assert.equal(1, l:remainTimeToLive())
        local ok, err = client:get(pair, "x", { owner = 2 }):tryLock()
        assert.is_nil(ok)
        assert.equal("held", err.code)
        assert.matches("pair 'x'", err.message)
        for _, call in ipairs { "extend", "forceUnlock" } do
            ok, err = l[call](l)
            assert.is_nil(ok)
            assert.equal("unsupported", err.code)
        end
        assert.is_true(l:isValid())
        assert.is_true(l:unlock())
        cluster:await_free()
    end)

    it("does not meet a lock of another kind in its owner's hands", function()
        local l, p = client:getLock "x", client:get(pair, "x")
        assert.is_true(l:tryLock())
        assert.is_true(p:tryLock())
        assert.is_true(l:unlock())
        assert.is_true(p:isValid())
        assert.is_true(p:unlock())
    end)

    it("that fails half-way is released, and says so", function()
        local broken = redlock.primitive {
            name = "broken",
            acquire = [[
                redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
                redis.call('incr', KEYS[1])
                return 1
            ]],
            release = "return redis.call('del', KEYS[1])",
        }
        local err = support.fails("no_quorum", client:get(broken, "x"):tryLock())
        assert.matches("script %(.*not an integer", err.message)
        cluster:await_free()
    end)

    it("that returns no vote gets none", function()
        for _, reply in ipairs { "'yes'", "nil", "{}", "{'a', 'b'}", "{{'x'}}", "7",
            "{ok = 'x'}" } do
            local odd = redlock.primitive { name = "odd", acquire = "return " .. reply,
                release = "return 0" }
            local err = support.fails("no_quorum", client:get(odd, "x"):tryLock())
            assert.matches("protocol %(a script's reply has no vote, or ", err.message)
        end
    end)

    it("is checked when it is defined", function()
        local one = "return 1"
        local function with(field, value)
            return { name = "n", acquire = one, release = one, [field] = value }
        end
        for pattern, def in pairs {
            ["primitive.acquire: it does not compile: script:2:"] = { name = "n",
                acquire = "#!lua name=x\nreturn return" },
            ["primitive.acquire: it does not compile: goto is not Lua 5.1"] = with("acquire",
                "goto x"),
            ["primitive.peek: it does not compile: \\x is not"] = with("peek", "return '\\x41'"),
            ["primitive.force: .* 5LL is not"] = with("force", "return 5LL"),
            ["primitive.acquire: .*a script is not installed"] = { name = "n",
                acquire = { "redlock.scripts.nowhere" } },
            ["primitive.acquire: names of files"] = { name = "n", acquire = {} },
            ["primitive.vote: \"yes\", \"same\" or"] = with("vote", "most"),
            ["primitive.confirm: needed with"] = with("vote", "largest"),
            ["primitive.confirm: .*of no use"] = with("confirm", one),
            ["primitive.asks: names are needed"] = with("asks", { acquire = { one } }),
            ["primitive.asks.a: unknown option 'guard'"] = with("asks",
                { a = { one, guard = true } }),
            ["primitive.asks.a: a string"] = with("asks", { a = {} }),
            ["primitive.shared: true or false"] = with("shared", 1),
            ["primitive.gave_up: a function"] = with("gave_up", 1),
            ["bad primitive: a table"] = 1,
            ["bad primitive.name"] = { acquire = "x", release = "x" },
            ["bad primitive.acquire"] = { name = "n", release = "x" },
            ["bad primitive.release"] = { name = "n", acquire = one },
            ["bad primitive.peek"] = { name = "n", acquire = one, release = one, peek = 1 },
            ["bad primitive.keys"] = { name = "n", acquire = one, release = one, keys = 1 },
            ["bad primitive.methods.m"] = { name = "n", acquire = one, release = one,
                methods = { m = 1 } },
            ["unknown option 'aquire'"] = { name = "n", aquire = "x" },
            ["primitive.name: 'lock' is"] = { name = "lock", acquire = one, release = one },
            ["primitive.name: 'fenced lock'"] = { name = "fenced lock", acquire = one,
                release = one },
            ["bad primitive.name: a string"] = {},
        } do
            assert.error_matches(function() redlock.primitive(def) end, pattern)
        end
        assert.error_matches(function() client:get({}, "x") end, "bad primitive")
    end)

    it("has none of the fields of the library's own", function()
        for _, field in ipairs { "current", "floor", "seed", "unseeded", "knows_run", "rivals",
            "waits" } do
            local def = { name = "n", acquire = "return 1", release = "return 1" }
            def[field] = "return 1"
            assert.error_matches(function() redlock.primitive(def) end,
                "unknown option '" .. field .. "'; known are: acquire, args, asks, channel, "
                .. "confirm, extend, force, gave_up, granted, heal, import, keys, line, "
                .. "methods, name, peek, reenter, refused, release, settle, shared, vote$")
        end
    end)

    it("has no votes of servers that may have forgotten", function()
        local new = support.cluster(3, { new = true })
        local c = support.warm_client(new, { restart_guard = true })
        local one = redlock.primitive { name = "one", acquire = "return 1", release = "return 1" }
        local err = support.fails("no_quorum", c:get(one, "x"):tryLock(0, 5))
        assert.matches("guarded", err.message)
        c:close()
        new:stop()
    end)

    it("that answers as the guard does, with the marker it was sent, is asked once more", function()
        local guarded = support.cluster(3, { new = true }):admit()
        local c = support.warm_client(guarded)
        local odd = "return {3, redis.call('get', 'redlock:{server}:marker')}"
        local l = c:get(redlock.primitive { name = "odd", acquire = odd, release = "return 0",
            asks = { odd = { odd, guarded = true } } }, "x")
        local before = c:stats().nodes[1].requests
        for _, call in ipairs { "tryLock", "ask" } do
            local err = support.fails("no_quorum", l[call](l, call == "ask" and "odd" or 0))
            assert.matches("protocol %(a script's reply has no vote, or ", err.message)
        end
        assert.is_true(c:stats().nodes[1].requests - before < 20)
        c:close()
        guarded:stop()
    end)

    it("is what examples/kinds shows: taken, known when it is asked again, released", function()
        local text = io.open("examples/kinds/README.md"):read "*a":match "\n(local slot = .-\n}\n)"
        local slot = loadstring("local redlock = ...\n" .. text .. "return slot")(redlock)
        local l = client:get(slot, "a")
        assert.is_true(l:tryLock(1, 10))
        support.eventually(function() return cluster:keys() == 3 end)
        assert.is_nil((client:get(slot, "a", { owner = 2 }):tryLock(0, 10)))
        local value = cluster[1]:call("GET", "p:a")
        assert.equal(2, cluster[1]:call("EVAL", text:match "acquire = %[%[(.-)%]%]", 1, "p:a",
            value, 10000))
        assert.is_true(l:unlock())
        cluster:await_free()
    end)

    it("has a bound on how many scripts there are", function()
        local ok, err
        for i = 1, 260 do
            local p = redlock.primitive { name = "p" .. i, acquire = "return 1 --" .. i,
                release = "return 1" }
            ok, err = pcall(function() assert.is_true(client:get(p, "x"):tryLock()) end)
            if not ok then
                break
            end
        end
        assert.is_false(ok)
        assert.matches("room for 256 different scripts", err)
        for _, call in ipairs { "locks", "check", "holder", "init" } do
            ok, err = pcall(client[call], client, call == "holder" and "x" or nil)
            assert.is_true(ok or err:find "room for 256" ~= nil, err)
        end
    end)
end)
