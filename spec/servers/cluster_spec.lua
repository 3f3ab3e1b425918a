-- Which servers belong together: a name, or the addresses in the configuration; and which ways to
-- replace a server lead to two holders.
local command = require "spec.support.command"
local quarantine = require "spec.support.quarantine"
local support = require "spec.support"

local options = quarantine.options

-- Until the key is there (1), or gone (0), on all servers: a majority decides an attempt, and
-- on the others the next one may be first.
local function await_everywhere(servers, key, there)
    support.eventually(function()
        for _, server in ipairs(servers) do
            if server:call("EXISTS", key) ~= there then
                return false
            end
        end
        return true
    end, 60)
end

-- As if a server had never heard of the lock that all of these have.
local function forget(server, name, servers)
    await_everywhere(servers, name, 1)
    server:call("DEL", name)
end

-- The wrong orders that examples/operations warns of. Without the guard nobody notices.
describe("two lists of servers in use at the same time", function()
    local cluster, a, b, c, d
    local UNGUARDED = { restart_guard = false, lease = 5 }

    before_each(function()
        cluster = support.cluster(4, { new = true })
        a, b, c, d = unpack(cluster)
    end)

    local function unguarded(...)
        return support.warm_client({ ... }, UNGUARDED)
    end

    -- Those with the list {A, B, C} have B, and do not reach C; those with {D, B, C} do.
    local function held_twice()
        local before = unguarded(a, b, c, d):getFencedLock "y"
        assert.is_true((before:tryLock(5)))
        await_everywhere(cluster, "y", 1)
        assert.is_true(before:unlock())
        await_everywhere(cluster, "y", 0)
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

    it("have two holders, and one fencing token twice, where the old server lives", function()
        held_twice()
    end)

    it("have them also when the old server is stopped after the new one is in use", function()
        local l, rival = held_twice()
        a:stop()
        assert.is_true(l:isValid() and rival:isValid())
        l:extend()                             -- does not know either, and cannot
        assert.is_true(l:isValid() and rival:isValid())
    end)

    it("have two holders where the number of servers changes twice", function()
        local before, between, after = unguarded(a, b, c), unguarded(a, b, c, d),
            unguarded(b, c, d)
        local l = before:getLock "x"
        assert.is_true(l:tryLock(0, 20))       -- a renewal would give it to C again
        forget(c, "x", { a, b, c })
        support.fails("no_quorum", between:getLock("x"):tryLock())      -- 2 of 4 have it
        await_everywhere({ c, d }, "x", 0)
        local rival = after:getLock "x"
        assert.is_true((rival:tryLock()))
        assert.is_true(l:isValid() and rival:isValid())
    end)
end)

