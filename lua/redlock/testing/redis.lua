--- A model of a Redis server: executes commands and the library's own scripts.
--
-- Replies have the types that Redis gives to scripts: a number for an integer, a string for a bulk
-- string, false for nil, { ok = } for a status, { err = } for an error, a list for an array.
-- spec/testing compares the model with real servers.

local new_table = require "table.new"
local memo = require "redlock.testing.memo"
local script_text = require "redlock.runtime.script_text"
local sha1 = require "redlock.testing.sha1"
local store = require "redlock.testing.store"
require "redlock.testing.hashes"
require "redlock.testing.lists"
require "redlock.testing.messages"
require "redlock.testing.sorted_sets"

local floor = math.floor
local format, lower = string.format, string.lower
local type, tonumber, tostring, select, error = type, tonumber, tostring, select, error
local setfenv, setmetatable, pcall, concat = setfenv, setmetatable, pcall, table.concat

local _M = {}

local ANSWERED, MANY, OK, NOT_INTEGER = store.ANSWERED, store.MANY, store.OK, store.NOT_INTEGER
local sort = table.sort
local upper, integer, find, write = store.upper, store.integer, store.find, store.write
local bulk, commands, command = store.bulk, store.commands, store.command

local Server = {}
Server.__index = Server

local NOSCRIPT = { err = "NOSCRIPT No matching script. Please use EVAL." }

--- A server with an empty memory. clock(server): its wall clock, in microseconds; reply(connection,
-- bytes): returns false if the connection is closed; id: a unique number.
function _M.new(clock, reply, id)
    local self = setmetatable({
        id = id or 0,
        runs = 0,                -- how often it was started; in its run_id
        lives = 0,               -- how often it was started or promoted; in its master_replid
        replicas = 0,            -- how many INFO reports
        clock = clock,
        reply = reply,
        now_ms = 0,              -- its clock when the running command began
        db = {},                 -- key -> { value = string or table, at = expiry in ms, or nil }
        scripts = {},            -- sha -> true
        channels = {},           -- channel -> list of connections
        subscriber = {},         -- connection -> how many channels
        names = {},              -- connection -> its name
        on_write = nil,          -- function(server, key, old, new) before a key changes
        before_script = nil,     -- function(server, sha, keys, args)
        on_script = nil,         -- function(server, sha, keys, args, result)
        on_unsupported = nil,    -- function(server, text), for a request beyond the model
        refuses = nil,           -- the error that every script returns
        says = nil,              -- the reply to each EVALSHA; no script runs
        denied = nil,            -- lower-case names of commands that its user may not run
    }, Server)
    self:restart({})
    return self
end

-- ---- memory ----------------------------------------------------------------------

--- The present entry of a key, or nil; for callers outside of commands.
function Server:entry(key)
    self.now_ms = floor(self:clock() / 1000)
    return find(self, key)
end

--- Restarts without connections and scripts.
-- @param keep  the data it starts with
function Server:restart(keep)
    self.scripts, self.channels, self.subscriber, self.names = {}, {}, {}, {}
    self.runs = self.runs + 1
    self.run_id = format("%04x%04x%032x", self.id, self.runs, self.runs)
    self:live_on(keep)
end

--- Continues with a new master_replid, like a server that was a replica meanwhile.
-- @param keep  its data from then on
function Server:live_on(keep)
    self.db, self.lives, self.marker = keep, self.lives + 1, nil
    self.replid = format("%04x%04xfeedfeed%024x", self.id, self.lives, self.lives)
end

--- The name of the memory that its counters belong to: from its marker, or its last one; without
-- the guard from its master_replid.
function Server:memory()
    return (self.marker or self.replid):sub(1, 8)
end

-- ---- commands --------------------------------------------------------------------

command("PING", 1, 2, function(self, argv, _, conn)
    if self.subscriber[conn] then
        return { "pong", argv[2] or "" }
    end
    return argv[2] or { ok = "PONG" }
end)

