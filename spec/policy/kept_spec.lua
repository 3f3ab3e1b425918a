-- A hold of each kind, kept by the watchdog while the servers lose their memory, or fail over,
-- one after the other.
local support = require "spec.support"

-- REDLOCK_FORGETTINGS: how many servers restart or fail over; 10 take forty seconds.
local TIMES = tonumber(os.getenv "REDLOCK_FORGETTINGS") or os.getenv "NIGHTLY" and 30 or 2
-- A lease outlasts a server that is down beside a machine that is busy.
local OPTIONS = { max_lease = 6, lease = 6, timeout = 0.5, fallback = 0.1 }

-- From kind to function(client): takes it without waiting. Returns a hold, or nil and an error.
local function taken(object)
    local ok, err = object:tryLock(0)
    return ok and object, err
end

local KINDS = {
    plain = function(client) return taken(client:getLock "plain") end,
    fenced = function(client) return taken(client:getFencedLock "fenced") end,
    fair = function(client) return taken(client:getFairLock "fair") end,
    write = function(client) return taken(client:getReadWriteLock("write"):writeLock()) end,
    ["fenced write"] = function(client)
        return taken(client:getReadWriteLock("fenced write", { fenced = true }):writeLock())
    end,
    multi = function(client) return taken(client:getMultiLock { "one", "two", "three" }) end,
    permit = function(client) return client:getSemaphore("permit", 1):tryAcquire(0) end,
    leader = function(client)
        local election = client:getElection("leader", { id = tostring(client) })
        local term, err = election:campaign(0)
        return term and { isValid = function() return election:isLeader() end }, err
    end,
}

-- Readers share: a writer is who must not get in.
local function read_lock(client)
    return taken(client:getReadWriteLock("read"):readLock())
end

local function write_lock(client)
    return taken(client:getReadWriteLock("read"):writeLock())
end

describe("holds of each kind", function()
    local cluster, replica, client, rival

    local function replicate(from, to)
        assert.equal("OK", to:call("REPLICAOF", "127.0.0.1", from.port))
        support.eventually(function()
            return to:call("INFO", "replication"):find "master_link_status:up"
        end, 60)
    end

    -- The replica is promoted, and the server takes its memory before it is the master again.
    local function fail_over_and_back(server)
        replicate(server, replica)
        assert.equal("OK", replica:call("REPLICAOF", "NO", "ONE"))
        replicate(replica, server)
        assert.equal("OK", server:call("REPLICAOF", "NO", "ONE"))
    end

    local function await_vote(i)
        support.eventually(function()
            local rows = rival:check()
            return rows and rows[i].guard == "admitted" and rows.voting == 3
        end, 60)
    end

    it("outlast what their servers forget", function()
        cluster = support.cluster(3, { new = true })
        replica = support.server { new = true, args = { "--repl-diskless-sync-delay", "0" } }
        client = support.warm_client(cluster, OPTIONS)
        rival = support.warm_client(cluster, OPTIONS)
        assert(client:init())
        local holds, lost = {}, {}
        for kind, take in pairs(KINDS) do
            holds[kind] = assert(take(client))
        end
        holds.read = assert(read_lock(client))
        for kind, hold in pairs(holds) do
            if hold.onLost then
                hold:onLost(function() lost[#lost + 1] = kind end)
            end
        end
        for n = 1, TIMES do
            local i = n % 3 + 1
            if n % 2 == 0 then
                fail_over_and_back(cluster[i])
            else
                cluster[i]:kill()
                cluster[i]:start()
            end
            await_vote(i)
            assert.same({}, lost)
            for kind, hold in pairs(holds) do
                assert.is_true(hold:isValid(), kind)
                support.fails("held", (KINDS[kind] or write_lock)(rival))
            end
        end
    end)
end)
