--- A checksum behind a text that travels, so that a letter that was lost or mistyped shows. It
-- keeps nobody from making up a text.

local hash = require "redlock.runtime.hash"

local format, match = string.format, string.match

local _M = {}

local function sum(text)
    return format("%08x", hash(text))
end

--- @param text  what is to travel
-- @param mark  one character, not one of a pattern's
-- @return the text, the mark, and the checksum
function _M.add(text, mark)
    return text .. mark .. sum(text)
end

--- @param text  what arrived
-- @param mark  as for add()
-- @return the text that add() had; nil: it is not as add() left it
function _M.strip(text, mark)
    local body, found = match(text, "^(.*)%" .. mark .. "(%x+)$")
    return found == (body and sum(body)) and body or nil
end

return _M
