--- Checks arguments. Misuse raises at the caller's line and names the argument.

local type, error, tostring = type, error, tostring
local getmetatable, setmetatable = getmetatable, setmetatable
local format, find, match, sub = string.format, string.find, string.match, string.sub
local sort, concat = table.sort, table.concat
local getinfo = debug.getinfo
local each = pairs            -- for finalizers: see finalizers.lua

local _M = {}

-- The library's folder: the parent of this file's.
local HERE = getinfo(1, "S").source:match "^(.*[/\\])[^/\\]*[/\\]"

--- Raises text at the line outside the library that called into it.
function _M.raise(text)
    local level = 2
    while true do
        local info = getinfo(level, "S")
        if not info then
            error(text, 0)
        elseif info.what ~= "C" and not find(info.source, HERE, 1, true) then
            error(text, level)
        end
        level = level + 1
    end
end

local function bad(what, text)
    _M.raise(format("redlock: bad %s: %s", what, text))
end
_M.bad = bad

local function no_object(what, name)
    _M.raise(format("redlock: %s.%s needs a %s as its first argument; write %s:%s(...), with a "
        .. "colon", what, name, what, what, name))
end

local function too_many(what, name, most)
    _M.raise(format("redlock: %s:%s takes %s", what, name, most == 0 and "no arguments"
        or format("at most %d argument%s; durations are seconds, without a unit", most,
            most == 1 and "" or "s")))
end

-- What other libraries call a method.
local ELSEWHERE = { lock = "acquire", unlock = "release", extend = "renew" }

-- Completes a class. Calls of trylock, try_lock and acquire name the method that it has instead.
local function hint(class, what, methods)
    class.__index = class
    local hints = getmetatable(class) and getmetatable(class).__index or {}
    for name in each(methods) do
        for _, tried in each { name:lower(), (name:gsub("%u", "_%0"):lower()), ELSEWHERE[name] } do
            hints[tried] = function()
                _M.raise(format("redlock: a %s has no method '%s'; use '%s'", what, tried, name))
            end
        end
    end
    setmetatable(class, { __index = hints })
end

--- Gives a class methods that raise at the caller's line when called with a dot instead of a
-- colon, on anything but an object of the class, or with too many arguments: Redisson's methods
-- of the same names take units and numbers of permits.
-- @param class    the metatable of the objects
-- @param what     the user's word for an object: "lock"
-- @param methods  name -> function of the object and at most three values, since LuaJIT compiles
--   such calls best; metamethods stay unchecked
function _M.methods(class, what, methods)
    for name, method in each(methods) do
        local u = getinfo(method, "u")
        local takes = u.isvararg and 4 or u.nparams          -- with the object
        class[name] = find(name, "^__") and method or function(self, a, b, c)
            if getmetatable(self) ~= class then
                no_object(what, name)
            elseif takes == 1 and a ~= nil or takes == 2 and b ~= nil
                or takes == 3 and c ~= nil then
                too_many(what, name, takes - 1)
            end
            return method(self, a, b, c)
        end
    end
    hint(class, what, methods)
end

--- Like methods(), for functions with any number of values.
function _M.any_methods(class, what, methods)
    for name, method in each(methods) do
        class[name] = function(self, ...)
            if getmetatable(self) ~= class then
                no_object(what, name)
            end
            return method(self, ...)
        end
    end
    hint(class, what, methods)
end

--- A number of seconds in [least, most] (either may be nil); not NaN.
function _M.seconds(what, value, least, most)
    if type(value) ~= "number" then
        bad(what, "a number of seconds is needed, not " .. type(value))
    elseif value ~= value then
        bad(what, "must be a number of seconds, not NaN")
    elseif least and value < least then
        bad(what, format("%g s is too short; at least %g s", value, least))
    elseif most and value > most then
        bad(what, format("%g s is too long; at most %g s", value, most))
    end
    return value
end

--- A string of 1 to most bytes.
function _M.name(what, value, most)
    if type(value) ~= "string" then
        bad(what, "a string is needed, not " .. type(value))
    elseif value == "" then
        bad(what, "must not be empty")
    elseif #value > most then
        bad(what, format("%d bytes are too long; at most %d", #value, most))
    end
    return value
end

--- Like name(), for C, where a NUL would end the string.
function _M.text(what, value, most)
    if find(_M.name(what, value, most), "%z") then
        bad(what, "a string without NUL bytes is needed")
    end
    return value
end

-- W3C's Trace Context: version, trace, span, flags, and what later versions add.
local HEX = "[%da-f]"
local TRACEPARENT = "^(" .. HEX .. HEX .. ")%-" .. HEX:rep(32) .. "%-" .. HEX:rep(16) .. "%-" .. HEX
    .. HEX .. "(.*)$"

--- @return what the remote header has; nil: malformed, or sent twice, which W3C has us ignore
function _M.traceparent(what, value)
    if type(value) ~= "string" and type(value) ~= "table" then
        bad(what, "what a header traceparent has is needed: 00-TRACE-SPAN-FLAGS")
    end
    local version, more = match(type(value) == "string" and value or "", TRACEPARENT)
    local valid = version and version ~= "ff"
        and (more == "" or version ~= "00" and sub(more, 1, 1) == "-")
    return valid and value or nil
end

--- A list, without names and gaps, which would make it shorter without notice.
-- @return how many elements it has
function _M.list(what, value, words)
    local n = 0
    for _ in each(type(value) == "table" and value or bad(what, words .. " is needed")) do
        n = n + 1
    end
    for key in each(value) do
        if type(key) ~= "number" or key % 1 ~= 0 or key < 1 or key > n then
            bad(what, format("%s without gaps is needed; it has a key '%s'", words, tostring(key)))
        end
    end
    return n
end

function _M.strings(what, value, most)
    if type(value) ~= "table" or #value > most then
        bad(what, format("a list of at most %d strings is needed, not %s", most,
            type(value) == "table" and #value or type(value)))
    end
    for i = 1, #value do
        if type(value[i]) ~= "string" then
            bad(what, format("strings are needed; number %d is a %s", i, type(value[i])))
        end
    end
    return value
end

--- A whole number in [least, most].
function _M.integer(what, value, least, most)
    if type(value) ~= "number" or value % 1 ~= 0 or value < least or value > most then
        bad(what, format("a whole number from %d to %d is needed, not %s", least, most,
            tostring(value)))
    end
    return value
end

--- true, false, or nil, which is false.
function _M.flag(what, value)
    if value ~= nil and type(value) ~= "boolean" then
        bad(what, "true or false is needed, not " .. type(value))
    end
    return value == true
end

function _M.is_function(what, value)
    if type(value) ~= "function" then
        bad(what, "a function is needed, not " .. type(value))
    end
    return value
end

--- A table whose keys are all in known (a table of key = anything); nil gives {}.
function _M.options(what, value, known)
    if value == nil then
        return {}
    elseif type(value) ~= "table" then
        bad(what, "a table is needed, not " .. type(value))
    end
    for key in each(value) do
        if known[key] == nil then
            local names = {}
            for name in each(known) do
                names[#names + 1] = name
            end
            sort(names)
            bad(what, format("unknown option '%s'; known are: %s", tostring(key),
                concat(names, ", ")))
        end
    end
    return value
end

return _M
