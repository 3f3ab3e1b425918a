--- JSON, writing only: tables, strings, numbers, booleans.

local _M = {}

local encode

local ESCAPES = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }

local function text(s)
    return '"' .. s:gsub('[%c"\\\127-\255]', function(c)
        return ESCAPES[c] or c:byte() < 128 and ("\\u%04x"):format(c:byte()) or c
    end) .. '"'
end

local function object(t)
    local keys, parts = {}, {}
    for key, value in pairs(t) do
        if type(key) == "string" and type(value) ~= "function" then
            keys[#keys + 1] = key
        end
    end
    table.sort(keys)
    for i, key in ipairs(keys) do
        parts[i] = text(key) .. ": " .. encode(t[key])
    end
    return "{" .. table.concat(parts, ", ") .. "}"
end

local function list(t)
    local parts = {}
    for i, value in ipairs(t) do
        parts[i] = encode(value)
    end
    return "[" .. table.concat(parts, ", ") .. "]"
end

--- @return a value as one line of JSON. A table with [1], or none at all, is an array.
--   Numbers that JSON has not (infinity) are null.
function encode(value)
    if type(value) == "table" then
        return (value[1] ~= nil or next(value) == nil) and list(value) or object(value)
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
