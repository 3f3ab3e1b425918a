-- Tokens stay in their range, whatever a server's floors, its counters or a token in transit
-- say: what is out of it spreads to nobody, and what has lost its number learns another one.
local support = require "spec.support"
local hash = require("redlock.text.encoding").hash

local FENCE, FLOORS = "redlock:{x}:fence", "redlock:{server}:floor"
local BUCKET = ("%d"):format(hash "x" % 1024)
local MAX_LEASE = 0.5
local OPTS = { max_lease = MAX_LEASE, lease = 0.4 }

local function run_of(server)
    return server:memory()
end

local function floor_of(server)
    return (server:call("HGET", FLOORS, "most") or ""):sub(9)
end

-- run: what the server's numbers stand behind; default: its memory's name.
local function set_floor(server, text, run)
    text = (run or run_of(server:await_idle())) .. text
    server:call("HSET", FLOORS, BUCKET, text, "base", text, "most", text)
    server:call("DEL", FENCE)
end

local function once(client, lease)
    local l = client:getFencedLock "x"
    local ok, token = l:tryLock(5, lease or 0.4)
    assert.is_true(ok, tostring(token))
    l:unlock()
    return token
end

local function finding(client, i)
    for _, found in ipairs(client:check()[i].findings) do
        if found.kind == "tokens" then
            return found
        end
    end
end

-- What nobody can have come to.
local WILD = { "99999999999998", "100000000000000", ("9"):rep(400), "1e+14", "nan", "-5", "" }
-- What is below all that others have: that is caught up with.
local LOW = { "7", "0x10" }

