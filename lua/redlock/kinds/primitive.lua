--- Primitives: scripts that run on every server, and how their replies vote.
--
-- A kind of lock is a primitive. The core sends a script to all N servers at once and counts; the
-- primitive says what taking, keeping and releasing mean on one server, which votes add up, and
-- what to do with the answers. types/primitive.lua has the contract of the scripts and functions.

local ffi = require "ffi"
local validate = require "redlock.runtime.validate"
local limits = require "redlock.runtime.limits"
local restart_guard = require "redlock.servers.restart_guard"
local script_text = require "redlock.runtime.script_text"

local pairs, pcall, ipairs = pairs, pcall, ipairs
local setmetatable, getmetatable, type = setmetatable, getmetatable, type
local format, gsub, match = string.format, string.gsub, string.match
local strings = validate.strings

local _M = {}

local Primitive = {}
Primitive.__index = Primitive

local MAX_SCRIPT = 65536
local MAX_CHANNEL = 2 * limits.MAX_NAME

-- Scripts of a lease; and questions, as are the scripts of `asks`.
local OF_A_LEASE = { "acquire", "extend", "release", "import", "confirm", "heal" }
local QUESTIONS = { "peek", "force", "settle" }
-- Scripts that give something to somebody: only where the server has not forgotten its locks.
-- false: they run anywhere, but their answers count only from such a server, as with questions.
local GUARDED = { acquire = true, heal = true, import = true, extend = false }

local FUNCTIONS = { "keys", "args", "channel" }
local HOOKS = { "refused", "granted", "gave_up", "reenter" }
local RULES = { yes = "RL_RULE_YES", same = "RL_RULE_SAME", largest = "RL_RULE_LARGEST" }

-- What users may define: see types/primitive.lua.
local FIELDS = { name = true, vote = true, asks = true, shared = true, line = true,
    methods = true }
for _, list in ipairs { OF_A_LEASE, QUESTIONS, FUNCTIONS, HOOKS } do
    for _, field in ipairs(list) do
        FIELDS[field] = true
    end
end

-- Further fields, for the library's own kinds:
--   knows_run  true: its scripts get the server's run_id, and its acquire and import check the
--              restart guard's marker themselves (rl_primitive)
--   like       the primitive that has the scripts, channel and rivals which are not given
--   rivals     true: other kinds of locks exclude this one under the same name
--   waits      true: its args and channel need the wait (hooks.lua)
--   names      function(name): the list of names that a name stands for; nil: not a valid name
--   within     the kind of lock whose owner may enter this one as well
--   unlabelled  true: its values have no cards
--   extend_many  a script that extends many of them at once (rl_primitive)
--   places     true: waiters of the local queue have places in the servers' queue, too
--   everywhere  true: attempts of waiters go to all servers, also after split votes
local OWN = { knows_run = true, like = true, rivals = true, waits = true, names = true,
    within = true, places = true, everywhere = true, unlabelled = true, extend_many = true }
for field in pairs(FIELDS) do
    OWN[field] = true
end

-- The text of a script for this client's servers. guarded: true: for servers that may vote; false:
-- its answer counts only from those; nil: neither. knows_run: the script reads the marker itself.
local function text_of(body, client, guarded, knows_run)
    if guarded == nil or not client.guarded or not body then
        return body
    elseif guarded then
        return knows_run and body or restart_guard.wrap(body)
    end
    return restart_guard.wrap_answer(body, knows_run)
end

--- Registers the scripts with a client whose core is open.
-- @return { primitive = rl_primitive, peek = id, force = id, ... }; nil: no memory
function Primitive:register(client, C)
    local ids, full = { primitive = ffi.new("rl_primitive") }, false
    local function number_of(what, body)
        local id = script_text.register(C, client, what, body)
        full = full or not id
        return id or -1
    end
    for _, name in ipairs(OF_A_LEASE) do
        local body = text_of(self[name .. "_script"], client, GUARDED[name], self.knows_run)
        ids.primitive[name] = body and number_of(name, body) or -1
    end
    ids.primitive.extend_many = self.extend_many
        and number_of("extend_many", text_of(self.extend_many, client, false)) or 0
    ids.primitive.rule = C[RULES[self.vote]]
    ids.primitive.knows_run = self.knows_run and 1 or 0
    for name, guarded in pairs(self.questions) do
        ids[name] = number_of(name, text_of(self[name .. "_script"], client, guarded))
    end
    return not full and ids or nil
end

local function default_keys(client, name)
    return { client.options.prefix .. name }
end

-- The kinds whose key is the plain lock's: each excludes the others, and a multi-lock all of them.
local EXCLUSIVE = { "lock", "fenced lock", "read lock", "write lock", "fenced write lock",
    "fair lock" }

