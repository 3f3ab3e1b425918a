--- Primitives: scripts that run on every server, and how their replies vote.
--
-- A primitive is what a kind of lock is made of. The core sends a script to all N servers
-- at once and counts; the primitive says what taking, keeping and letting go mean on one
-- server. See redlock.primitive in init.lua for the contract of the scripts.

local ffi = require "ffi"
local validate = require "redlock.core.validate"
local restart_guard = require "redlock.policy.restart_guard"
local rounds = require "redlock.core.rounds"

local error, pairs, ipairs = error, pairs, ipairs
local setmetatable, getmetatable, type = setmetatable, getmetatable, type
local format = string.format

local _M = {}

local Primitive = {}
Primitive.__index = Primitive

local MAX_SCRIPT = 65536
local MAX_KEYS, MAX_ARGS = 128, 16               -- RL_MAX_KEYS, RL_MAX_ARGS
local MAX_CHANNEL = 2 * require("redlock.core.limits").MAX_NAME

-- What users may define; see redlock.primitive.
local FIELDS = { name = true, acquire = true, extend = true, release = true, peek = true,
    force = true, handover = true, keys = true, args = true, channel = true, methods = true }
-- What the library's own have besides: scripts (what the core does with confirm and heal:
-- rl_primitive),
--   unseeded  function(lock, ...): gives servers what they go on from (attempt.lua)
--   guarded   true: its acquire looks at the restart guard's marker itself
--   rivals    the kinds of locks that exclude this one under the same name
local OWN = { settle = true, current = true, floor = true, seed = true, confirm = true, heal = true,
    unseeded = true, guarded = true, rivals = true }
for field in pairs(FIELDS) do
    OWN[field] = true
end

-- Scripts that take part in a lease; the others are questions.
local OF_A_LEASE = { "acquire", "extend", "release", "handover", "confirm", "heal" }
local QUESTIONS = { "peek", "force", "settle", "current", "floor", "seed" }

local function register(client, what, body)
    local C = rounds.load()
    local id = C.rl_script(client.core, body, #body)
    if id < 0 then
        error(format("redlock: %s: a client has room for %d different scripts", what,
            C.RL_MAX_SCRIPTS), 0)
    end
    return id
end

--- Registers the scripts with an opened client.
-- @return { primitive = rl_primitive, peek = id, force = id, ... }
function Primitive:register(client)
    local ids = { primitive = ffi.new("rl_primitive") }
    for _, name in ipairs(OF_A_LEASE) do
        local body = self[name .. "_script"]
        if name == "acquire" and client.guarded and not self.guarded then
            body = restart_guard.wrap(body)
        end
        ids.primitive[name] = body and register(client, name, body) or -1
    end
    if self.confirm_script then
        ids.primitive.rule, ids.primitive.knows_run = rounds.load().RL_RULE_LARGEST, 1
    end
    for _, name in ipairs(QUESTIONS) do
        if self[name .. "_script"] then
            ids[name] = register(client, name, self[name .. "_script"])
        end
    end
    return ids
end

local function default_keys(client, name)
    return { client.options.prefix .. name }
end

local NOTHING = {}
local function default_args()
    return NOTHING
end

-- A function of the user, with its results checked: they go to C.
local function checked(what, fn, most)
    return function(...)
        local list = fn(...)
        if type(list) ~= "table" or #list > most then
            validate.bad(what, format("a list of at most %d strings is needed, not %s", most,
                type(list) == "table" and #list or type(list)))
        end
        for i = 1, #list do
            if type(list[i]) ~= "string" then
                validate.bad(what, format("strings are needed; number %d is a %s", i,
                    type(list[i])))
            end
        end
        return list
    end
end

local function make(def)
    validate.name("primitive.name", def.name, 64)
    local self = setmetatable({}, Primitive)
    for _, scripts in ipairs { OF_A_LEASE, QUESTIONS } do
        for _, script in ipairs(scripts) do
            local optional = script ~= "acquire" and script ~= "release"
            if not (optional and def[script] == nil) then
                self[script .. "_script"] = validate.name("primitive." .. script, def[script],
                    MAX_SCRIPT)
            end
        end
    end
    for _, field in ipairs { "keys", "args", "channel", "unseeded" } do
        if def[field] ~= nil then
            validate.is_function("primitive." .. field, def[field])
        end
    end
    local methods = {}
    for name, method in pairs(validate.options("primitive.methods", def.methods,
        def.methods or {})) do
        methods[name] = validate.is_function("primitive.methods." .. name, method)
    end
    self.name, self.methods, self.channel = def.name, methods, def.channel
    self.unseeded, self.guarded = def.unseeded, def.guarded
    self.rivals = def.rivals or NOTHING
    self.keys, self.args = def.keys or default_keys, def.args or default_args
    return self
end

-- Names of the library's own kinds, which a user's kind must not have: holds are told apart by
-- them.
local names = {}

--- A primitive of the user's; see redlock.primitive.
function _M.define(def)
    def = validate.options("primitive", def, FIELDS)
    local self = make(def)
    if names[self.name] then
        validate.bad("primitive.name", "'" .. self.name .. "' is a lock of the library's own")
    end
    self.keys = def.keys and checked("primitive.keys()", def.keys, MAX_KEYS) or self.keys
    self.args = def.args and checked("primitive.args()", def.args, MAX_ARGS) or self.args
    self.channel = def.channel and function(...)
        return validate.name("primitive.channel()", def.channel(...), MAX_CHANNEL)
    end
    return self
end

--- Makes a primitive of the library's own, whose functions need no checks.
function _M.new(def)
    validate.options("primitive", def, OWN)
    names[def.name] = true
    return make(def)
end

--- The channel of the locks: as in their scripts for release and force.
function _M.channel(client, name)
    return "redlock:{" .. client.options.prefix .. name .. "}:free"
end

--- @return whether a value came from _M.new
function _M.is_primitive(value)
    return getmetatable(value) == Primitive
end

return _M
