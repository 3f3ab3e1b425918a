-- The list of servers changes: which steps are safe, and what the others lead to.
local lists = require "spec.support.list"
local quarantine = require "spec.support.quarantine"
local support = require "spec.support"

local MAX_LEASE, options = quarantine.MAX_LEASE, quarantine.options

-- Until the client sees that the server votes.
local function await_admitted(client, server, within)
    support.eventually(function()
        client:getLock("turn"):tryLock(0)
        client:getLock("turn"):unlock()
        local marked = server:marked()
        return marked ~= nil and marked.state == "a"
    end, within or 20, "the admission of a server")
end

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
    end, 20)
end

-- As if a server had never heard of the lock that all of these have.
local function forget(server, name, servers)
    await_everywhere(servers, name, 1)
    server:call("DEL", name)
end

-- What examples/operations and ATTACKS.md warn of: nobody looks whose list a server is in. So it is
-- without the restart guard, too.
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
        forget(c, "x", { a, b, c })
        support.fails("held", four:getLock("x"):tryLock())         -- 2 of 4 are no majority
        assert.is_true(l:isValid())
        assert.is_true(l:unlock())
        await_everywhere({ a, b, c }, "x", 0)
        assert.is_true(four:getLock("x"):tryLock(5))
        forget(d, "x", cluster)                -- 3 of 4, all of them in the list of three
        support.fails("held", three:getLock("x"):tryLock())
    end)

    -- {A, B, C} -> {A, B, C, D} -> {B, C, D}, the second before all have made the first.
    it("have two holders when they are two changes apart", function()
        local before, between, after = unguarded(a, b, c), unguarded(a, b, c, d),
            unguarded(b, c, d)
        local l = before:getLock "x"
        assert.is_true(l:tryLock())
        forget(c, "x", { a, b, c })
        support.fails("held", between:getLock("x"):tryLock())
        await_everywhere({ c, d }, "x", 0)
        local rival = after:getLock "x"
        assert.is_true((rival:tryLock()))
        assert.is_true(l:isValid() and rival:isValid())
    end)

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

