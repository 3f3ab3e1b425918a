-- Every script that ships gives the same replies on the model of a server and on a real one, and
-- leaves the same keys.
local latch = require "redlock.kinds.latch"
local fair = require "redlock.kinds.fair_lock"
local fenced = require "redlock.kinds.fenced_lock"
local fenced_writer = require "redlock.kinds.fenced_write_lock"
local multi = require "redlock.kinds.multi_lock"
local plain = require "redlock.kinds.plain_lock"
local resource = require "redlock.resource"
local restart_guard = require "redlock.servers.restart_guard"
local rw = require "redlock.kinds.read_write_lock"
local script_text = require "redlock.runtime.script_text"
local semaphore = require "redlock.kinds.semaphore"
local support = require "spec.support"
local sys = require "spec.support.sys"
local twins = require "spec.support.twins"

local STEPS = tonumber(os.getenv "STEPS" or 300)         -- of each kind
local VALUES = { "aaaa1111", "bbbb2222", "cccc3333", "dddd4444",
    "eeee5555" .. ("0"):rep(32) .. " 19ab0000000 web-1" }
local WAITERS = { "a1", "a2", "a3" }
local LIMIT = "100000000000000"
local MARKER, FLOORS = "redlock:{server}:marker", "redlock:{server}:floor"
local INC = "00112233445566ff"

local replid                 -- of both servers
local calls = 0