local function rivals_of(name)
    local list = {}
    for _, kind in ipairs(EXCLUSIVE) do
        list[#list + 1] = kind ~= name and kind or nil
    end
    return list
end

local NOTHING = {}
local function default_args()
    return NOTHING
end

-- A user's function whose result is checked: by validate.strings, or validate.name.
local function checked(check, what, fn, most)
    return function(...)
        return check(what, fn(...), most)
    end
end

-- A script: its text, or the names of the files that it is read from. It must compile, except for a
-- first line that begins with #.
local function script_in(what, value)
    local text = value
    if type(value) == "table" then
        for i = 1, #value do
            validate.name(format("%s[%d]", what, i), value[i], 256)
        end
        local ok, read = pcall(script_text.of_modules, value)
        if not ok or #value == 0 then
            validate.bad(what, ok and "names of files are needed" or read)
        end
        text = read
    end
    validate.name(what, text, MAX_SCRIPT)
    local ok, err = script_text.compile(gsub(text, "^#[^\n]*", ""), "=script")
    if not ok then
        validate.bad(what, "it does not compile: " .. err)
    end
    return text
end

local function as_it_is(_, text)
    return text
end

-- read: script_in(); for the library's own primitives as_it_is(), as specs compile those.
local function read_scripts(self, def, like, read)
    for _, scripts in ipairs { OF_A_LEASE, QUESTIONS } do
        for _, name in ipairs(scripts) do
            local field, optional = name .. "_script", name ~= "acquire" and name ~= "release"
            self[field] = like[field]
            if not (optional and def[name] == nil) then
                self[field] = read("primitive." .. name, def[name])
            end
        end
    end
    for _, name in ipairs(QUESTIONS) do
        if self[name .. "_script"] then
            self.questions[name] = false
        end
    end
    for name, ask in pairs(def.asks == nil and {} or validate.options("primitive.asks", def.asks,
        def.asks)) do
        local what = "primitive.asks." .. name
        if type(name) ~= "string" or not match(name, "^%a[%w_]*$") or OWN[name] then
            validate.bad("primitive.asks", "names are needed, none of them another field's")
        end
        local rest = {}
        for key, value in pairs(validate.options(what, ask, ask)) do
            if key ~= 1 then
                rest[key] = value
            end
        end
        validate.options(what, rest, { guarded = true })
        self[name .. "_script"] = read(what, ask[1])
        self.questions[name] = validate.flag(what .. ".guarded", ask.guarded)
        self.asks[name] = true
    end
end

local function read_rule(self, def)
    local rule = def.vote == nil and "yes" or def.vote
    if not RULES[rule] then
        validate.bad("primitive.vote", '"yes", "same" or "largest" is needed')
    elseif (rule == "largest") ~= (def.confirm ~= nil) then
        validate.bad("primitive.confirm", 'needed with vote = "largest", and of no use without')
    end
    self.vote = rule
end

local function make(def, read)
    validate.name("primitive.name", def.name, 64)
    local like = def.like or {}
    local self = setmetatable({ name = def.name, questions = {}, asks = {}, methods = {},
        channel = like.channel }, Primitive)
    read_scripts(self, def, like, read)
    read_rule(self, def)
    for _, fields in ipairs { FUNCTIONS, HOOKS, { "names" } } do
        for _, field in ipairs(fields) do
            if def[field] ~= nil then
                self[field] = validate.is_function("primitive." .. field, def[field])
            end
        end
    end
    for name, method in pairs(validate.options("primitive.methods", def.methods,
        def.methods or {})) do
        self.methods[name] = validate.is_function("primitive.methods." .. name, method)
    end
    self.shared = validate.flag("primitive.shared", def.shared)
    self.line = def.line == nil or validate.flag("primitive.line", def.line)
    self.everywhere, self.within, self.places = def.everywhere, def.within, def.places
    self.extend_many = def.extend_many
    self.labelled = not def.unlabelled
    self.knows_run = def.knows_run
    self.rivals = (def.rivals or def.like) and rivals_of(def.name) or NOTHING
    self.keys, self.args = def.keys or default_keys, def.args or default_args
    self.waits = def.waits or def.refused ~= nil or def.granted ~= nil or def.gave_up ~= nil
    return self
end

-- Names of the library's own kinds. A user's kind must not have one: holds are told apart by them.
local names = {}

function _M.define(def)
    def = validate.options("primitive", def, FIELDS)
    local self = make(def, script_in)
    if names[self.name] then
        validate.bad("primitive.name", "'" .. self.name .. "' is a lock of the library's own")
    end
    self.keys = def.keys and checked(strings, "primitive.keys()", def.keys, limits.MAX_KEYS)
        or self.keys
    self.args = def.args and checked(strings, "primitive.args()", def.args, limits.MAX_ARGS)
        or self.args
    self.channel = def.channel
        and checked(validate.name, "primitive.channel()", def.channel, MAX_CHANNEL)
    self.waits = self.waits or def.args ~= nil or def.channel ~= nil
    self.users = true
    return self
end

--- Makes one of the library's own, whose functions need no checks.
function _M.new(def)
    validate.options("primitive", def, OWN)
    names[def.name] = true
    local self = make(def, as_it_is)
    self.asks = NOTHING          -- for the library alone
    return self
end

--- The channel of a lock, as in the scripts for release and force.
function _M.channel(client, name)
    return "redlock:{" .. client.options.prefix .. name .. "}:free"
end

function _M.is_primitive(value)
    return getmetatable(value) == Primitive
end

return _M
