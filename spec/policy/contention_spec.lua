-- Several want one name at the same time: nobody who waits is worse off for having waited.
local resp = require "spec.support.resp"
local support = require "spec.support"

-- How many attempts each server of a cluster has seen.
local function attempts(cluster)
    local counts = {}
    for i, s in ipairs(cluster) do
        counts[i] = tonumber(s:call("INFO", "commandstats"):match "cmdstat_set:calls=(%d+)") or 0
    end
    return counts
end

-- Lets a future go on until a server has seen nothing new for a while.
local function until_quiet(cluster, future)
    local before, since, looks = attempts(cluster), support.now(), 0
    support.eventually(function()
        assert.is_false(future:isDone())
        local now = attempts(cluster)
        for i = 1, #now do
            if now[i] ~= before[i] then
                before, since, looks = now, support.now(), 0
            end
        end
        looks = looks + 1                    -- one may have taken as long
        return support.now() - since > 0.5 and looks > 10
    end, 30)
    return before
end

local function hold(server, value)
    server:call("PSETEX", "x", 60000, value)     -- and not SET, which the attempts do
end

-- Deletes what hold() wrote, but no lock that was granted meanwhile.
local function free(server)
    server:call("EVAL",
        "if #(redis.call('get', 'x') or '') < 40 then redis.call('del', 'x') end", 0)
end

local function announce(server)
    server:call("PUBLISH", "redlock:{x}:free", "")
end

describe("a waiter", function()
    local cluster, client

    before_each(function()
        cluster = support.cluster(5)
        -- Only messages can wake it, and votes that were split.
        client = support.warm_client(cluster, { fallback = 60 })
    end)

    -- Until the waiter was refused by one server that it asked first, as its votes were split.
    local function until_one_refuses(future)
        local turn = 0
        support.eventually(function()
            if turn % 50 == 0 then       -- that server is among these in three of five cases
                for k = 0, 4 do
                    local s = cluster[(turn / 50 + k) % 5 + 1]
                    if k < 3 then
                        hold(s, "somebody " .. k .. "." .. turn)   -- others: not woken in vain
                    else
                        free(s)
                    end
                end
                cluster:each(announce)
            end
            turn = turn + 1
            assert.is_false(future:isDone())
            local counts = attempts(cluster)
            return math.max(unpack(counts)) > math.min(unpack(counts)) + 1
        end, 30, "an attempt that begins with one server")
    end

    it("asks all servers again when it is woken, though votes were split before", function()
        cluster:each(function(s) hold(s, "one") end)
        local f = client:getLock("x"):lockAsync(10)
        until_one_refuses(f)
        cluster:each(function(s) hold(s, "the next") end)
        until_quiet(cluster, f)
        cluster:each(function(s) hold(s, "and the next") end)
        local before = attempts(cluster)
        cluster:each(announce)
        local after = until_quiet(cluster, f)
        for i = 1, 5 do
            assert.is_true(after[i] > before[i], "server " .. i .. " was not asked")
        end
        f:cancel()
    end)

    it("does not take the word of one server for more than a moment", function()
        cluster:each(function(s) hold(s, "one") end)
        local f = client:getLock("x"):lockAsync(10)
        until_one_refuses(f)
        -- As contenders let go what did not suffice: without a message.
        cluster:each(free)
        assert.is_true(f:get(20))
        assert.is_true(client:getLock("x"):unlock())
    end)

    it("leaves the numbers of math.random alone", function()
        math.randomseed(1)
        local first, second = math.random(), math.random()
        math.randomseed(1)
        assert.equal(first, math.random())
        cluster:each(function(s) hold(s, "one") end)
        support.fails("held", client:getLock("x"):tryLock(0.1))
        assert.equal(second, math.random())
    end)
end)

describe("contenders", function()
    it("do not pause for the same times, even as children of one process", function()
        local cluster = support.cluster(1)
        local p = support.child(cluster, "{}", [[
            local ffi = require "ffi"
            ffi.cdef "int fork(void); int waitpid(int, int *, int);"
            local random = require("redlock.runtime.rounds").random
            io.stdout:setvbuf "line"
            for _ = 1, 2 do
                local pid = ffi.C.fork()
                if pid == 0 then
                    print(("%.17g"):format(random(client)))
                    os.exit(0)
                end
                ffi.C.waitpid(pid, nil, 0)
            end
            print(("%.17g"):format(random(client)))
        ]])
        assert.equal("ready", p:read_line(10))
        local a, b, c = p:read_line(10), p:read_line(10), p:read_line(10)
        assert.is_true(a ~= b and b ~= c and a ~= c, a .. " " .. b .. " " .. c)
    end)
end)

describe("who has released a lock that others wait for", function()
    -- How long an owner who held "x" for so long waits for it when nobody takes it meanwhile, and
    -- so many others have listened.
    local function away_for(listeners, held)
        local cluster = support.cluster(3)
        local client = support.warm_client(cluster, { timeout = 5 })
        local ears = {}
        for i = 1, listeners do
            ears[i] = {}
            for k, s in ipairs(cluster) do
                ears[i][k] = assert(resp.connect(s.port))
                assert.equal("subscribe", ears[i][k]:call("SUBSCRIBE", "redlock:{x}:free")[1])
            end
        end
        local l = client:getLock "x"
        assert.is_true(l:tryLock(1, 10))
        support.sleep(held)
        local from = support.now()
        assert.is_true(l:unlock())
        assert.is_true(l:tryLock(10, 10))
        return support.now() - from
    end

    it("lets each of them have it for as long, if it wants the lock at once", function()
        assert.is_true(away_for(4, 0.012) >= 0.047)
    end)

    it("is away no longer than 50 ms for that, and not at all when nobody listens", function()
        local away = away_for(4, 0.4)
        assert.is_true(away >= 0.049 and away < 1.4, ("%g s"):format(away))
    end)

    it("soon gives no more way to one that stands still, and does again to others", function()
        local world = require("redlock").testing.new { nodes = 3, seed = 1 }
        local client, other = world:client(), world:client()
        local l = client:getLock "x"
        -- Seconds of the world for as many locks and releases.
        local function cycles(n)
            local from = world:now()
            for _ = 1, n do
                assert(l:tryLock(1, 10))
                assert(l:unlock())
            end
            return world:now() - from
        end
        local alone = cycles(300)
        local function wait_for_it(client_of_it)
            assert(l:tryLock(1, 10))
            local task = world:spawn(function()
                local theirs = client_of_it:getLock "x"
                return assert(theirs:tryLock(20, 10)) and theirs:unlock()
            end)
            world:advance(0.1)
            return task
        end
        local task = wait_for_it(other)
        world:spawn(world.stop, world, other, 10)
        assert(l:unlock())
        cycles(10)
        assert.is_true(cycles(300) < 1.5 * alone)
        wait_for_it(world:client())
        assert(l:unlock())
        assert.is_true(client.yields:get(l.id).ends > client.now())      -- to the second one
        task:join()
        world:close()
    end)

    it("waits no longer than it was told to", function()
        local cluster = support.cluster(1)
        local client = support.warm_client(cluster)
        local l = client:getLock "x"
        client.yields:add(l.id, client.now(), { ends = client.now() + 30 })
        local from = support.now()
        assert.is_true(l:tryLock(0.05, 10))
        assert.is_true(support.now() - from < 20)
    end)
end)
