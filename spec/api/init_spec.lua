-- New servers do not vote before init(), or the quarantine's end.
local quarantine = require "spec.support.quarantine"
local support = require "spec.support"

local GUARD, NEW, options, await_up =
    quarantine.GUARD, quarantine.NEW, quarantine.options, quarantine.await_up

describe("a brand-new cluster", function()
    local cluster

    before_each(function() cluster = support.cluster(3, { new = true }) end)
    after_each(support.cleanup)

    it("has no votes at first, and says so", function()
        local client = support.warm_client(cluster)
        local err = support.fails("no_quorum", client:getLock("x"):tryLock())
        local guarded = 0
        for _, row in ipairs(err.nodes) do
            if row.code ~= "pending" then            -- two of three decide it
                guarded = guarded + 1
                assert.equal("guarded", row.code)
                assert.matches(NEW, row.message)
                assert.is_true(tonumber(row.message:match "^%d+") <= 62)     -- 60 * 1.01 + 1
            end
        end
        assert.is_true(guarded >= 2)
        assert.matches("guarded %(%d+ s left; new cluster%? run redlock init%)", tostring(err))
        assert.equal(0, cluster:keys())
    end)

    it("is waited for by lock(), beyond its patience", function()
        local client = support.client(cluster, options { patience = 0.2 })
        local t = support.now()
        assert.is_true(client:getLock("x"):lock())
        local waited = support.now() - t
        assert.is_true(waited >= GUARD, waited)
        assert.is_true(waited < GUARD + 10, waited)
        assert.is_true(client:getLock("x"):unlock())
    end)

    it("is not waited for by tryLock() beyond its wait", function()
        local client = support.warm_client(cluster, options())
        local t = support.now()
        support.fails("no_quorum", client:getLock("x"):tryLock(0.3))
        assert.is_true(support.now() - t < 20)
    end)

    it("is admitted at once by init, for everybody", function()
        local other = support.warm_client(cluster)
        assert.is_nil((other:getLock("x"):tryLock()))
        local client = support.client(cluster)
        assert.is_true(client:init())
        for _, c in ipairs { client, other, support.client(cluster) } do
            assert.is_true((c:getLock("x"):tryLock(0, 10)))
            assert.is_true(c:getLock("x"):unlock())
        end
        assert.is_true(client:init())                -- nothing to do
        local marked = cluster[1]:marked()
        assert.same({ "a", cluster[1]:life(), 0, 60000 },
            { marked.state, marked.life, marked.db, marked.max_lease })
    end)

    it("is not brand-new any more when a majority was admitted by init itself", function()
        local client, rounds = support.client(cluster), require "redlock.runtime.rounds"
        local admit = rounds.admit
        finally(function() rounds.admit = admit end)
        function rounds.admit(...)               -- loses its memory on the way
            cluster[3]:call "FLUSHALL"
            return admit(...)
        end
        local err = support.fails("config", client:init())
        assert.matches("are admitted already, so this cluster is not new; "
            .. cluster[3].uri:gsub("%p", "%%%0") .. " will be after its quarantine",
            tostring(err))
        assert.is_true((client:getLock("x"):tryLock(0, 10)))     -- on two of three
        assert.equal("guarded", client:check()[3].guard)
    end)

    it("is admitted by init also while a server is slow to answer, and another one was not heard "
        .. "before", function()
        local slow = support.proxy(cluster[1].port)
        local client = support.client({ slow, cluster[2] }, { timeout = 5, connect_timeout = 30 })
        cluster[2]:freeze()
        support.fails("no_quorum", client:getLock("x"):tryLock(0.5))
        slow:delay("down", 100)
        cluster[2]:thaw()
        assert.is_true(client:init())
    end)

    it("is not brand-new for init when another max_lease was set up", function()
        local client = support.client(cluster)
        cluster[1]:admit(30)
        local err = support.fails("config", client:init())
        assert.matches(cluster[1].uri:gsub("%p", "%%%0") .. ": another client set max_lease to "
            .. "30 s there, and this client has 60 s", tostring(err))
        assert.is_true(client:init { force = true })
        assert.is_true((client:getLock("x"):tryLock(0, 10)))
    end)

    it("is not brand-new for init when a server is missing, or admitted", function()
        local client = support.client(cluster)
        cluster[3]:kill()
        local ok, err = client:init()
        assert.is_nil(ok)
        assert.equal("config", err.code)
        assert.matches("a new cluster is all up, but " .. cluster[3].uri:gsub("%p", "%%%0")
            .. " %(connect: .-%) is not", tostring(err))
        assert.matches("redlock init --force", tostring(err), 1, true)
        assert.is_nil((client:getLock("x"):tryLock()))

        cluster[3]:start()
        cluster[2]:admit()
        await_up(client, 3)
        ok, err = client:init()
        assert.is_nil(ok)
        assert.matches(cluster[2].uri:gsub("%p", "%%%0") .. " is admitted already", tostring(err))
        assert.is_nil((client:getLock("x"):tryLock()))

        cluster[3]:kill()
        assert.is_true(client:init { force = true })       -- two of three
        assert.is_true((client:getLock("x"):tryLock(0, 10)))
        cluster[3]:start()                                 -- goes through its quarantine
        await_up(client, 3)
        assert.equal("guarded", client:check()[3].guard)
        cluster[2]:kill()
        ok, err = client:init { force = true }
        assert.is_true(ok, tostring(err))                  -- the third now as well
        cluster[3]:kill()
        ok, err = client:init { force = true }
        assert.is_nil(ok)
        assert.equal("no_quorum", err.code)
        assert.matches("is all up, but redis.*, " .. cluster[3].uri:gsub("%p", "%%%0")
            .. " %(.-: .-%) are not%. ", tostring(select(2, client:init())))
    end)
end)