command("AUTH", 2, 3, function(self, argv, n)
    if not self.password then
        return { err = "ERR AUTH <password> called without any password configured for the "
            .. "default user. Are you sure your configuration is correct?" }
    elseif argv[n] == self.password then
        return OK
    end
    return { err = "WRONGPASS invalid username-password pair or user is disabled." }
end)

command("SELECT", 2, 2, function(_, argv)
    return integer(argv[2]) and OK or NOT_INTEGER
end)

-- SETNAME, or LIST of the connections with a name.
command("CLIENT", 2, 4, function(self, argv, _, conn)
    if upper(argv[2]) ~= "LIST" then
        self.names[conn] = argv[3]
        return OK
    end
    local lines = {}
    for open, name in pairs(self.names) do
        if self.reply(open, "") then
            local id = tonumber(open)
            lines[#lines + 1] = format("id=%d addr=127.0.0.1:%d fd=8 name=%s age=0", id, id, name)
        else
            self.names[open] = nil
        end
    end
    sort(lines)
    return concat(lines, "\n")
end)

command("TIME", 1, 1, function(self)
    local us = self:clock()
    return { format("%.0f", floor(us / 1e6)), format("%.0f", us % 1e6) }
end)

local info = memo(function(words)
    local run_id, replid, replicas, clients = words:match "(%x+) (%x+) (%d+) (%d+)"
    return format("# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nrun_id:%s\r\n"
        .. "uptime_in_seconds:1\r\n# Clients\r\nconnected_clients:%s\r\n# Replication\r\n"
        .. "role:master\r\nconnected_slaves:%s\r\nmaster_replid:%s\r\nmaster_replid2:%s\r\n"
        .. "# Persistence\r\naof_enabled:0\r\n# Memory\r\nmaxmemory:0\r\n"
        .. "maxmemory_policy:noeviction\r\n", run_id, clients, replicas, replid, ("0"):rep(40))
end, MANY)

command("INFO", 1, -1, function(self)
    if self.secret then
        return { err = "NOPERM this user has no permissions to run the 'info' command" }
    end
    return info(format("%s %s %d %d", self.run_id, self.replid, self.replicas, self.clients or 1))
end)

command("FLUSHALL", 1, 2, function(self)
    for key in pairs(self.db) do
        write(self, key, nil)
    end
    return OK
end)

-- ---- scripts ---------------------------------------------------------------------

local running                -- the server that executes a script
local compiled = {}          -- sha -> function, for all servers
local env

-- Runs a command of a script or of a connection.
local function run(self, argv, n, conn)
    local c = commands[argv[1]] or commands[upper(argv[1])]
    if not c then
        local text = "ERR unknown command '" .. argv[1] .. "'"
        if self.on_unsupported then
            self.on_unsupported(self, text)
        end
        return { err = text }
    elseif n < c.least or c.most > 0 and n > c.most then
        return { err = "ERR wrong number of arguments for '" .. c.name .. "' command" }
    elseif self.denied and self.denied[c.name] then
        return { err = conn and "NOPERM this user has no permissions to run the '" .. c.name
            .. "' command" or "ERR The user executing the script can't run this command" }
    end
    return c.fn(self, argv, n, conn)
end

local words = {}             -- of the command that a script runs; reused

local function word(value)
    if type(value) == "number" then
        return format("%.17g", value)
    end
    return type(value) == "string" and value or nil
end

local function call_any(...)
    local n, list = select("#", ...), { ... }
    for i = 1, n do
        words[i] = word(list[i])
        if not words[i] then
            return { err = "ERR Lua redis lib command arguments must be strings or integers" }
        end
    end
    return run(running, words, n)
end

local function call(a, b, c, d, e, f, ...)
    if select("#", ...) > 0 then
        return call_any(a, b, c, d, e, f, ...)
    end
    words[1], words[2], words[3] = word(a), word(b), word(c)
    words[4], words[5], words[6] = word(d), word(e), word(f)
    local n = f and 6 or e and 5 or d and 4 or c and 3 or b and 2 or 1
    for i = 1, n do
        if not words[i] then
            return call_any(a, b, c, d, e, f)
        end
    end
    return run(running, words, n)
end

local redis = {
    sha1hex = sha1.hex,
    pcall = call,
    call = function(...)
        local result = call(...)
        if type(result) == "table" and result.err then
            error(result, 0)
        end
        return result
    end,
    error_reply = function(text) return { err = text } end,
    status_reply = function(text) return { ok = text } end,
}

-- What real servers offer to scripts, and the model does not.
local MISSING = { cjson = true, cmsgpack = true, struct = true, os = true, coroutine = true,
    getmetatable = true, collectgarbage = true, load = true }
local MISSING_IN = { math = { random = true, randomseed = true } }

-- A copy of a Lua library for scripts, so that they cannot change the host's.
local function library(name)
    local copy = {}
    for key, value in pairs(_G[name]) do
        copy[key] = not (MISSING_IN[name] and MISSING_IN[name][key]) and value or nil
    end
    return setmetatable(copy, { __index = function(_, key)
        if MISSING_IN[name] and MISSING_IN[name][key] then
            error(store.unsupported(running, name .. "." .. key .. " in scripts").err, 0)
        end
    end })
end

-- What LuaJIT has more of than Lua 5.1, or less, or in another way.
local strings, tables, maths = library "string", library "table", library "math"
strings.gfind, maths.mod, tables.move = string.gmatch, math.fmod, nil

function strings.rep(text, n)
    return string.rep(text, n)
end

function strings.format(text, ...)
    local n = 1
    for kind in tostring(text):gsub("%%%%", ""):gmatch "%%[^%a]*(%a)" do
        local value = type(select(n, ...))
        n = n + 1
        if kind:find "[aA]" then
            error("invalid option '%" .. kind .. "' to 'format'", 2)
        elseif kind:find "[sq]" and value ~= "string" and value ~= "number" then
            error(format("bad argument #%d to 'format' (string expected, got %s)", n, value), 2)
        end
    end
    return format(text, ...)
end

-- Redis' own: gets the text of an error of redis.call().
local function text_of(ok, err, ...)
    if not ok and type(err) == "table" and type(err.err) == "string" then
        return false, err.err
    end
    return ok, err, ...
end

local function load_script(text)
    local fn, err = script_text.compile(text, text)
    return fn and setfenv(fn, env), err
end

setmetatable(redis, { __index = function(_, name)
    error(store.unsupported(running, "redis." .. tostring(name) .. " in scripts").err, 0)
end })

env = setmetatable({
    redis = redis, tonumber = tonumber, tostring = tostring, type = type, error = error,
    pcall = function(...) return text_of(pcall(...)) end, select = select, unpack = unpack,
    ipairs = ipairs, pairs = pairs, next = next, assert = assert, rawget = rawget,
    rawset = rawset, rawequal = rawequal,
    setmetatable = setmetatable, xpcall = function(fn, handler) return xpcall(fn, handler) end,
    loadstring = load_script, bit = bit, string = strings, table = tables, math = maths,
    KEYS = {}, ARGV = {}, _VERSION = "Lua 5.1",
}, {
    __index = function(_, name)
        if MISSING[name] then
            error(store.unsupported(running, tostring(name) .. " in scripts").err, 0)
        end
        error("ERR Script attempted to access nonexistent global variable '" .. tostring(name)
            .. "'", 0)
    end,
    __newindex = function(_, name)
        error("ERR Script attempted to create global variable '" .. tostring(name) .. "'", 0)
    end,
})

-- Loads a script. Returns its sha; or nil and an error.
local function load_into(self, body)
    local sha = sha1.hex(body)
    if not compiled[sha] then
        local fn, err = script_text.compile(body, "@user_script")
        if not fn then
            return nil, { err = "ERR Error compiling script (new function): " .. err }
        end
        compiled[sha] = setfenv(fn, env)
    end
    self.scripts[sha] = true
    return sha
end

-- KEYS and ARGV of a script, kept in argv for the next server that gets the same request. A script
-- may remove words (then they are split again), and must not change them otherwise.
local function split(argv, n, nkeys)
    local keys, args = argv.keys, argv.args
    if not keys or #keys ~= nkeys or #args ~= n - 3 - nkeys then
        keys, args = new_table(nkeys + 1, 0), new_table(n - nkeys - 2, 0)
        for i = 1, nkeys do
            keys[i] = argv[3 + i]
        end
        for i = 1, n - 3 - nkeys do
            args[i] = argv[3 + nkeys + i]
        end
        argv.keys, argv.args = keys, args
    end
    return keys, args
end

local function run_script(self, sha, argv, n)
    local nkeys = integer(argv[3])
    if not nkeys then
        return NOT_INTEGER
    elseif nkeys < 0 then
        return { err = "ERR Number of keys can't be negative" }
    elseif nkeys > n - 3 then
        return { err = "ERR Number of keys can't be greater than number of args" }
    end
    local keys, args = split(argv, n, nkeys)
    env.KEYS, env.ARGV = keys, args
    running = self
    local marker = self.db["redlock:{server}:marker"]
    self.marker = marker and marker.value or self.marker
    if self.before_script then
        self.before_script(self, sha, keys, args)
    end
    local ok, result = true, self.refuses and { err = self.refuses }
    if not result then
        ok, result = pcall(compiled[sha])
    end
    if not ok and type(result) ~= "table" then
        result = { err = "ERR " .. tostring(result) }
    end
    if self.on_script then
        self.on_script(self, sha, keys, args, result)
    end
    return result
end

command("EVAL", 3, -1, function(self, argv, n)
    local sha, err = load_into(self, argv[2])
    if not sha then
        return err
    end
    return run_script(self, sha, argv, n)
end)

command("EVALSHA", 3, -1, function(self, argv, n)
    local sha = self.scripts[argv[2]] and argv[2] or lower(argv[2])
    if not self.scripts[sha] then
        return NOSCRIPT
    end
    return run_script(self, sha, argv, n)
end)

command("SCRIPT", 2, -1, function(self, argv, n)
    local what = upper(argv[2])
    if what == "LOAD" and n == 3 then
        local sha, err = load_into(self, argv[3])
        return sha or err
    elseif what == "FLUSH" then
        self.scripts = {}
        return OK
    elseif what == "EXISTS" then
        local list = {}
        for i = 3, n do
            list[i - 2] = self.scripts[lower(argv[i])] and 1 or 0
        end
        return list
    end
    return { err = "ERR unknown subcommand or wrong number of arguments for '" .. argv[2]
        .. "'. Try SCRIPT HELP." }
end)

-- ---- replies ---------------------------------------------------------------------

local small = {}
for i = -2, 100 do
    small[i] = ":" .. i .. "\r\n"
end

local line = memo(function(text)
    return text:gsub("[\r\n]", " ") .. "\r\n"
end, MANY)

-- A result of a command or a script as RESP.
local function encode(value)
    local kind = type(value)
    if kind == "number" then
        local whole = value < 0 and -floor(-value) or floor(value)
        return small[whole] or format(":%.0f\r\n", whole)
    elseif kind == "string" then
        return bulk(value)
    elseif kind == "table" then
        if value.err then
            return "-" .. line(value.err)
        elseif value.ok then
            return "+" .. line(value.ok)
        elseif value[2] ~= nil and value[3] == nil then
            return "*2\r\n" .. encode(value[1]) .. encode(value[2])
        end
        local parts = {}
        for i = 1, #value do
            if value[i] == nil then
                break
            end
            parts[i] = encode(value[i])
        end
        return "*" .. #parts .. "\r\n" .. concat(parts)
    end
    return value == true and ":1\r\n" or "$-1\r\n"
end
_M.encode = encode

--- Runs a command of n words without a connection.
-- @return its result, as a script gets it
function Server:run(argv, n)
    self.now_ms = floor(self:clock() / 1000)
    return run(self, argv, n, 0)
end

--- Executes a command of n words, and replies. Servers share argv, with what they cache about it.
function Server:execute(conn, argv, n)
    self.now_ms = floor(self:clock() / 1000)
    local result = argv[1] == "EVALSHA" and self.says or run(self, argv, n, conn)
    if result ~= ANSWERED then
        self.reply(conn, encode(result))
    end
end

return _M
