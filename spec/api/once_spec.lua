-- Once per period.
local redlock = require "redlock"
local support = require "spec.support"
local torture = require "spec.support.torture"

describe("once per period", function()
    local cluster, client, other

    support.two_clients(3, { lease = 2 }, function(...) cluster, client, other = ... end)

    for what, opts in pairs { ["by default"] = {}, ["settled before"] = { before = true } } do
        describe(what, function()
            it("runs a job, and not again before the period is over", function()
                local n = 0
                local function job()
                    n = n + 1
                    return "done", n
                end
                local from = support.now()
                assert.same({ true, "done", 1 }, { client:once("x", 2, job, opts) })
                assert.is_true(support.fails("held", other:once("x", 2, job, opts)).done)
                assert.is_true(support.fails("held", client:once("x", 2, job, opts)).done)
                support.eventually(function() return other:once("x", 1, job, opts) end, 20)
                assert.equal(2, n)
                assert.is_true(support.now() - from >= 2)
            end)

            it("keeps out others while it runs, and locks of the name", function()
                assert.is_true(client:once("x", 3600, function()
                    local err = support.fails("held", other:once("x", 3600, error, opts))
                    assert.equal(opts.before == true, err.done)
                    assert.is_string(err.holder.label)
                    support.fails("held", other:getLock("x"):tryLock(0))
                end, opts))
                support.eventually(function() return cluster[1]:call("PTTL", "x") > 3e6 end)
                support.fails("held", other:getLock("x"):tryLock(0))
            end)
        end)
    end

    it("gives the job its lock, which nobody has with `before`", function()
        assert.is_true(client:once("x", 60, function(lock, token)
            assert.is_true(lock:isValid())
            assert.is_nil(token)
            assert.is_true(lock:tryLock())             -- left with the function
        end))
        support.eventually(function() return cluster[1]:call("PTTL", "x") > 50000 end)
        support.fails("held", other:getLock("x"):tryLock())
        assert.is_true(client:once("y", 60, function(lock, token)
            assert.same({}, { lock, token })
        end, { before = true }))
    end)

    it("gives it a token that grows", function()
        local last = 0
        for _, before in ipairs { false, true, false, true } do
            support.eventually(function()
                return other:once("x", 0.2, function(lock, token)
                    assert.is_true(token > last)
                    last = token
                    assert.equal(not before and token or nil, lock and lock:token())
                end, { fenced = true, before = before })
            end, 20)
        end
        support.eventually(function() return client:getFencedLock("x"):tryLock() end, 20)
        assert.is_true(client:getFencedLock("x"):token() > last)
    end)

    it("may be repeated by default when the job fails or dies", function()
        local ok, err = pcall(function() client:once("x", 3600, function() error "broken" end) end)
        assert.is_false(ok)
        assert.matches("broken", err)
        local p = support.child(cluster, "{ lease = 3 }", [[
            client:once("x", 3600, function() print "in" io.read() end)
        ]])
        assert.equal("ready", p:read_line(20))
        assert.equal("in", p:read_line(20))
        p:kill "KILL"
        p:wait(10)
        assert.is_false(support.fails("held", client:once("x", 3600, error)).done)
        support.eventually(function() return client:once("x", 3600, function() end) end, 20)
    end)

    it("is not repeated with `before`, whatever becomes of the job", function()
        local function broken()
            client:once("x", 3600, function() error "broken" end, { before = true })
        end
        assert.is_false((pcall(broken)))
        support.fails("held", other:once("x", 3600, error, { before = true }))
        local p = support.child(cluster, "{ lease = 1 }", [[
            client:once("y", 3600, function() print "in" io.read() end, { before = true })
        ]])
        assert.equal("ready", p:read_line(20))
        assert.equal("in", p:read_line(20))
        p:kill "KILL"
        p:wait(10)
        support.sleep(1.5)
        support.fails("held", other:once("y", 3600, error, { before = true }))
        client:close()
        support.sleep(0.1)
        support.fails("held", other:once("x", 3600, error, { before = true }))
    end)

    it("says that it has run also where holders are not named", function()
        local nameless = support.warm_client(cluster, { label = false })
        for name, opts in pairs { x = {}, y = { before = true } } do
            assert.is_true(nameless:once(name, 60, function() end, opts))
            assert.is_true(support.fails("held", other:once(name, 60, error)).done)
        end
        nameless:close()
    end)

    it("leaves alone what its owner holds already", function()
        local l = client:getLock("x", { owner = "me" })
        assert.is_true(l:lock())
        for _, before in ipairs { false, true } do
            support.fails("deadlock",
                client:once("x", 60, error, { owner = "me", before = before }))
        end
        assert.equal(1, l:getHoldCount())
        assert.is_true(l:unlock())
        assert.is_true(client:once("x", 60, function()
            support.fails("deadlock", client:once("x", 60, error, { owner = "me" }))
        end, { owner = "me" }))
    end)

    it("says that the lock was lost meanwhile", function()
        local ran = false
        local ok, err = client:once("x", 60, function()
            ran = true
            cluster:each(function(s) s:call("SET", "x", "somebody") end)
            support.eventually(function()
                client:getLock("y"):remaining()
                return client:stats().lost == 1
            end, 20)
        end)
        assert.is_nil(ok)
        assert.same({ "lost", true }, { err.code, ran })
        assert.equal("somebody", cluster[1]:call("GET", "x"))
    end)

    it("does not begin where it cannot be settled", function()
        local gaps = support.proxies(cluster)
        local far = support.warm_client(gaps, { lease = 2, timeout = 0.3 })
        support.all(gaps):hold("both", true)
        local ok, err = far:once("x", 60, error, { before = true })
        assert.is_nil(ok)
        assert.equal("no_quorum", err.code)
        support.all(gaps):hold("both", false)
        far:close()
    end)

    it("does not begin when its period is over", function()
        local server = support.server()
        local proxy = support.proxy(server.port)
        local slow = support.client({ proxy }, { timeout = 5, connect_timeout = 5 })
        local n = 0
        local function job() n = n + 1 end
        assert.is_true(slow:once("y", 0.001, job))
        proxy:delay("down", 600)
        local ok, err = slow:once("x", 0.5, job, { before = true })
        assert.is_nil(ok)
        assert.equal("expired", err.code)
        assert.equal(1, n)
        slow:close()
    end)

    it("does not begin when its program stopped until the lease was over", function()
        local world = require("redlock.testing").new { client = { lease = 2 } }
        local its = world:client()
        local methods = getmetatable(its:getLock "x")
        local tryLock = methods.tryLock
        finally(function() methods.tryLock = tryLock end)
        function methods.tryLock(lock)
            assert(tryLock(lock))
            world:stop(its, 3)
            return true
        end
        support.fails("expired", its:once("x", 60, error))
    end)

    it("is checked", function()
        for pattern, call in pairs {
            ["bad period"] = function() client:once("x", 0, error) end,
            ["bad fn"] = function() client:once("x", 1) end,
            ["bad fenced"] = function() client:once("x", 1, error, { fenced = 1 }) end,
            ["bad before"] = function() client:once("x", 1, error, { before = 1 }) end,
            ["unknown option 'lease'"] = function() client:once("x", 1, error, { lease = 1 }) end,
        } do
            assert.error_matches(call, pattern)
        end
    end)
end)

