-- One address, several servers behind it: each client would lock on another one.
local support = require "spec.support"

describe("a balancer before several servers", function()
    local servers, balancer

    setup(function()
        servers = { support.server(), support.server(), support.server() }
        for _, server in ipairs(servers) do      -- a younger one may have restarted just now
            support.eventually(function()
                return tonumber(server:call("INFO", "server"):match "uptime_in_seconds:(%d+)") > 2
            end)
        end
        balancer = support.proxy(servers[1].port, servers[2].port, servers[3].port)
    end)

    for _, guard in ipairs { false, true } do
        it("gives no lock" .. (guard and ", guarded" or ""), function()
            for _ = 1, 3 do
                local client = support.client({ balancer.uri }, { restart_guard = guard })
                for _ = 1, 2 do                  -- it stays so
                    local err = support.fails("config", client:getLock("x"):tryLock(1))
                    assert.matches("each address must be one server, not a balancer",
                        tostring(err))
                end
                client:close()
            end
            for _, server in ipairs(servers) do
                assert.equal(0, server:call("EXISTS", "x"))
            end
        end)
    end

    -- Its second server must be younger than the first connection: not so if this process pauses.
    it("is no server that restarts between the two connections", function()
        support.eventually(function()
            local young = { support.server(), support.server() }
            local other = support.proxy(young[1].port, young[2].port, young[2].port)
            local client = support.client({ other.uri }, { restart_guard = false })
            local ok = client:getLock("x"):tryLock(1) and young[2]:call("EXISTS", "x") == 1
            client:close()
            return ok
        end)
    end)
end)

describe("a server", function()
    it("is connected to once more by each client, and then kept", function()
        local server = support.server()
        local proxy = support.proxy(server.port)
        local client = support.client({ proxy.uri }, { restart_guard = false })
        for i = 1, 5 do
            assert.is_true(client:getLock("x" .. i):tryLock(1))
        end
        assert.equal(2, proxy:count())
        assert.equal(1, client:stats().nodes[1].connects)
        proxy:cut()
        support.eventually(function() return client:getLock("y"):tryLock(1) end)
        assert.equal(3, proxy:count())
    end)
end)
