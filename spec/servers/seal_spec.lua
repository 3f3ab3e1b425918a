-- Servers that are sealed before they are restarted vote again at once, and only then. Quarantines
-- last for a minute here: what votes sooner was not through one.
local cli = require "spec.support.command"
local support = require "spec.support"

local AOF, RDB = { "--appendonly", "yes" }, { "--save", "3600", "1" }

describe("a sealed server", function()
    local cluster, client, guarded
    after_each(support.cleanup)

    local function start(args)
        cluster = support.cluster(3, { args = args })
        guarded = {}
        client = support.warm_client(cluster, { on_event = function(e)
            guarded[#guarded + 1] = e.type == "node_guarded" and e.node or nil
        end })
    end

    local function row(i)
        return assert(client:check())[i]
    end

    local function is(i, state)
        local found = row(i)
        return found.ready and found.guard == state
    end

    local function await(i, state)
        support.eventually(function() return is(i, state) end, 30, state)
    end

    local function taken()
        local l = client:getFencedLock "x"
        local ok, token = l:tryLock(5)
        assert.is_true(ok, tostring(token))
        assert.is_true(l:unlock())
        return token
    end

    it("gives no votes, neither for a lock nor for an extension, and releases", function()
        start(AOF)
        local l = client:getLock "mine"
        assert.is_true(l:tryLock())
        assert.is_true(client:seal(1))
        cluster[2]:call("SET", "x", "theirs", "PX", 60000)
        local err = support.fails("held", client:getLock("x"):tryLock())
        assert.equal("guarded", err.nodes[1].code)
        assert.equal("sealed for a restart: it votes again after that", err.nodes[1].message)
        assert.equal("sealed", row(1).guard)
        cluster[1]:call("PEXPIRE", "mine", 20000)
        assert.is_true((l:extend()))           -- by the second and the third
        support.eventually(function() return cluster[1]:call("PTTL", "mine") > 20000 end)
        cluster[2]:call("DEL", "mine")
        err = support.fails("no_quorum", l:extend())
        assert.equal("guarded", err.nodes[1].code)
        assert.is_true(l:unlock())
        support.eventually(function() return cluster[1]:call("EXISTS", "mine") == 0 end)
    end)

    it("whose floors were deleted before it was sealed has forgotten them all the same", function()
        start(AOF)
        taken()
        cluster[1]:call("DEL", "redlock:{server}:floor", "redlock:{x}:fence")
        local memory = cluster[1]:marker():sub(1, 16)
        assert.is_true(client:seal(cluster[1].uri))
        cluster[1]:stop():start()
        support.eventually(function()
            taken()
            return is(1, "guarded") and cluster[1]:marker():sub(1, 16) ~= memory
        end, 30, "a quarantine")
    end)

    for how, args in pairs { ["an append-only file"] = AOF, ["a dump"] = RDB } do
        it("votes at once when it comes back with " .. how, function()
            start(args)
            local others = {}
            for i = 1, 4 do                    -- all of whom see to it at the same time
                others[i] = support.warm_client(cluster)
            end
            local held = client:getFencedLock "held"
            local _, token = assert(held:tryLock(5))
            local before = taken()
            assert.is_true(client:seal(cluster[1].uri))
            local memory = cluster[1]:marker():sub(1, 16)
            cluster[1]:stop():start()
            support.eventually(function()
                for _, other in ipairs(others) do
                    other:getLock("x"):isLocked()
                end
                return is(1, "admitted")
            end, 30)
            assert.same({}, guarded)
            assert.equal(memory, cluster[1]:marker():sub(1, 16))
            cluster[2]:kill()                  -- its vote counts
            assert.is_true(taken() > before)
            assert.equal(token, held:token())
            assert.is_true(held:isValid())
        end)
    end

    it("is guarded when it comes back without its data", function()
        start()
        taken()
        assert.is_true(client:seal(1))
        cluster[1]:stop():start()
        await(1, "guarded")
    end)

    it("is guarded when it comes back with the same seal again", function()
        start(RDB)
        taken()
        assert.is_true(client:seal(1))
        cluster[1]:stop()
        local dump = cluster[1].dir .. "/dump.rdb"
        assert.is_true(support.sh(("cp %s %s.sealed"):format(dump, dump)))
        cluster[1]:start()
        await(1, "admitted")
        taken()
        cluster[1]:kill()
        assert.is_true(support.sh(("cp %s.sealed %s"):format(dump, dump)))
        cluster[1]:start()
        await(1, "guarded")
        assert.equal("p", cluster[1]:marker():sub(21, 21))
    end)

    it("is guarded when the seal is older than max_lease and a second", function()
        start(AOF)
        taken()
        assert.is_true(client:seal(1))
        for i = 2, 3 do
            local seals = cluster[i]:call("HGETALL", "redlock:{server}:seals")
            local nonce, at = seals[2]:match "^(%x+)@(%d+)$"
            cluster[i]:call("HSET", "redlock:{server}:seals", seals[1], nonce .. "@" .. at - 63)
        end
        cluster[1]:stop():start()
        await(1, "guarded")
    end)

    it("is guarded when too few others know of its seal any more", function()
        start(AOF)
        taken()
        assert.is_true(client:seal(1))
        cluster[2]:call("DEL", "redlock:{server}:seals")
        cluster[1]:stop():start()
        await(1, "guarded")
    end)

    it("is opened by a user who may, and left to that one by others", function()
        local args = { "--appendonly", "yes", "--user", "app", "on", ">pw", "resetkeys", "+@all" }
        for _, key in ipairs { "marker", "members", "floor" } do
            args[#args + 1] = "~redlock:{server}:" .. key
        end
        args[#args + 1] = "~app:*"
        start(args)
        local tenant = support.warm_client(cluster, { user = "app", password = "pw",
            prefix = "app:" })
        local ok, err = tenant:seal(1)
        assert.is_nil(ok)
        assert.matches("the user may write redlock:{server}:seals", tostring(err), 1, true)
        assert.is_true(tenant:getLock("x"):tryLock())
        assert.is_true(client:seal(1))
        cluster[1]:stop():start()
        local function seen()
            local found = tenant:check()[1]
            return found.ready and found.guard
        end
        support.eventually(function() return seen() == "sealed" end, 30)
        await(1, "admitted")
        support.eventually(function() return seen() == "admitted" end, 30)
        assert.same({}, guarded)
    end)

    it("waits for others that are down, for a while", function()
        start(AOF)
        taken()
        assert.is_true(client:seal(1))
        cluster[2]:kill()
        cluster[1]:stop():start()
        await(1, "sealed")
        cluster[2]:start()                     -- with its data, but not admitted
        await(1, "guarded")
    end)

    it("is none where too few others vote, and there is nobody else to open it", function()
        start(AOF)
        cluster[2]:kill()
        local function refused(pattern, ...)
            local ok, err = client:seal(...)
            assert.is_nil(ok)
            assert.equal("config", err.code)
            assert.matches(pattern, tostring(err))
        end
        refused("1 of the other servers noted it, and 2 must", 1)
        assert.equal("a", cluster[1]:marker():sub(21, 21))
        refused("does not vote now", 2)
        refused("none of the servers", "redis://127.0.0.1:1")
        client = support.client({ cluster[1], cluster[3] })
        refused("three servers or more", 1)
        client = support.client(cluster, { restart_guard = "ignore" })
        refused("the restart guard", 1)
    end)

    -- What examples/operations says of upgrades.
    it("lets three be restarted one after the other, none of them guarded", function()
        start(AOF)
        local home = support.tmpdir()
        local function redlock(...)
            local status, text = cli.ends(cli.start(cluster, home, {}, ...))
            assert.equal(0, status, text)
            return text
        end
        local held = client:getLock "held"
        assert.is_true(held:lock())
        local last = taken()
        for i = 1, 3 do
            assert.equal("sealed: restart it now\n",
                redlock("seal", "127.0.0.1:" .. cluster[i].port))
            assert.is_true(taken() > last)
            cluster[i]:stop():start()
            redlock("check", "--wait", "--timeout", "3")
            last = taken()
        end
        assert.same({}, guarded)
        assert.is_true(held:isValid())
        local status, text = cli.ends(cli.start(cluster, home, {}, "seal", "127.0.0.1:1"))
        assert.equal(125, status)
        assert.matches("none of the servers", text)
    end)
end)