local function pick(list)
    return list[math.random(#list)]
end

-- Ends that order members are never so near each other that what is between the two servers' clocks
-- could decide.
local function lease()
    calls = calls + 1
    return ("%d"):format(pick { 100000, 300000, 500000 } + calls * 11)
end

local function short()
    return math.random(12) == 1 and "1" or lease()
end

-- The words of a script's call.
local function eval(text, keys, args)
    local words = { "EVAL", text, tostring(#keys) }
    for _, list in ipairs { keys, args } do
        for _, word in ipairs(list) do
            words[#words + 1] = word
        end
    end
    return words
end

-- That of a lock's primitive: value, lease, and what is behind them.
local function of_lease(prim, keys, ...)
    local roles = {}
    for _, role in ipairs { "acquire", "extend", "heal", "release", "import", "settle" } do
        roles[#roles + 1] = prim[role .. "_script"] and role or nil
    end
    local role = pick(roles)
    local args = { pick(VALUES), role == "release" and pick { "0", "1000" } or short() }
    if role == "import" then
        args[3] = pick(VALUES)
    end
    for _, arg in ipairs { ... } do
        args[#args + 1] = arg
    end
    args[#args + 1] = role == "settle" and pick { "closed", "" } or nil
    return eval(prim[role .. "_script"], keys, args)
end

local function some_keys()
    local keys = { "a", "b", "c", "k" }
    table.remove(keys, math.random(4))
    table.remove(keys, math.random(3))
    return keys
end

local function marker(state)
    return ("%s v4 %s %s 0 60000 orders"):format(INC, state, replid:sub(1, 16))
end

-- One that is there: unless the server is admitted, with what the script appends.
local function written(state)
    return marker(state) .. (state == "a" and "" or " 31005 1000")
end

-- Many are extended at once, with the guard and without.
local function extend_many()
    local keys, args = some_keys(), {}
    keys[#keys + 1] = "k"
    for _ = 1, #keys do
        args[#args + 1] = pick(VALUES)
        args[#args + 1] = lease()
    end
    return eval(plain.extend_many, keys, args)
end

-- One of the questions of a primitive.
local function ask(prim, name, keys, ...)
    return eval(prim[name .. "_script"], keys, { ... })
end

local RW = { "k", "redlock:{k}:door" }
local SLOTS = { "redlock:{k}:slots", "redlock:{k}:who" }
local FAIR = { "k", "redlock:{k}:queue", "redlock:{k}:living", "redlock:{k}:standing" }
local LATCH = { "redlock:{k}:latch", "redlock:{k}:arrived" }
local FENCED = { "k", "redlock:{k}:fence", FLOORS }

local function inspect(name)
    return script_text.own("now", "inspect.describe", "inspect." .. name)
end

local function slots_call()
    if math.random(20) == 1 then
        return ask(semaphore.permit, "open", SLOTS, "3", "0", "free")
    end
    local role, prim = pick { "acquire", "acquire", "extend", "release", "import", "settle" },
        semaphore.permit
    local agreed = role == "acquire" and pick { "0", "0", "2" } or pick { "1", "2", "3" }
    local args = { pick(VALUES), role == "release" and pick { "0", "1000" } or short(), agreed, "3",
        pick { "0", "1", "2" }, "free" }
    if role == "import" then
        table.insert(args, 4, pick(VALUES))
    end
    return eval(prim[role .. "_script"], SLOTS, args)
end

local function count_call()
    return eval(semaphore.permit.count_script, { SLOTS[2], FENCED[2], FLOORS }, { pick(VALUES),
        pick { "1", "2" }, pick { "0", "0", "33", "70" }, "7", lease(), LIMIT, pick { "", "1" } })
end

local function fair_call()
    local waiter = pick { 0, 1, 2, 3 }
    local rest = { WAITERS[waiter] or "-", WAITERS[waiter] and pick { "1", "2", "5" } or "0",
        lease(), "1" }
    if math.random(6) == 1 then
        return ask(fair, "leave", FAIR, "", "0", unpack(rest))
    elseif math.random(6) == 1 then
        rest[5] = pick { "a1 1=", "a1 2-a2 2=", "a3 5=a1 5=a2 6-" }
        return ask(fair, "stand", FAIR, "", "0", unpack(rest))
    end
    return of_lease(fair, FAIR, unpack(rest))
end

local function latch_call()
    local prim = latch.primitive
    if math.random(3) > 1 then
        local who = {}
        for i = 1, math.random(0, 5) do
            who[i] = pick { "=", "+" } .. ("%016x"):format(math.random(30))
        end
        return ask(prim, pick { "look", "arrive" }, LATCH, pick { "", pick(VALUES) }, lease(),
            "open", pick { "-", "", "0000000000000005" }, pick { "0", "0", "20" }, unpack(who))
    elseif math.random(8) == 1 then
        return ask(prim, "delete", LATCH, "open")
    end
    return of_lease(prim, LATCH, pick { "2", "20" })
end

-- Numbers of a memory's name, which the guard's marker has where it is on.
local function fenced_call(prim, door)
    local role = pick { "acquire", "acquire", "confirm", "extend", "heal", "release", "import" }
    local token = role == "acquire" and "0" or pick { "1", "2", "33", "70" }
    local args = { pick(VALUES), role == "release" and pick { "0", "9" } or lease(), token }
    args[4] = role == "import" and pick(VALUES) or nil
    for _, arg in ipairs { "7", lease(), LIMIT, door or replid, door and replid } do
        args[#args + 1] = arg
    end
    return eval((prim or fenced)[role .. "_script"], FENCED, args)
end

local function leader_call()
    return pick {
        function() return ask(fenced, "look", FENCED) end,
        function() return ask(fenced, "tell", FENCED, "leaders") end,
        fenced_call, fenced_call, fenced_call,
    }()
end

local function server_call()
    return pick {
        function() return eval(restart_guard.wrap(plain.acquire_script), { "k" },
            { pick(VALUES), short(), pick { "", marker "a", marker "a" .. "!", "other" } }) end,
        function() return eval(restart_guard.wrap_answer(plain.extend_script), { "k" },
            { pick(VALUES), short(), pick { "", marker "a", marker "a" .. "!", "other" } }) end,
        function() return eval(script_text.own "marker.set", { MARKER },
            { pick { "", written "a", written "l" }, pick { marker(pick { "a", "n", "s", "l" }),
                replid }, pick { "", "a list" }, pick { "", "0", "2500" }, "61600",
                pick { "", "40", "27200000000000" } }) end,
        function() return { "SET", MARKER, pick { written "a", written "l", ("z"):rep(200), "a\0b",
            ("0"):rep(16) .. " v3 " .. ("z"):rep(200) } } end,
        function() return eval(script_text.own "fenced.tell", { FLOORS },
            { LIMIT, pick { "", "1" } }) end,
        function() return ask(fenced, "current", FENCED, pick { "1", "2" }, pick { "", "1" })
            end,
        function() return { "DEL", pick { MARKER, "k" } } end,
        function() return { "HDEL", FLOORS, pick { "marker", "7", "base", "most" } } end,
        fenced_call,
    }()
end

-- What is seen of locks; pages of one key, as servers have orders of their own.
local function inspect_call()
    if math.random(3) == 1 then
        return eval(script_text.own("now", "inspect.detail"),
            { "k", SLOTS[1], SLOTS[2], FAIR[2], FAIR[4], FAIR[3] }, { "free", "open" })
    end
    local prefix, foreign = pick { "", "", "k" }, pick { "0", "1" }
    return eval(inspect(pick { "page", "look" }), { "k", SLOTS[1], LATCH[1], "a", "b" },
        { prefix, foreign, "0", pick { "k", "*k}:slots", "*k}:latch", "a", "nothing*" }, "1000" })
end

local function resource_call()
    local by = pick { "token", "owner", "claim" }
    local word = pick { { "SET", "x" }, { "HSET", "f", "1" }, { "RPUSH", "x", "y" }, { "GET" },
        { "ZADD", "3", "x" }, { "INCRBY", "5" }, { "NONSENSE" } }
    return eval(resource.scripts[by], { by == "token" and "mark" or "owner", pick { "k", "a" } },
        { by == "token" and pick { "3", "8", "70", "x", LIMIT }
            or pick(VALUES), pick { "0", lease() },
            unpack(word) })
end

-- What makes the scripts meet each other, and what others left.
local function anything()
    return pick {
        function() return { "DEL", pick { "k", RW[2], SLOTS[1], FAIR[2], LATCH[1], "a" } } end,
        function() return { "HSET", pick { SLOTS[2], FAIR[4], LATCH[1] }, "format",
            pick { "1", "2" } } end,
        function() return { "SET", pick { "k", "a" }, pick(VALUES), "PX", lease() } end,
        function() return { "ZADD", "k", "5", "2 unknown" } end,
        function() return { "RPUSH", pick { "k", "a" }, "x" } end,
    }()
end

local SEEN = { ("%040x"):format(7), ("%040x 19ab0000000 web-1"):format(8) }

-- Of client:check(): takes a lock, and releases it.
local function trial_call()
    return eval(script_text.own "check.trial", { "k" },
        { pick { "take", "release" }, FENCED[2], FLOORS, "redlock:{k}:free",
            pick { "", MARKER } })
end

local KINDS = {
    ["a lock that is tried"] = function()
        return math.random(3) > 1 and trial_call() or { "DEL", pick { "k", FENCED[2] } }
    end,
    ["what is seen"] = function()
        return pick {
            inspect_call, inspect_call,
            function() return { "SET", pick { "k", "a" }, pick(SEEN), "PX", lease() } end,
            function()
                return of_lease(rw.reading, RW, pick { "0", lease() })
            end,
            slots_call, fair_call, latch_call,
            function() return { "DEL", pick { "k", "a", SLOTS[1], SLOTS[2], LATCH[1] } } end,
            function() return { "HSET", "a", "f", "1" } end,
            function() return { "PEXPIRE", pick { "a", "k" }, lease() } end,
            function() return { "SCAN", "0", "MATCH", pick { "k", "[k]", "[l-j]", "[\\k]",
                "nothing" }, "COUNT", "1000" } end,
            function() return { "GETRANGE", pick { "k", "a", "b" }, pick { "0", "2", "-3" },
                pick { "-1", "5", "512" } } end,
        }()
    end,
    ["a plain lock"] = function()
        return pick { extend_many, of_lease, of_lease, of_lease,
            function(prim, keys) return ask(prim, pick { "peek", "force" }, keys) end }(plain,
            { "k" })
    end,
    ["readers and writers"] = function()
        local prim = pick { rw.reading, rw.reading, rw.writing }
        local what = math.random(14)
        if what == 1 then
            return ask(prim, pick { "peek", "force" }, RW)
        elseif what == 2 then
            return ask(rw.writing, "open", RW)
        elseif what > 10 then
            return fenced_call(fenced_writer, pick { "0", lease() })
        end
        return of_lease(prim, RW, pick { "0", lease() })
    end,
    ["several names"] = function()
        if math.random(6) == 1 then
            return ask(multi.primitive, "peek", some_keys())
        end
        return of_lease(math.random(3) == 1 and plain or multi.primitive, some_keys())
    end,
    ["permits"] = function()
        local what = math.random(10)
        return what < 3 and ask(semaphore.permit, "taken", SLOTS, "6")
            or what < 5 and count_call() or what == 5 and { "HSET", FLOORS, "7", replid:sub(1, 8)
                .. pick { "31", "64" } } or slots_call()
    end,
    ["a queue"] = fair_call,
    ["a latch"] = latch_call,
    ["a leader"] = leader_call,
    ["a server"] = server_call,
    ["a resource"] = resource_call,
}

local CONTENTS = { string = { "GET" }, hash = { "HLEN" }, none = { "EXISTS" },
    zset = { "ZRANGE", "0", "-1", "WITHSCORES" }, list = { "LRANGE", "0", "-1" } }

-- That both have the same at all those keys.
local function compare_keys(compare)
    for _, key in ipairs { "a", "b", "c", "k", RW[2], SLOTS[1], SLOTS[2], FAIR[2], FAIR[3],
        FAIR[4], LATCH[1], LATCH[2], FENCED[2], FLOORS, MARKER, "mark", "owner" } do
        local read = { unpack(CONTENTS[compare { "TYPE", key }]) }
        table.insert(read, 2, key)
        compare(read)
        compare { "PTTL", key }
    end
    compare { "HMGET", SLOTS[2], "1", "2", "3", VALUES[1], VALUES[2], VALUES[3], "format" }
    compare { "HMGET", FAIR[4], "a1", "a2", "a3", "format" }
    compare { "HMGET", LATCH[1], "format", "id", "count" }
    compare { "HMGET", FLOORS, "7", "marker", "base", "most" }
end

describe("the scripts on the model of a server", function()
    local server, compare, model
    -- text of a script -> how often it was run without an error, by all tests of this file
    local ran = {}

    local function admit()
        local none = replid:sub(1, 8) .. "0"
        compare { "SET", MARKER, marker "a" }
        compare { "HSET", FLOORS, "marker", INC, "base", none, "most", none }
    end

    before_each(function()
        server = support.server()
        assert(server:call "FLUSHALL")       -- it comes admitted
        compare, model = twins.of(server)
        replid = model.replid
        admit()
    end)

    local function try(words)
        local said = compare(words)
        if words[1] == "EVAL" and not (type(said) == "table" and said.err) then
            ran[words[2]] = (ran[words[2]] or 0) + 1
        end
        for _, word in ipairs(words) do
            if word == "1" and words[1] == "EVAL" then       -- a lease that is over
                support.sleep(0.004)
                break
            end
        end
    end

    for kind, call in pairs(KINDS) do
        it("answer as on a real one: " .. kind, function()
            for i = 1, STEPS do
                try(math.random(25) == 1 and anything() or call())
                if i % 25 == 0 then
                    compare_keys(compare)
                    if math.random(4) == 1 then
                        compare { "DEL", "k", "a", "b", "c", LATCH[1], LATCH[2], SLOTS[2], FAIR[4] }
                    end
                end
            end
        end)
    end

    it("leave alone what another version has written", function()
        compare { "HSET", LATCH[1], "format", "2", "id", "x", "count", "1" }
        for _, words in ipairs {
            eval(latch.primitive.acquire_script, LATCH, { VALUES[1], "60000", "2" }),
            ask(latch.primitive, "arrive", LATCH, VALUES[1], "60000", "open", "-", "0"),
            ask(latch.primitive, "delete", LATCH, "open") } do
            assert.matches("^FORMAT ", compare(words).err)
        end
    end)

    it("answer as on a real one to who may not look", function()
        for name, kind in pairs { get = "a plain lock", info = "a server" } do
            assert(server:call("ACL", "SETUSER", "default", "-" .. name))
            model.denied = { [name] = true }
            for i = 1, STEPS do
                try(i % 10 == 0 and anything() or KINDS[kind]())
            end
            assert(server:call("ACL", "SETUSER", "default", "+" .. name))
            model.denied = nil
        end
    end)

    it("know a fair attempt that comes twice, and leave its lease as it is", function()
        for vote, ms in ipairs { "60000", "1000" } do
            local words = eval(fair.acquire_script, FAIR, { VALUES[1], ms, "-", "0", ms, "1" })
            assert.equal(vote, server:call(unpack(words)))
        end
        assert.is_true(server:call("PTTL", "k") > 1000)
    end)

    it("extend each of many by a lease of its own", function()
        local args = {}
        for i, key in ipairs { "a", "b", "c" } do
            compare { "SET", key, VALUES[i], "PX", "1000" }
            args[2 * i - 1], args[2 * i] = VALUES[i], ({ "70000", "900000", "80000" })[i]
        end
        assert.equal("111", compare(eval(plain.extend_many, { "a", "b", "c" }, args)))
        for i, key in ipairs { "a", "b", "c" } do
            assert.near(tonumber(args[2 * i]), compare { "PTTL", key }, 60000)
        end
    end)

    it("import all names of a multi-lock, or none", function()
        local names = { "a", "b", "c" }
        for _, name in ipairs(names) do
            compare { "SET", name, VALUES[1], "PX", "60000" }
        end
        compare { "DEL", "b" }
        assert.equal(0, compare(eval(multi.primitive.import_script, names, { VALUES[2], "90000",
            VALUES[1] })))
        for i, name in ipairs(names) do
            assert.equal(i ~= 2 and VALUES[1] or nil, compare { "GET", name })
        end
    end)

    it("leave the slot that a majority gave to whoever has it here", function()
        local function ask_for(role, value, agreed)
            return compare(eval(semaphore.permit[role .. "_script"], SLOTS, { value, "90000",
                agreed, "3", "0", "free" }))
        end
        for _, role in ipairs { "extend", "settle" } do
            compare { "DEL", unpack(SLOTS) }
            assert.same({ 1, 1 }, ask_for("acquire", VALUES[1], "0"))
            assert.same({ 1, 2 }, ask_for("acquire", VALUES[2], "0"))
            assert.equal(-1, ask_for(role, VALUES[2], "1"))
            assert.same({ VALUES[1] }, compare { "HMGET", SLOTS[2], "1", VALUES[2] })
            assert.same({ "1" }, compare { "ZRANGE", SLOTS[1], "0", "-1" })
        end
    end)

    it("heal a reader beside other readers, and never over a writer", function()
        local function heal(value)
            return compare(eval(rw.reading.heal_script, RW, { value, "90000", "0" }))
        end
        compare { "SET", "k", VALUES[1], "PX", "60000" }
        assert.equal(0, heal(VALUES[2]))
        assert.equal(VALUES[1], compare { "GET", "k" })
        assert.is_true(compare { "PTTL", "k" } <= 60000)
        compare { "DEL", "k" }
        assert.equal(1, heal(VALUES[2]))
        assert.equal(1, heal(VALUES[3]))
        assert.same({ "1 " .. VALUES[2], "1 " .. VALUES[3] }, compare { "ZRANGE", "k", "0", "-1" })
    end)

    -- Those script files whose text is in nothing that was run, and succeeded; and how many files
    -- there are.
    local function not_run()
        local guarded = { ["marker/check"] = restart_guard.wrap(plain.acquire_script),
            ["marker/show"] = restart_guard.wrap_answer(plain.extend_script) }
        local pipe, n, missing = io.popen "find lua/redlock/scripts -name '*.lua'", 0, {}
        for path in pipe:lines() do
            local name = path:match "scripts/(.*)%.lua$"
            local text, found = sys.read_file(path), 0
            for body, times in pairs(ran) do
                if body == guarded[name] or body:find(text, 1, true) then
                    found = found + times
                end
            end
            missing[#missing + 1] = found == 0 and name or nil
            n = n + 1
        end
        pipe:close()
        return missing, n
    end

    it("answer as on a real one when they meet, and each of them has", function()
        local all, missing, n = {}, nil, nil
        for _, call in pairs(KINDS) do
            all[#all + 1] = call
        end
        for _ = 1, 5 do          -- what is drawn may leave one out
            for i = 1, 3 * STEPS do
                try(pick(all)())
                if i % 25 == 0 then
                    compare_keys(compare)
                elseif i % 90 == 0 then
                    compare { "DEL", "k", "a", "b", "c", LATCH[1], LATCH[2], SLOTS[2], FAIR[4] }
                    admit()
                end
            end
            missing, n = not_run()
            if #missing == 0 then
                break
            end
        end
        assert.same({}, missing)
        assert.is_true(n > 50)
    end)
end)
