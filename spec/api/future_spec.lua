-- Futures, ownership across coroutines and processes, events.
local support = require "spec.support"
local encoding = require "redlock.text.encoding"
local redlock = require "redlock"

describe("futures", function()
    local cluster = support.shared_cluster(3)
    local client

    setup(function() client = support.warm_client(cluster) end)

    it("end at once where the client is closed already", function()
        local closed = support.client(cluster)
        local lock = closed:getLock "x"
        closed:close()
        support.fails("closed", lock:tryLockAsync(1):get(10))
        support.fails("closed", lock:extendAsync(1):get(10))
    end)

    it("are thousands in flight over the same connections", function()
        local patient = support.warm_client(cluster, { timeout = 5 })
        finally(function() patient:close() end)
        local locks, futures = {}, {}
        for i = 1, 3000 do
            locks[i] = patient:getLock("n" .. i)
            futures[i] = locks[i]:tryLockAsync(0, 30)
        end
        assert.is_true(redlock.wait_all(futures, 20))
        for i = 1, 3000 do
            assert.is_true(futures[i]:isDone())
            assert.is_true(futures[i]:get())
            assert.is_true(locks[i]:isValid())
            futures[i] = locks[i]:extendAsync(40)
        end
        assert.is_true(redlock.wait_all(futures, 20))
        for i = 1, 3000 do
            local ok, left = futures[i]:get()
            assert.is_true(ok)
            assert.is_true(left > 30)
            futures[i] = locks[i]:unlockAsync()
        end
        assert.is_true(redlock.wait_all(futures, 20))
        for i = 1, 3000 do
            assert.is_true(futures[i]:get())
        end
        cluster:await_free()
        cluster:each(function(s) assert.equal(2, s:connections()) end)
    end)

    it("belong to who called", function()
        local f = client:getLock("x"):lockAsync(10)
        assert.is_true(f:get(5))
        assert.is_true(client:getLock("x"):isValid())
        coroutine.wrap(function()
            assert.is_false(client:getLock("x"):isValid())
            support.fails("not_held", client:getLock("x"):unlockAsync():get(5))
        end)()
        assert.is_true(client:getLock("x"):lockAsync():get(5))      -- re-enters
        assert.equal(2, client:getLock("x"):getHoldCount())
        assert.is_true(client:getLock("x"):unlockAsync():get(5))
        assert.is_true(client:getLock("x"):unlockAsync():get(5))
    end)

    it("ask the servers, many at a time", function()
        local mine, asked, forced = client:getLock("mine"), {}, {}
        assert.is_true(mine:tryLock(5, 20))
        for i = 1, 100 do
            asked[i] = client:getLock(i % 2 == 0 and "mine" or "free " .. i):isLockedAsync()
        end
        local left = mine:remainTimeToLiveAsync()
        for i = 1, 100 do
            assert.equal(i % 2 == 0, asked[i]:get(20))
        end
        assert.is_true(left:get(20) > 15)
        for i = 1, 2 do
            forced[i] = mine:forceUnlockAsync():get(20)
        end
        assert.same({ true, false }, forced)
    end)

    it("time out and go on", function()
        local other = client:getLock("x", { owner = "other" })
        assert.is_true(other:tryLock())
        local f = client:getLock("x"):lockAsync()
        assert.equal("future(pending)", tostring(f))
        local t = support.now()
        support.fails("timeout", f:get(0.1))
        assert.is_true(support.now() - t < 20)
        support.fails("timeout", redlock.wait_all({ f }, 0.05))
        assert.is_true(other:unlock())
        assert.is_true(f:get(5))
        assert.equal("future(done)", tostring(f))
        assert.is_false(f:cancel())
        assert.is_true(client:getLock("x"):unlock())
        assert.error_matches(function() f:get(-1) end, "bad timeout")
        assert.error_matches(function() client:getLock("x"):lockAsync(-1) end, "bad lease")
        assert.error_matches(function() client:getLock("x"):tryLockAsync(-1) end, "bad wait")
    end)

    it("are cancelled, and leave nothing [12]", function()
        local proxies = support.proxies(cluster)
        local slow = support.warm_client(proxies, { timeout = 5 })
        support.all(proxies):hold("down", true)
        local f = slow:getLock("x"):lockAsync()
        support.eventually(function() return cluster:keys() == 3 end)
        assert.is_true(f:cancel())
        support.fails("cancelled", f:get())
        cluster:await_free()
        support.all(proxies):hold("down", false)
        assert.is_true(slow:getLock("x"):lockAsync():get(5))
        assert.is_true(slow:getLock("x"):unlock())
        -- One that waits in the queue of its process lets the next one pass.
        assert.is_true(client:getLock("y", { owner = 1 }):tryLock())
        local fs = {}
        for i = 2, 5 do
            fs[i] = client:getLock("y", { owner = i }):lockAsync()
        end
        assert.is_true(fs[3]:cancel())
        assert.is_true(fs[2]:cancel())
        assert.is_true(client:getLock("y", { owner = 1 }):unlock())
        for i = 4, 5 do
            assert.is_true(fs[i]:get(5))
            assert.is_true(client:getLock("y", { owner = i }):unlock())
        end
    end)
end)

