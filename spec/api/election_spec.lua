-- One of several candidates leads; terms grow.
local redlock = require "redlock"
local support = require "spec.support"

describe("an election", function()
    local cluster, client, other

    support.two_clients(3, { lease = 2, fallback = 0.3 },
        function(...) cluster, client, other = ... end)

    local function candidate(id, c, opts)
        opts = opts or {}
        opts.id = id
        return (c or client):getElection("x", opts)
    end

    it("has one leader, whose term is larger than all before", function()
        local a, b = candidate "a:80", candidate("b:80", other)
        assert.is_false(b:leader())
        local term = assert(a:campaign(1))
        assert.equal(term, a:term())
        assert.equal(term, a:campaign(1))        -- leads already
        assert.is_true(a:isLeader())
        assert.is_true(a:remaining() > 0)
        support.fails("held", b:campaign(0.1))
        assert.is_false(b:isLeader())
        assert.same({ id = "a:80", term = term }, (b:leader()))
        support.fails("held", other:getLock("x"):tryLock(0))
        assert.is_true(a:resign())
        support.fails("not_held", a:resign())
        support.fails("not_held", a:term())
        support.eventually(function() return b:leader() == false end)
        local next_term = assert(b:campaign(5))
        assert.is_true(next_term > term)
        assert.same({ id = "b:80", term = next_term }, (a:leader()))
        assert.is_true(other:stats() ~= nil and b:resign())
    end)

    it("goes on with another candidate when the leader resigns, or is killed", function()
        local a = candidate "a"
        local first = assert(a:campaign())
        local p = support.child(cluster, "{ lease = 1 }", [[
            local e = client:getElection("x", { id = "child" })
            print(e:campaign(30))
            io.read()
        ]])
        assert.equal("ready", p:read_line(20))
        support.eventually(function()
            return cluster[1]:call("PUBSUB", "NUMSUB", "redlock:{x}:free")[2] == 1
        end)
        assert.is_true(a:resign())
        local second = tonumber(p:read_line(20))
        assert.is_true(second > first)
        support.eventually(function()
            local leader = a:leader()
            return leader and leader.id == "child" and leader.term == second
        end)
        p:kill "KILL"
        p:wait(10)
        assert.is_true(assert(candidate("b", other):campaign(20)) > second)
    end)

    it("tells observers who leads, and of nobody", function()
        local seen = {}
        local watch = candidate("o", other):observe(function(leader)
            seen[#seen + 1] = leader and leader.id or "nobody"
        end)
        local function sees(...)
            local want = table.concat({ ... }, " ")
            support.eventually(function()
                watch:isDone()
                return table.concat(seen, " ") == want
            end, 20)
        end
        sees "nobody"
        local a, b = candidate "a", candidate "b"
        assert(a:campaign(1))
        sees("nobody", "a")
        assert.is_true(a:resign())
        sees("nobody", "a", "nobody")
        assert(b:campaign(1))
        sees("nobody", "a", "nobody", "b")
        assert.is_true(watch:cancel())
    end)

    it("calls who asked for it", function()
        local told = {}
        local a = candidate("a", client, {
            on_elected = function(e, term) told[#told + 1] = { e, term } end,
            on_lost = function(e, reason) told[#told + 1] = { e, reason } end,
        })
        local term = assert(a:campaign(1))
        assert.same({ true, term }, { told[1][1] == a, told[1][2] })
        cluster:each(function(s) s:call("SET", "x", "somebody") end)
        support.eventually(function()
            a:isLeader()
            return told[2]
        end, 20)
        assert.same({ true, "taken" }, { told[2][1] == a, told[2][2] })
        assert.is_false(a:isLeader())
    end)

    it("is won once by campaigns that run at the same time, and resigned at once", function()
        local elected, lost = 0, 0
        local a = candidate("a", client, { on_elected = function() elected = elected + 1 end,
            on_lost = function() lost = lost + 1 end })
        local first, second = a:campaignAsync(2), a:campaignAsync(2)
        assert.equal(assert(first:get(20)), assert(second:get(20)))
        assert.equal(1, elected)
        assert.is_true(a:resign())
        assert.is_false(a:isLeader())
        assert.is_false(other:getLock("x"):isLocked())
        assert(a:campaign(5) and a:campaign(5))
        client:close()
        assert.same({ 2, 1 }, { elected, lost })
    end)

    it("is won or not, whenever a campaign is cancelled", function()
        local world = redlock.testing.new { round_trip = 0.01 }
        local mine, its = world:client(), world:client()
        assert(mine:connect(5) and its:connect(5))
        local a, won, cancelled = candidate("a", mine), 0, 0
        for ms = 0, 15 do
            local future = a:campaignAsync()
            world:advance(ms / 1000)
            if future:cancel() then
                cancelled = cancelled + 1
                assert.equal("cancelled", select(2, future:get()).code)
                assert.is_false(a:isLeader())
            else
                won = won + 1
                assert.is_number((future:get()))
                assert.is_true(a:resign())
            end
            local b = candidate("b", its)
            assert.is_number((b:campaign(0.1)))
            assert.is_true(b:resign())
        end
        assert.is_true(won > 3 and cancelled > 3)
        world:close()
    end)

    it("is led by nobody known while a fenced lock has the name, or a plain one", function()
        local b = candidate("b", other)
        local token = select(2, assert(other:getFencedLock("x"):tryLock(5)))
        assert.same({ term = token }, (b:leader()))
        assert.is_true(other:getFencedLock("x"):unlock())
        cluster:each(function(s) s:call("SET", "x", "a plain lock", "PX", 5000) end)
        assert.is_false((b:leader()))
    end)

    it("has no answer where the servers that are left cannot have one", function()
        local world = redlock.testing.new()
        local a = candidate("a", world:client())
        local b = candidate("b", world:client())
        world:kill(3)
        assert(a:campaign(5))
        assert.equal("a", b:leader().id)
        world:kill(2)
        support.fails("no_quorum", b:leader())
        world:start(3)
        world:advance(1)
        support.fails("no_quorum", b:leader())
        world:close()
    end)

    it("knows its leader after two days, and when each server has lost its memory", function()
        local world = redlock.testing.new()
        local a = candidate("a", world:client { max_hold = false })
        local b = candidate("b", world:client())
        local term = assert(a:campaign(5))
        for i = 1, 3 do
            world:kill(i)
            world:start(i)
            for _ = 1, 16 * 360 do
                world:advance(10)
            end
        end
        assert.same({ id = "a", term = term }, (b:leader()))
        world:close()
    end)

    it("tells an id as it was given, whatever the label of its client", function()
        local id = "web 1%p: \0\n\195\164"
        for _, label in ipairs { true, false, "100 % of %p" } do
            local c = support.client(cluster, { label = label })
            local a = candidate(id, c)
            assert(a:campaign(5))
            assert.equal(id, candidate("b", other):leader().id)
            assert.is_true(a:resign())
            c:close()
        end
    end)

    it("is named where locks are listed", function()
        local leader = support.client(cluster, { label = "host 12" })
        assert(candidate("web-1", leader):campaign(5))
        local _, err = other:getLock("x"):tryLock(0)
        assert.matches("somebody else (leader web-1 on host 12)", tostring(err), 1, true)
        assert(client:getElection("y", { id = "web-1, worker 5%" }):campaign(5))
        assert.matches("leader web-1, worker 5% on ", other:holder("y").label, 1, true)
        leader:close()                   -- not before: it would be collected
    end)

    it("is checked, and prints itself", function()
        local a = candidate "a"
        assert.equal("election(x, does not lead)", tostring(a))
        local term = assert(a:campaignAsync(5):get())
        assert.equal(("election(x, leads in term %.0f)"):format(term), tostring(a))
        for pattern, opts in pairs {
            ["bad id: a string"] = {}, ["bad id: 154 bytes"] = { id = ("x"):rep(154) },
            ["bad id: 156 bytes.-count as three"] = { id = ("\n"):rep(52) },
            ["bad on_lost"] = { id = "a", on_lost = 1 }, ["unknown option 'lease'"] = { lease = 1 },
        } do
            assert.error_matches(function() client:getElection("x", opts) end, pattern)
        end
    end)
end)
