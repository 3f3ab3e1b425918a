-- A real server and the model of one (redlock.testing), asked the same.
local redis = require "redlock.testing.redis"
local resp = require "spec.support.resp"

local _M = {}

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

-- The word of an error that says what it is. Redis before 7.0 puts the place in a script in
-- front, and no word behind it if the error is of the script's kind.
local function error_word(err)
    return (err or "ERR"):gsub("^.*@user_script: ?%d+: %-?", ""):match "^%u+%f[%s%z]" or "ERR"
end

-- Texts whose words are equal, but for numbers of ms that may have passed between the two.
local function same_words(real, model, late_ms)
    local next_word = model:gmatch "[^ ]+"
    for word in real:gmatch "[^ ]+" do
        local other = next_word()
        local a, b = tonumber(word), tonumber(other)
        if word ~= other and not (a and b and b > 1000 and math.abs(a - b) <= late_ms) then
            return false
        end
    end
    return next_word() == nil
end

-- Equal, but for time that passed between the two, and for the words of an error.
local function same(real, model, late_ms)
    if type(real) ~= type(model) then
        return false
    elseif type(real) == "number" then
        return real == model or model > 1000 and math.abs(real - model) <= late_ms
    elseif type(real) ~= "table" then
        local a, b = tonumber(real), tonumber(model)
        local moments = a and b and a > 1.5e12 and a < 3e12        -- ms since 1970, as a score
        return real == model or moments and math.abs(a - b) <= late_ms
            or type(real) == "string" and same_words(real, model, late_ms)
    elseif real.err or model.err then
        return real.err ~= nil and model.err ~= nil and error_word(real.err)
            == error_word(model.err)
    end
    -- {0, ms, "2 who"}: of several names that end at nearly one time either may end last.
    local last = real[2] ~= model[2] and tostring(real[3]):find "^%d" and 2
        or math.max(#real, #model)
    for i = 1, last do
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

local PATIENCE = 30          -- seconds: the machine may be busy

-- @return a function that gives a command (a list of words) to both, the model's clock set to that
--   of the real server, and fails when they differ; it returns the server's reply, an error as
--   { err = text }. And the model
function _M.of(server)
    local now, replies, slack_ms = 0, {}, 2
    local conn = assert(resp.connect(server.port, PATIENCE))
    local model = redis.new(function() return now end, function(_, bytes)
        replies[#replies + 1] = bytes
        return true
    end)
    -- Scripts look at it: both are to say the same.
    model.replid = conn:call("INFO", "replication"):match "master_replid:(%w+)"
    model.clients = tonumber(conn:call("INFO", "clients"):match "connected_clients:(%d+)")
    local function time()
        local t = assert(conn:call "TIME")
        return tonumber(t[1]) * 1e6 + tonumber(t[2])
    end
    local seed = tonumber(os.getenv "SEED") or os.time()
    math.randomseed(seed)
    return function(command)
        now, replies = time(), {}
        model:execute(1, command, #command)
        local value, err = conn:call(unpack(command))
        slack_ms = math.max(slack_ms, (time() - now) / 1000 + 2)
        local real, said = err and { err = err } or value, (decode(table.concat(replies), 1))
        if not same(real, said, 2 * slack_ms) then
            local words = table.concat(command, " "):gsub("%s+", " ")
            error(("SEED=%d: %s: the server says %s, the model %s"):format(seed, words,
                shown(real), shown(said)))
        end
        return real
    end, model
end

return _M
