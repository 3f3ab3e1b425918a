--- A hash by which all clients agree, whatever their versions: FNV-1a, 32 bits.

local bit = require "bit"

local bxor, tobit, lshift = bit.bxor, bit.tobit, bit.lshift
local byte = string.byte

--- @return a whole number in [0, 2^32)
return function(s)
    local h = 0x811c9dc5
    for i = 1, #s do
        h = bxor(h, byte(s, i))
        h = tobit(h + lshift(h, 1) + lshift(h, 4) + lshift(h, 7) + lshift(h, 8)
            + lshift(h, 24))
    end
    return h % 2 ^ 32
end
