-- An exported hold has one importer: import() replaces its value on a majority, or takes nothing.
local support = require "spec.support"
local testing = require("redlock").testing

local NAMES = { "a", "b" }

-- Takes an object of each kind that can be exported; token: of which an import keeps it; nameless:
-- whose holder servers do not name.
local KINDS = {
    lock = { take = function(c) return c:getLock "a" end },
    ["fenced lock"] = { token = true, take = function(c) return c:getFencedLock "a" end },
    ["fair lock"] = { take = function(c) return c:getFairLock "a" end },
    ["multi-lock"] = { take = function(c) return c:getMultiLock(NAMES) end },
    ["read lock"] = { nameless = true,
        take = function(c) return c:getReadWriteLock("a"):readLock() end },
    ["write lock"] = { take = function(c) return c:getReadWriteLock("a"):writeLock() end },
    ["fenced write lock"] = { token = true,
        take = function(c) return c:getReadWriteLock("a", { fenced = true }):writeLock() end },
    permit = { permits = {} },
    ["fenced permit"] = { token = true, permits = { fenced = true } },
}

describe("an exported hold", function()
    local world, giver, one, two

    local function begin(opts)
        opts = opts or {}
        world = testing.new { nodes = opts.nodes or 3, seed = opts.seed or 1,
            round_trip = opts.round_trip or 0.001, client = { lease = opts.lease or 10 } }
        giver, one, two = world:client { label = "giver" }, world:client { label = "one" },
            world:client { label = "two" }
        for _, client in ipairs { giver, one, two } do       -- which connect first
            assert(client:getLock("warm"):tryLock(5) and client:getLock("warm"):unlock())
        end
    end

    before_each(function() begin() end)
    after_each(function() world:close() end)

    local function acquire(kind, client, wait, lease)
        if kind.permits then
            return client:getSemaphore("a", 1, kind.permits):tryAcquire(wait, lease)
        end
        local lock = kind.take(client)
        local ok, err = lock:tryLock(wait, lease)
        return ok and lock, err
    end

    local function exported(kind, lease)
        local lock = assert(acquire(kind, giver, 5, lease))
        local token = kind.token and lock:token()
        return assert(lock:export()), token
    end

    -- Another client gets it within a second: no server keeps more than a minority of it.
    local function is_free(kind)
        local lock = assert(acquire(kind, giver, 1))
        assert(lock:unlock())
    end

    local function lost(lock, err, kind, holder)
        assert.is_true(lock == nil)
        assert.equal("lost", err.code)
        if holder then
            assert.equal(not kind.nameless and holder or nil, err.holder and err.holder.label)
        end
    end

    for name, kind in pairs(KINDS) do
        describe(name .. "'s", function()
            it("second import is lost, and names the first", function()
                local text, token = exported(kind)
                local lock = assert(one:import(text, { owner = 1 }))
                if token then
                    assert.equal(token, lock:token())
                end
                lost(two:import(text, { owner = 2 }))
                local again, err = two:import(text, { owner = 2 })
                lost(again, err, kind, "one")
                assert.is_true(kind.nameless or err.message:find("(one)", 1, true) ~= nil)
                lost(one:import(text, { owner = 3 }))
                world:advance(25)                    -- the watchdog of the first one keeps it
                assert.is_true(lock:check():isValid())
                assert.is_true((lock:extend(10)))
                assert.is_true(lock:unlock())
                lost(two:import(text, { owner = 2 }))
                is_free(kind)
                local after = assert(acquire(kind, two, 1))
                assert.is_true(not token or after:token() > token)
            end)

            it("import is one of two at one instant", function()
                for seed = 1, 12 do
                    world:close()
                    begin { seed = seed }
                    local text, got, codes = exported(kind), {}, {}
                    local tasks = {}
                    for i, client in ipairs { one, two } do
                        tasks[i] = world:spawn(function()
                            local lock, err = client:import(text, { owner = i })
                            got[#got + 1] = lock or nil
                            codes[#codes + 1] = err and err.code
                        end)
                    end
                    tasks[1]:join()
                    tasks[2]:join()
                    assert.equal(1, #got, seed)
                    assert.same({ "lost" }, codes)
                    assert.is_true((got[1]:extend(10)))
                    assert.is_true(got[1]:unlock())
                    is_free(kind)
                end
            end)

            it("import comes too late after its lease, and takes nothing", function()
                local text = exported(kind, 2)
                world:advance(3)
                lost(one:import(text, { owner = 1 }))
                local lock = assert(acquire(kind, giver, 0, 5))
                local other, err = one:import(text, { owner = 1 })
                lost(other, err, kind, "giver")
                assert.is_true(lock:isValid() and lock:unlock())
            end)

            it("import is lost while the first one unlocks", function()
                for seed = 1, 12 do
                    world:close()
                    begin { seed = seed }
                    local text = exported(kind)
                    local lock = assert(one:import(text, { owner = 1 }))
                    local second, err
                    local task = world:spawn(function()
                        world:advance(seed * 0.0001)
                        second, err = two:import(text, { owner = 2 })
                    end)
                    local releasing = world:spawn(function() assert(lock:unlock()) end)
                    releasing:join()
                    task:join()
                    assert.is_true(second == nil)
                    assert.equal("lost", err.code)
                    is_free(kind)
                end
            end)

            it("export that no majority answers is unknown, and leaves nothing", function()
                for _, cut in ipairs { false, true } do      -- before it is asked, or meanwhile
                    local lock = assert(acquire(kind, giver, 5, 9))
                    for i = 2, 3 do
                        world[cut and "cut" or "freeze"](world, i)
                    end
                    local text, err = lock:export()
                    assert.is_true(text == nil)
                    assert.equal("unknown", err.code)
                    assert.is_false(lock:isValid())
                    world:thaw(2):thaw(3):mend(2):mend(3)
                    is_free(kind)
                end
            end)

            it("export is lost where others have it", function()
                local lock = assert(acquire(kind, giver, 5, 60))
                for i = 1, 3 do
                    for _, key in ipairs { "a", "b", "redlock:{a}:slots", "redlock:{a}:who" } do
                        world:call(i, "DEL", key)
                    end
                end
                local other = assert(acquire(kind, one, 5, 60))
                local text, err = lock:export()
                assert.is_true(text == nil)
                assert.equal("lost", err.code)
                assert.equal(kind.nameless and "forgotten" or "taken", err.reason)
                assert.is_true(other:isValid())
            end)

            it("import that no majority answers is unknown, and leaves nothing", function()
                local text = exported(kind, 60)
                world:freeze(2):freeze(3)
                local lock, err = one:import(text, { owner = 1 })
                assert.is_true(lock == nil)
                assert.equal("unknown", err.code)
                assert.matches("no majority of the servers confirmed", err.message)
                world:thaw(2):thaw(3)
                lost(two:import(text, { owner = 2 }))
                is_free(kind)
            end)
        end)
    end

    for _, name in ipairs { "fenced lock", "fenced write lock" } do
        it(name .. "'s import keeps the counter of its token", function()
            local text, token = exported(KINDS[name])
            for i = 1, 3 do
                world:call(i, "PEXPIRE", "redlock:{a}:fence", 2000)    -- the first renewal is later
            end
            local lock = assert(one:import(text))
            world:advance(30)
            assert.is_true(lock:isValid())
            assert.equal(token, lock:token())
        end)
    end

    it("is imported again where the first try reached no server", function()
        local text = exported(KINDS.lock, 60)
        world:cut(1):cut(2):cut(3)
        local lock, err = one:import(text)
        assert.is_true(lock == nil)
        assert.equal("unknown", err.code)
        world:mend(1):mend(2):mend(3)
        world:advance(2)
        assert.is_true(assert(two:import(text)):isValid())
    end)

    -- With one of five servers down two importers may get two servers each.
    it("is nobody's after a split, and both know it", function()
        local splits = 0
        for seed = 1, 60 do
            world:close()
            begin { seed = seed, nodes = 5, round_trip = 0.02 }
            local text = exported(KINDS.lock, 60)
            world:kill(5)
            local codes, got, tasks = {}, 0, {}
            for i, client in ipairs { one, two } do
                tasks[i] = world:spawn(function()
                    local lock, err = client:import(text)
                    got = got + (lock and 1 or 0)
                    codes[i] = err and err.code
                end)
            end
            tasks[1]:join()
            tasks[2]:join()
            assert.is_true(got <= 1, seed)
            for i = 1, 2 do
                local code = codes[i]
                assert.is_true(not code or code == "lost" or code == "unknown", code)
            end
            if got == 0 then
                splits = splits + 1
                is_free(KINDS.lock)
            end
        end
        assert.is_true(splits > 0)
    end)

    -- Restarted with what they had on disk: the value from before the first import.
    it("is not given a second time by servers that went back", function()
        local text = exported(KINDS.lock, 60)
        local before = world:call(2, "GET", "a")
        local lock = assert(one:import(text))
        for i = 2, 3 do
            world:kill(i):start(i)
            world:call(i, "SET", "a", before, "PX", "50000")
        end
        world:advance(1)
        local second, err = two:import(text)
        assert.is_true(second == nil)
        assert.equal("unknown", err.code)
        assert.is_true(lock:isValid())
    end)

    it("takes one round trip, and so does the export", function()
        for name, kind in pairs(KINDS) do
            if name ~= "fenced permit" then          -- which is counted, too
                world:close()
                begin { round_trip = 0.1 }
                local lock = assert(acquire(kind, giver, 5))
                local began = world:now()
                local text = assert(lock:export())
                assert.is_true(world:now() - began < 0.15, name)
                began = world:now()
                assert(one:import(text))
                assert.is_true(world:now() - began < 0.15, name)
            end
        end
    end)

    it("is released again when its importer closes meanwhile", function()
        local text = exported(KINDS.lock, 60)
        world:freeze(2):freeze(3)
        world:spawn(function() one:import(text) end)
        world:advance(0.005)
        one:close()
        world:thaw(2):thaw(3)
        world:advance(1)
        lost(two:import(text))
        is_free(KINDS.lock)
    end)

    it("is asked for with the margin", function()
        world:close()
        begin()
        local picky = world:client { margin = 1 }
        local text = exported(KINDS.lock, 60)
        world:kill(1)
        local lock, err = picky:import(text)
        assert.is_true(lock == nil)
        assert.equal("unknown", err.code)
    end)
end)

describe("the second import of a hold that a server has lost", function()
    it("names the first", function()
        for seed = 1, 12 do
            local world = testing.new { seed = seed, round_trip = 0.001 }
            local one, two = world:client { label = "one" }, world:client { label = "two" }
            local lock = two:getLock "a"
            assert(lock:tryLock(5))
            local text = assert(lock:export())
            assert(one:import(text))
            world:call(seed % 3 + 1, "DEL", "a")
            local again, err = two:import(text)
            assert.is_nil(again)
            assert.equal("lost", err.code)
            assert.equal("one", err.holder.label)
            world:close()
        end
    end)
end)

-- On real servers, by two processes: as a queue that delivers a job twice.
describe("a job that is delivered twice", function()
    it("has one owner, on real servers", function()
        local cluster = support.cluster(3)
        -- A server may get to the giver's request only after the import, and keeps that key for the
        -- lease.
        local giver = support.warm_client(cluster, { lease = 2 })
        local first = support.warm_client(cluster, { lease = 2, label = "first" })
        local second = support.warm_client(cluster, { lease = 1, label = "second" })
        for _ = 1, 20 do
            local lock = giver:getFencedLock "podcast:1"
            local _, token = assert(lock:tryLock(5))
            local text = assert(lock:export())
            local mine = assert(first:import(text))
            local err = support.fails("lost", second:import(text))
            assert.equal("first", err.holder.label)
            assert.equal(token, mine:token())
            assert.is_true(mine:check():stillMine())
            assert.is_true(mine:unlock())
            support.fails("lost", second:import(text))
        end
        cluster:await_none "podcast:1"
    end)
end)
