-- redlock.testing: what a spec of a program can do with a world.
local redlock = require "redlock"
local options = require "redlock.servers.options"
local support = require "spec.support"
local sys = require "spec.support.sys"
local testing = require "redlock.testing"

describe("a world", function()
    local world, client

    before_each(function()
        world = testing.new { nodes = 3 }
        client = world:client()
    end)
    after_each(function() world:close() end)

    it("has the library, and a clock that the spec moves", function()
        local lock, other = client:getLock "job", world:client():getLock "job"
        assert.is_true(lock:tryLock(0, 30))
        local ok, err = other:tryLock()
        assert.is_nil(ok)
        assert.equal("held", err.code)
        assert.is_true(redlock.is_error(err))
        world:advance(29)
        assert.is_true(lock:isValid())
        world:advance(2)
        assert.is_false(lock:isValid())
        assert.is_true(other:tryLock())
        local now = world:now()
        assert.is_true(now > 31 and now < 31.1, now)
        assert.equal("world(3 servers, 31.0 s)", tostring(world))
    end)

    it("lets time pass for a call that waits", function()
        assert.is_true(client:getLock("job"):tryLock(0, 20))
        local began = world:now()
        assert.is_true(world:client():getLock("job"):tryLock(60))
        local took = world:now() - began
        assert.is_true(took > 19 and took < 21, took)
    end)

    it("runs coroutines beside each other, and the spec", function()
        local lock, order = client:getLock "job", {}
        assert(lock:lock())
        local task = world:spawn(function(name)
            order[#order + 1] = name
            local mine = client:getLock "job"
            assert(mine:lock())
            order[#order + 1] = "has it"
            world:advance(5)
            mine:unlock()
            return "done", 2
        end, "waits")
        world:advance(10)
        assert.same({ "waits" }, order)
        assert(lock:unlock())
        assert.is_true(lock:tryLock(20))
        assert.same({ "waits", "has it" }, order)
        assert.is_true(task:isDone())
        assert.same({ "done", 2 }, { task:join() })
    end)

    it("raises what a coroutine raises where time passes", function()
        world:spawn(function()
            world:advance(1)
            error "a fault of the program"
        end)
        assert.error_matches(function() world:advance(2) end, "a fault of the program")
        world:advance(1)
        local task = world:spawn(function() world:advance(100) end)
        assert.is_nil(task:join(1))
        assert.is_false(task:isDone())
    end)

    -- In a process of its own, which an assertion would end.
    it("goes on while a server stays away, often or long, and has it back then", function()
        for _, away in ipairs { { "cut", "mend" }, { "freeze", "thaw" } } do
            local p = support.lua(([[
                local world = require("redlock").testing.new { client = { max_hold = false } }
                local clients = {}
                for i = 1, 8 do
                    clients[i] = world:client()
                    assert(clients[i]:getLock("job" .. i):tryLock(0))
                end
                for n = 1, 600 do
                    world:%s(1)
                    world:advance(n == 1 and 1500 or 2)
                    world:%s(1)
                    world:advance(3)
                end
                for i = 1, 8 do
                    assert(clients[i]:getLock("job" .. i):isValid())
                    assert(clients[i]:stats().nodes[1].ready)
                end
                print "alive"
            ]]):format(unpack(away)), { stderr = "stdout" })
            assert.equal("alive\n", (p:read_all(120)))
        end
    end)

    it("keeps what the watchdog keeps, and tells of losses in time", function()
        local lock, lost = client:getLock("job"), nil
        assert(lock:lock())
        lock:onLost(function(_, reason) lost = { reason, world:now() } end)
        world:advance(1800)
        assert.is_true(lock:isValid())
        world:kill(1)
        world:kill(2)
        local began = world:now()
        world:advance(40)
        assert.equal("expired", lost[1])
        assert.is_true(lost[2] - began <= 30, lost[2] - began)
    end)

    it("has servers that die and come back, with their memory or without", function()
        assert(client:getLock("job"):tryLock(0, 50))
        world:kill(1)
        world:start(1)
        assert.matches("^" .. ("%x"):rep(40) .. " ", world:call(1, "GET", "job"))
        world:kill(1)
        world:start(1, { forgotten = true })
        assert.is_nil(world:call(1, "GET", "job"))
        world:kill(2)
        -- Who forgot does not vote for a while.
        local ok, err = client:getLock("other"):tryLock()
        assert.is_nil(ok)
        assert.equal("no_quorum", err.code)
        assert.equal("guarded", err.nodes[1].code)
        world:advance(70)
        assert.is_true(client:getLock("other"):tryLock(5))
        assert.error_matches(function() world:start(3) end, "bad server")
    end)

    it("has servers that stand still, and networks that are cut", function()
        local lock = client:getLock "job"
        world:freeze(1)
        assert.is_true(lock:tryLock())
        assert.is_true(lock:unlock())
        world:cut(2)
        local ok, err = lock:tryLock(2)
        assert.is_nil(ok)
        assert.equal("no_quorum", err.code)
        world:mend(2)
        assert.is_true(lock:tryLock(5))
        world:cut(3)
        world:thaw(1)
        world:mend(3)
        world:advance(20)
        assert.is_true(lock:isLocked())
    end)

    it("has clocks of servers that are set", function()
        assert(client:getLock("job"):tryLock(0, 30))
        local other = world:client()
        assert(other:connect())
        world:step_clock(1, 40)
        world:step_clock(2, 40)
        assert.is_nil(world:call(1, "GET", "job"))
        world:advance(5)
        local ok, err = other:getLock("job"):tryLock()
        assert.is_nil(ok)                -- those whose clocks were set have no vote
        assert.is_true(err.nodes[1].code == "guarded" or err.nodes[2].code == "guarded")
    end)

    it("has programs that stand still, and that die", function()
        local lock = client:getLock "job"
        assert(lock:tryLock(0, 10))
        world:stop(client, 11)
        assert.is_false(lock:isValid())
        assert(lock:lock())
        local waits = world:spawn(function() return client:getLock("job"):tryLock(60) end)
        world:crash(client)
        local ok, err = lock:tryLock()
        assert.is_nil(ok)
        assert.equal("closed", err.code)
        local other = world:client():getLock "job"
        assert.is_nil((other:tryLock(20)))
        assert.is_true(other:tryLock(20))
        assert.is_false(waits:isDone())
        assert.error_matches(function() world:stop(client, 1) end, "bad client")
    end)

    it("lets go of what a coroutine held that has ended", function()
        world:spawn(function() assert(client:getLock("job"):lock()) end)
        world:advance(1)
        assert.is_nil((world:client():getLock("job"):tryLock()))
        assert.is_true(world:client():getLock("job"):tryLock(60))
    end)

    it("has futures", function()
        local list = {}
        for i = 1, 20 do
            list[i] = client:getLock("job " .. i % 4, { owner = i }):tryLockAsync(
                i <= 4 and 0 or 60, 10)
        end
        assert.is_true(redlock.wait_all(list, 100))
        for i = 1, 20 do
            assert.is_true((list[i]:get()))
        end
        assert.is_true(world:now() > 40)
        local one = client:getLock("job 1"):tryLockAsync(60)
        assert.is_nil((one:get(1)))
        assert.is_true(one:cancel())
        local ok, err = one:get()
        assert.is_nil(ok)
        assert.equal("cancelled", err.code)
    end)

    it("takes the program's own primitives", function()
        local sem = redlock.primitive {
            name = "a list of one",
            acquire = [[
                if redis.call('llen', KEYS[1]) > 0 then
                    return redis.call('lindex', KEYS[1], 0) == ARGV[1] and 2 or 0
                end
                redis.call('rpush', KEYS[1], ARGV[1])
                redis.call('pexpire', KEYS[1], ARGV[2])
                return 1]],
            release = "return redis.call('lrem', KEYS[1], 0, ARGV[1])",
        }
        local a, b = client:get(sem, "x"), world:client():get(sem, "x")
        assert.is_true(a:tryLock(0, 30))
        assert.is_nil((b:tryLock(0, 30)))
        assert.is_true(a:unlock())
        assert.is_true(b:tryLock(0, 30))
    end)

    it("raises for what its servers cannot do", function()
        assert.error_matches(function() world:call(1, "SETRANGE", "a", 0, 1) end,
            "server 1: .*SETRANGE")
        local kind = redlock.primitive { name = "of json", release = "return 1",
            acquire = "return cjson.decode(ARGV[2])" }
        assert.error_matches(function() client:get(kind, "x"):tryLock() end, "cjson")
        world:advance(10)                        -- by the first server, and no other
    end)

    it("may have the addresses and the options of the program", function()
        world = testing.new { nodes = { "redis://app:secret@cache-1:6379", "rediss://cache-2",
            "unix:///run/redis.sock" }, client = { lease = 5 }, round_trip = 0.1 }
        local mine = world.redlock.new { nodes = world.nodes }
        assert.is_true(mine:getLock("job"):tryLock(1))
        assert.is_true(world:now() >= 0.1)
        assert.equal(5, world:client().options.lease)
        assert.equal(7, world:client({ lease = 7 }).options.lease)
        local stranger = world.redlock.new { nodes = { "redis://elsewhere" } }
        assert.error_matches(function() stranger:getLock("x"):tryLock() end, "no server of this")
    end)

    it("takes every option of a client, also for its servers' markers", function()
        local file = support.tmpdir() .. "/password"
        sys.write_file(file, "secret")
        local others = {
            max_lease = { 10, 120, also = { lease = 9 } }, cluster = { "one" }, prefix = { "p:" },
            drift_factor = { 0, 0.1 }, lock_delay = { 20 }, lease = { 1 }, timeout = { 0.01, 3 },
            connect_timeout = { 0.01, 3 }, max_hold = { false, 1 }, fallback = { 0.01 },
            patience = { 0, 100 }, label = { false, "me" }, on_event = { false, function() end },
            metrics = { require("redlock.metrics").new {} }, handover = { 0 }, max_waiting = { 1 },
            margin = { 1 }, min_validity = { 1 }, restart_guard = { true, false },
            behind_proxy = { true }, user = { "u", also = { password = "secret" } },
            password = { "secret", function() return "secret" end }, password_file = { file },
            password_env = { "HOME" }, password_refresh = { 1 }, ca_file = { file },
            cert_file = { file, also = { key_file = file } }, tls_verify = { false },
            key_file = { file, also = { cert_file = file } },
            host = { false }, signals = { false },       -- a world has its own
        }
        for _, row in ipairs(options.rows) do
            for _, value in ipairs(assert(others[row.name], row.name)) do
                local opts = { [row.name] = value }
                for name, other in pairs(others[row.name].also or {}) do
                    opts[name] = other
                end
                world = redlock.testing.new { client = opts }
                local ok, err = world:client():getLock("a"):tryLock(0, 1.5)
                assert(ok, row.name .. ": " .. tostring(err))
            end
        end
    end)

    it("may have a cluster that is new", function()
        world = testing.new { new_cluster = true }
        local new = world:client()
        local _, err = new:getLock("job"):tryLock()
        assert.equal("no_quorum", err.code)
        assert.is_true(new:init())
        assert.is_true(new:getLock("job"):tryLock())
        assert.equal("guarded", err.nodes[1].code)
        for i = 1, 3 do
            world:call(i, "DEL", "redlock:{server}:marker")
        end
        assert.is_nil((new:getLock("next"):tryLock()))     -- a client that knew them says so
        world:advance(1)
        _, err = world:client():init()
        assert.matches("is not new: it lost its memory", err.message)
    end)

    it("ends with the next one", function()
        local lock = client:getLock "job"
        assert(lock:lock())
        local other = testing.new { nodes = 1 }
        assert.error_matches(function() world:advance(1) end, "world is over")
        local ok, err = lock:tryLock()
        assert.is_nil(ok)
        assert.equal("closed", err.code)
        assert.equal("world(3 servers, over)", tostring(world))
        assert.is_true(other:client():getLock("job"):tryLock())
        other:close()
    end)

    it("is beside real servers, in one process", function()
        local server = support.server()
        local real = redlock.new { nodes = server.uri, timeout = 5, connect_timeout = 10 }
        local lock = client:getLock "job"
        assert(lock:lock() and real:getLock("job"):tryLock())
        world:advance(100)
        assert.is_true(lock:isValid() and real:getLock("job"):isValid())
        assert.is_nil(world:call(1, "GET", "nothing"))
        assert.truthy(server:call("GET", "job"))
        assert.is_true(real:close())
    end)

    it("has no thread, no socket and no file", function()
        local program = support.lua [[
            local redlock, lfs = require "redlock", require "lfs"
            local function list()
                local entries = {}
                for _, folder in ipairs { "/proc/self/fd", "/proc/self/task" } do
                    for entry in lfs.dir(folder) do
                        entries[#entries + 1] = folder .. "/" .. entry
                    end
                end
                return entries
            end
            local before = #list()
            local world = redlock.testing.new()
            for i = 1, 5 do
                assert(world:client():getLock("job " .. i):lock())
            end
            world:advance(100)
            local after = list()
            print(#after == before or before .. " before: " .. table.concat(after, "; "))]]
        assert.equal("true", program:read_line(30))
        assert.equal(0, program:wait(30))        -- it ends, with what is held
    end)

    it("walks through tables in the order of their keys, or as ever", function()
        local pairs_of, keys = require("redlock.testing.library").ordered(pairs), {}
        for key in pairs_of { b = 1, [10] = 1, a = 1, [2] = 1 } do
            keys[#keys + 1] = key
        end
        assert.same({ 2, 10, "a", "b" }, keys)
        local n = 0
        for _ in pairs_of { [keys] = 1, x = 1 } do
            n = n + 1
        end
        assert.equal(2, n)
    end)

    it("raises what a callback raises", function()
        local lock = client:getLock "job"
        assert(lock:tryLock(0, 5))
        assert(lock:onLost(function() error "a fault of the program" end))
        assert.error_matches(function() world:advance(10) end, "a fault of the program")
    end)

    it("cancels futures that have not begun, and those that wait", function()
        local lock, other = client:getLock "job", world:client():getLock "job"
        assert(lock:lock())
        local waits = other:tryLockAsync(60)
        world:advance(1)
        assert.is_true(waits:cancel())
        local ok, err = waits:get()
        assert.is_nil(ok)
        assert.equal("cancelled", err.code)
        local done = lock:unlockAsync()
        assert.is_true(done:get())
        assert.is_false(done:cancel())
    end)

    it("says what no world can do", function()
        world:spawn(function() coroutine.yield "of my own" end)
        local ok, err = pcall(world.advance, world, 1)
        assert.is_false(ok)
        assert.matches("a coroutine of a world has yielded", err)
        assert.error_matches(function() world:client { signals = { "TERM" } } end, "no signals")
        for _ = 2, 32 do
            world:client():getLock("job"):isLocked()
        end
        assert.error_matches(function() world:client():getLock("job"):isLocked() end,
            "room for 32 clients")
    end)

    it("says what is wrong with its arguments", function()
        for _, case in ipairs {
            { { nodes = 33 }, "option nodes" }, { { nodes = 0 }, "option nodes" },
            { { seed = 0.5 }, "option seed" }, { { speed = 1 }, "unknown option 'speed'" },
            { { round_trip = -1 }, "option round_trip" }, { { client = 5 }, "option client" },
        } do
            assert.error_matches(function() testing.new(case[1]) end, case[2])
        end
        world = testing.new()
        assert.error_matches(function() world:kill(4) end, "bad server")
        assert.error_matches(function() world:advance(-1) end, "bad seconds")
        assert.error_matches(function() world.advance(1) end, "colon")
        assert.error_matches(function() world:spawn "x" end, "bad fn")
        assert.error_matches(function() world:client { leese = 5 } end, "leese")
    end)
end)
