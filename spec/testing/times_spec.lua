-- How long the members of the family take, and in which order they serve, in worlds: there time is
-- exact, and no machine is busy.
local testing = require "redlock.testing"

collectgarbage("setpause", 1000)     -- a fifth of the time was collecting

local RTT = 0.001
local UNEVEN = 0.0005                -- what round trips differ by

-- A world of 3 servers, and that many clients of it.
local function machines(n, opts)
    local world, clients = testing.new { nodes = 3, round_trip = RTT, client = opts }, {}
    for i = 1, n do
        clients[i] = world:client()
        assert(clients[i]:connect(10))
    end
    return world, clients
end

-- Runs fn(client, i) on each client, again and again for so long, and until all have ended.
local function busy(world, clients, seconds, fn)
    local over, tasks = world:now() + seconds, {}
    for i, client in ipairs(clients) do
        tasks[i] = world:spawn(function()
            world:advance(i / 1000)
            while world:now() < over do
                fn(client, i)
            end
        end)
    end
    for _, task in ipairs(tasks) do
        task:join(seconds + 100)
        assert.is_true(task:isDone(), "somebody waits still")
    end
end

-- Lets time pass until is() is true.
-- @return how long that took
local function await(world, seconds, is)
    local from = world:now()
    while not is() do
        assert.is_true(world:now() - from < seconds, "not within that time")
        world:advance(0.0001)
    end
    return world:now() - from
end

describe("readers and writers of one name", function()
    -- The longest waits of those who read and who write, for 4 ms each, again and again.
    local function crowd(writers, readers)
        local world, clients = machines(writers + readers, { lease = 1 })
        local longest = { read = 0, write = 0 }
        busy(world, clients, 5, function(client, i)
            local pair = client:getReadWriteLock "x"
            local kind = i <= writers and "write" or "read"
            local lock = kind == "write" and pair:writeLock() or pair:readLock()
            local began = world:now()
            assert(lock:lock())
            longest[kind] = math.max(longest[kind], world:now() - began)
            world:advance(0.004)
            assert(lock:unlock())
        end)
        return longest
    end

    it("a writer among eight readers waits for a fifth of a second at most", function()
        assert.is_true(crowd(1, 8).write < 0.2)
    end)

    it("a reader among eight writers waits for two leases at most", function()
        assert.is_true(crowd(8, 1).read < 2)
    end)

    it("nobody waits for two leases where four write and four read", function()
        local longest = crowd(4, 4)
        assert.is_true(longest.read < 2 and longest.write < 2)
    end)
end)

describe("two who want it again and again, for 50 ms each, wait for two turns at most:", function()
    -- Whoever has released it lets the other one have it: it is told that somebody waits.
    local function longest(get, rival)
        local world, clients = machines(2)
        local most = 0
        busy(world, clients, 3, function(client, i)
            local lock, began = (i == 1 and get or rival)(client), world:now()
            local held = assert((lock.lock or lock.acquire)(lock))
            most = math.max(most, world:now() - began)
            world:advance(0.05)
            assert(held == true and lock:unlock() or held:release())
        end)
        return most
    end

    local function plain(client) return client:getLock "x" end
    local function write(client) return client:getReadWriteLock("x"):writeLock() end
    for kind, get in pairs {
        plain = plain, write = write,
        fenced = function(client) return client:getFencedLock "x" end,
        several = function(client) return client:getMultiLock { "x", "y" } end,
        read = function(client) return client:getReadWriteLock("x"):readLock() end,
        permit = function(client) return client:getSemaphore("x", 1) end,
    } do
        it(kind, function()
            assert.is_true(longest(get, kind == "permit" and get or plain) < 0.15)
        end)
    end
end)

