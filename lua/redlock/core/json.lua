--- JSON: tables, strings, numbers, booleans. What is written is always UTF-8, and without control
-- characters.

local _M = {}

local encode

local ESCAPES = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }

local function escape(c)
    return ESCAPES[c] or ("\\u%04x"):format(c:byte(-1))
end

-- What is UTF-8 (RFC 3629) beyond ASCII.
local CHARACTERS = {
    "^[\194-\223][\128-\191]",
    "^\224[\160-\191][\128-\191]",
    "^[\225-\236\238\239][\128-\191][\128-\191]",
    "^\237[\128-\159][\128-\191]",
    "^\240[\144-\191][\128-\191][\128-\191]",
    "^[\241-\243][\128-\191][\128-\191][\128-\191]",
    "^\244[\128-\143][\128-\191][\128-\191]",
}

local function character(s, i)
    for _, pattern in ipairs(CHARACTERS) do
        local c = s:match(pattern, i)
        if c then
            return c
        end
    end
end

-- Bytes that are no UTF-8 become U+FFFD, one each.
local function repaired(s)
    local parts, i = {}, 1
    while i <= #s do
        local c = character(s, i)
        parts[#parts + 1] = c or "\\ufffd"
        i = i + (c and #c or 1)
    end
    return table.concat(parts)
end

local function text(s)
    return '"' .. s:gsub('[%c"\\\127]', escape):gsub("[\128-\255]+", repaired)
        :gsub("\194[\128-\159]", escape) .. '"'
end

local function object(t, pause)
    local keys, parts = {}, {}
    for key, value in pairs(t) do
        if type(key) == "string" and type(value) ~= "function" then
            keys[#keys + 1] = key
        end
    end
    table.sort(keys)
    for i, key in ipairs(keys) do
        parts[i] = text(key) .. ": " .. encode(t[key], pause)
    end
    return "{" .. table.concat(parts, ", ") .. "}"
end

local function list(t, pause)
    local parts = {}
    for i, value in ipairs(t) do
        parts[i] = encode(value)
        if pause then
            pause()
        end
    end
    return "[" .. table.concat(parts, ", ") .. "]"
end

--- @return a value as one line of JSON. A table with [1], or none at all, is an array.
--   Numbers that JSON has not (infinity) are null.
-- @param value  what is to be written
-- @param pause  function(): called between what is in its arrays; or nil
function encode(value, pause)
    if type(value) == "table" then
        return (value[1] ~= nil or next(value) == nil) and list(value, pause)
            or object(value, pause)
    elseif type(value) == "string" then
        return text(value)
    elseif type(value) == "number" and (value ~= value or value == math.huge
        or value == -math.huge) then
        return "null"
    end
    return tostring(value)
end
_M.encode = encode

-- ---- reading ---------------------------------------------------------------------

local DEEP = 32               -- so many values in each other, at most
local PLAIN = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }
local WORDS = { ["true"] = true, ["false"] = false }

local function utf8(code)
    local floor = math.floor
    if code < 0x80 then
        return string.char(code)
    elseif code < 0x800 then
        return string.char(0xc0 + floor(code / 64), 0x80 + code % 64)
    elseif code >= 0xd800 and code < 0xe000 then
        return "?"               -- half a character
    end
    return string.char(0xe0 + floor(code / 4096), 0x80 + floor(code / 64) % 64, 0x80 + code % 64)
end

-- Each of these returns a value and where the next thing begins; or nothing.

local function read_text(s, at)
    local from = at
    repeat                       -- up to a quote behind an even number of \
        local slashes, behind = s:match('^[^"\\]*(\\*)()', at)
        at = #slashes % 2 == 1 and behind + 1 or behind
    until #slashes % 2 == 0 and s:find('^"', at) or at > #s
    if at > #s then
        return
    end
    local value = s:sub(from, at - 1):gsub("\\(.)(%x?%x?%x?%x?)", function(c, digits)
        return c == "u" and #digits == 4 and utf8(tonumber(digits, 16))
            or (PLAIN[c] or c) .. digits
    end)
    return value, at + 1
end

local read

local function read_many(s, at, close, depth)
    local value, n = {}, 0
    at = s:match("^%s*()", at)
    while not s:find("^" .. close, at) do
        local key = n + 1
        if close == "%}" then
            key, at = read_text(s, s:match('^"()', at) or #s + 1)
            at = key and s:match("^%s*:()", at)
        end
        local item
        if at then
            item, at = read(s, at, depth + 1)
        end
        if not at then
            return
        end
        value[key], n = item, n + 1
        at = s:match("^%s*,%s*()", at) or s:match("^%s*()" .. close, at)
        if not at then
            return
        end
    end
    return value, at + 1
end

function read(s, at, depth)
    local c, behind = s:match("^%s*(.)()", at)
    if depth > DEEP then
        return
    elseif c == '"' then
        return read_text(s, behind)
    elseif c == "{" or c == "[" then
        return read_many(s, behind, c == "{" and "%}" or "%]", depth)
    end
    local word, after = s:match("^%s*([%w.+-]+)()", at)
    if word and (tonumber(word) or WORDS[word] ~= nil or word == "null") then
        local value = WORDS[word]
        return value == nil and tonumber(word) or value, after
    end
end

--- @return what a text of JSON stands for, null being nil; nil: it is none
function _M.decode(s)
    local value, at = read(s, 1, 1)
    if at and s:find("^%s*$", at) then
        return value
    end
end

return _M
