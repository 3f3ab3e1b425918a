-- The FNV-1a hash of a text, 64 bits (Fowler, Noll, Vo), as c/core/base/cluster.c has it.
local bit = require "bit"

return function(text)
    local hash = 0xcbf29ce484222325ULL
    for i = 1, #text do
        hash = bit.bxor(hash, text:byte(i)) * 0x100000001b3ULL
    end
    return hash
end