describe("the heir of an owner that is gone", function()
    it("does not wait for what others hold", function()
        local client = support.warm_client(support.cluster(3), { lease = 0.3 })
        collectgarbage "stop"
        finally(function() collectgarbage "restart" end)
        coroutine.wrap(function()
            assert(client:getLock("of the dead"):tryLock(1, 0.2))
        end)()
        support.sleep(0.4)
        for i = 1, 10 do
            assert.is_true(client:getLock("kept" .. i):lock())
        end
        local heir = client:getLock("of the dead"):tryLockAsync(10, 5)
        assert.is_true(heir:get(20))
        client:close()
    end)
end)

describe("a hold", function()
    local cluster = support.shared_cluster(3)
    local client

    setup(function() client = support.warm_client(cluster) end)

    it("of a primitive of one's own is imported as one of those", function()
        local function own(name)
            return require("redlock").primitive {
                name = name,
                acquire = "return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) "
                    .. "and 1 or 0",
                import = "if redis.call('get', KEYS[1]) ~= ARGV[3] then return 0 end "
                    .. "redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1",
                release = "return redis.call('del', KEYS[1])",
            }
        end
        local mine = own "mine"
        local l = client:get(mine, "x")
        assert.is_true(l:tryLock(0, 10))
        local token = l:export()
        for _, opts in ipairs { {}, { primitive = own "other" } } do
            support.fails("config", client:import(token, opts))
        end
        assert.is_false(l:isValid())
        assert.equal(l:getName(), assert(client:import(token, { primitive = mine })):getName())
        assert.is_true(l:isValid())
        assert.is_true(l:unlock())
    end)

    it("is not imported by a client with another prefix, which is told so", function()
        local other = support.client(cluster, { prefix = "app:\n" })
        local there = other:getLock "x"
        assert.is_true(there:tryLock(5))
        local token = there:export()
        local err = support.fails("config", client:import(token))
        assert.matches("the transfer is of a client with prefix 'app:\\x0a', which is '' here",
            err.message, 1, true)
        err = support.fails("config",
            other:import(client:getLock("x"):tryLock(5) and client:getLock("x"):export()))
        assert.matches("prefix '', which is 'app:\\x0a' here", err.message, 1, true)
        assert.is_true(assert(other:import(token)):unlock())
        cluster:flush()
        other:close()
    end)

    it("is refused by name when another version made it, and held as it was", function()
        local l = client:getLock "x"
        assert.is_true(l:tryLock(5, 10))
        local text = l:export()
        local body = encoding.strip_checksum(text, "."):gsub("^redlock1", "redlock2")
        local new = encoding.add_checksum(body, ".")
        for _, made in ipairs { new, "redlock12.{ it may be anything" } do
            local err = support.fails("config", client:import(made))
            assert.matches("the transfer is of another version", err.message, 1, true)
        end
        assert.is_true(assert(client:import(text)):unlock())
    end)

    it("is not imported when it is none", function()
        local l = client:getLock "x"
        support.fails("not_held", l:export())
        assert.is_true(l:tryLock(0, 10))
        local token = l:export()
        local whole = encoding.strip_checksum(token, ".")
        local body = whole:gsub("%.%x+$", "")            -- without the card
        for _, bad in ipairs { "", "garbage", body:gsub("redlock1", "redlock9"),
            body:gsub("%d+$", "99999999"), body:gsub("%d+(%.%d+)$", "99999999%1"),
            whole .. "0", body .. "." .. ("0"):rep(434), body .. ".x",
            body:sub(1, -8), body:gsub("%.78%.", ".7."),
            (body:gsub("%.78%.", "." .. ("78"):rep(65537) .. ".")) } do
            support.fails("config", client:import(bad))
            support.fails("config", client:import(encoding.add_checksum(bad, ".")))
        end
        assert.is_true(assert(client:import(token)):unlock())
    end)
end)

describe("a get", function()
    it("is interrupted at once", function()
        local cluster = support.cluster(1)
        cluster[1]:call("SET", "x", "other", "PX", 60000)
        local c = support.lua(([[
            local client = require("spec.support").warm_client { %q }
            local f = client:getLock("x"):lockAsync()
            print(pcall(function()
                print "ready"
                return f:get()
            end))
        ]]):format(cluster[1].uri))
        assert.equal("ready", c:read_line(10))
        support.sleep(0.1)
        c:kill "INT"
        assert.matches("^false.*interrupted", c:read_line(5))
    end)
end)
