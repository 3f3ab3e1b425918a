-- Those who wait get it in the order in which they came.
local redlock = require "redlock"
local support = require "spec.support"
local torture = require "spec.support.torture"

describe("a fair lock", function()
    local cluster, client, other

    support.two_clients(3, { lease = 3, fallback = 1 },
        function(...) cluster, client, other = ... end)

    local function fair(owner, c)
        return (c or client):getFairLock("x", { owner = owner })
    end

    -- So many wait on each server.
    local function waiting(n, future)
        support.eventually(function()
            if future then
                future:isDone()
            end
            local all = true
            cluster:each(function(s)
                all = all and s:call("ZCARD", "redlock:{x}:queue") == n
                    and s:call("ZCARD", "redlock:{x}:living") == n
                    and s:call("HLEN", "redlock:{x}:standing") == (n > 0 and n + 1 or 0)
            end)
            return all
        end, 10)
    end

    it("is a plain lock to everybody else", function()
        local l = fair(1)
        assert.is_true(l:tryLock(1, 10))
        assert.is_true(l:tryLock())              -- again
        assert.is_true(l:isLocked())
        support.eventually(function() return cluster:keys() == 3 end)    -- a late one would count
        for _, one in ipairs { other:getLock "x", other:getFencedLock "x",
            other:getReadWriteLock("x"):readLock(), fair(2, other) } do
            support.fails("held", one:tryLock(0, 1))
        end
        assert.is_true(l:extend(20))
        assert.is_true(l:unlock())
        assert.is_true(l:unlock())
        support.eventually(function() return cluster:keys() == 0 end)
        assert.is_true(other:getLock("x"):tryLock(1, 10))
        support.fails("held", fair(2):tryLock(0, 1))
    end)

    it("takes one round trip when nobody waits", function()
        local l = fair(1)
        local before = client:stats().nodes[1].requests
        assert.is_true(l:tryLock(1, 10))
        assert.equal(1, client:stats().nodes[1].requests - before)
        assert.is_true(l:unlock())
    end)

    it("goes to who waits in the order of their calls, one after another", function()
        local first = fair(0)
        assert.is_true(first:tryLock(1, 30))
        local futures, order = {}, {}
        for i = 1, 4 do
            local l = fair(i, i % 2 == 0 and other or client)
            futures[i] = l:tryLockAsync(60, 10)
            waiting(i, futures[i])
        end
        support.fails("held", fair(9):tryLock(0, 1))
        assert.is_true(first:unlock())
        for _ = 1, 4 do
            local who
            support.eventually(function()
                for i, future in pairs(futures) do
                    if future:isDone() then
                        who = i
                        return true
                    end
                end
            end, 20)
            assert.is_true(futures[who]:get(1))
            futures[who] = nil
            order[#order + 1] = who
            assert.is_true(fair(who, who % 2 == 0 and other or client):unlock())
        end
        assert.same({ 1, 2, 3, 4 }, order)
        support.eventually(function() return cluster:keys() == 0 end, 10)
    end)

    it("wakes the first in line alone, on a channel of its own, and sends no value", function()
        local first = fair(0)
        assert.is_true(first:tryLock(1, 30))
        local a = fair(1, other):tryLockAsync(60, 10)
        waiting(1, a)
        local head = cluster[1]:call("ZRANGE", "redlock:{x}:queue", 0, 0)[1]
        assert.matches("^%x+$", head)
        assert.equal(16, #head)
        local stands = cluster[1]:call("HGET", "redlock:{x}:standing", head)
        assert.matches("^1 %d+ %x+ [ -~]+ %d+$", stands)
        support.eventually(function()
            a:isDone()
            return cluster[1]:call("PUBSUB", "NUMSUB", "redlock:{x:" .. head .. "}:free")[2] == 1
        end)
        assert.is_true(first:unlock())
        assert.is_true(a:get(20))
        assert.is_true(fair(1, other):unlock())
    end)

    it("keeps a place for who comes again in time, and no longer", function()
        local first = fair(0)
        assert.is_true(first:tryLock(1, 30))
        local p = support.child(cluster, "{ fallback = 0.4 }", [[
            print(client:getFairLock("x"):tryLock(60, 10))
        ]])
        assert.equal("ready", p:read_line(20))
        waiting(1)
        local future = fair(2, other):tryLockAsync(60, 10)
        waiting(2, future)
        support.sleep(1.5)
        assert.is_false(future:isDone())
        waiting(2, future)                       -- both have come again
        p:kill "KILL"
        p:wait(10)
        assert.is_true(first:unlock())
        local from = support.now()
        assert.is_true(future:get(20))           -- behind a dead one
        assert.is_true(support.now() - from < 15)
        assert.is_true(fair(2, other):unlock())
        support.eventually(function() return cluster:keys() == 0 end, 10)
    end)

    it("keeps a place no longer after clocks of servers were set back", function()
        local own = support.cluster(3, { clocks = true, new = true })
        local opts = "{ fallback = 0.4, restart_guard = false }"
        local function new() return support.warm_client(own, loadstring("return " .. opts)()) end
        local c = new()
        local function line()
            return own:await_idle()[1]:call("ZCARD", "redlock:{x}:queue")
        end
        assert.is_true(fair(0, c):tryLock(1, 30))
        local p = support.child(own, opts, 'client:getFairLock("x"):tryLock(60, 10)')
        assert.equal("ready", p:read_line(20))
        support.eventually(function() return line() == 1 end)
        p:kill "KILL"
        p:wait(10)
        own:each(function(s) s.clock:set(-3600) end)
        assert.is_true(fair(0, c):unlock())
        c:close()
        assert.is_true(fair(1, new()):tryLock(15, 10))       -- who has seen no clock step
    end)

    it("gives up a place with the wait", function()
        assert.is_true(fair(0):tryLock(1, 30))
        local stayed = fair(1, other):tryLockAsync(60, 10)
        waiting(1, stayed)
        support.fails("held", fair(2, other):tryLock(0.2, 1))
        waiting(1, stayed)
        support.fails("held", fair(2):tryLock(0, 1))
        waiting(1, stayed)
        assert.is_true(fair(0):unlock())
        assert.is_true(stayed:get(20))
        assert.is_true(fair(1, other):unlock())
        local left = 0
        cluster:each(function(s) left = left + s:call("EXISTS", "redlock:{x}:standing") end)
        assert.is_true(left <= 1)                -- a majority has answered
    end)

    it("gives a place again to who was forgotten, where it was", function()
        assert.is_true(fair(0):tryLock(1, 30))
        local a = fair(1, other):tryLockAsync(60, 10)
        waiting(1, a)
        local b = fair(2, other):tryLockAsync(60, 10)
        waiting(2, b)
        local before = cluster[2]:call("ZRANGE", "redlock:{x}:queue", 0, -1)
        cluster[2]:call("DEL", "redlock:{x}:queue", "redlock:{x}:living", "redlock:{x}:standing")
        waiting(2, b)
        assert.same(before, cluster[2]:call("ZRANGE", "redlock:{x}:queue", 0, -1))
    end)

    it("leaves nothing behind, nor does who is killed as it waits", function()
        local p = support.child(cluster, "{ fallback = 0.2 }", [[
            io.read()
            client:getFairLock("x"):tryLock(60, 10)
        ]])
        assert.equal("ready", p:read_line(20))
        assert.is_true(fair(0):tryLock(1, 3))
        p:write "\n"
        waiting(1)
        p:kill "KILL"
        support.fails("held", fair(1, other):tryLock(0.2, 1))
        assert.is_true(fair(0):isValid() ~= nil)
        support.eventually(function() return cluster:keys() == 0 end, 15)
    end)

    it("is refused by name where another version has a queue", function()
        cluster:each(function(s) s:call("HSET", "redlock:{x}:standing", "format", "2") end)
        local err = support.fails("no_quorum", fair(1):tryLock(0, 1))
        assert.matches("of another version", err.message, 1, true)
        assert.equal("2", cluster[1]:call("HGET", "redlock:{x}:standing", "format"))
    end)

    it("finds at once that an owner of this thread has it", function()
        assert.is_true(fair(1):lock())
        support.fails("deadlock", fair(2):lock())
        support.fails("deadlock", client:getLock("x", { owner = 3 }):lock())
    end)
end)

-- ---- histories -------------------------------------------------------------------

local CODE = [[
    local l, from = client:getFairLock "x", sys.now()
    log("call", ("%.6f"):format(from))
    if l:tryLock(10, 1) then
        log("got", ("%.6f"):format(from))
        sys.sleep(0.2)
        l:unlock()
    end
]]

local SECONDS = tonumber(os.getenv "REDLOCK_FAIR")

-- A place is kept for 3 s, whatever else the machine does.
local function in_order(broken, enough)
    return torture.run { seconds = SECONDS, workers = 8, fallback = 1, broken = broken,
        code = CODE, enough = enough }
end

-- How often a call was served before one that had begun so many seconds earlier.
local function overtaken(history, seconds)
    local waits, n = {}, 0
    for _, line in ipairs(history) do
        if line.word == "call" then
            waits[line.who] = tonumber(line[4])
        elseif line.word == "got" then
            local from = tonumber(line[4])
            waits[line.who] = nil
            for _, other in pairs(waits) do
                n = n + (other + seconds < from and 1 or 0)
            end
        end
    end
    return n
end

describe("a history of a fair lock", function()
    it("has nobody overtaken who came a while before", function()
        local history = in_order({}, function(history) return #history > 60 end)
        assert.equal(0, overtaken(history, 1.5))
    end)

    it("shows if tickets did not grow", function()
        local broken = { "kinds/fair_lock.lua", "wait.ticket = last", "wait.ticket = 1" }
        in_order({ broken }, function(history) return overtaken(history, 1.5) > 0 end)
    end)
end)

-- Its holder is gone when its lease is over, and so is its place in line.
describe("a fair lock that was waited for, and runs out", function()
    local world

    after_each(function() world:close() end)

    it("is free for all at the end of its lease, and first for the next in line", function()
        world = require("redlock.testing").new { nodes = 3 }
        local first, second, third = world:client(), world:client(), world:client()
        local granted
        assert(first:getFairLock("x"):tryLock(0, 0.5))
        world:spawn(function()
            assert(second:getFairLock("x"):tryLock(10, 1))
            granted = world:now()
        end)
        local waits = world:spawn(function()
            world:advance(0.1)
            assert(third:getFairLock("x"):tryLock(10, 1))
            return world:now()
        end)
        local again = waits:join()
        assert.is_true(again - granted < 1.1, again - granted)
        world:advance(1.1)
        assert.is_false(first:getFairLock("x"):isLocked())
        assert.is_true(first:getFairLock("x"):tryLock(0, 1))
        assert.is_true(first:getFairLock("x"):unlock())
        assert.is_true(first:getLock("x"):tryLock(0, 1))
    end)
end)

-- Server 3 has the key of somebody else, and so refuses who gets the lock on the others.
describe("a fair lock that one server has refused", function()
    local world, holder, client, third

    before_each(function()
        world = require("redlock.testing").new { nodes = 3, client = { lease = 5 } }
        holder, client, third = world:client(), world:client(), world:client()
        assert(third:connect(5))
        assert(holder:getFairLock("x"):tryLock())
    end)
    after_each(function() world:close() end)

    local function line(i)
        return world:call(i, "ZCARD", "redlock:{x}:queue")
    end

    -- The lock after a wait for it.
    local function won(seconds)
        local lock = client:getFairLock("x", { owner = 1 })
        local task = world:spawn(function() return lock:tryLock(10, seconds) end)
        world:advance(0.5)
        world:call(3, "SET", "x", ("f"):rep(40), "PX", 600000)
        assert(holder:getFairLock("x"):unlock())
        assert.is_true(task:join())
        return lock
    end

    -- How long the next one waits where only servers 2 and 3 answer.
    local function next_one()
        world:call(3, "DEL", "x")
        world:kill(1)
        local from = world:now()
        assert(third:getFairLock("x"):tryLock(10))
        return world:now() - from
    end

    local ENDS = {
        ["by its release"] = function(lock) assert(lock:unlock()) end,
        ["by the end of its lease"] = function(lock)
            world:advance(0.6)
            assert.is_false(lock:isValid())
            lock:unlock()
        end,
        ["by that of an importer"] = function(lock)
            assert(third:import(assert(lock:export())):unlock())
        end,
        ["when its name stays closed"] = function(lock)
            assert(lock:unlock { closed_for = 0.6 })
        end,
    }
    for how, ends in pairs(ENDS) do
        it("has its holder in no line afterwards: " .. how, function()
            local lock = won(how:find "lease" and 0.5 or nil)
            assert.equal(1, line(3))
            ends(lock)
            world:advance(how:find "closed" and 0.3 or 0.1)
            for i = 1, 3 do
                assert.equal(0, line(i))
            end
            assert.is_true(next_one() < 0.9)
        end)
    end

    -- The first one has a free server's vote, which tells no line, and the third one's refusal.
    it("gives nobody a place by its word alone", function()
        local function wait(who, owner)
            world:spawn(function() who:getFairLock("x", { owner = owner }):tryLock(10) end)
        end
        wait(client, 1)
        world:advance(0.5)
        world:cut(3)
        wait(third, 2)
        world:advance(0.1)
        world:call(3, "SET", "x", ("f"):rep(40), "PX", 600000)
        world:mend(3)
        world:kill(2)
        world:call(1, "DEL", "x")
        wait(client, 3)
        world:advance(0.4)
        local queue, tickets = world:call(1, "ZRANGE", "redlock:{x}:queue", 0, -1, "WITHSCORES"), {}
        for i = 1, #queue, 2 do
            assert.is_nil(tickets[queue[i + 1]], table.concat(queue, " "))
            tickets[queue[i + 1]] = true
        end
        assert.equal(4, #queue)          -- the third one waits for a majority's word
    end)

    it("wakes the next one there, too, when its holder leaves that line", function()
        local lock = won()
        local task = world:spawn(function()
            assert(third:getFairLock("x"):tryLock(10))
            return world:now()
        end)
        world:advance(0.3)
        world:call(3, "DEL", "x")
        world:kill(1)
        local from = world:now()
        assert(lock:unlock())
        assert.is_true(task:join() - from < 0.1)
    end)
end)

describe("a client that is closed", function()
    local world, holder, closes, other

    before_each(function()
        world = require("redlock.testing").new { nodes = 3, round_trip = 0.01 }
        holder, closes, other = world:client(), world:client(), world:client()
        assert(closes:connect(5))
    end)
    after_each(function() world:close() end)

    it("leaves no waiter of its own in line", function()
        local l = holder:getFairLock "x"
        assert(l:lock())
        for i = 1, 3 do
            world:spawn(function() closes:getFairLock("x", { owner = i }):lock() end)
        end
        world:advance(0.5)
        local next_one = world:spawn(function() return other:getFairLock("x"):lock() end)
        world:advance(0.5)
        assert.is_true(closes:close())
        world:advance(0.1)
        local from = world:now()
        assert.is_true(l:unlock())
        assert.is_true(next_one:join(5))
        assert.is_true(world:now() - from < 0.1, world:now() - from)
    end)

    it("leaves no door closed behind a writer that waited", function()
        local readers = holder:getReadWriteLock "x"
        assert(readers:readLock():lock())
        world:spawn(function() closes:getReadWriteLock("x"):writeLock():lock() end)
        world:advance(0.5)
        support.fails("held", other:getReadWriteLock("x"):readLock():tryLock())
        assert.is_true(closes:close())
        world:advance(0.1)
        assert.is_true(other:getReadWriteLock("x"):readLock():tryLock())
    end)

    it("calls gave_up for whoever waits", function()
        local calls = {}
        for _, line in ipairs { true, false } do
            local kind = redlock.primitive { name = "kind", line = line, acquire = "return 0",
                release = "return 1", gave_up = function(_, wait) calls[#calls + 1] = wait.n end }
            for _ = 1, 2 do
                world:spawn(function() closes:get(kind, "x", { owner = {} }):tryLock(60) end)
            end
        end
        world:advance(0.5)
        assert.is_true(closes:close())
        world:advance(1)
        assert.equal(3, #calls)          -- the second in line has not asked the servers
    end)
end)
