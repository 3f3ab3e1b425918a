--- A hold on its way to another process, as one printable string.

local tonumber, type = tonumber, type
local format, gsub, match = string.format, string.gsub, string.match
local byte, char = string.byte, string.char

local _M = {}

local VALUE_LEN = 40          -- RL_VALUE_LEN of the core
local MAX_NAME = 65536
local TOKEN_DIGITS = 14       -- tokens are below 10^14

local function hex(s)
    return (gsub(s, ".", function(c) return format("%02x", byte(c)) end))
end

local function unhex(s)
    return (gsub(s, "%x%x", function(c) return char(tonumber(c, 16)) end))
end

--- @param hold  { kind, name, value, ms (of the lease), token (0: none) }
function _M.format(hold)
    return format("redlock1.%s.%s.%s.%d.%.0f", hex(hold.kind), hex(hold.name), hold.value,
        hold.ms, hold.token)
end

--- @return the hold; nil: the text is not what format() made
function _M.parse(text)
    if type(text) ~= "string" then
        return nil
    end
    local kind, name, value, ms, token =
        match(text, "^redlock1%.(%x+)%.(%x+)%.(%x+)%.(%d+)%.(%d+)$")
    if not kind or #value ~= VALUE_LEN or #token > TOKEN_DIGITS
        or #kind % 2 ~= 0 or #name % 2 ~= 0 or #name > 2 * MAX_NAME then
        return nil
    end
    return { kind = unhex(kind), name = unhex(name), value = value, ms = tonumber(ms),
        token = tonumber(token) }
end

return _M