describe("a server that is replaced", function()
    local cluster
    after_each(support.cleanup)

    before_each(function()
        cluster = support.cluster(4, { new = true }):admit(MAX_LEASE)
    end)

    it("by an empty one at its address: the list stays, one holder at most", function()
        local old = support.warm_client({ cluster[1], cluster[2], cluster[3] }, options())
        local other = support.warm_client({ cluster[1], cluster[2], cluster[3] }, options())
        local l = old:getLock "x"
        assert.is_true(l:tryLock(0))
        forget(cluster[3], "x", { cluster[1], cluster[2], cluster[3] })
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
end)

describe("a list of servers that was written down", function()
    local cluster, labels
    after_each(support.cleanup)

    before_each(function()
        cluster = support.cluster(4, { new = true })
        labels = cluster:uris()
        local client = support.client { cluster[1], cluster[2], cluster[3] }
        assert.is_true(client:init())
        client:close()
    end)

    local function set(list)
        table.sort(list)
        return table.concat(list, ", ")
    end

    -- An attempt that is refused for the list.
    local function refused(...)
        local client = support.warm_client({ ... })
        local text = tostring(support.fails("config", client:getLock("x"):tryLock(1)))
        client:close()
        return text
    end

    it("has a record beside each marker", function()
        for i = 1, 3 do
            local record = cluster[i]:call("GET", "redlock:{server}:members")
            local body, cid, epoch = record:match "^((v2 %x+ %d+\n.*)by %d+\n)$", record:match
                "^v2 (%x+) (%d+)"
            assert.truthy(body, record)
            assert.equal(("%s.%s.%s"):format(cid, epoch, lists.hash(record:match "^(.*)by ")),
                cluster[i]:marked().view)
        end
        assert.is_nil(cluster[4]:marker())
    end)

    it("is the same in any order, and by whatever names", function()
        local proxies = support.proxies(cluster)
        for _, nodes in ipairs { { cluster[3], cluster[1], cluster[2] },
            { proxies[1], proxies[2], proxies[3] }, { cluster[1], proxies[2], cluster[3] } } do
            local client = support.warm_client(nodes)
            assert.is_true((client:getLock("x"):tryLock(5)))
            assert.is_true(client:getLock("x"):unlock())
            client:close()
        end
    end)

    -- A client that has met no server of that name cannot tell which one it is.
    it("gets back a server that forgot from who knows it, under whatever name", function()
        local proxies = support.proxies(cluster)
        local fresh = options { max_lease = 60, lease = 5 }
        local knows = support.warm_client({ proxies[1], proxies[2], proxies[3] }, fresh)
        cluster[2]:kill()
        local more = support.proxies(cluster)
        local new = support.client({ more[1], more[2], more[3] }, fresh)
        assert.is_true((new:getLock("x"):tryLock(5)))
        assert.is_true(new:getLock("x"):unlock())
        cluster[2]:start()
        support.eventually(function() return new:check()[2].ready end)
        assert.is_nil(cluster[2]:marker())
        support.eventually(function()
            knows:getLock("turn"):isLocked()
            return cluster[2]:marked()
        end, 10)
        assert.equal(cluster[1]:marked().view, cluster[2]:marked().view)
        assert.is_true(cluster[2]:marked().id > 0)
        support.eventually(function()
            new:check()
            return new:check()[2].guard == "guarded"
        end, 10)
    end)

    -- As if a change from the first three to these had ended, which only 2, 3 and 4 have heard of.
    local function put_in_force(...)
        local words = {}
        for k, i in ipairs { ... } do
            words[k] = ("%d=%s"):format(i, labels[i])
        end
        local cid = cluster[1]:marked().view:match "^%x+"
        local body = ("v2 %s 4\nnew %s\nwas 2 %s %s %s\n"):format(cid, table.concat(words, " "),
            labels[1], labels[2], labels[3])
        cluster[4]:admit()
        for i = 2, 4 do
            cluster[i]:mark((cluster[i]:marker():gsub("%x+%.%d+%.%x+ %d+$",
                ("%s.4.%s %d"):format(cid, lists.hash(body), i))))
            cluster[i]:call("SET", "redlock:{server}:members", body .. "by 1\n")
        end
    end

    -- A client, and what it is told while it hears nothing of these servers.
    local function begin_without(silent, nodes, is_told)
        for _, i in ipairs(silent) do
            cluster[i]:freeze()
        end
        local client = support.client(nodes, { timeout = 1, connect_timeout = 2 })
        for _ = 1, 3 do
            is_told(tostring(support.fails("no_quorum", client:getLock("x"):tryLock(0.2))))
        end
        is_told(tostring(client:check()[1].remedy), true)
        for _, i in ipairs(silent) do
            cluster[i]:thaw()
        end
        assert.is_true((client:getLock("x"):tryLock(10)))
        assert.is_true(client:getLock("x"):unlock())
        return client
    end

    -- That a server is in the list that another one is in, which it hears from this client.
    local function await_same_list(client, i, k)
        support.eventually(function()
            client:getLock("x"):isLocked()
            local marked = cluster[i]:marked()
            return marked and marked.view == cluster[k]:marked().view
        end, 10)
    end

    it("is not begun anew by a client that meets a server first that has forgotten", function()
        put_in_force(2, 3, 4)
        cluster[4]:call "FLUSHALL"
        local nodes = { cluster[2], cluster[3], cluster[4] }
        local client = begin_without({ 2, 3 }, nodes, function()
            assert.is_nil(cluster[4]:marker())
        end)
        await_same_list(client, 4, 2)
        assert.is_true((support.warm_client(nodes):getLock("x"):tryLock(5)))
    end)

    it("is waited for by a client that meets a server first that missed it", function()
        put_in_force(1, 2, 3, 4)
        local client = begin_without({ 2, 3, 4 }, cluster, function(why, checked)
            assert.equal(checked, why:find("^no votes before a majority was heard: ") and true)
            assert.matches("belongs to the list {[^,]+, [^,]+, [^,]+} %(epoch 2%)", why)
        end)
        await_same_list(client, 1, 2)
    end)

    it("refuses whoever replaced a server, and names both lists", function()
        local text = refused(cluster[4], cluster[2], cluster[3])
        assert.truthy(text:find("belongs to the list {" .. set { labels[1], labels[2], labels[3] }
            .. "} (epoch 2), this client is configured with {" .. table.concat({ labels[4],
            labels[2], labels[3] }, ", ") .. "}", 1, true), text)
        for i = 1, 4 do
            assert.equal(0, cluster[i]:keys())
        end
    end)

    it("refuses whoever has a server more, or less", function()
        assert.matches("belongs to the list", refused(unpack(cluster)))
        assert.matches("belongs to the list", refused(cluster[1], cluster[2]))
    end)

    -- By two lists there would be two majorities.
    it("has one holder, and no token twice, where a server was replaced", function()
        local gap = support.proxy(cluster[3].port)
        gap:refuse(true)
        local old = support.client({ cluster[1], cluster[2], gap })
        local l = old:getFencedLock "y"
        assert.is_true((l:tryLock(5)))
        local new = support.warm_client { cluster[4], cluster[2], cluster[3] }
        support.fails("config", new:getFencedLock("y"):tryLock(1))
        assert.is_true(l:isValid())
        assert.is_true((l:stillMine()))
    end)

    it("does not go over to a stranger when a server has forgotten", function()
        local new = support.warm_client { cluster[4], cluster[2], cluster[3] }
        cluster[2]:call "FLUSHALL"
        for _ = 1, 5 do
            support.fails("config", new:getLock("x"):tryLock(0.1))
        end
        assert.is_nil(cluster[2]:marker())
    end)

    it("is another one after init { force }, and refuses those of the old one", function()
        local new = support.client { cluster[4], cluster[2], cluster[3] }
        local err = support.fails("config", new:init())
        assert.matches("belongs to the list", tostring(err))
        assert.is_true(new:init { force = true })
        assert.is_true((new:getLock("x"):tryLock(5)))
        assert.matches("belongs to the list", refused(cluster[1], cluster[2], cluster[3]))
    end)

    it("is known to who is behind: a warning, and it goes on with the new one", function()
        put_in_force(2, 3, 4)
        local warnings = {}
        local client = support.client({ cluster[1], cluster[2], cluster[3] },
            { on_event = function(e) warnings[#warnings + 1] = e.kind and e end })
        assert.is_true((client:getLock("x"):tryLock(5)))
        local found
        support.eventually(function()
            for _, finding in ipairs(client:check().findings) do
                found = finding.kind == "list_stale" and finding.message or found
            end
            return found
        end)
        assert.truthy(found:find("names " .. labels[1] .. ", which left", 1, true), found)
        assert.is_true(client:getLock("x"):unlock())
    end)

    it("refuses one server of it alone, without the guard, too", function()
        assert.matches("other clients use it with the restart guard", tostring(support.fails(
            "config", require("redlock").new({ nodes = cluster[1].uri, restart_guard = false })
                :getLock("x"):tryLock(1))))
    end)
end)
