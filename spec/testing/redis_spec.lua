-- The model of a Redis server, which the simulator and redlock.testing run, against a real one: the
-- same commands, the same replies, and the same keys in the end. The scripts that ship:
-- scripts_spec.lua.
local redis = require "redlock.testing.redis"
local sha1 = require "redlock.testing.sha1"
local support = require "spec.support"
local sys = require "spec.support.sys"
local twins = require "spec.support.twins"

local STEPS = tonumber(os.getenv "STEPS" or 6000)
local KEYS, VALUES = { "a", "b", "c", "d" }, { "v1", "v2", "v3" }
local ROLES = { "acquire", "extend", "release", "import", "peek", "force", "settle" }
local LONG = { "100000", "200000", "300000" }

local bodies = {}
for _, role in ipairs(ROLES) do
    bodies[role] = sys.read_file("lua/redlock/scripts/lock/" .. role .. ".lua")
end

local function pick(list)
    return list[math.random(#list)]
end

local function script_call()
    local role = pick(ROLES)
    local body = bodies[role]
    if math.random(3) == 1 then
        return { "EVAL", body, "1", pick(KEYS), pick(VALUES), pick(LONG), pick(VALUES) }
    end
    return { "EVALSHA", sha1.hex(body), "1", pick(KEYS), pick(VALUES),
        math.random(10) == 1 and role ~= "import" and role ~= "settle" and "0" or pick(LONG),
        pick(VALUES) }
end

-- What depends on a millisecond may not be asked: each ends later than those before, however slow
-- the machine is, and seconds away from the LONG ones.
local ttl = 110000
local function never_the_same()
    ttl = ttl + 7
    return tostring(ttl)
end

local plain = {
    function() return { "SET", pick(KEYS), pick(VALUES), "NX", "PX", pick(LONG) } end,
    function() return { "set", pick(KEYS), pick(VALUES), "XX", "KEEPTTL" } end,
    function() return { "SET", pick(KEYS), pick { "12", "x", "900719925474" } } end,
    function() return { "SET", pick(KEYS), "v", "PX", pick { "0", "-5", "x", "1.5" } } end,
    function() return { "SET", pick(KEYS), "v", "EX", "500" } end,
    function() return { "SET", pick(KEYS), "v", "NX", "XX" } end,
    function() return { "GET", pick(KEYS) } end,
    function() return { "DEL", pick(KEYS), pick(KEYS) } end,
    function() return { "EXISTS", pick(KEYS), pick(KEYS) } end,
    function() return { "PEXPIRE", pick(KEYS), pick { "250000", "-1", "0", "x" } } end,
    function() return { "EXPIRE", pick(KEYS), "400" } end,
    function() return { "PERSIST", pick(KEYS) } end,
    function() return { "PTTL", pick(KEYS) } end,
    function() return { "TYPE", pick(KEYS) } end,
    function() return { "INCR", pick(KEYS) } end,
    function() return { "INCRBY", pick(KEYS), pick { "5", "-7", "x" } } end,
    function() return { "HSET", pick(KEYS), pick { "f", "g" }, pick(VALUES) } end,
    function() return { "HGET", pick(KEYS), pick { "f", "g" } } end,
    function() return { "PUBLISH", "channel", "hello" } end,
    function() return { "PING" } end,
    function() return { "NONSENSE", "1" } end,
    function() return { "GET" } end,
    function() return { "SCRIPT", "LOAD", bodies[pick(ROLES)] } end,
    function() return { "SCRIPT", "EXISTS", sha1.hex(bodies[pick(ROLES)]) } end,
    function() return { "EVALSHA", ("0"):rep(40), "0" } end,
    function() return { "EVAL", "return {1, 'x', false, {ok = 'fine'}, 2.7, nil, 3}", "0" } end,
    function() return { "EVAL", "return redis.call('get', KEYS[1]) or redis.status_reply('no')",
        "1", pick(KEYS) } end,
    function() return { "EVAL", "return redis.pcall('incr', KEYS[1])", "1", pick(KEYS) } end,
    function() return { "EVAL", "return redis.call('set', KEYS[1], 1e5, 'px', 2e5)", "1",
        pick(KEYS) } end,
    function() return { "EVAL", "made = 1 return made", "0" } end,
    function() return { "EVAL", "return missing", "0" } end,
    function() return { "EVAL", "return #ARGV", pick { "0", "1", "2", "9", "-1", "x" }, "k",
        "a", "b" } end,
}

-- Of sorted sets, lists and hashes.
local MEMBERS, SCORES = { "x", "y", "z", "xx" }, { "1", "2.5", "-3", "inf", "1e3", "much" }
local ENDS = { "-inf", "+inf", "1", "(1", "(2.5", "nothing", "(" }
local LEX = { "-", "+", "[x", "(x", "(xx", "[y", "x" }
local INDEX = { "0", "1", "-1", "-2", "-9", "9", "x" }
local collections = {
    function() return { "ZADD", pick(KEYS), pick(SCORES), pick(MEMBERS), pick(SCORES),
        pick(MEMBERS) } end,
    function() return { "ZADD", pick(KEYS), pick(SCORES), pick(MEMBERS), "1" } end,
    function() return { "ZREM", pick(KEYS), pick(MEMBERS), pick(MEMBERS) } end,
    function() return { pick { "ZSCORE", "ZRANK" }, pick(KEYS), pick(MEMBERS) } end,
    function() return { pick { "ZCARD", "LLEN", "HLEN" }, pick(KEYS) } end,
    function() return { "ZRANGE", pick(KEYS), pick(INDEX), pick(INDEX),
        pick { "withscores", "WITHSCORES", "scores" } } end,
    function() return { "ZRANGEBYSCORE", pick(KEYS), pick(ENDS), pick(ENDS) } end,
    function() return { "ZRANGEBYSCORE", pick(KEYS), pick(ENDS), pick(ENDS), "LIMIT", pick(INDEX),
        pick(INDEX), "WITHSCORES" } end,
    function() return { "ZCOUNT", pick(KEYS), pick(ENDS), pick(ENDS) } end,
    function() return { "ZREMRANGEBYSCORE", pick(KEYS), pick(ENDS), pick(ENDS) } end,
    function() return { "ZRANGEBYLEX", "alike", pick(LEX), pick(LEX), "limit", pick(INDEX),
        pick(INDEX) } end,
    function() return { "ZADD", "alike", "0", pick(MEMBERS) } end,
    function() return { pick { "LPUSH", "RPUSH" }, pick(KEYS), pick(MEMBERS), pick(MEMBERS) } end,
    function() return { pick { "LPOP", "RPOP" }, pick(KEYS) } end,
    function() return { "LRANGE", pick(KEYS), pick(INDEX), pick(INDEX) } end,
    function() return { "LINDEX", pick(KEYS), pick(INDEX) } end,
    function() return { "LREM", pick(KEYS), pick(INDEX), pick(MEMBERS) } end,
    function() return { "HDEL", pick(KEYS), pick(MEMBERS), pick(MEMBERS) } end,
    function() return { "HEXISTS", pick(KEYS), pick(MEMBERS) } end,
    function() return { "HSET", pick(KEYS), pick(MEMBERS), pick(INDEX) } end,
    function() return { "HINCRBY", pick(KEYS), pick(MEMBERS), pick(INDEX) } end,
    function() return { pick { "PEXPIREAT", "EXPIREAT" }, pick(KEYS), pick { "5", "x" } } end,
    function() return { "PEXPIREAT", pick(KEYS), "2000000000000" } end,
    function() return { "PUBSUB", "NUMSUB", "nobody", "here" } end,
    function() return { "DEL", pick(KEYS) } end,
    function() return { "TYPE", pick(KEYS) } end,
}

if support.since(7, 0) then                 -- those before take no such options
    plain[#plain + 1] = function()
        return { "PEXPIRE", pick(KEYS), never_the_same(), pick { "GT", "LT" } }
    end
    plain[#plain + 1] = function()
        return { "PEXPIRE", pick(KEYS), pick(LONG), pick { "NX", "XX" } }
    end
end

describe("the model of a server", function()
    local server

    before_each(function()
        server = support.server()
    end)

    it("answers as a real one", function()
        local compare = twins.of(server)
        for _ = 1, STEPS do
            if math.random(200) == 1 then
                compare { "SCRIPT", "FLUSH" }
            elseif math.random(300) == 1 then
                compare { "SET", pick(KEYS), "gone", "PX", "1" }
                support.sleep(0.01)
            elseif math.random(3) == 1 then
                compare(script_call())
            else
                compare(pick(plain)())
            end
        end
        for _, key in ipairs(KEYS) do
            for _, name in ipairs { "GET", "TYPE", "PTTL" } do
                compare { name, key }
            end
        end
    end)

    it("answers as a real one about sorted sets, lists and hashes", function()
        local compare = twins.of(server)
        for _ = 1, STEPS do
            compare(pick(collections)())
        end
        for _, key in ipairs(KEYS) do
            compare { "TYPE", key }
        end
    end)

    it("answers as a real one where the words are wrong, and to what is rarely asked", function()
        assert(server:call "FLUSHALL")
        local compare = twins.of(server)
        for _, command in ipairs { { "PING", "hello" }, { "AUTH", "x" }, { "SELECT", "0" },
            { "SELECT", "x" }, { "SET", "a", "1" }, { "SET", "a", "1", "WHAT" },
            { "GETRANGE", "a", "x", "1" }, { "PEXPIRE", "a", "1", "WHEN" },
            { "SCAN", "0", "COUNT", "x" }, { "SCAN", "0", "MATCH" }, { "SCAN", "x" },
            { "HSET", "h", "f" }, { "HSET", "h", "f", "1", "g" },
            { "ZADD", "z", "1", "m" }, { "ZRANGEBYSCORE", "z", "0", "1", "LIMIT", "x", "1" },
            { "ZRANGEBYSCORE", "z", "0", "1", "HOW" }, { "SCRIPT", "HOW" },
            { "SCRIPT", "LOAD", "return (" }, { "EVAL", "return (", "0" },
            { "SCRIPT", "LOAD", "return 7" }, { "EVALSHA", sha1.hex("return 7"):upper(), "0" },
            { "EVAL", "return {1, 2, nil, 4}", "0" }, { "FLUSHALL" }, { "GET", "a" } } do
            compare(command)
        end
        for _, script in ipairs { "goto x ::x:: return 1", "return 0b1", "return 5LL", "return 2i",
            "-- goto x\nlocal t = {a = 1} --[[ 0b1 ]] return t.a .. [=[ ::x:: ]] ]=]",
            "return 'goto x' .. \"it's 5LL\\\\\" .. '\\'x\\''",
            "return string.rep('a', 2, ',')",
            "return string.format('%s', true)", "return string.format('%q%%%5.1f', 'a', 2)",
            "return string.format('%a', 1)", "return string.format('%d%s', 1.5, 2)",
            "return type(select(2, pcall(redis.call, 'get')))",
            "return select(2, pcall(error, {err = 'x'}))",
            "return type(select(2, pcall(redis.call, 'setex', KEYS[1])))",
            "return {pcall(function(...) return ... end, 1, nil, 3)}",
            "return tostring(xpcall(function(x) return x end, error, 1))", "return _VERSION",
            "return math.mod(7, 4) + table.getn({1})", "return tostring(table.move)",
            "for w in string.gfind('a b', '%a') do return w end",
            "return loadstring('return KEYS[1]')()",
            "return tostring(loadstring('return 5LL'))" } do
            compare { "EVAL", script, "1", "a" }
        end
    end)

    it("tells of what it cannot do", function()
        local told = {}
        local model = redis.new(function() return 1e15 end, function() return true end)
        model.on_unsupported = function(_, text) told[#told + 1] = text end
        for i, words in ipairs { { "SETRANGE", "a", "0", "1" }, { "SET", "a", "1", "GET" },
            { "ZADD", "z", "GT", "1", "m" }, { "ZRANGE", "z", "0", "1", "REV" },
            { "LPOP", "l", "2" }, { "PUBSUB", "CHANNELS" },
            { "SCAN", "0", "TYPE", "hash" }, { "EVAL", "return cjson.encode({})", "0" },
            { "EVAL", "return math.random()", "0" }, { "EVAL", "redis.log(1, 'x')", "0" },
            { "EVAL", "return redis.pcall('setrange', 'a', 0, 1)", "0" } } do
            model:execute(1, words, #words)
            assert.equal(i, #told, table.concat(words, " "))
        end
        model:execute(1, { "EVAL", "made = 1 return made", "0" }, 3)
        assert.equal(11, #told)              -- that is wrong on a real one, too
    end)
end)
