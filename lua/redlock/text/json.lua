--- Writes JSON: tables, strings, numbers, booleans. Always UTF-8, without control characters.

local _M = {}

local encode

local ESCAPES = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }

local function escape(c)
    return ESCAPES[c] or ("\\u%04x"):format(c:byte(-1))
end

-- UTF-8 (RFC 3629) beyond ASCII.
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

--- @return whether all bytes beyond ASCII are UTF-8
function _M.is_utf8(s)
    for _, pattern in ipairs(CHARACTERS) do
        s = s:gsub(pattern:sub(2), "-")
    end
    return not s:find "[\128-\255]"
end

-- Replaces each byte that is not UTF-8 by U+FFFD.
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

local function object(t, after_each)
    local keys, parts = {}, {}
    for key, value in pairs(t) do
        if type(key) == "string" and type(value) ~= "function" then
            keys[#keys + 1] = key
        end
    end
    table.sort(keys)
    for i, key in ipairs(keys) do
        parts[i] = text(key) .. ": " .. encode(t[key], after_each)
    end
    return "{" .. table.concat(parts, ", ") .. "}"
end

local function list(t, after_each)
    local parts = {}
    for i, value in ipairs(t) do
        parts[i] = encode(value)
        if after_each then
            after_each()
        end
    end
    return "[" .. table.concat(parts, ", ") .. "]"
end

--- @return a value as one line of JSON. A table with [1], or an empty one, is an array. Infinity
--   and NaN are null. after_each(), or nil, is called after each element of an array
function encode(value, after_each)
    if type(value) == "table" then
        return (value[1] ~= nil or next(value) == nil) and list(value, after_each)
            or object(value, after_each)
    elseif type(value) == "string" then
        return text(value)
    elseif type(value) == "number" and (value ~= value or value == math.huge
        or value == -math.huge) then
        return "null"
    end
    return tostring(value)
end
_M.encode = encode

return _M
