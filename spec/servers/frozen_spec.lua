-- A server that is frozen for long: it accepts what is sent to it, and answers nothing.
local support = require "spec.support"

-- Of those that clients send; what scripts call is counted by other names.
local COMMANDS = { "evalsha", "eval", "ping", "info", "time", "auth", "select", "script|load",
    "script", "client|setname", "client", "subscribe", "unsubscribe" }

-- How many commands of clients a server has executed; how many of those load scripts.
local function executed(server)
    local connection = assert(support.connect(server.port))
    local text, calls, n = assert(connection:call("INFO", "commandstats")), {}, 0
    connection:close()
    for _, name in ipairs(COMMANDS) do
        calls[name] = tonumber(text:match("cmdstat_" .. name .. ":calls=(%d+)") or 0)
        n = n + calls[name]
    end
    return n, calls["script|load"] + calls.script        -- Redis 6 calls it script
end

-- What is kept for a server: requests that wait for its answer, and leases that it is to let go.
local function kept_for(client, i)
    local node = client:stats().nodes[i]
    return node.in_flight + node.owed
end

-- However long it is silent and whatever the machine can do meanwhile.
local FEW = 2000

describe("a server that is frozen for long", function()
    local cluster, client

    before_each(function() cluster = support.cluster(5) end)
    after_each(function() client:close() end)

    local function wait_for(futures)
        support.all(futures):get(30)
    end

    -- Not with lag: a server that usually takes longer is waited for longer, and asked on.
    it("costs little memory under load, and gets few requests once it is thawed #nolag", function()
        client = support.warm_client(cluster, { handover = 0, timeout = 0.25 })
        local locks = {}
        for i = 1, 32 do
            locks[i] = client:getLock("k" .. i, { owner = i })
        end
        local function use()
            local futures = {}
            for i, lock in ipairs(locks) do
                futures[i] = lock:tryLockAsync(0, 30)
            end
            wait_for(futures)
            for i, lock in ipairs(locks) do
                futures[i] = lock:unlockAsync()
            end
            wait_for(futures)
        end
        for _ = 1, 20 do
            use()
        end
        local count, scripts = executed(cluster[5])
        cluster[5]:freeze()
        local rounds, ends = 0, support.now() + 5
        repeat
            use()
            rounds = rounds + 1
            assert.is_true(kept_for(client, 5) < FEW, kept_for(client, 5))
        until rounds > 2 * FEW / #locks and support.now() > ends
        assert.is_true(client:stats().owed < 1000, client:stats().owed)
        assert.equal(0, client:stats().forgone)
        cluster[5]:thaw()
        local other = client:getLock "other"
        support.eventually(function()
            other:isLocked()
            local stats = client:stats()
            return stats.nodes[5].ready and stats.owed == 0 and cluster:keys() == 0
        end, 20, "what is owed")
        local commands, loaded = executed(cluster[5])
        assert.is_true(commands - count < 1000, commands - count .. " commands")
        -- It was connected again and again, and executes what was sent each time. (Twice:
        -- the first one may come too late.)
        assert.is_true(loaded - scripts <= 2 * scripts, loaded - scripts .. " loads")
        assert.is_true(scripts > 0 and loaded > scripts)
    end)
end)
