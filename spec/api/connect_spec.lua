-- client:connect(seconds): waits until a majority of the servers may vote.
local quarantine = require "spec.support.quarantine"
local support = require "spec.support"

local codes = support.codes

describe("client:connect()", function()
    it("connects to all servers, and takes no lock", function()
        local cluster = support.cluster(3)
        local client = support.client(cluster)
        assert.same({ true }, { client:connect(10) })
        for _, node in ipairs(client:stats().nodes) do
            assert.is_true(node.ready)
        end
        assert.equal(0, cluster:keys())
        assert.equal(0, client:stats().acquired)
        assert.is_true(client:getLock("x"):tryLock(0))
        assert.is_true(client:connect(0))        -- at any time
    end)

    it("has a time limit of its own", function()
        local cluster = support.cluster(3)
        local client = support.client(cluster, { connect_timeout = 10 })
        assert.is_true(client:connect())
        local down = support.server()
        down:kill()
        client = support.client({ down }, { connect_timeout = 0.3 })
        local began = support.now()
        support.fails("no_quorum", client:connect())
        assert.is_true(support.now() - began >= 0.29)
    end)

    it("waits for a server that is slow, not for one that is down", function()
        local cluster = support.cluster(3)
        local proxies = support.proxies(cluster)
        cluster[1]:kill()
        proxies[2]:delay("down", 300)
        local client = support.client { cluster[1].uri, proxies[2].uri, cluster[3].uri }
        local began = support.now()
        assert.is_true(client:connect(60))
        assert.is_true(support.now() - began < 30)
        local nodes = client:stats().nodes
        assert.is_true(nodes[2].ready and nodes[3].ready)
        assert.equal("refused", nodes[1].code)
    end)

    it("is content with a majority when the time is over", function()
        local cluster = support.cluster(3)
        cluster[2]:freeze()
        local client = support.client(cluster, { connect_timeout = 60 })
        local began = support.now()
        assert.is_true(client:connect(2))
        assert.is_true(support.now() - began >= 1.9)
        cluster[2]:thaw()
    end)

    it("names what each server lacks", function()
        local cluster = support.cluster(3)
        cluster[1]:kill()
        cluster[2]:freeze()
        local client = support.client(cluster, { connect_timeout = 0.2 })
        local began = support.now()
        local ok, err = client:connect(1)
        assert.is_nil(ok)
        assert.is_true(support.now() - began >= 0.99)
        assert.equal("no_quorum", err.code)
        assert.equal("refused timeout ok", codes(err))
        for i, row in ipairs(err.nodes) do
            assert.equal(cluster[i].uri, row.node)
            assert.is_true(#row.message > 0)
        end
        assert.matches("^redlock: no_quorum: connect: no majority", tostring(err))
        cluster[2]:thaw()
        assert.is_true(client:connect(30))       -- tried again
    end)

    it("tells at once how it is when it may take no time", function()
        local client = support.client(support.cluster(3), { connect_timeout = 10 })
        local ok, err = client:connect(0)
        assert.is_nil(ok)
        assert.equal("pending pending pending", codes(err))
        assert.equal("not connected yet", err.nodes[1].message)
        assert.is_true(client:connect(10))
        assert.is_true(client:connect(0))
    end)

    it("waits for servers that are started later", function()
        local cluster = support.cluster(3)
        cluster:each(function(server) server:kill() end)
        local uris = cluster:uris()
        local p = support.lua(([[
            local client = require "redlock".new { nodes = { %q, %q, %q }, cluster = "spec" }
            print(not client:connect(0))
            print(client:connect(60))
        ]]):format(uris[1], uris[2], uris[3]), { stderr = "stdout" })
        assert.equal("true", p:read_line(10))
        support.sleep(0.2)
        for i = 1, 2 do
            cluster[i]:start()
            cluster[i]:admit()
        end
        assert.equal("true", p:read_line(60))
        assert.equal(0, p:wait(10))
    end)

    it("waits for the end of a quarantine", function()
        local cluster = support.cluster(3, { new = true })
        local client = support.client(cluster, quarantine.options())
        local began = support.now()
        local err = support.eventually(function()
            local _, why = client:connect(0.1)
            return codes(why) == "guarded guarded guarded" and why
        end)
        assert.matches("it has no memory of locks yet", err.nodes[1].message)
        assert.is_true(client:connect(60))
        assert.is_true(support.now() - began >= quarantine.GUARD)
        assert.is_true(client:getLock("x"):tryLock(0))
    end)

    it("has no use for servers that may not vote", function()
        local cluster = support.cluster(3)
        assert.is_true(support.client(cluster):getLock("x"):tryLock(5))
        local other = support.client(cluster, { max_lease = 100, connect_timeout = 10 })
        local ok, err = other:connect(1)
        assert.is_nil(ok)
        assert.equal("config config config", codes(err))
        cluster:each(function(server)
            server:user("blind", "on", ">pw", "+@all", "&*", "~app:*")
        end)
        other = support.client(cluster, { user = "blind", password = "pw",
            connect_timeout = 10 })
        ok, err = other:connect(1)
        assert.is_nil(ok)
        assert.equal("noperm noperm noperm", codes(err))
    end)

    it("works with the guard off", function()
        local client = support.client(support.cluster(1, { new = true }),
            { restart_guard = false })
        assert.is_true(client:connect(10))
    end)

    it("fetches a password anew when it was refused", function()
        local server = support.server { password = "right" }
        local calls = 0
        local client = support.client({ server }, { password = function()
            calls = calls + 1
            return calls == 1 and "wrong" or "right"
        end })
        assert.is_true(client:connect(30))
        assert.is_true(calls > 1)
    end)

    it("answers `closed`, also when that happens meanwhile", function()
        local down = support.server()
        down:kill()
        local client = support.client { down }
        client:close()
        support.fails("closed", client:connect(10))
        local again
        again = support.client({ down }, { on_event = function(e)
            if e.type == "node_down" then
                again:close()
            end
        end })
        support.fails("closed", again:connect(30))
    end)

    it("raises for what is no number of seconds", function()
        local client = support.client { "redis://127.0.0.1:1" }
        assert.has_error(function() client:connect "1" end,
            "redlock: bad seconds: a number of seconds is needed, not string")
        assert.has_error(function() client:connect(-1) end,
            "redlock: bad seconds: -1 s is too short; at least 0 s")
        assert.has_error(function() client.connect(5) end)
    end)
end)