describe("a fair lock", function()
    -- Who stands in line on a majority of the servers.
    local function standing(world)
        local n, list = {}, {}
        for i = 1, 3 do
            for _, waiter in ipairs(world:call(i, "ZRANGE", "redlock:{x}:queue", 0, -1)) do
                n[waiter] = (n[waiter] or 0) + 1
                list[#list + 1] = n[waiter] == 2 and waiter or nil
            end
        end
        return list, n
    end

    it("serves nobody before one who stood in line when the call began", function()
        local world, clients = machines(8)
        local calls, before, early = 0, 0, 0
        busy(world, clients, 60, function(client)
            local first, lock = standing(world), client:getFairLock "x"
            assert(lock:lock())
            local _, still = standing(world)
            for _, waiter in ipairs(first) do
                early = early + ((still[waiter] or 0) > 0 and 1 or 0)
            end
            calls, before = calls + 1, before + #first
            world:advance(0.02)
            assert(lock:unlock())
        end)
        assert.equal(0, early)
        assert.is_true(calls > 2000 and before > 5 * calls)
    end)

    it("is had again 1.4 times what a place is kept for after the first in line dies", function()
        for ms = 0, 900, 300 do
            local world, clients = machines(3, { fallback = 1 })
            local lock, got = clients[1]:getFairLock "x", false
            assert(lock:tryLock(0, 60))
            world:spawn(function() clients[2]:getFairLock("x"):lock() end)
            world:advance(0.1)
            world:spawn(function() got = clients[3]:getFairLock("x"):lock() end)
            world:advance(1 + ms / 1000)
            world:crash(clients[2])
            assert(lock:unlock())
            assert.is_true(await(world, 30, function() return got end) <= 1.4 * 3)
        end
    end)
end)

describe("a latch", function()
    it("is seen open two round trips and 5 ms after the last of a hundred has arrived", function()
        local world, clients = machines(5)
        assert(clients[1]:getCountDownLatch("x"):trySetCount(100))
        local seen, longest = 0, 0
        local last
        for _, client in ipairs(clients) do
            world:spawn(function()
                assert(client:getCountDownLatch("x"):await())
                seen, longest = seen + 1, math.max(longest, world:now() - last)
            end)
        end
        for i = 1, 100 do
            world:spawn(function()
                world:advance(i * 0.007)
                last = world:now()
                assert(clients[i % 5 + 1]:getCountDownLatch("x"):countDown())
            end)
        end
        world:advance(2)
        assert.equal(5, seen)
        assert.is_true(longest <= 2 * RTT + 0.005, longest)
    end)
end)

describe("philosophers", function()
    it("eat for 20 s, and none less than a third of what the luckiest does", function()
        local world, clients = machines(5)
        local meals = { 0, 0, 0, 0, 0 }
        busy(world, clients, 20, function(client, i)
            local forks = client:getMultiLock { "f" .. i, "f" .. i % 5 + 1 }
            assert(forks:lock())
            meals[i] = meals[i] + 1
            world:advance(0.001)
            assert(forks:unlock())
        end)
        assert.is_true(math.max(unpack(meals)) <= 3 * math.min(unpack(meals)),
            table.concat(meals, " "))
    end)
end)

describe("behind a leader", function()
    local LEASE, DELAY = 5, 1

    -- Of so many candidates each leads in its turn, until it resigns or crashes.
    -- @return the longest times until there was another leader: behind a crash; who resigned
    local function turns(candidates)
        local world, clients = machines(candidates, { lease = LEASE, lock_delay = DELAY })
        local elections, leads, crashed, resigned = {}, nil, 0, 0
        for i, client in ipairs(clients) do
            elections[i] = client:getElection("x", { id = "c" .. i })
        end
        local function led()
            for i, election in pairs(elections) do
                leads = election:isLeader() and i or leads
            end
            return leads ~= nil
        end
        for i, election in ipairs(elections) do
            world:spawn(function() election:campaign() end)
            world:advance(0.01)
            assert(i > 1 or led())
        end
        for turn = 1, candidates - 1 do
            local last = leads
            local election = elections[last]
            elections[last], leads = nil, nil
            if turn % 2 == 1 then
                world:crash(clients[last])
                crashed = math.max(crashed, await(world, 30, led))
            else
                world:spawn(function() assert(election:resign()) end)
                resigned = math.max(resigned, await(world, 30, led))
            end
            world:advance(turn / 10)
        end
        return crashed, resigned
    end

    it("who crashes another one leads after a lease, its delay and two round trips", function()
        local crashed = turns(2)
        assert.is_true(crashed <= LEASE + DELAY + 2 * RTT, crashed)
    end)

    it("who resigns another one leads after two round trips", function()
        local _, resigned = turns(3)
        assert.is_true(resigned <= 2 * RTT + UNEVEN, resigned)
    end)

    it("another one of eight leads a quarter of a second later at most", function()
        local crashed, resigned = turns(8)
        assert.is_true(crashed <= LEASE + DELAY + 2 * RTT + 0.25, crashed)
        assert.is_true(resigned <= 2 * RTT + 0.25, resigned)
    end)
end)

describe("check()", function()
    it("says how long each server took to answer", function()
        local world = testing.new { nodes = 3, round_trip = 0.05 }
        local client, rows = world:client(), nil
        assert(client:connect(10))
        world:spawn(function() rows = assert(client:check()) end):join(10)
        for _, row in ipairs(rows) do
            assert.near(0.05, row.round_trip, 0.005, row.node)
        end
    end)
end)
