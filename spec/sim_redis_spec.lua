-- The simulator's model of a Redis server against a real one: the same commands and scripts,
-- the same replies, and the same keys in the end.
local redis = require "spec.sim.redis"
local sha1 = require "spec.sim.sha1"
local support = require "spec.support"

local STEPS = tonumber(os.getenv "STEPS" or 6000)
local KEYS, VALUES = { "a", "b", "c", "d" }, { "v1", "v2", "v3" }
local ROLES = { "acquire", "extend", "release", "peek", "force" }
local LONG = { "100000", "200000", "300000" }

local bodies = {}
for _, role in ipairs(ROLES) do
    local file = assert(io.open("lua/redlock/lock/" .. role .. ".lua"))
    bodies[role] = file:read "*a"
    file:close()
end

-- A reply in RESP as the connection of the specs gives it; an error as { err = text }.
local function decode(text, at)
    local kind, line, rest = text:match("^(.)([^\r]*)\r\n()", at)
    if kind == ":" then
        return tonumber(line), rest
    elseif kind == "+" then
        return line, rest
    elseif kind == "-" then
        return { err = line }, rest
    elseif kind == "$" then
        local n = tonumber(line)
        if n < 0 then
            return nil, rest
        end
        return text:sub(rest, rest + n - 1), rest + n + 2
    end
    local list = {}
    for i = 1, tonumber(line) do
        list[i], rest = decode(text, rest)
    end
    return list, rest
end

-- The model, its clock set to that of the real server before each command.
local function pair_of(server)
    local now, replies = 0, {}
    local model = redis.new(function() return now end, function(_, bytes)
        replies[#replies + 1] = bytes
        return true
    end)
    local slack_ms = 2
    local function time()
        local t = assert(server:call "TIME")
        return tonumber(t[1]) * 1e6 + tonumber(t[2])
    end
    return function(...)
        now, replies = time(), {}
        model:execute(1, { ... }, select("#", ...))
        local value, err = server:call(...)
        slack_ms = math.max(slack_ms, (time() - now) / 1000 + 2)
        return err and { err = err } or value, (decode(table.concat(replies), 1)), 2 * slack_ms
    end
end

-- Equal, but for time that passed between the two, and for the words of an error.
local function same(real, model, late_ms)
    if type(real) ~= type(model) then
        return false
    elseif type(real) == "number" then
        return real == model or model > 1000 and math.abs(real - model) <= late_ms
    elseif type(real) ~= "table" then
        return real == model
    elseif real.err or model.err then
        return (real.err or ""):match "^%S+" == (model.err or "-"):match "^%S+"
    end
    for i = 1, math.max(#real, #model) do
        if not same(real[i], model[i], late_ms) then
            return false
        end
    end
    return true
end

local function shown(value)
    if type(value) ~= "table" then
        return tostring(value)
    end
    local parts = { value.err }
    for i = 1, #value do
        parts[i] = shown(value[i])
    end
    return "{" .. table.concat(parts, ", ") .. "}"
end

local function pick(list)
    return list[math.random(#list)]
end

local function script_call()
    local role = pick(ROLES)
    local body = bodies[role]
    if math.random(3) == 1 then
        return { "EVAL", body, "1", pick(KEYS), pick(VALUES), pick(LONG) }
    end
    return { "EVALSHA", sha1.hex(body), "1", pick(KEYS), pick(VALUES),
        math.random(10) == 1 and "0" or pick(LONG) }
end

-- What depends on a millisecond may not be asked.
local ttl = 110000
local function never_the_same()
    ttl = ttl + 7
    return tostring(math.random(2) == 1 and ttl or 400000 - ttl)
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
    function() return { "PEXPIRE", pick(KEYS), never_the_same(), pick { "GT", "LT" } } end,
    function() return { "PEXPIRE", pick(KEYS), pick(LONG), pick { "NX", "XX" } } end,
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
    function() return { "EVAL", "return #ARGV", pick { "0", "1", "2", "9", "-1", "x" }, "k",
        "a", "b" } end,
}

describe("the simulator's model of a server", function()
    local server

    before_each(function()
        server = support.server()
    end)
    after_each(support.cleanup)

    it("answers as a real one", function()
        local seed = tonumber(os.getenv "SEED") or os.time()
        math.randomseed(seed)
        local both = pair_of(server)
        local function compare(command)
            local real, model, late_ms = both(unpack(command))
            if not same(real, model, late_ms) then
                local words = table.concat(command, " "):gsub("%s+", " ")
                error(("SEED=%d: %s: the server says %s, the model %s"):format(seed, words,
                    shown(real), shown(model)))
            end
        end
        for _ = 1, STEPS do
            if math.random(200) == 1 then
                compare { "SCRIPT", "FLUSH" }
            elseif math.random(300) == 1 then
                compare { "SET", pick(KEYS), "gone", "PX", "1" }
                support.sleep(0.01)
            elseif math.random(2) == 1 then
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
end)