-- ---- histories -------------------------------------------------------------------

-- Starts of one job, all with `before`, by name of the period.
local CODE = [[
    local period = math.floor(sys.now() * 4)
    local done = client:once("job" .. period, 5, function()
        log("start", period)
        if random(3) == 1 then error "broken" end
    end, { before = who % 2 == 0 })
    if done then log("end", period) end
]]

-- What is wrong with a history of starts; nil: nothing.
local function wrong(history)
    local first, ended = {}, {}
    for _, line in ipairs(history) do
        local period = line[4]
        if line.word == "start" and (first[period] == "before" or ended[period]) then
            return "period " .. period .. " again"
        elseif line.word == "start" then
            first[period] = line.who % 2 == 0 and "before" or "may be repeated"
        else
            ended[period] = true
        end
    end
end

describe("a history of periods", function()
    local function code(text)
        return "if not pcall(function() " .. text .. " end) then log('broken', 0) end"
    end

    local function starts(history)
        local list = {}
        for _, l in ipairs(history) do
            if l.word ~= "broken" then
                list[#list + 1] = l
            end
        end
        return list
    end

    it("has no second start where there must be none, whatever fails", function()
        assert.is_nil(wrong(starts(torture.run { code = code(CODE),
            enough = function(history) return #starts(history) > 30 end })))
    end)

    it("shows if what is settled was let go", function()
        local broken = { "scripts/lock/settle.lua",
            "redis.call('set', KEYS[1], closed", "redis.call('del', KEYS[1], closed" }
        torture.run { broken = { broken }, code = code(CODE),
            enough = function(history) return wrong(starts(history)) end }
    end)
end)

-- Machines whose clocks differ start a job once a second; some die in the middle of it.
describe("thousands of periods of three machines", function()
    local PERIODS, EACH = tonumber(os.getenv "REDLOCK_PERIODS" or 5000), 100
    local BEHIND, LENGTH, CRASHES = 0.05, 0.1, 27      -- as many clients as a world has room for

    -- @return how many periods had a start; what was wrong, or nil; how many machines died
    local function periods(seed, before)
        local world = redlock.testing.new { seed = seed, client = { lease = 0.5 } }
        local machines, starts, ended, fault, died = {}, {}, {}, nil, 0
        local random = seed * 7919
        local function below(n)
            random = (random * 16807) % 2147483647
            return random % n
        end
        for i = 1, 3 do
            machines[i] = world:client()
            world:step_clock(i, i * 1000)
        end
        local function run(i, n)
            world:advance(below(100) / 100 * BEHIND)
            machines[i]:once("job", 0.8, function()
                starts[n] = (starts[n] or 0) + 1
                if before and starts[n] > 1 or ended[n] then
                    fault = ("period %d again"):format(n)
                end
                if died < CRASHES and below(3) == 0 then
                    died = died + 1
                    world:crash(machines[i])
                    machines[i] = world:client()
                    world:advance(10)                  -- its coroutines do not go on
                end
                world:advance(below(100) / 100 * LENGTH)
                ended[n] = true
            end, { before = before })
        end
        for n = 1, EACH do
            for i = 1, 3 do
                world:spawn(run, i, n)
            end
            world:advance(1)
        end
        world:close()
        return #starts, fault, died
    end

    for _, before in ipairs { true, false } do
        it("have no second start" .. (before and "" or " behind one that returned"), function()
            for seed = 1, math.ceil(PERIODS / EACH / 2) do
                local n, fault, died = periods(seed, before)
                assert.is_nil(fault)
                assert.equal(EACH, n)
                assert.is_true(died > 20, died)
            end
        end)
    end
end)