describe("servers without a name", function()
    local cluster, labels

    before_each(function()
        cluster = support.cluster(4, { new = true })
        labels = {}
        for i, server in ipairs(cluster) do
            labels[i] = "127.0.0.1:" .. server.port
        end
        local client = support.client({ cluster[1], cluster[2], cluster[3] }, { cluster = false,
            timeout = 5, connect_timeout = 10 })
        assert.is_true(client:init())
        client:close()
    end)

    -- The canonical list of some of them.
    local function list(...)
        local some = {}
        for k, i in ipairs { ... } do
            some[k] = labels[i]
        end
        table.sort(some)
        return table.concat(some, " ")
    end

    local function unnamed(nodes, more)
        local o = { cluster = false }
        for name, value in pairs(more or {}) do
            o[name] = value
        end
        return support.warm_client(nodes, o)
    end

    local REMEDY = "the same servers under other addresses, set the same `cluster` everywhere"

    local function names_both(text, ours, theirs)
        text = tostring(text)
        assert.truthy(text:find(ours, 1, true), text)
        assert.truthy(text:find(theirs, 1, true), text)
        assert.truthy(text:find(REMEDY, 1, true), text)
    end

    it("are known by their addresses, in any order and however these are written", function()
        for _, nodes in ipairs {
            { cluster[3], cluster[1], cluster[2] },
            { "redis://[::ffff:127.0.0.1]:" .. cluster[1].port, cluster[2].uri,
                cluster[3].uri .. "/0" },
        } do
            local client = unnamed(nodes)
            assert.is_true((client:getLock("x"):tryLock(5)))
            assert.is_true(client:getLock("x"):unlock())
            client:close()
        end
    end)

    it("refuse a client with other addresses, and name both lists, in every call", function()
        local client = unnamed { cluster[4], cluster[2], cluster[3] }
        local ours, theirs = list(2, 3, 4), list(1, 2, 3)
        local l = client:getLock "x"
        local _, err = l:lock()
        names_both(err, ours, theirs)
        names_both(support.fails("config", l:tryLock()), ours, theirs)
        names_both(support.fails("config", client:getFencedLock("y"):tryLock(60)), ours, theirs)
        names_both(support.fails("config", client:once("n", 60, function() end)), ours, theirs)
        names_both(tostring(client:check()), ours, theirs)
        for i = 1, 4 do
            assert.equal(0, cluster[i]:keys())
        end
    end)

    it("refuse the command, at once", function()
        local nodes = { cluster[4].uri, cluster[2].uri, cluster[3].uri }
        local other = { uris = function() return nodes end }
        for _, words in ipairs { { "run", "x", "--", "true" }, { "check" }, { "init" },
            { "check", "--wait" } } do
            local p = command.start(other, support.tmpdir(), { env = { REDLOCK_CLUSTER = false } },
                unpack(words))
            local status, text = command.ends(p, 60)
            assert.are_not.equal(0, status)
            names_both(text, list(2, 3, 4), list(1, 2, 3))
        end
    end)

    it("refuse a client of more servers, or of fewer", function()
        for _, nodes in ipairs { cluster, { cluster[1], cluster[2] } } do
            local client = unnamed(nodes)
            assert.truthy(tostring(support.fails("config", client:getLock("x"):tryLock(1)))
                :find(REMEDY, 1, true))
            client:close()
        end
    end)

    it("end with that text where they are reached by other addresses", function()
        local proxies = support.proxies(cluster)
        local client = unnamed { proxies[1], proxies[2], proxies[3] }
        assert.truthy(tostring(support.fails("config", client:getLock("x"):lock()))
            :find(REMEDY, 1, true))
    end)

    it("keep what is held when the others come with another list", function()
        local l = unnamed({ cluster[1], cluster[2], cluster[3] }):getFencedLock "y"
        assert.is_true((l:tryLock(5)))
        local new = unnamed { cluster[4], cluster[2], cluster[3] }
        support.fails("config", new:getFencedLock("y"):tryLock(1))
        cluster[2]:call "FLUSHALL"
        for _ = 1, 5 do
            support.fails("config", new:getLock("x"):tryLock(0.1))
        end
        assert.is_nil(cluster[2]:marker())
        assert.is_true((l:stillMine()))
        assert.is_true((l:unlock()))
    end)

    it("become other ones by init { force }, and refuse clients of the old list", function()
        local new = unnamed { cluster[4], cluster[2], cluster[3] }
        support.fails("config", new:init())
        assert.is_true(new:init { force = true })
        assert.is_true((new:getLock("x"):tryLock(5)))
        local old = unnamed { cluster[1], cluster[2], cluster[3] }
        support.fails("config", old:getLock("x"):tryLock(1))
    end)

    it("refuse one of them alone, without the guard, too", function()
        names_both(support.fails("config", require("redlock").new { nodes = cluster[1].uri,
            restart_guard = false }:getLock("x"):tryLock(1)), list(1), list(1, 2, 3))
    end)
end)

describe("servers with a name", function()
    local cluster

    before_each(function()
        cluster = support.cluster(3, { new = true })
        local client = support.client(cluster, options { cluster = "orders" })
        assert.is_true(client:init())
        client:close()
    end)

    it("are the same under whatever addresses", function()
        local client = support.warm_client(support.proxies(cluster), options { cluster = "orders" })
        assert.is_true((client:getLock("x"):tryLock(5)))
    end)

    it("refuse clients of another name, or of none, and name both", function()
        local other = support.warm_client(cluster, options { cluster = "invoices" })
        local text = tostring(support.fails("config", other:getLock("x"):tryLock(5)))
        assert.matches("orders", text)
        assert.matches("invoices", text)
        local none = support.warm_client(cluster, options { cluster = false })
        text = tostring(support.fails("config", none:getLock("x"):tryLock(5)))
        assert.matches("orders", text)
        assert.matches("set the same `cluster` everywhere", text, 1, true)
    end)

    it("have a name that cannot be a hash; the error for another says what is needed", function()
        for _, name in ipairs { "", "a b", ("x"):rep(33), "0123456789abcdef", 7 } do
            assert.error_matches(function()
                require("redlock").new { nodes = cluster:uris(), cluster = name }
            end, "cluster")
        end
    end)
end)
