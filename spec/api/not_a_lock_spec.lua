-- Keys of other programs on the same servers: they are never taken for locks, and never deleted.
local cli = require "spec.support.command"
local support = require "spec.support"

-- What an application may keep under a name, and how errors call it.
local DATA = {
    { "a list", "RPUSH", "x", "job1", "job2" },
    { "a hash", "HSET", "x", "item", "3" },
    { "a set", "SADD", "x", "one" },
    { "a sorted set", "ZADD", "x", "1", "player" },
    { "a stream", "XADD", "x", "*", "field", "value" },
    { "a string without an end", "SET", "x", '{"name":"Bob"}' },
    { "a string without an end", "SET", "x", "" },
    { "a sorted set without an end", "ZADD", "x", "9e12", "1 abc" },
}

-- The same with an end, where the type alone tells that it is no lock.
local SESSIONS = { DATA[1], DATA[2], DATA[3], DATA[4], DATA[5] }

-- What locks of other libraries look like.
local OTHERS = {
    { "SET", "x", "a-random-value", "PX", "30000" },
    { "HSET", "x", "0f2b7d4e-1111-2222-3333-444455556666:71", "1" },      -- Redisson's RLock
    { "HSET", "x", "mode", "read", "0f2b7d4e-1111-2222-3333-444455556666:71", "1" },
}

describe("a huge value under the name of a lock", function()
    it("is not read whole by who asks for the lock, or about it", function()
        local server = support.server { new = true }
        server:call("EVAL", "redis.call('set', 'x', string.rep('x', 48 * 1048576), 'px', 99999)", 0)
        local client = support.warm_client({ server.uri }, { restart_guard = false, timeout = 5 })
        client:getFencedLock("warm"):tryLock()
        local function peak()
            return tonumber(server:call("INFO", "memory"):match "used_memory_peak:(%d+)")
        end
        local before = peak()
        for _, l in ipairs { client:getFencedLock "x", client:getLock "x",
            client:getMultiLock { "x", "y" }, client:getReadWriteLock("x"):writeLock() } do
            support.fails("held", l:tryLock())
            assert.is_true(l:isLocked())
        end
        assert(client:holder "x")
        assert.is_true(peak() - before < 16 * 1048576)
        client:close()
    end)
end)

