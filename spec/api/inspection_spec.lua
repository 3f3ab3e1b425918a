-- Which locks there are, as a majority of the servers says: client:locks, client:holder.
local support = require "spec.support"

describe("the locks that are held", function()
    local cluster, client, other

    before_each(function()
        cluster = support.cluster(5)
        client = support.warm_client(cluster, { prefix = "app:", label = "web-1",
            timeout = 5 })
        other = support.warm_client(cluster, { label = "another" })
    end)
    after_each(function()
        client:close()
        other:close()
    end)

    -- name -> row; and the list
    local function locks(...)
        local list, rows = assert(client:locks(...)), {}
        for i, row in ipairs(list) do
            assert.is_true(i == 1 or list[i - 1].name <= row.name)
            rows[row.name] = row
        end
        return rows, list
    end

    local function names(...)
        local text = {}
        for i, row in ipairs(assert(client:locks(...))) do
            text[i] = row.name
        end
        return table.concat(text, " ")
    end

    it("are waited for by as many as the middle one of the servers says", function()
        local detail = require "redlock.inspect.detail"
        for i, n in ipairs { 4, 0, 2, 3, 9 } do
            for _ = 1, n do
                local listener = support.connect(cluster[i].port, 20)
                assert(listener:call("SUBSCRIBE", "redlock:{app:x}:free"))
            end
        end
        local said = detail.ask(client, "x")
        assert.equal(3, said.waiting)
        assert.equal(0, said.waiting_for_permits)
    end)

    -- Each server has that many keys of locks, and nothing is on its way.
    local function settled(keys)
        support.eventually(function() return cluster:keys() == keys end, 20)
    end

    it("are listed with kind, holder, time, token and numbers", function()
        local fenced = client:getFencedLock "fenced"
        assert.is_true((fenced:tryLock(20, 30)))
        assert.is_true(client:getLock("plain", { label = "job" }):tryLock(0, 20))
        assert.is_true(client:getReadWriteLock("read"):readLock():tryLock())
        assert.is_true(client:getReadWriteLock("read", { owner = 2 }):readLock():tryLock())
        local semaphore = client:getSemaphore("slots", 3)
        local permit = assert(semaphore:tryAcquire())
        assert.is_true(client:getMultiLock({ "m1", "m2" }):tryLock())
        assert.is_true(client:getFairLock("fair"):tryLock())
        local rows = locks()
        assert.equal("fair fenced m1 m2 plain read slots", names())
        assert.equal("fenced lock", rows.fenced.kind)
        assert.equal(fenced:token(), rows.fenced.token)
        assert.equal("lock", rows.plain.kind)
        assert.equal("web-1: job", rows.plain.holder.label)
        assert.is_true(math.abs(rows.plain.holder.since - os.time()) < 60)
        assert.is_nil(rows.plain.token)
        assert.is_true(rows.plain.remaining > 1 and rows.plain.remaining <= 20)
        assert.equal("readers", rows.read.kind)
        assert.equal(2, rows.read.count)
        assert.is_nil(rows.read.holder)
        assert.equal("permits", rows.slots.kind)
        assert.equal(1, rows.slots.count)
        assert.equal("web-1", client:holder("m1").label)
        assert.is_false(client:holder "m3")
        assert.is_true(permit:release())
    end)

    it("have as many waiters as listen, and stand in line", function()
        assert.is_true(client:getLock("x"):tryLock(0, 60))
        assert.is_true(client:getFairLock("y"):tryLock(0, 60))
        local waits, stands = other:getLock("app:x"):lockAsync(), other:getFairLock "app:y"
        local in_line = stands:lockAsync()
        support.eventually(function()
            waits:get(0.01)                      -- turns the loop for both
            local rows = locks()
            return rows.x.waiting == 1 and rows.y.queue == 1
        end, 30)
        waits:cancel()
        in_line:cancel()
    end)

    it("are those of the pattern and the prefix that a majority has", function()
        assert.is_true(other:getLock("elsewhere"):tryLock())
        for _, name in ipairs { "a1", "a2", "b1", "c*" } do
            assert.is_true(client:getLock(name):tryLock())
        end
        settled(25)
        support.all(cluster, 1, 3):call("DEL", "app:a1")
        assert.equal("a2 b1 c*", names())
        assert.equal("a2", names "a*")
        assert.equal("a2 b1", names "[ab][1-2]")
        assert.equal("c*", names "c[*]")
        assert.equal("c*", names "c\\*")
        assert.equal("b1", names "?1")
        assert.equal("", names "elsewhere")
        assert.equal("", names "pp:a2")
        local strange = support.client(cluster, { prefix = "app*" })
        assert.equal(0, #assert(strange:locks()))
        strange:close()
        assert.equal("app:a2 app:b1 app:c* elsewhere", (function()
            local text = {}
            for i, row in ipairs(assert(other:locks())) do text[i] = row.name end
            return table.concat(text, " ")
        end)())
    end)

    it("are no other keys, unless those of other libraries are wanted", function()
        cluster:each(function(server)
            server:call("SET", "app:text", "v")
            server:call("SET", "app:forever", ("a"):rep(40))
            server:call("SET", "app:theirs", "a-value-of-redsync", "PX", 60000)
            server:call("SET", "app:longer", ("a"):rep(41), "PX", 60000)
            server:call("SET", "app:big", ("x"):rep(5000), "PX", 60000)
            server:call("HSET", "app:hash", "f", "v")
            server:call("HSET", "app:redisson", "uuid:1", "1")
            server:call("PEXPIRE", "app:redisson", 60000)
            server:call("ZADD", "app:set", 1, "member")
            server:call("ZADD", "app:scores", 1e15, "member")
            server:call("PEXPIRE", "app:scores", 60000)
            server:call("SET", "app:old", ("b"):rep(40), "PX", 60000)
        end)
        assert.equal("old", names())
        assert.equal("longer old redisson theirs", names("*", { foreign = true }))
        local rows = locks("*", { foreign = true })
        assert.is_nil(rows.old.holder)
        assert.equal("lock", rows.old.kind)
        assert.equal("foreign", rows.theirs.kind)
        assert.equal("foreign", rows.redisson.kind)
    end)

    it("are counted where their names are too long for an answer", function()
        assert.is_true(client:getLock(("n"):rep(3000)):tryLock())
        assert.is_true(client:getLock(("m"):rep(1000)):tryLock())
        settled(10)
        local list = assert(client:locks())
        assert.equal(1, #list)
        assert.equal(1, list.long)
    end)

    it("are looked at for as many as were wanted", function()
        for i = 1, 20 do
            assert.is_true(client:getLock("lock " .. i):tryLock())
        end
        local list = assert(client:locks("lock *", { limit = 7 }))
        assert.equal(7, #list)
        assert.is_true(list.more)
        assert.is_nil(assert(client:locks("lock *", { limit = 20 })).more)
    end)

    it("are not told where a user may not look, and why", function()
        cluster:each(function(server)
            server:user("blind", "on", ">pw", "~*", "+@all", "-scan", "&*")
        end)
        local blind = support.client(cluster, { user = "blind", password = "pw" })
        local list, err = blind:locks()
        assert.is_nil(list)
        assert.equal("no_quorum", err.code)
        assert.equal("noperm", err.nodes[1].code)
        assert.matches("noperm", tostring(err))
        blind:close()
        list, err = blind:locks()
        assert.is_nil(list)
        assert.equal("closed", err.code)
    end)

    it("say what is wrong with arguments", function()
        for _, case in ipairs { { 7 }, { "" }, { "*", { limit = 0 } }, { "*", { rate = "x" } },
            { "*", { foreign = 1 } }, { "*", { speed = 1 } }, { "*", { within = -1 } } } do
            assert.has_error(function() client:locks(unpack(case, 1, 2)) end)
        end
    end)
end)
