-- client:using() of each kind: what it holds meanwhile, what its function gets, and what is left.
local future = require "redlock.lock.future"
local support = require "spec.support"

describe("using", function()
    local cluster, client, other

    support.two_clients(3, { lease = 2 }, function(...) cluster, client, other = ... end)

    local function held(name, by)
        support.fails("held", (by or other:getLock(name)):tryLock(0, 1))
    end

    -- Others of its kind that it lets in, and not.
    local KINDS = {
        plain = { "x", {} },
        fenced = { "x", { kind = "fenced" } },
        read = { "x", { kind = "read" }, true },
        write = { "x", { kind = "write" } },
        fair = { "x", { kind = "fair" } },
        multi = { { "x", "y" }, {} },
        permit = { "x", { permits = 1 } },
    }

    for kind, row in pairs(KINDS) do
        local name, opts, shared = unpack(row)

        it(kind .. " holds it meanwhile, and lets it go", function()
            local before = other:getLock "x"
            local ok, word, n = client:using(name, opts, function(l)
                assert.is_true(l:isValid())
                if kind == "permit" then
                    assert.equal(1, l:slot())
                    support.fails("held", other:getSemaphore("x", 1):tryAcquire(0, 1))
                else
                    held("x", before)
                end
                local theirs = other:using(name, { kind = opts.kind, permits = opts.permits,
                    wait = 0 }, function() return true end)
                assert.equal(shared, theirs)
                return "done", select("#", nil, nil)
            end)
            assert.same({ true, "done", 2 }, { ok, word, n })
            assert.is_true(before:tryLock(5, 10))
            assert.is_true(before:unlock())
            assert.is_not_nil(other:using(name, opts, function() end))
        end)

        it(kind .. " lets it go when its function raises, and tells of a loss", function()
            local ok, err = pcall(client.using, client, name, opts, function() error("mine", 0) end)
            assert.same({ false, "mine" }, { ok, err })
            assert.is_true(other:using(name, { kind = opts.kind, permits = opts.permits, wait = 5 },
                function() end))
            local short = { kind = opts.kind, permits = opts.permits, lease = 0.1 }
            local kept, result = client:using(name, short, function(l)
                support.eventually(function() return not l:isValid() end)
                return "late"
            end)
            assert.same({ false, "late" }, { kept, result })
            assert.is_true(other:using(name, { kind = opts.kind, permits = opts.permits, wait = 5 },
                function() end))
        end)

        it(kind .. " says why its function does not run", function()
            cluster:each(function(s) s:freeze() end)
            local ok, err = client:using(name, { kind = opts.kind, permits = opts.permits,
                wait = 0.1 }, error)
            cluster:each(function(s) s:thaw() end)
            assert.is_nil(ok)
            assert.equal("no_quorum", err.code)
        end)
    end

    it("a fenced lock tells its token", function()
        local last = 0
        for _, opts in ipairs { { fenced = true }, { kind = "fenced" },
            { kind = "write", fenced = true } } do
            assert.is_true(client:using("x", opts, function(l, token)
                assert.is_true(token > last)
                last = token
                assert.equal(token, l:token())
                client:using("x", opts, function(_, again) assert.equal(token, again) end)
            end))
        end
        assert.is_true(client:using("x", function(_, token) assert.is_nil(token) end))
    end)

    it("a permit tells its token where it is to have one, or is not taken", function()
        local opts, last = { permits = 1, fenced = true, wait = 5 }, 0
        for i = 1, 4 do
            local ok, token = (i % 2 == 0 and other or client):using("x", opts,
                function(permit, token)
                    assert.equal(token, permit:token())
                    return token
                end)
            assert.is_true(ok)
            assert.is_true(token > last)
            last = token
        end
        for i = 1, 2 do                      -- who counts must write: their counter is no text
            cluster[i]:break_key "redlock:{x:slots#1}:fence"
        end
        support.fails("no_quorum", client:using("x", opts, error))
        assert.is_true(other:using("x", { permits = 1, wait = 5 }, function(permit, token)
            assert.is_nil(token)
            support.fails("unsupported", permit:token())
        end))
    end)

    it("who writes reads as well, as often as that is begun", function()
        local pair = client:getReadWriteLock "x"
        local ok, n, after = client:using("x", { kind = "write" }, function(w)
            local inner, count = client:using("x", { kind = "read" }, function(r)
                assert.is_true(r:tryLock())          -- left with the function
                return r:getHoldCount()
            end)
            assert.is_true(inner)
            assert.is_true(w:isValid())
            return count, pair:readLock():getHoldCount()
        end)
        assert.same({ true, 2, 0 }, { ok, n, after })
        support.eventually(function() return cluster:keys() == 0 end)
    end)

    it("who reads goes on when the writing around it is over", function()
        local pair = client:getReadWriteLock "x"
        assert.is_true(pair:writeLock():lock())
        local ok = client:using("x", { kind = "read" }, function(r)
            assert.is_true(pair:writeLock():unlock())
            assert.is_true(r:isValid())
            assert.is_true(other:using("x", { kind = "read", wait = 5 }, function() end))
            support.fails("held", other:getLock("x"):tryLock(0, 1))
        end)
        assert.is_true(ok)
        assert.is_false(pair:readLock():isValid())
        support.eventually(function() return cluster:keys() == 0 end)
    end)

    it("who reads does not write", function()
        client:using("x", { kind = "read" }, function()
            local ok, err = client:using("x", { kind = "write" }, error)
            assert.is_nil(ok)
            assert.equal("deadlock", err.code)
        end)
    end)

    it("two of two permits at once, never three", function()
        local inside, most, futures = 0, 0, {}
        for i = 1, 6 do
            futures[i] = future.start(client, function()
                return client:using("x", { permits = 2, wait = 20 }, function()
                    inside = inside + 1
                    most = math.max(most, inside)
                    local from = support.now()
                    while most < 2 and support.now() - from < 10 do
                        client:getLock("y"):isLocked()       -- others go on meanwhile
                    end
                    inside = inside - 1
                end)
            end)
        end
        for i = 1, 6 do
            assert.is_true(futures[i]:get(20))
        end
        assert.equal(2, most)
    end)

    it("is checked", function()
        for pattern, call in pairs {
            ["bad kind"] = { "x", { kind = "odd" } },
            ['bad permits: needed for the kind "permit", and for no other'] = { "x",
                { kind = "read", permits = 1 } },
            ["bad permits: needed"] = { "x", { kind = "permit" } },
            ["bad permits: a whole number"] = { "x", { permits = 0 } },
            ["bad owner: a permit is its own owner"] = { "x", { permits = 1, owner = 1 } },
            ['bad fenced: true is for the kinds "fenced", "write" and "permit" alone'] = { "x",
                { fenced = true, kind = "fair" } },
            ["bad fenced: true is for"] = { { "x", "y" }, { fenced = true } },
            ["bad fenced: true or false is needed"] = { "x", { fenced = 1, permits = 1 } },
            ["bad name: a string is needed"] = { { "x" }, { kind = "fair" } },
            ["bad names: a list"] = { "x", { kind = "multi" } },
            ["bad names%[1%]"] = { { 1 }, {} },
        } do
            local ok, err = pcall(client.using, client, call[1], call[2], print)
            assert.is_false(ok, pattern)
            assert.matches(pattern, err)
            assert.matches("using_spec.lua", err)
        end
    end)
end)
