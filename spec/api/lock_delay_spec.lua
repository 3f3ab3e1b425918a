-- lock_delay: a name stays closed for a while behind a holder that was lost, whatever he does.
local support = require "spec.support"
local redlock = require "redlock"

describe("lock_delay", function()
    it("keeps a name closed after a holder that was lost, not after a release", function()
        local cluster = support.cluster(3)
        local delay = { lock_delay = 1.5 }
        local client = support.warm_client(cluster, delay)
        local other = support.warm_client(cluster, delay)
        local l, o = client:getFencedLock "x", other:getFencedLock "x"
        local started = client.now()
        assert.is_true((l:tryLock(5, 0.2)))
        support.eventually(function() return not l:isValid() end)
        assert.is_nil((o:tryLock()))
        assert.is_true((o:tryLock(5)))
        assert.is_true(client.now() - started >= 1.7)
        assert.is_true(o:unlock())
        assert.is_true((l:tryLock()))
        assert.is_true(l:unlock())
        client:close()
        other:close()
        cluster:stop()
    end)

    it("follows a holder that was renewed for longer than the delay", function()
        local world = redlock.testing.new { client = { lease = 1, lock_delay = 5 } }
        local holder, other = world:client(), world:client()
        assert(holder:getLock("x"):tryLock(5))
        world:advance(20)
        world:crash(holder)
        support.fails("held", other:getLock("x"):tryLock(4))
        assert.is_true(other:getLock("x"):tryLock(4))
        world:close()
    end)

    it("follows a hold that was lost in an export", function()
        local world = redlock.testing.new { client = { lease = 1, lock_delay = 5 } }
        local holder, other = world:client(), world:client()
        local l = holder:getLock "x"
        assert(l:tryLock())
        world:freeze(2)
        world:freeze(3)
        support.fails("unknown", l:export())
        world:thaw(2)
        world:thaw(3)
        support.fails("held", other:getLock("x"):tryLock(4))
        assert.is_true(other:getLock("x"):tryLock(4))
        world:close()
    end)

    it("stays within max_lease", function()
        local bad = function(o)
            o.nodes = { "redis://127.0.0.1" }
            assert.has_error(function() redlock.new(o) end)
        end
        bad { lock_delay = 60 }
        bad { lock_delay = 31 }
        bad { lock_delay = -1 }
        local client = redlock.new { nodes = { "redis://127.0.0.1" }, lock_delay = 20 }
        assert.has_error(function() client:getLock("x"):tryLock(0, 41) end)
    end)

    describe("keeps a name closed behind a loser", function()
        local cluster = support.shared_cluster(3)

        -- Who takes `l` in a process of its own, is lost, and then does that.
        local LOST = {
            ["whose lease ran out"] = "assert(l:tryLock(5, 0.3))",
            ["whom the watchdog kept for max_hold"] = "assert(l:tryLock(5))",
        }
        local UNTIL = [[
            print "taken"
            -- Nothing of the library is called meanwhile, which would see it.
            local over = client.now() + l:remaining() + (kept and 0.25 or 0.01)
            while client.now() < over do support.sleep(0.01) end
        ]]
        local THEN = {
            ["lets it go"] = [[
                local ok, err = l:unlock()
                assert(not ok and err.code == "expired", tostring(err))
            ]],
            ["has seen that, and lets it go"] = [[
                assert(not l:isValid())
                local ok, err = l:unlock()
                assert(not ok and err.code == "expired", tostring(err))
            ]],
            ["lets it go in the background"] = [[
                local ok, err = l:unlockAsync():get(5)
                assert(not ok and err.code == "expired", tostring(err))
            ]],
            ["takes it again"] = [[
                local ok, err = l:tryLock(0)
                assert(not ok and err.code == "held", tostring(err))
            ]],
            ["extends it"] = [[
                local ok, err = l:extend()
                assert(not ok and err.code == "lost", tostring(err))
                l:unlock()
            ]],
            ["closes the client"] = "client:close()",
            ["exits"] = "os.exit(0)",
            ["ends"] = "",
            ["ends, and has seen it"] = "assert(not l:isValid())",
            ["forgets it"] = [[
                l, client = nil, nil
                collectgarbage()
                collectgarbage()
            ]],
        }

        local function stays(code)
            local child = support.child(cluster,
                "{ lock_delay = 20, lease = 0.3, max_hold = 0.15 }", code, { stderr = "stdout" })
            assert.equal("ready", child:read_line(20))
            assert.equal("taken", child:read_line(20))
            local value
            support.eventually(function()      -- it may be the last one that is asked
                value = cluster[1]:call("GET", "x")
                return value
            end)
            assert.equal("", child:read_all(20))
            assert.equal(0, child:wait(5))
            cluster:each(function(server)
                assert.equal(value, server:call("GET", "x"))
                assert.is_true(server:call("PTTL", "x") > 10000)
            end)
        end

        for lost, take in pairs(LOST) do
            local kept = "local kept = " .. tostring(take == LOST["whom the watchdog kept for "
                .. "max_hold"]) .. " "
            for what, code in pairs(THEN) do
                it(lost .. ", and who " .. what, function()
                    stays(kept .. take .. UNTIL .. code)
                end)
            end
            it(lost .. ", with a fencing token", function()
                stays(kept .. "l = client:getFencedLock 'x' " .. take .. UNTIL .. "l:unlock()")
            end)
        end

        it("who runs a function for too long", function()
            stays [[
                local held = client:using("x", { lease = 0.3 }, function(own)
                    print "taken"
                    support.eventually(function() return not own:isValid() end)
                end)
                assert(held == false)
            ]]
        end)
    end)

    it("is not for who lets go in time", function()
        local cluster = support.cluster(3)
        for _, code in ipairs { "assert(l:unlock())", "client:close()", "os.exit(0)", "" } do
            local child = support.child(cluster, "{ lock_delay = 20 }",
                "assert(l:tryLock(0, 10)) " .. code, { stderr = "stdout" })
            assert.equal("ready\n", child:read_all(20))
            assert.equal(0, child:wait(5))
            cluster:await_free()
        end
        cluster:stop()
    end)
end)
