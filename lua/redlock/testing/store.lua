--- The data of a modelled Redis server (redis.lua), and the commands on keys and strings.
--
-- A value is a string, a hash (a table), a list or a sorted set (tables whose metatable names the
-- type). Values are immutable: a command that writes stores a new value, so entries that were read
-- or saved do not change.

local glob = require "redlock.text.glob"
local memo = require "redlock.testing.memo"

local huge, format, lower = math.huge, string.format, string.lower
local getmetatable, type, tonumber = getmetatable, type, tonumber

local MANY = 2000            -- results that a memo keeps

local upper = memo(string.upper, MANY)

local ANSWERED = {}          -- result of a command that has replied itself
local OK = { ok = "OK" }
local WRONGTYPE = { err = "WRONGTYPE Operation against a key holding the wrong kind of value" }
local NOT_INTEGER = { err = "ERR value is not an integer or out of range" }
local SYNTAX = { err = "ERR syntax error" }

local function bulk(s)
    return "$" .. #s .. "\r\n" .. s .. "\r\n"
end

-- The entry of a key, or nil.
local function find(self, key)
    local entry = self.db[key]
    if entry and entry.at and self.now_ms > entry.at then
        self.db[key] = nil
        return nil
    end
    return entry
end

-- Replaces the entry of a key; nil: deletes it.
local function write(self, key, entry)
    if self.on_write then
        self.on_write(self, key, find(self, key), entry)
    end
    self.db[key] = entry
end

-- The type of a value, as TYPE names it.
local function kind_of(value)
    if type(value) == "string" then
        return "string"
    end
    local meta = getmetatable(value)
    return meta and meta.is or "hash"
end

-- The value of a key and its entry; nil: no such key; false: not of this kind.
local function find_as(self, key, kind)
    local entry = find(self, key)
    if not entry then
        return nil
    end
    return kind_of(entry.value) == kind and entry.value, entry
end

-- Stores a value, with the expiry of the key's old entry (or nil); a value of nil: deletes the key.
local function put(self, key, entry, value)
    write(self, key, value and { value = value, at = entry and entry.at })
end

-- The error for what real servers can do and the model cannot. Also calls on_unsupported, as a
-- script may hide the error.
local function unsupported(self, what)
    local text = "ERR the model of a server does not know " .. what
    if self.on_unsupported then
        self.on_unsupported(self, text)
    end
    return { err = text }
end

-- Name -> { least and most words (negative: no bound), function(server, argv, n, connection) }
local commands = {}

local function command(name, least, most, fn)
    local c = { least = least, most = most, fn = fn, name = lower(name) }
    commands[name] = c
    commands[lower(name)] = c
end

-- A function that defines commands that read values of a kind: fn(value, argv, n, server), with
-- `empty` for a missing key. Errors in the words take precedence over a wrong type of the key.
local function reads(kind, empty)
    return function(name, least, most, fn)
        command(name, least, most, function(self, argv, n)
            local value = find_as(self, argv[2], kind)
            local result = fn(value or empty, argv, n, self)
            if value == false and not (type(result) == "table" and result.err) then
                return WRONGTYPE
            end
            return result
        end)
    end
end

-- The integer in a text, or false.
local integer = memo(function(text)
    local n = tonumber(text)
    return n and n % 1 == 0 and n > -2 ^ 63 and n < 2 ^ 63
        and (text == "0" or text:find "^%-?[1-9]%d*$") and n or false
end, MANY)

local reads_string = reads("string", false)

reads_string("GET", 2, 2, function(value)
    return value
end)

reads_string("GETRANGE", 4, 4, function(value, argv)
    local from, to = integer(argv[3]), integer(argv[4])
    return from and to and (value or ""):sub(from < 0 and from or from + 1,
        to < 0 and to or to + 1) or NOT_INTEGER
end)

-- Options of SET that the model lacks.
local SET_MORE = { GET = true, EXAT = true, PXAT = true }

command("SET", 3, -1, function(self, argv, n)
    local key, at, nx, xx, keep = argv[2], nil, false, false, false
    local i = 4
    while i <= n do
        local word = upper(argv[i])
        if word == "NX" then
            nx = true
        elseif word == "XX" then
            xx = true
        elseif word == "KEEPTTL" then
            keep = true
        elseif (word == "PX" or word == "EX") and i < n and not at then
            local ttl = integer(argv[i + 1])
            if not ttl then
                return NOT_INTEGER
            elseif ttl <= 0 then
                return { err = "ERR invalid expire time in 'set' command" }
            end
            at = self.now_ms + (word == "EX" and ttl * 1000 or ttl)
            i = i + 1
        elseif SET_MORE[word] then
            return unsupported(self, "SET with " .. word)
        else
            return SYNTAX
        end
        i = i + 1
    end
    if nx and xx or keep and at then
        return SYNTAX
    end
    local old = find(self, key)
    if nx and old or xx and not old then
        return false
    end
    write(self, key, { value = argv[3], at = keep and old and old.at or at })
    return OK
end)

