--- Names for people: what others have chosen must not act on a terminal, nor break a line of
-- a log.

local byte, format, gsub = string.byte, string.format, string.gsub

local _M = {}

local MAX = 64

--- @return a name in printable ASCII, cut to 64 characters before others are written as \xNN
function _M.printable(name)
    if #name > MAX then
        name = name:sub(1, MAX - 3) .. "..."
    end
    return (gsub(name, "[^ -~]", function(c)
        return format("\\x%02x", byte(c))
    end))
end

return _M