describe("a key of another program", function()
    local cluster = support.shared_cluster(3)
    local client

    setup(function() client = support.warm_client(cluster, { timeout = 5 }) end)
    after_each(function() client:releaseAll() end)
    teardown(function() client:close() end)

    local function put(data, ends, most)
        for i = 1, most or 3 do
            cluster[i]:call(unpack(data, type(data[1]) == "string" and data[1]:find " " and 2 or 1))
            if ends then
                cluster[i]:call("PEXPIRE", "x", "60000")
            end
        end
    end

    local function dump(i)
        return cluster[i]:call("DUMP", "x")
    end

    local function kinds()
        local pair, fenced = client:getReadWriteLock "x", client:getReadWriteLock("x",
            { fenced = true })
        return { lock = client:getLock "x", fenced = client:getFencedLock "x",
            fair = client:getFairLock "x", read = pair:readLock(), write = pair:writeLock(),
            fenced_write = fenced:writeLock(), multi = client:getMultiLock { "x", "y" } }
    end

    local function expect(what, text, ok, err)
        assert.is_nil(ok, what)
        assert.equal("not_a_lock", err.code, what .. ": " .. tostring(err))
        assert.matches("the key x holds " .. text, tostring(err), 1, true)
        assert.matches(", which is no lock of redlock: use a prefix", tostring(err), 1, true)
    end

    local function refused_by_all(data)
        local before = { dump(1), dump(2), dump(3) }
        for kind, lock in pairs(kinds()) do
            local what = kind .. " beside " .. data[1]
            local began = client.now()
            expect(what, data[1], lock:tryLock(60))
            expect(what, data[1], lock:tryLock(0))
            expect(what, data[1], lock:isLocked())
            expect(what, data[1], lock:holder())
            if kind ~= "multi" then
                expect(what, data[1], lock:forceUnlock())
            end
            assert.is_true(client.now() - began < 30, what .. ": waited")
        end
        expect("the election", data[1], client:getElection("x", { id = "me" }):campaign(60))
        expect("both", data[1], client:getReadWriteLock("x"):forceUnlockBoth())
        expect("using", data[1], client:using("x", { wait = 60 }, error))
        assert.same(before, { dump(1), dump(2), dump(3) }, data[1])
    end

    for _, data in ipairs(DATA) do
        it("is not taken for a lock: " .. table.concat(data, " "), function()
            put(data)
            refused_by_all(data)
        end)
    end

    for _, data in ipairs(SESSIONS) do
        it("is not taken for a lock although it ends: " .. data[1], function()
            put(data, true)
            -- DUMP does not contain the end.
            refused_by_all(data)
            assert.is_true(cluster[1]:call("PTTL", "x") > 0)
        end)
    end

    it("is somebody's lock if it looks like one of another library", function()
        for _, data in ipairs(OTHERS) do
            put(data, true)
            for kind, lock in pairs(kinds()) do
                support.fails("held", lock:tryLock(0))
                if kind == "lock" then
                    assert.is_true(lock:isLocked())
                end
            end
            local lock = client:getLock "x"
            expect("force", "a " .. (data[1] == "SET" and "string" or "hash")
                .. " that another library may have written", lock:forceUnlock())
            expect("force", "a", lock:forceUnlock { holder = "59eca9ec" })
            assert.equal(1, cluster[1]:call("EXISTS", "x"))
            assert.is_true(lock:forceUnlock { foreign = true })
            cluster:await_none "x"
        end
    end)

    it("is never removed where it is larger than any lock", function()
        put({ "SET", "x", ("<html>"):rep(900) }, true)
        local lock = client:getLock "x"
        expect("a page", "a string", lock:forceUnlock())
        expect("a page", "a string", lock:forceUnlock { foreign = true })
        assert.equal(5400, cluster[1]:call("STRLEN", "x"))
    end)

    it("costs only its server's vote where a majority has none", function()
        local at = cluster[1].late and 2 or 1    -- the others decide before a late one answers
        cluster[at]:call(unpack(DATA[1], 2))
        local before = dump(at)
        for kind, lock in pairs(kinds()) do
            assert.is_true(lock:tryLock(5), kind)
            assert.is_true(lock:unlock(), kind)
        end
        local lock, other = client:getLock "x", client:getLock("x", { owner = "other" })
        assert.is_true(lock:tryLock(5))
        local row
        support.eventually(function()        -- the others may have decided before it answered
            local err = support.fails("held", other:tryLock(0))
            row = err.nodes[at]
            return row.code == "not_a_lock"
        end)
        assert.equal("the key x holds a list, which is no lock of redlock: use a prefix",
            row.message)
        assert.is_true(other:isLocked())
        assert.is_true(other:forceUnlock())
        assert.is_false(other:isLocked())
        assert.equal(before, dump(at))
        support.fails("expired", lock:unlock())
    end)

    it("is not the reason if another server is down", function()
        local frozen = cluster[2]
        put(DATA[1], false, 1)
        frozen:freeze()
        local impatient = support.client(cluster, { timeout = 0.2, patience = 0.2 })
        support.eventually(function()
            local err = support.fails("no_quorum", impatient:getLock("x"):tryLock(0))
            return err.nodes[1].code == "not_a_lock"
        end)
        frozen:thaw()
        impatient:close()
    end)

    it("is told at once also where a server is down", function()
        put(DATA[1], false, 2)
        cluster[3]:stop()
        for kind, lock in pairs(kinds()) do
            local began = client.now()
            expect(kind, DATA[1][1], lock:tryLock(60))
            assert.is_true(client.now() - began < 30, kind .. ": waited")
        end
        expect("isLocked", DATA[1][1], client:getLock("x"):isLocked())
        cluster[3]:start()
        cluster:admit()
        support.warm(client)
    end)

    it("ends a hold that it replaces, and nobody holds the lock", function()
        for _, data in ipairs { DATA[1], DATA[6] } do
            for _, kind in ipairs { "lock", "fair", "write", "multi" } do
                local lock = kinds()[kind]
                assert.is_true(lock:tryLock(5, 20))
                support.eventually(function() return cluster:having "x" == 3 end)
                cluster:each(function(server)
                    server:call("DEL", "x")
                end)
                put(data)
                local before = dump(1)
                local ok, err = lock:unlock()
                if kind == "multi" then      -- its other name was released
                    assert.is_true(ok)
                else
                    assert.is_nil(ok)
                    assert.equal("expired", err.code, kind)
                    assert.equal("forgotten", err.reason)
                end
                assert.equal(before, dump(1))
                cluster:flush()
            end
        end
    end)

    it("is shown as what it is by the command, which leaves it", function()
        local home = support.tmpdir()
        local function command(...)
            return cli.ends(cli.start(cluster, home, {}, ...))
        end
        for _, data in ipairs { DATA[1], DATA[2], DATA[6] } do
            put(data)
            local before = dump(1)
            local says = "the key x holds " .. data[1]
            for _, argv in ipairs {
                { "run", "x", "--no-wait", "--", "true" },
                { "run", "x", "--wait", "60", "--", "true" },
                { "run", "x", "--plain", "--wait", "60", "--", "true" },
                { "run", "x", "--shared", "--wait", "60", "--", "true" },
                { "status", "x" }, { "wait", "x", "--wait", "60" }, { "unlock", "--force", "x" },
            } do
                local status, text = command(unpack(argv))
                assert.equal(125, status, table.concat(argv, " ") .. ": " .. text)
                assert.matches(says, text, 1, true)
            end
            assert.same({ 0, "" }, { command "ls" })
            assert.equal(before, dump(1))
            cluster:flush()
        end
    end)
end)
