--- Resources: data in Redis that refuses late writers (types/resource.lua). Each resource has a
-- mark beside it, the largest fencing token it has seen. One atomic script refuses smaller tokens,
-- raises the mark and runs the command.
--
-- The data must be on one primary. A resource without a mark accepts any token, and a mark is lost
-- if it is evicted, flushed, or not replicated before a failover.

local encoding = require "redlock.text.encoding"
local limits = require "redlock.runtime.limits"
local validate = require "redlock.runtime.validate"
local script_text = require "redlock.runtime.script_text"

local setmetatable, tonumber, tostring, type = setmetatable, tonumber, tostring, type
local ceil, select, unpack = math.ceil, select, unpack
local find, format, match = string.find, string.format, string.match

local _M = {}

local TOKEN_END, MAX_NAME = limits.TOKEN_END, limits.MAX_NAME
local KEEP = { keep = true }

local MARK = script_text.own "resource.mark"
local OWNER = script_text.own "resource.owner"
local COMMAND = script_text.own "resource.command"
local CLAIM = script_text.own "resource.claim"

--- The scripts as sent, for other languages and for EVALSHA: `token` and `owner` run a command
-- under a token or an owner's value, `claim` makes a value the owner's. scripts/resource/ says
-- what their KEYS and ARGV are.
_M.scripts = {
    token = MARK .. COMMAND,
    owner = OWNER .. COMMAND,
    claim = CLAIM .. OWNER .. COMMAND,
}

-- ---- the words of a command --------------------------------------------------------

local function token_word(token)
    local n = token
    if type(token) == "string" and find(token, "^%d+$") then
        n = tonumber(token)
    end
    if type(n) ~= "number" or n % 1 ~= 0 or n < 1 or n >= TOKEN_END then
        validate.bad("token", "a whole number from 1 to 10^14 - 1 is needed, not "
            .. tostring(token) .. (token == nil and " (the hold is over, or the lock is "
            .. "not a fenced one)" or ""))
    end
    return format("%.0f", n)
end

local function word(what, v)
    if type(v) == "number" then
        return format(v % 1 == 0 and "%.0f" or "%.17g", v)
    elseif type(v) ~= "string" then
        validate.bad(what, "a string or a number is needed, not " .. type(v))
    end
    return v
end

local function ms_word(what, seconds)
    return format("%.0f", ceil(validate.seconds(what, seconds, 0.001, 1e10) * 1000))
end

-- The key of a resource's mark or owner. In a cluster it is in the slot of the key `name`, with
-- or without a hash tag.
local function beside(name, kind)
    local tag = match(name, "^[^{]*{([^}]+)}")
    if tag then
        return "redlock:{" .. tag .. "}:" .. kind .. ":" .. name
    end
    return "redlock:{" .. name .. "}:" .. kind
end

local function eval(self, text, right, keys, args)
    local words = { "EVAL", text, "", self.record }
    if type(keys) ~= "table" then
        keys = { keys }
    end
    for i = 1, #keys do
        words[#words + 1] = word("key", keys[i])
    end
    words[3] = format("%d", 1 + #keys)
    words[#words + 1] = self.right_word(right)
    words[#words + 1] = self.keep
    for i = 1, args.n or #args do
        words[#words + 1] = word("argument", args[i])
    end
    return words
end

-- ---- replies -----------------------------------------------------------------------

function _M.read(reply, err)
    if type(reply) ~= "table" then
        return nil, err or "no reply"
    elseif reply[1] == 1 then
        local value = reply[2]
        if type(value) == "userdata" then      -- null in some clients
            value = nil
        end
        return true, value
    elseif reply[1] == 0 then
        return nil, "stale", reply[2]
    end
    return nil, "not a reply of a resource's script"
end

local function send(self, words)
    if not self.send then
        validate.raise "redlock: this resource was made without a function that sends commands"
    end
    return _M.read(self.send(unpack(words)))
end

-- ---- resources ---------------------------------------------------------------------

local Resource = {}
Resource.__index = Resource

function Resource:words(right, command, keys, ...)
    if command == nil then
        return eval(self, self.head .. COMMAND, right, {}, {})
    end
    return eval(self, self.head .. COMMAND, right, keys,
        { n = select("#", ...) + 1, command, ... })
end

function Resource:call(right, command, keys, ...)
    return send(self, self:words(right, command, keys, ...))
end

function Resource:eval(right, body, keys, args)
    return send(self, eval(self, self.head .. body, right, keys, args or {}))
end

function Resource:get(right)
    return self:call(right, "GET", self.name)
end

function Resource:set(right, value, ttl)
    if ttl ~= nil then
        return self:call(right, "SET", self.name, value, "PX", ms_word("ttl", ttl))
    end
    return self:call(right, "SET", self.name, value)
end

function Resource:append(right, value)
    return self:call(right, "APPEND", self.name, value)
end

function Resource:delete(right)
    return self:call(right, "DEL", self.name)
end

function Resource:__tostring()
    return "resource(" .. self.name .. ")"
end

local Fenced = setmetatable({ __tostring = Resource.__tostring }, Resource)
Fenced.__index = Fenced

function Fenced:fence_in(token)
    return self:call(token)
end

local Owned = setmetatable({ __tostring = Resource.__tostring }, Resource)
Owned.__index = Owned

function Owned:claim(value)
    value = value or _M.value()
    local ok, err = send(self, eval(self, _M.scripts.claim, value, {}, {}))
    if not ok then
        return nil, err
    end
    return value
end

function _M.value()
    local file = assert(io.open("/dev/urandom", "rb"))
    local bytes = file:read(20)
    file:close()
    return encoding.hex(bytes)
end

-- ---- public ------------------------------------------------------------------------

local function new(class, kind, text, right_word, name, send_words, opts)
    validate.name("resource", name, MAX_NAME)
    if send_words ~= nil then
        validate.is_function("send", send_words)
    end
    opts = validate.options("options", opts, KEEP)
    return setmetatable({
        name = name,
        record = beside(name, kind),
        head = text,
        right_word = right_word,
        send = send_words,
        keep = opts.keep and ms_word("keep", opts.keep) or "0",
    }, class)
end

function _M.new(name, send_words, opts)
    return new(Fenced, "mark", MARK, token_word, name, send_words, opts)
end

function _M.owned(name, send_words, opts)
    return new(Owned, "owner", OWNER, function(value)
        return validate.name("value", value, MAX_NAME)
    end, name, send_words, opts)
end

return _M