command("DEL", 2, -1, function(self, argv, n)
    local count = 0
    for i = 2, n do
        if find(self, argv[i]) then
            write(self, argv[i], nil)
            count = count + 1
        end
    end
    return count
end)

command("MGET", 2, -1, function(self, argv, n)
    local list = {}
    for i = 2, n do
        list[i - 1] = find_as(self, argv[i], "string") or false
    end
    return list
end)

command("EXISTS", 2, -1, function(self, argv, n)
    local count = 0
    for i = 2, n do
        count = count + (find(self, argv[i]) and 1 or 0)
    end
    return count
end)

-- unit: of the number, in ms; from_now: whether it counts from now
local function expire(unit, from_now)
    return function(self, argv, n)
        local number = integer(argv[3])
        if not number then
            return NOT_INTEGER
        end
        local old = find(self, argv[2])
        local mode = n == 4 and upper(argv[4])
        if mode and mode ~= "GT" and mode ~= "LT" and mode ~= "NX" and mode ~= "XX" then
            return { err = "ERR Unsupported option " .. argv[4] }
        end
        local at = number * unit + (from_now and self.now_ms or 0)
        if not old or mode == "NX" and old.at or mode == "XX" and not old.at
            or mode == "GT" and at <= (old.at or huge)
            or mode == "LT" and at >= (old.at or huge) then
            return 0
        end
        write(self, argv[2], at > self.now_ms and { value = old.value, at = at } or nil)
        return 1
    end
end

command("PEXPIRE", 3, 4, expire(1, true))
command("EXPIRE", 3, 4, expire(1000, true))
command("PEXPIREAT", 3, 4, expire(1))
command("EXPIREAT", 3, 4, expire(1000))

command("PERSIST", 2, 2, function(self, argv)
    local old = find(self, argv[2])
    if not old or not old.at then
        return 0
    end
    write(self, argv[2], { value = old.value })
    return 1
end)

command("PTTL", 2, 2, function(self, argv)
    local entry = find(self, argv[2])
    return not entry and -2 or not entry.at and -1 or entry.at - self.now_ms
end)

command("TYPE", 2, 2, function(self, argv)
    local entry = find(self, argv[2])
    return { ok = entry and kind_of(entry.value) or "none" }
end)

local function increase(self, key, by)
    local old = find(self, key)
    if not by then
        return NOT_INTEGER
    elseif old and type(old.value) == "table" then
        return WRONGTYPE
    end
    local n = old and integer(old.value) or not old and 0
    if not n then
        return NOT_INTEGER
    end
    write(self, key, { value = format("%.0f", n + by), at = old and old.at })
    return n + by
end

command("INCR", 2, 2, function(self, argv)
    return increase(self, argv[2], 1)
end)

command("INCRBY", 3, 3, function(self, argv)
    return increase(self, argv[2], integer(argv[3]))
end)

-- Returns all keys at once, in order, as a real server with few keys may.
command("SCAN", 2, -1, function(self, argv, n)
    local pattern, list = "*", {}
    for i = 3, n, 2 do
        local word = upper(argv[i])
        if word == "TYPE" then
            return unsupported(self, "SCAN with TYPE")
        elseif i == n or word ~= "MATCH" and word ~= "COUNT" then
            return SYNTAX
        elseif word == "COUNT" and not integer(argv[i + 1]) then
            return NOT_INTEGER
        end
        pattern = word == "MATCH" and argv[i + 1] or pattern
    end
    if not integer(argv[2]) then
        return { err = "ERR invalid cursor" }
    end
    for key in pairs(self.db) do
        list[#list + 1] = glob.matches(pattern, key) and find(self, key) and key or nil
    end
    table.sort(list)
    return { "0", list }
end)

return {
    ANSWERED = ANSWERED, MANY = MANY, OK = OK, NOT_INTEGER = NOT_INTEGER, SYNTAX = SYNTAX,
    WRONGTYPE = WRONGTYPE, bulk = bulk, upper = upper, integer = integer, find = find,
    find_as = find_as, put = put, reads = reads, write = write, unsupported = unsupported,
    commands = commands, command = command,
}
