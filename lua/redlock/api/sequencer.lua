--- Sequencers: a hold in one printable string (name, mode, token), as in Chubby.

local validate = require "redlock.core.validate"
local checksum = require "redlock.core.checksum"

local tonumber, type = tonumber, type
local format, gsub, match = string.format, string.gsub, string.match
local byte, char = string.byte, string.char

local _M = {}

local MAX_NAME = 65536        -- of a lock

-- Names travel as they are, but for what a URL or a log line would not keep.
local function encode(name)
    return (gsub(name, "[^%w._:/-]", function(c) return format("%%%02x", byte(c)) end))
end

local function decode(text)
    return (gsub(text, "%%(%x%x)", function(c) return char(tonumber(c, 16)) end))
end

--- @param seq  { name, mode = "exclusive", token }
-- @return such as "fence;invoice:42;exclusive;17;5d0c2a91", without spaces
function _M.format(seq)
    return checksum.add(format("fence;%s;%s;%.0f", encode(seq.name), seq.mode, seq.token), ";")
end

--- @return { name, mode, token }; nil: the text is not what format() made
function _M.parse(text)
    if type(text) ~= "string" then
        validate.bad("sequencer", "a string is needed, not " .. type(text))
    end
    local name, mode, token =
        match(checksum.strip(text, ";") or "", "^fence;([^;]+);(%l+);(%d+)$")
    name = name and decode(name)
    return name and #name <= MAX_NAME and { name = name, mode = mode, token = tonumber(token) }
        or nil
end

return _M
