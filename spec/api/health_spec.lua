-- client:health(): whether a majority votes now, for health checks.
local support = require "spec.support"

local codes = support.codes

describe("client:health()", function()
    local cluster, client

    before_each(function() cluster = support.cluster(3) end)

    -- Asks at most once a second, so this is what it takes to notice a change, and more.
    local function becomes(healthy)
        return support.eventually(function()
            local said, err = client:health()
            return (said or false) == healthy and (err or true)
        end, 60)
    end

    it("is true for a client that has done nothing yet, and takes no lock", function()
        client = support.client(cluster, { timeout = 10, connect_timeout = 10 })
        assert.same({ true }, { client:health() })
        assert.equal(0, cluster:keys())
        assert.equal(0, client:stats().acquired)
    end)

    it("asks each server at most once a second, whoever calls", function()
        client = support.warm_client(cluster, { timeout = 10 })
        local function asked(server)
            return tonumber(server:call("INFO", "commandstats"):match "cmdstat_time:calls=(%d+)")
        end
        local began, calls = support.now(), 0
        assert.is_true(client:health())              -- its own question may come after `before`
        local before = asked(cluster[1])
        repeat
            assert.is_true(client:health())
            calls = calls + 1
        until support.now() - began > 2.5 and (asked(cluster[1]) - before >= 2
            or support.now() - began > 20)
        local n = asked(cluster[1]) - before
        local seconds = support.now() - began
        assert.is_true(n >= 2 and n <= seconds + 1, n .. " questions in " .. seconds .. " s")
        assert.is_true(calls > 10 * n)
    end)

    it("is false while a majority is silent, and waits for no more than `timeout`", function()
        client = support.warm_client(cluster, { timeout = 2 })
        assert.is_true(client:health())
        cluster[1]:freeze()
        cluster[2]:freeze()
        local at = client.now()
        support.eventually(function() return client.now() > at + 1 end)
        local healthy, err = client:health()     -- the next question: nothing else is awaited
        assert.is_nil(healthy)
        assert.equal("no_quorum", err.code)
        assert.equal("timeout timeout ok", codes(err))
        assert.matches("^redlock: no_quorum: health: no majority", tostring(err))
        local longest, began = 0, support.now()
        repeat                               -- over several questions
            local from = support.now()
            assert.is_nil((client:health()))
            longest = math.max(longest, support.now() - from)
        until support.now() - began > 5
        assert.is_true(longest < 2 + 2, longest)
        cluster[2]:thaw()
        becomes(true)
        cluster[1]:thaw()
    end)

    it("connects again to servers that come back", function()
        client = support.warm_client(cluster)
        cluster[1]:kill()
        cluster[2]:kill()
        local err = becomes(false)
        assert.matches("refused", tostring(err))
        cluster[1]:start():admit()
        becomes(true)
    end)

    it("counts only servers that may vote", function()
        client = support.client(support.cluster(3, { new = true }), { max_lease = 100 })
        local err = becomes(false)
        support.eventually(function()
            err = select(2, client:health())
            return codes(err) == "guarded guarded guarded"
        end, 60)
        assert.matches("it has no memory of locks yet", err.nodes[1].message)
        assert(client:init())
        becomes(true)
    end)

    it("says that the client is closed", function()
        client = support.client(cluster)
        client:close()
        local healthy, err = client:health()
        assert.is_nil(healthy)
        assert.equal("closed", err.code)
        client = support.client({ "redis://127.0.0.1:1" }, { on_event = function(e)
            if e.type == "node_down" then
                client:close()
            end
        end })
        becomes(false)
        assert.equal("closed", (select(2, client:health())).code)
    end)
end)
