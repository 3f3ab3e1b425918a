--- Texts: bytes written in printable characters, times and tables for people, and the hash and
-- checksum of a text.

local bit = require "bit"

local bxor, tobit, lshift = bit.bxor, bit.tobit, bit.lshift
local byte, char, format, gsub, match, rep = string.byte, string.char, string.format, string.gsub,
    string.match, string.rep
local concat, max = table.concat, math.max
local ipairs, tonumber = ipairs, tonumber

local _M = {}

local PRINTABLE_MAX = 64

local function to_char(digits)
    return char(tonumber(digits, 16))
end

--- @return two lower-case hex digits for each byte
function _M.hex(bytes)
    return (gsub(bytes, ".", function(c) return format("%02x", byte(c)) end))
end

--- @return the bytes that hex() had
function _M.unhex(text)
    return (gsub(text, "%x%x", to_char))
end

--- @param bytes  any
-- @param keep   the characters to leave as they are, as in a set of a pattern
-- @param digits how other bytes are written; default: "%%%02X", as in URIs
function _M.escape(bytes, keep, digits)
    digits = digits or "%%%02X"
    return (gsub(bytes, "[^" .. keep .. "]", function(c) return format(digits, byte(c)) end))
end

--- @return the bytes that escape() had, with its default for `digits`
function _M.unescape(text)
    return (gsub(text, "%%(%x%x)", to_char))
end

--- For terminals and logs: text that others chose must not move a cursor or break a line.
-- @return printable ASCII: the name cut to 64 characters, and other bytes written as \xNN
function _M.printable(name)
    if #name > PRINTABLE_MAX then
        name = name:sub(1, PRINTABLE_MAX - 3) .. "..."
    end
    return (gsub(name, "[^ -~]", function(c)
        return format("\\x%02x", byte(c))
    end))
end

--- @param s  seconds, or nil
-- @return "12 ms", "1.5 s", "5 min", "3.0 h", "5 days"; nil: "-"
function _M.duration(s)
    if not s then
        return "-"
    elseif s < 0.001 then
        return "< 1 ms"
    elseif s < 1 then
        return format("%.0f ms", s * 1000)
    elseif s < 120 then
        return format("%.3g s", s)
    elseif s < 7200 then
        return format("%.0f min", s / 60)
    elseif s < 2 * 86400 then
        return format("%.1f h", s / 3600)
    end
    return format("%.0f days", s / 86400)
end

--- The number of characters of a text in UTF-8.
function _M.width(text)
    return #gsub(text, "[\128-\191]", "")
end

--- @return the width of each column of rows, which are lists of texts
function _M.widths(rows)
    local widths = {}
    for _, row in ipairs(rows) do
        for i, cell in ipairs(row) do
            widths[i] = max(widths[i] or 0, _M.width(cell))
        end
    end
    return widths
end

--- @return a line for each of such rows, with columns two spaces apart
function _M.columns(rows)
    local widths, lines = _M.widths(rows), {}
    for k, row in ipairs(rows) do
        local cells = {}
        for i, cell in ipairs(row) do
            cells[i] = cell .. rep(" ", widths[i] - _M.width(cell))
        end
        lines[k] = gsub(concat(cells, "  "), "%s+$", "")
    end
    return lines
end

--- FNV-1a, 32 bits. All clients must compute the same hash, so it never changes.
-- @return a whole number in [0, 2^32)
function _M.hash(s)
    local h = 0x811c9dc5
    for i = 1, #s do
        h = bxor(h, byte(s, i))
        h = tobit(h + lshift(h, 1) + lshift(h, 4) + lshift(h, 7) + lshift(h, 8)
            + lshift(h, 24))
    end
    return h % 2 ^ 32
end

local function checksum(text)
    return format("%08x", _M.hash(text))
end

--- Adds a punctuation character and a checksum to a text that people copy. It shows typing errors;
-- it stops no forger.
function _M.add_checksum(text, mark)
    return text .. mark .. checksum(text)
end

--- @return the text to which add_checksum() added a checksum; nil: it is missing or wrong
function _M.strip_checksum(text, mark)
    local body, found = match(text, "^(.*)%" .. mark .. "(%x+)$")
    return found == (body and checksum(body)) and body or nil
end

return _M
