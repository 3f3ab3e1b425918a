--- Sequencers: a hold in one printable string (name, mode, token), as in Chubby.

local validate = require "redlock.runtime.validate"
local encoding = require "redlock.text.encoding"
local limits = require "redlock.runtime.limits"

local tonumber, type = tonumber, type
local format, match = string.format, string.match

local _M = {}

-- Later formats are called fence2, fence3.
local LATER = "^fence%d+;"

-- Names stay as they are, except for characters that a URL or a log line would not keep.
local KEPT, DIGITS = "%w._:/-", "%%%02x"

--- @param seq  { name, mode = "exclusive", token }
-- @return such as "fence;invoice:42;exclusive;17;5d0c2a91", without spaces
function _M.format(seq)
    local name = encoding.escape(seq.name, KEPT, DIGITS)
    return encoding.add_checksum(format("fence;%s;%s;%.0f", name, seq.mode, seq.token), ";")
end

--- @return { name, mode, token }; or nil if format() did not make the text, and whether a later
--   version's format() did
function _M.parse(text)
    if type(text) ~= "string" then
        validate.bad("sequencer", "a string is needed, not " .. type(text))
    end
    local name, mode, token =
        match(encoding.strip_checksum(text, ";") or "", "^fence;([^;]+);(%l+);(%d+)$")
    name = name and encoding.unescape(name)
    if name and #name <= limits.MAX_NAME then
        return { name = name, mode = mode, token = tonumber(token) }
    end
    return nil, match(text, LATER) ~= nil
end

return _M
