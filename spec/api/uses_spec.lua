-- What users do that is neither right nor wrong: leases that run out, callbacks that let go,
-- names from outside.
local support = require "spec.support"
local redlock = require "redlock"

describe("a client", function()
    local cluster = support.shared_cluster(3)
    local brief, client

    setup(function() brief = support.cluster(3, { new = true }):admit(0.6) end)
    before_each(function()
        brief:flush()
        client = support.warm_client(brief, { lease = 0.6, max_lease = 0.6 })
    end)
    after_each(function() client:close() end)

    it("forgets what has run out after a while", function()
        local function kilobytes()
            collectgarbage()
            collectgarbage()
            return collectgarbage "count"
        end
        local function leave_to_run_out(n)
            local got, last = 0, nil
            for i = 1, 2000 do
                local lock = client:getLock(n .. i)
                if lock:tryLock(5, 0.2) then
                    got, last = got + 1, lock
                end
            end
            assert.is_true(got > 1800)               -- a busy machine may come too late to some
            support.eventually(function() return not last:isValid() end)
            assert.matches("0 held", tostring(client))
            support.eventually(function()            -- it is forgotten in a long pause
                assert(last:tryLock(5, 0.2))
                support.eventually(function() return not last:isValid() end)
                local _, why = last:unlock()
                return why.code == "expired"
            end)
            support.eventually(function()
                local _, why = client:getLock(n .. 1999):extend()
                return why.code == "not_held"
            end)
        end
        leave_to_run_out "a"
        local before = kilobytes()
        leave_to_run_out "b"
        local more = kilobytes() - before
        assert.is_true(more < 500, more .. " KB")      -- it was 1400
    end)

    it("gets at once what an owner held that is gone", function()
        local c = support.warm_client(cluster)
        for _, lease in ipairs { false, 20 } do
            coroutine.wrap(function()
                assert.is_true(c:getLock("x"):tryLock(0, lease or nil))
            end)()
            assert.is_true(c:getLock("x"):tryLock(5))        -- the lease is longer
            assert.is_true(c:getLock("x"):unlock())
        end
        c:close()
    end)

    it("releases with releaseAll() what the caller holds, and nothing else", function()
        local c = support.warm_client(cluster)
        local others = c:getLock("other", { owner = "other" })
        assert.is_true(others:lock())
        local co = coroutine.create(function()
            assert(c:getLock("another"):lock())
            coroutine.yield()
            return c:releaseAll(), c:getLock("another"):isValid()
        end)
        assert(coroutine.resume(co))
        assert.is_true(c:releaseAll())               -- nothing
        for _, name in ipairs { "a", "b", "b" } do
            assert.is_true(c:getLock(name):lock())
        end
        assert.is_true((c:getFencedLock("f"):lock()))
        assert.is_true(c:releaseAll())
        assert.matches("2 held", tostring(c))
        assert.same({ true, true, false }, { coroutine.resume(co) })
        assert.is_true(others:isValid())
        assert.is_true(c:getLock("a"):tryLock())
        assert.is_true(c:getLock("a"):forceUnlock())
        assert.is_true(c:getLock("b"):tryLock())
        local ok, err = c:releaseAll()
        assert.is_nil(ok)
        assert.matches("expired", tostring(err))
        assert.matches("1 held", tostring(c))
        c:close()
        ok, err = c:releaseAll()
        assert.is_nil(ok)
        assert.equal("closed", err.code)
        cluster:flush()
    end)

    it("says what is left of a lock that an on_event function lets go", function()
        for _, how in ipairs { "close", "unlock" } do
            local c
            c = support.warm_client(cluster, { on_event = function(event)
                if event.type == "acquired" then
                    if how == "close" then
                        c:close()
                    else
                        c:getLock("x"):unlock()
                    end
                end
            end })
            local ok, err = c:getLock("x"):tryLock()
            c:close()
            assert.is_nil(ok)
            assert.equal(how == "close" and "closed" or "not_held", err.code)
        end
    end)

    it("tells with using() of what was lost so long ago that it is forgotten", function()
        local held, code = client:using("x", { lease = 0.1 }, function(l)
            support.eventually(function() return not l:isValid() end)
            return support.eventually(function()
                local _, err = l:extend()
                return err.code == "not_held" and err.code
            end)
        end)
        assert.is_false(held)
        assert.equal("not_held", code)
    end)

    it("tells with using() of what was lost, and taken again, or closed", function()
        local held = client:using("x", { lease = 0.1 }, function(l)
            support.eventually(function() return not l:isValid() end)
            assert(l:tryLock(20))
        end)
        assert.is_false(held)
        assert.is_false(client:getLock("x"):isLocked())
        held = client:using("x", function() client:close() end)
        assert.is_false(held)
    end)

    it("leaves with using() what was entered in it", function()
        local c = support.warm_client(cluster)
        local l = c:getLock "x"
        local ok, err = pcall(c.using, c, "x", function(again)
            assert(again:tryLock())
            error("mine", 0)
        end)
        assert.is_false(ok)
        assert.equal("mine", err)
        assert.equal(0, l:getHoldCount())
        assert.is_true(c:using("x", function(again) assert(again:tryLock()) end))
        assert.equal(0, l:getHoldCount())
        assert.is_true(c:using("x", function(mine) assert(mine:unlock()) end))
        assert.is_true(l:tryLock())
        assert.is_true(c:using("x", function(again) assert(again:tryLock()) end))
        assert.is_true(c:using("x", function(again) assert(again:unlock()) end))
        assert.equal(1, l:getHoldCount())
        assert.is_true(l:unlock())
        assert.is_false(c:using("x", { lease = 0.05 }, function() support.sleep(0.1) end))
        cluster:await_free()
        c:close()
    end)

    local function raises(text, fn, ...)
        local ok, err = pcall(fn, ...)
        assert.is_false(ok)
        assert.matches(text, err)
        assert.matches("uses_spec.lua", err)
    end

    it("takes no names of the library's own keys", function()
        for _, name in ipairs { "redlock:{server}:marker", "redlock:{server}:floor",
            "redlock:{x}:fence" } do
            raises("bad name", function() client:getLock(name) end)
            raises("bad name", function() client:getFencedLock(name) end)
        end
        local prefixed = support.client(cluster, { prefix = "app:" })
        finally(function() prefixed:close() end)
        assert.is_true(prefixed:getLock("redlock:{server}:marker"):tryLock())
        assert.is_true(client:getLock("redlock:x"):tryLock())
        local l = prefixed:getFencedLock "redlock:{x}"
        assert.is_true(l:tryLock())
        for _, err in ipairs { select(2, client:checkSequencer(l:sequencer())),
            select(2, client:import(l:export())) } do
            assert.equal("config", err.code)
        end
    end)

    it("names the argument", function()
        raises("bad options", function() client:getLock("x", false) end)
        assert.is_true(client:getLock("x", { owner = false }):tryLock())
        assert.is_false(client:getLock("x"):isValid())
        raises("bad owner", function() client:getLock("x", { owner = 0 / 0 }) end)
        raises("bad force", function() client:init { force = "no" } end)
        raises("bad fenced", function() client:using("x", { fenced = "no" }, print) end)
        raises("bad primitive", function() redlock.primitive() end)
        support.fails("config", client:checkSequencer(("x"):rep(300000)))
    end)

    it("checks what goes to the servers for a primitive", function()
        local many = {}
        for i = 1, 129 do
            many[i] = "k" .. i
        end
        local function of(field, value)
            local prim = redlock.primitive { name = "p", acquire = "return 1",
                release = "return 1", [field] = function() return value end }
            return function() client:get(prim, "x"):tryLock(1) end
        end
        raises("bad primitive.keys%(%): a list of at most 128 strings", of("keys", many))
        raises("bad primitive.args%(%): a list of at most 16 strings", of("args", many))
        raises("bad primitive.keys%(%)", of("keys", nil))
        raises("bad primitive.keys%(%): strings are needed; number 1", of("keys", { 1 }))
        raises("bad primitive.channel%(%)", function()
            brief:each(function(s) s:call("SET", "x", "theirs", "PX", 60000) end)
            local prim = redlock.primitive { name = "p", acquire = "return {0, 100}",
                release = "return 1", channel = function() end }
            client:get(prim, "x"):tryLock(1)
        end)
    end)

    it("exports nothing that cannot be imported", function()
        local prim = redlock.primitive { name = "p", release = "return redis.call('del', KEYS[1])",
            acquire = "redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1" }
        local c = support.warm_client(cluster)
        local l = c:get(prim, "x")
        assert.is_true(l:tryLock(0, 20))
        support.fails("unsupported", l:export())
        assert.is_true(l:unlock())
        c:close()
    end)
end)
