-- What a primitive of one's own can say beside its scripts: which votes add up, who may hold it
-- together, what becomes of the answers.
local support = require "spec.support"
local redlock = require "redlock"

local set = "return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0"
local del = "return redis.call('get', KEYS[1]) == ARGV[1] and redis.call('del', KEYS[1]) or 0"

local function define(name, more)
    local def = { name = name, acquire = set, release = del }
    for field, value in pairs(more) do
        def[field] = value
    end
    return redlock.primitive(def)
end

describe("a primitive", function()
    local cluster = support.shared_cluster(3)
    local client

    setup(function() client = support.warm_client(cluster, { lease = 3, fallback = 0.3 }) end)

    -- Each server gives the lowest of two places that is free there, and says which.
    local places = define("places", {
        vote = "same", shared = true,
        acquire = [[
            for i = 1, 2 do
                if redis.call('hget', KEYS[1], i) == ARGV[1] then return {2, i} end
            end
            for i = 1, 2 do
                local wanted = ARGV[3] == '0' or ARGV[3] == tostring(i)
                if wanted and redis.call('hsetnx', KEYS[1], i, ARGV[1]) == 1 then
                    redis.call('pexpire', KEYS[1], ARGV[2])
                    return {1, i}
                end
            end
            return 0
        ]],
        release = [[
            for i = 1, 2 do
                if redis.call('hget', KEYS[1], i) == ARGV[1] then
                    redis.call('set', 'said', ARGV[3])
                    return redis.call('hdel', KEYS[1], i)
                end
            end
            return 0
        ]],
        granted = function(lock, hold, answers)
            lock.place, lock.answers = hold.agreed, answers
        end,
    })

    it("knows the number that was agreed upon, and so do its scripts", function()
        local a, b = client:get(places, "x", { owner = 1 }), client:get(places, "x", { owner = 2 })
        assert.is_true(a:tryLock(1, 10))
        assert.is_true(b:tryLock(1, 10))
        assert.same({ 1, 2 }, { a.place, b.place })
        assert.is_true(#a.answers >= 2)
        for _, answer in ipairs(a.answers) do
            assert.same({ 1, 1 }, { answer.vote, answer.info })
        end
        support.fails("held", client:get(places, "x", { owner = 3 }):tryLock(0, 10))
        assert.is_true(b:unlock())
        support.eventually(function() return cluster[1]:call("GET", "said") == "2" end)
        assert.is_true(a:unlock())
    end)

    it("with the largest counter has a token, which grows, and is wrapped by the guard", function()
        local counted = define("counted", {
            vote = "largest",
            acquire = [[
                redis.call('rpush', 'seen', #KEYS, #ARGV, ARGV[3])
                if not redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
                    return redis.call('get', KEYS[1]) == ARGV[1]
                        and {2, tonumber(redis.call('get', KEYS[2]))} or 0
                end
                return {1, redis.call('incr', KEYS[2])}
            ]],
            confirm = [[
                local n, token = tonumber(redis.call('get', KEYS[2]) or 0), tonumber(ARGV[3])
                if redis.call('get', KEYS[1]) ~= ARGV[1] then return -1 end
                if n > token then return {0, n} end
                redis.call('set', KEYS[2], ARGV[3])
                return 1
            ]],
            keys = function(_, name) return { name, name .. ":count" } end,
        })
        cluster[1]:call("SET", "x:count", 40)
        local guarded = support.warm_client(cluster, { restart_guard = true })
        assert.is_true(guarded:init())
        local l = guarded:get(counted, "x")
        local ok, token = l:tryLock(1, 10)
        assert.is_true(ok)
        assert.is_true(l:unlock())
        local again, larger = l:tryLock(1, 10)
        assert.is_true(again)
        assert.is_true(larger > token, larger)
        assert.is_true(l:unlock())
        assert.same({ "2", "3", "0" }, support.eventually(function()
            local seen = cluster[2]:call("LRANGE", "seen", 0, 2)
            return seen[1] and seen
        end))
        guarded:close()
    end)

    it("that is shared has several holders here, and none waits for another", function()
        local shared = define("shared", { shared = true, line = false,
            acquire = [[
                if redis.call('exists', 'door') == 1 then return {0, 100} end
                redis.call('zadd', KEYS[1], 0, ARGV[1])
                redis.call('pexpire', KEYS[1], ARGV[2])
                return 1
            ]],
            release = "return redis.call('zrem', KEYS[1], ARGV[1])" })
        local a, b = client:get(shared, "x", { owner = 1 }), client:get(shared, "x", { owner = 2 })
        assert.is_true(a:lock())
        cluster:each(function(s) s:call("SET", "door", "", "PX", 300) end)
        assert.is_true(b:tryLock(10))        -- one that is not shared would be `deadlock` at once
        assert.is_true(a:isValid())
        assert.is_true(a:unlock())
        assert.is_true(b:isValid())
        assert.is_true(b:unlock())
    end)

    it("is told of refusals, and of a wait that ends in vain, once", function()
        local told, args = {}, {}
        local queueing = define("queueing", {
            args = function(_, wait)
                args[#args + 1] = wait.mark or "first"
                return { args[#args] }
            end,
            acquire = "redis.call('set', 'arg', ARGV[3])"
                .. " if redis.call('exists', KEYS[1]) == 1 then return {0, 50, 'who'} end return 1",
            channel = function(_, name, wait) return name .. wait.id end,
            refused = function(_, wait, answers)
                told[#told + 1] = { wait.n, answers[1].data, #answers >= 2 }
                wait.mark = "n" .. wait.n
            end,
            gave_up = function(_, wait) told[#told + 1] = wait.mark end,
        })
        cluster:each(function(s) s:call("SET", "x", "somebody", "PX", 60000) end)
        local l = client:get(queueing, "x")
        support.fails("held", l:tryLock(1.5, 1))
        assert.same({ 1, "who", true }, told[1])
        assert.same({ 2, "who", true }, told[2])
        assert.equal("n" .. #told - 1, told[#told])
        assert.same({ "first", "n1", "n2" }, { args[1], args[2], args[3] })
        assert.equal(#told - 1, #args)
        support.eventually(function() return cluster[1]:call("GET", "arg") == args[#args] end)
        cluster:flush()
        told = {}
        assert.is_true(l:tryLock(1, 1))
        assert.same({}, told)
        l:unlock()
    end)

    it("can end a wait itself", function()
        local tired = define("tired", { refused = function(_, wait)
            return wait.n == 2 and "cancelled" or nil
        end })
        cluster:each(function(s) s:call("SET", "x", "somebody", "PX", 60000) end)
        local from = support.now()
        support.fails("cancelled", client:get(tired, "x"):tryLock(30, 1))
        assert.is_true(support.now() - from < 20)
    end)

    it("can refuse to be entered again", function()
        local once = define("once only", { reenter = function(_, hold)
            return hold.count == 1 or nil, "unsupported"
        end })
        local l = client:get(once, "x")
        assert.is_true(l:tryLock(1, 10))
        assert.is_true(l:tryLock(1, 10))
        support.fails("unsupported", l:tryLock(1, 10))
        support.fails("unsupported", l:lock())
        assert.equal(2, l:getHoldCount())
        assert.is_true(l:unlock())
        assert.is_true(l:unlock())
    end)

    it("has questions of its own", function()
        local asked = define("asked", { asks = {
            sum = { "return {1, ARGV[1] + ARGV[2], table.concat(KEYS, ',')}" } } })
        local l = client:get(asked, "x")
        local answers = l:ask("sum", { "2", "3" })
        assert.is_true(#answers >= 2)
        for _, answer in ipairs(answers) do
            assert.same({ 1, 5, "x", true },
                { answer.vote, answer.info, answer.data, answer.agreed })
        end
        for pattern, call in pairs {
            ["bad question"] = function() l:ask "peek" end,
            ["bad arguments"] = function() l:ask("sum", { 1 }) end,
        } do
            assert.error_matches(call, pattern)
        end
        assert.error_matches(function() client:getFencedLock("x"):ask "seed" end, "bad question")
    end)

    it("asks with the guard only servers that may vote", function()
        local new = support.cluster(3, { new = true })
        local c = support.warm_client(new, { restart_guard = true })
        local script = "redis.call('set', KEYS[1], #KEYS .. ' ' .. #ARGV) return 1"
        local asked = define("guarded", { asks = { put = { script, guarded = true },
            look = { script } } })
        local l = c:get(asked, "x")
        assert.matches("guarded", support.fails("no_quorum", l:ask("put", { "a" })).message)
        assert.is_nil(new[1]:call("GET", "x"))
        support.fails("no_quorum", l:ask("look", { "a" }))      -- it runs, and is not counted
        support.eventually(function() return new[1]:call("GET", "x") == "1 1" end)
        new[1]:call("DEL", "x")
        assert.is_true(c:init { force = true })
        assert.is_true(#l:ask("look", { "a" }) >= 2)
        assert.is_true(#l:ask("put", { "a" }) >= 2)
        support.eventually(function() return new[1]:call("GET", "x") == "1 1" end)
        c:close()
        new:stop()
    end)

    it("gives a server its keys again by heal, behind the guard, which it does not see", function()
        local healing = define("healing", {
            extend = [[
                if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
                return redis.call('pexpire', KEYS[1], ARGV[2])
            ]],
            heal = "redis.call('set', 'healed', #KEYS .. ' ' .. #ARGV, 'PX', 5000)"
                .. " redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) return 1",
            args = function() return { "one", "two" } end,
        })
        local guarded = support.warm_client(cluster, { restart_guard = true })
        assert.is_true(guarded:init())
        local l = guarded:get(healing, "x")
        assert.is_true(l:tryLock(1, 10))
        support.eventually(function() return cluster[2]:call("DEL", "x") == 1 end)
        support.eventually(function()        -- an answer that is late heals with the next one
            assert.is_true(l:extend())
            return cluster[2]:call("GET", "healed") == "1 4"
        end)
        support.eventually(function() return cluster[2]:call("EXISTS", "x") == 1 end)
        assert.is_true(l:unlock())
        guarded:close()
    end)

    it("is opened by force, as each server has told", function()
        local told = {}
        local forced = define("forced", { force = [[
            local value, named = redis.call('get', KEYS[1]), ARGV[#ARGV]
            if not value or named ~= '' and named ~= value then return 0 end
            if named == '' then return {1, 0, value} end
            redis.call('lpush', 'removed', value)
            return redis.call('del', KEYS[1])]] })
        local l = client:get(forced, "x")
        assert.is_false(l:forceUnlock())
        for i, value in ipairs { "one", "two", "two" } do
            cluster[i]:call("SET", "x", value, "PX", "60000")
        end
        assert.is_true(l:forceUnlock())
        for i = 1, 3 do
            told[i] = cluster[i]:call("LRANGE", "removed", "0", "-1")[1]
        end
        assert.same({ "one", "two", "two" }, told)
        assert.is_false(l:forceUnlock())
        support.fails("unsupported", l:forceUnlock { holder = "59eca9ec" })
    end)

    it("leaves by settle what outlasts a lease, and the hold", function()
        local lasting = define("lasting", {
            settle = "return redis.call('get', KEYS[1]) == ARGV[1]"
                .. " and redis.call('pexpire', KEYS[1], ARGV[2]) or 0" })
        local l = client:get(lasting, "x")
        support.fails("not_held", l:settle(3600))
        assert.is_true(l:tryLock(1, 2))
        assert.is_true(l:settle(3600, { keep = true }))
        assert.is_true(l:isValid())
        assert.is_true(l:unlock())
        cluster:await_free()
        assert.is_true(l:tryLock(1, 2))
        assert.is_true(l:settle(3600))
        assert.is_false(l:isValid())
        assert.equal(0, l:getHoldCount())
        support.eventually(function()
            return cluster[1]:call("PTTL", "x") > 3500000 and cluster[2]:call("PTTL", "x") > 3500000
        end)
        support.fails("not_held", l:unlock())
        assert.is_true(cluster[1]:call("PTTL", "x") > 3500000)
        assert.error_matches(function() l:settle(0) end, "bad seconds")
    end)

    it("has 128 keys, and no more", function()
        local n = 128
        local many = define("many", {
            acquire = "for i = 1, #KEYS do redis.call('set', KEYS[i], ARGV[1], 'PX', ARGV[2]) end"
                .. " return 1",
            release = "return redis.call('del', unpack(KEYS)) > 0 and 1 or 0",
            keys = function(_, name)
                local list = {}
                for i = 1, n do list[i] = name .. i end
                return list
            end })
        assert.is_true(client:get(many, "x"):tryLock(1, 10))
        support.eventually(function() return cluster[1]:call "DBSIZE" >= 128 end)
        assert.is_true(client:get(many, "x"):unlock())
        n = 129
        assert.error_matches(function() client:get(many, "x"):tryLock(1, 10) end,
            "at most 128 strings")
    end)
end)
