-- Deadlocks across processes (the option deadlocks), in worlds: who is named, and who is not.
local script_text = require "redlock.core.script_text"
local testing = require "redlock.testing"

local LOOK = script_text.read "redlock.scripts.cycle.look"
local DIGEST = "return redis.sha1hex(redis.call('get', KEYS[1]))"

describe("owners that block each other", function()
    local world, events

    before_each(function()
        world, events = testing.new { nodes = 5 }, {}
    end)
    after_each(function() world:close() end)

    local getters = {
        l = function(c, n) return c:getLock(n) end,
        f = function(c, n) return c:getFencedLock(n) end,
        q = function(c, n) return c:getFairLock(n) end,
        r = function(c, n) return c:getReadWriteLock(n):readLock() end,
        w = function(c, n) return c:getReadWriteLock(n):writeLock() end,
        m = function(c, n) return c:getMultiLock { n, n .. " too" } end,
    }

    local function get(client, text)
        return getters[text:sub(1, 1)](client, text:sub(3))
    end

    local function client(label, how)
        return world:client { label = label, deadlocks = how, prefix = "app:",
            on_event = function(e)
                if e.type == "deadlock" then
                    events[#events + 1] = e
                    e.by = label
                end
            end }
    end

    -- One that holds a name from now on, and waits for another one from second `at` on.
    local function party(label, how, held, wanted, at, wait)
        local c = client(label, how)
        return world:spawn(function()
            local mine = get(c, held)
            assert(mine:tryLock(1))
            world:advance(at or 1)
            local lock = get(c, wanted)
            local ok, err = lock:tryLock(wait or 60)
            mine:unlock()
            if ok then
                lock:unlock()
            end
            return ok or err.code, err
        end), c
    end

    local function waits()
        local n = 0
        for i = 1, 5 do
            n = n + #world:call(i, "SCAN", "0", "MATCH", "redlock:{app:*}:waits", "COUNT",
                "1000")[2]
        end
        return n
    end

    local function results(...)
        local list, errors = {}, {}
        for i, task in ipairs { ... } do
            list[i], errors[i] = task:join(200)
        end
        return list, errors
    end

    local function sorted(list)
        table.sort(list, function(a, b) return tostring(a) < tostring(b) end)
        return list
    end

    it("are found within seconds, and one ends its wait", function()
        local list, errors = results(party("A", "end", "l:a", "l:b"),
            (party("B", "end", "l:b", "l:a")))
        assert.is_true(world:now() < 8, world:now())
        local err = errors[1] or errors[2]
        assert.same({ "deadlock", true }, sorted(list))
        assert.equal(2, #err.chain)
        assert.same({ "a", "b" }, sorted { err.chain[1].name, err.chain[2].name })
        assert.equal(err.chain[2].label, events[#events].by)
        assert.is_true(events[#events].ended and err.chain[1].since > 0)
        assert.equal(0, waits())
    end)

    it("may be three, who are told, and wait on", function()
        local list = results((party("A", "tell", "l:a", "l:b", 1, 20)),
            (party("B", "tell", "l:b", "l:c", 1, 20)), (party("C", "tell", "l:c", "l:a", 5, 20)))
        assert.equal("held", list[1])                -- for 20 s, until the first one gave up
        assert.equal(3, #events)                     -- once each
        for _, e in ipairs(events) do
            assert.is_false(e.ended)
            assert.equal(3, #e.chain)
            assert.equal(e.by, e.chain[3].label)
            assert.equal(e.name, e.chain[1].name)
        end
    end)

    it("end by the one that is ready to", function()
        local list = results((party("A", "tell", "l:a", "l:b")), (party("B", "end", "l:b", "l:a")))
        assert.same({ true, "deadlock" }, list)
    end)

    for _, kinds in ipairs { "f:a q:b", "r:a r:b", "w:a m:b", "q:a w:b" } do
        local a, b = kinds:match "^(%S+) (%S+)$"
        it("may be of other kinds: " .. kinds, function()
            local function writing(text) return (text:gsub("^r", "w")) end
            local list = results((party("A", "end", a, writing(b))),
                (party("B", "end", b, writing(a))))
            assert.same({ "deadlock", true }, sorted(list))
            assert.equal(0, waits())
        end)
    end

    it("are found by a majority, while servers are frozen, or have forgotten", function()
        local a, b = party("A", "end", "l:a", "l:b", 2), party("B", "end", "l:b", "l:a", 2)
        world:advance(1.5)
        world:freeze(1)
        world:call(2, "DEL", "app:a")
        local list = results(a, (b))
        assert.same({ "deadlock", true }, sorted(list))
        assert.is_true(world:now() < 40)
    end)

    it("are none while the lock passes on among those who hold another one", function()
        local tasks, most = {}, 0
        for i = 1, 6 do
            local c = client("C" .. i, "end")
            tasks[i] = world:spawn(function()
                local own = c:getLock("own" .. i)
                for _ = 1, 4 do                      -- the wait is long, the order one
                    assert(own:tryLock(60))
                    assert(c:getLock("a"):tryLock(60))
                    assert(c:getLock("b"):tryLock(60))
                    world:advance(0.7)
                    most = math.max(most, waits())
                    assert(c:getLock("b"):unlock() and c:getLock("a"):unlock())
                    assert(own:unlock())
                    -- And once with nothing held.
                    assert(c:getLock("b"):tryLock(60) and c:getLock("b"):unlock())
                end
                return true
            end)
        end
        for _, task in ipairs(tasks) do
            assert.is_true(task:join(600))
        end
        assert.same({}, events)
        assert.is_true(most > 0)                     -- they did look
        assert.equal(0, waits())
    end)

    it("leave nothing when they give up, and soon nothing when they die", function()
        local task = party("A", "end", "l:a", "l:b", 1, 3)
        local _, c = party("B", "end", "l:b", "l:c", 0.5)
        local other = client("C", "end")
        world:spawn(function() assert(other:getLock("c"):lock()) end)
        world:advance(2.6)
        assert.is_true(waits() >= 2 * 3)
        assert.equal("held", (task:join(20)))
        world:crash(c)
        world:advance(13.1)
        assert.equal(0, waits())
    end)

    it("are none where one has died that waited: nobody says so any more", function()
        local _, c = party("A", "end", "l:a", "l:b", 1)
        local b = party("B", "end", "l:b", "l:a", 4)
        world:advance(3.5)
        assert.is_true(waits() > 0)
        world:crash(c)
        assert.is_true((b:join(60)))                 -- the lease of the dead one ended
        assert.same({}, events)
    end)

    it("are not those whose owners may go on elsewhere", function()
        local c = client("A", "end")
        local held = c:getLock("a", { owner = "ours" })
        assert(held:tryLock(1))
        local b = party("B", "end", "l:b", "l:a", 1, 8)
        world:advance(0.5)
        local task = world:spawn(function()
            return c:getLock("b", { owner = "ours" }):tryLock(10)
        end)
        assert.equal("held", (b:join(60)))
        assert.is_truthy((task:join(60)))
        assert.same({}, events)
    end)

    it("are not readers who wait behind a writer that waits for readers", function()
        local a = party("A", "tell", "r:a", "l:b", 1, 12)
        local w = party("W", "tell", "l:c", "w:a", 2, 12)
        local b = party("B", "tell", "l:b", "r:a", 3, 12)
        assert.same({ "held", true, true }, (results(a, w, b)))
        assert.same({}, events)
    end)

    -- A post on some servers, in a stranger's words, as of who has the name "b".
    local function forge(servers, text)
        for i = 1, servers do
            local digest = world:call(i, "EVAL", DIGEST, 1, "app:b")
            local key = "redlock:{app:" .. digest .. "}:waits"
            world:call(i, "DEL", key)
            world:call(i, "SET", key, text, "PX", 5000)
        end
    end

    -- Waits for "b", which somebody has who does not wait, while others write what they like.
    local function wait_beside(servers, words)
        local other = client("B", "tell")
        assert(other:getLock("b"):tryLock(1))
        local task = party("A", "end", "l:a", "l:b", 1, 8)
        for n = 1, 16 do
            world:advance(0.5)
            forge(servers, words(n))
        end
        local code, err = task:join(60)
        assert.equal(0, waits() - servers)
        return code, err
    end

    local function lie(n)
        return ("%016x %d ends write 5:app:a"):format(0, n)
    end

    it("are none that two servers of five make up", function()
        assert.equal("held", (wait_beside(2, lie)))
        assert.same({}, events)
    end)

    it("are what a majority says: that is who may write their keys", function()
        local code, err = wait_beside(3, lie)
        assert.equal("deadlock", code)
        assert.equal("B", err.chain[1].label)
    end)

    it("are not found in rubbish", function()
        local rubbish = { "", "x", ("%016x 5 ends write"):format(0), ("\255"):rep(5000),
            "0 1 ends write 5:app:a", lie(1e10), (lie(3):gsub("5:", "99999:")),
            (lie(3):gsub("5:", "6:")), (lie(3):gsub("app:", "any:")), lie(4) .. "5",
            (lie(5):gsub("ends", "never")), lie(6) .. ("5:app:c"):rep(500),
            (lie(7):gsub("app:a", "app:b")) }
        local i = 0
        assert.equal("held", (wait_beside(5, function()
            i = i % #rubbish + 1
            return rubbish[i]
        end)))
        assert.same({}, events)
    end)

    it("are looked for by bounded steps", function()
        world:call(1, "SET", "app:k1", ("%040x"):format(1))
        for i = 1, 100 do                            -- a chain that is too long, and a circle
            world:call(1, "SET", "app:k" .. i, ("%040x"):format(i))
            local digest = world:call(1, "EVAL", DIGEST, 1, "app:k" .. i)
            local next_one = ("app:k%d"):format(i % 100 + 1)
            world:call(1, "SET", "redlock:{app:" .. digest .. "}:waits",
                ("%016x 1 ends write %d:%s"):format(i, #next_one, next_one))
        end
        local function look(n)
            return world:call(1, "EVAL", LOOK, 1, "app:k1", "app:", ("f"):rep(16), "1", "ends",
                "write", "5000", "full", ("%040x"):format(n))
        end
        assert.equal(0, look(50))
        assert.equal(0, look(9))
        assert.same({ 1, 8 }, { unpack(look(8), 1, 2) })
        world:call(1, "SET", "any:k", ("%040x"):format(8))       -- of another prefix
        world:call(1, "SET", "redlock:{app:" .. world:call(1, "EVAL", DIGEST, 1, "app:k7")
            .. "}:waits", ("%016x 1 ends write 5:any:k"):format(8))
        assert.equal(0, look(8))
    end)
end)
