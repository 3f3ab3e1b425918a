--- Bytes as printable text: in hex, and with % as in URIs.

local tonumber = tonumber
local byte, char, format, gsub = string.byte, string.char, string.format, string.gsub

local _M = {}

local function to_char(digits)
    return char(tonumber(digits, 16))
end

--- @return two digits for each byte, in lower case
function _M.hex(bytes)
    return (gsub(bytes, ".", function(c) return format("%02x", byte(c)) end))
end

--- @return the bytes that hex() had
function _M.unhex(text)
    return (gsub(text, "%x%x", to_char))
end

--- @param bytes  any
-- @param keep   the characters that stay as they are, as in a set of a pattern
-- @param digits how a byte is written; default: "%%%02X", as in URIs
-- @return the text, with %XX for other bytes
function _M.escape(bytes, keep, digits)
    digits = digits or "%%%02X"
    return (gsub(bytes, "[^" .. keep .. "]", function(c) return format(digits, byte(c)) end))
end

--- @return the bytes that escape() had
function _M.unescape(text)
    return (gsub(text, "%%(%x%x)", to_char))
end

return _M