describe("a floor out of range", function()
    local cluster, client, events

    before_each(function()
        events = {}
        cluster = support.cluster(3, { new = true }):admit(MAX_LEASE)
        local opts = { on_event = function(e) events[#events + 1] = e end }
        for name, value in pairs(OPTS) do
            opts[name] = value
        end
        client = support.warm_client(cluster, opts)
    end)

    local function heard(kind)
        for _, e in ipairs(events) do
            if e.kind == kind or e.type == kind then
                return e
            end
        end
    end

    -- One server has it for a floor; it has a vote again, and tokens go on as ever.
    local function goes_on(text)
        local last = once(client)
        set_floor(cluster[1], text)
        for _ = 1, 10 do
            local token = once(client)
            assert.is_true(token > last and token - last < 100, token)
            last = token
        end
        support.eventually(function()
            last = once(client)
            local floor = tonumber(floor_of(cluster[1]:await_idle()))
            return floor and floor >= last and floor - last < 200
        end, 20, "a floor as the others have it")
        cluster[3]:kill()
        local token
        support.eventually(function()
            local l = client:getFencedLock "x"
            local ok, t = l:tryLock(0, 0.4)
            token = ok and t
            return ok and (l:unlock() or true)
        end, 20, "a vote of the first server")
        assert.is_true(token > last and token - last < 1000)
    end

    for _, text in ipairs(WILD) do
        it("of one server is not followed, and learned anew: " .. text:sub(1, 20), function()
            goes_on(text)
            assert.truthy(heard "node_guarded")      -- after a quarantine
        end)
    end

    for _, text in ipairs(LOW) do
        it("of one server is caught up with where it is too low: " .. text, function()
            goes_on(text)
        end)
    end

    it("is told of", function()
        once(client)
        set_floor(cluster[2], "99999999999998")
        local found = support.eventually(function() return finding(client, 2) end)
        assert.equal("warning", found.verdict)
        assert.matches("99999999999998", found.message, 1, true)
        assert.is_nil(finding(client, 1))
        support.eventually(function()
            once(client)
            return heard "node_guarded"
        end)
        assert.equal(cluster[2].uri, heard("node_guarded").node)
        assert.is_nil(finding(client, 2))        -- forgotten, and learned after a quarantine
    end)

    -- Too few are left to learn from, and it might be them who are wrong.
    it("of a majority is left as it is, and named with the remedy", function()
        local last = once(client)
        for i = 1, 2 do
            set_floor(cluster[i], "99999999999998")
        end
        local l = client:getFencedLock "x"
        local err
        support.eventually(function()
            err = support.fails("no_quorum", l:tryLock(0.2, 0.4))
            return err.nodes[1].code == "unseeded" and err.nodes[2].code == "unseeded"
        end)
        for i = 1, 2 do
            assert.matches("counts fencing tokens years ahead", err.nodes[i].message, 1, true)
            assert.matches("delete redlock:{server}:floor", err.nodes[i].message, 1, true)
            assert.equal("99999999999998", floor_of(cluster[i]))
            local found = support.eventually(function() return finding(client, i) end)
            assert.matches("delete redlock:{server}:floor", found.message, 1, true)
            assert.equal("a", cluster[i]:marked().state)
        end
        assert.is_true(client:getLock("x"):tryLock(5, 0.4))       -- plain locks are had
        client:getLock("x"):unlock()
        for i = 1, 2 do
            cluster[i]:call("DEL", FLOORS)                        -- the remedy
        end
        local _, token = support.eventually(function() return l:tryLock(0, 0.4) end, 20, "a token")
        assert.is_true(token > last and token < 5e13)
    end)

    it("that a restarted server brings along is not believed", function()
        local last = once(client)
        local other = run_of(cluster[3])
        cluster[3]:restart()
        set_floor(cluster[3], "99999999999998", other)
        support.eventually(function()
            last = once(client)
            local floor = tonumber(floor_of(cluster[3]))
            return floor and floor >= last and floor < 5e13
        end, 20, "a floor as the others have it")
    end)

    it("is no floor for others", function()
        local last = once(client)
        set_floor(cluster[1], "99999999999998")
        cluster[2]:restart()
        -- One of two who remember is wrong: nobody can be taught.
        support.eventually(function()
            local ok, err = client:getFencedLock("x"):tryLock(0, 0.4)
            return not ok and err.nodes[1].code == "unseeded" and err.nodes[2].code == "unseeded"
        end, 20)
        assert.equal("", floor_of(cluster[2]))
        cluster[1]:call("DEL", FLOORS)
        local l = client:getFencedLock "x"
        local _, token = support.eventually(function() return l:tryLock(0, 0.4) end, 20, "a token")
        assert.is_true(token > last and token < 5e13)
    end)
end)

describe("of a single server", function()
    it("a floor out of range is named with the remedy", function()
        local cluster = support.cluster(1)
        local client = support.warm_client(cluster, { timeout = 5 })
        local last = once(client)
        set_floor(cluster[1], "99999999999998")
        local ok, err = client:getFencedLock("x"):tryLock()
        assert.is_nil(ok)
        assert.matches("delete redlock:{server}:floor", tostring(err), 1, true)
        cluster[1]:call("DEL", FLOORS)
        support.sleep(0.002)                     -- to the next millisecond of the clock
        local token = once(client)
        assert.is_true(token > last and token < 5e13, ("%.0f after %.0f"):format(token, last))
    end)

    -- At the top of the range there is room for what counts on there, and no more.
    it("the last numbers are given out once", function()
        local cluster = support.cluster(1)
        local client = support.warm_client(cluster, { timeout = 5 })
        once(client)
        client.token_limit = ("%.0f"):format(once(client) + 3)
        local limit = tonumber(client.token_limit)
        -- Its client has no guard.
        set_floor(cluster[1], ("%.0f"):format(limit - 2), cluster[1]:life():sub(1, 8))
        assert.equal(limit - 1, once(client, 20))
        local token = once(client)               -- by a limit of now
        assert.is_true(token >= limit and token < limit + 100)
    end)
end)

describe("a counter out of range", function()
    it("is no counter: the floor is one", function()
        local cluster = support.cluster(3)
        local client = support.warm_client(cluster)
        for _, text in ipairs(WILD) do
            local last = once(client)
            support.eventually(function() return cluster:keys() == 3 end)
            cluster:each(function(s) s:call("SET", FENCE, run_of(s) .. text .. " 0123abcd") end)
            local token = once(client)
            assert.is_true(token > last and token - last < 100, text)
        end
    end)
end)

describe("an exported hold", function()
    local cluster, giver, taker

    before_each(function()
        cluster = support.cluster(3)
        giver, taker = support.warm_client(cluster), support.warm_client(cluster)
    end)

    local function export(lease)
        local l = giver:getFencedLock "x"
        local ok, token = l:tryLock(5, lease or 20)
        assert.is_true(ok, tostring(token))
        giver:check()                            -- all have it
        return l:export(), token
    end

    local function counters()
        local list = {}
        cluster:each(function(s, i) list[i] = s:call("GET", FENCE) end)
        return table.concat(list, " ")
    end

    it("is refused when a letter of it was changed, and can be had still", function()
        local text = export()
        for i = 1, #text do
            local c = text:sub(i, i)
            local wrong = text:sub(1, i - 1) .. (c == "7" and "8" or "7") .. text:sub(i + 1)
            support.fails("config", taker:import(wrong))
        end
        assert.is_nil((taker:import(text:sub(1, -2))))
        assert.is_nil((taker:import(text .. "0")))
        assert.is_true(assert(taker:import(text)):unlock())
    end)

    it("raises no counter, whatever it says its token is", function()
        local forged = require "spec.support.forged"
        local text, token = export()
        local before = counters()
        for _, other in ipairs { token + 1, token - 1, token + 1000, 99999999999999 } do
            local wrong = forged(text, { token = ("%.0f"):format(other) })
            support.fails("lost", taker:import(wrong))
            assert.equal(before, counters())
        end
        local l = assert(taker:import(text))
        assert.equal(token, l:token())
        assert.is_true(l:unlock())
        local ok, next_token = giver:getFencedLock("x"):tryLock(5)
        assert.is_true(ok)
        assert.equal(token + 1, next_token)
    end)

    -- It keeps the exported value for as long as that lasts.
    it("is had where a server is behind, and catches up", function()
        local text, token = export(3)
        local run = run_of(cluster[1])
        cluster[1]:call("SET", FENCE, ("%s%.0f 01234567"):format(run, token - 1))
        local l = assert(taker:import(text))
        assert.equal(token, l:token())
        support.eventually(function()
            assert.is_true((l:extend(20)))
            return cluster[1]:call("GET", FENCE):match("^%d+", 9) == ("%.0f"):format(token)
        end)
        assert.is_true(l:unlock())
    end)

    -- As after a heal on a server that was to be taught its tokens first.
    it("is had where a server was lent the lock, and its release counts there", function()
        local text, token = export()
        local stored = cluster[1]:call("GET", FENCE)
        set_floor(cluster[1], ("%.0f"):format(token - 1))
        cluster[1]:call("SET", FENCE, (stored:gsub("^" .. run_of(cluster[1]), "%0=")))
        local l = assert(taker:import(text))
        assert.equal(token, l:token())
        assert.is_true(l:unlock())
        support.eventually(function() return cluster[1]:call("GET", FENCE) == stored end)
    end)

    it("is lost, or unknown, as the servers say", function()
        local text = export()
        cluster[1]:call("DEL", FENCE)
        cluster[2]:freeze()
        local ok, err = taker:import(text)
        cluster[2]:thaw()
        assert.is_nil(ok)
        assert.equal("unknown", err.code)
        cluster:await_none "x"                   -- what it took is released
        support.fails("lost", taker:import(text))
    end)
end)
