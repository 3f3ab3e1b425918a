--- SHA-1 (FIPS 180-4), by which Redis names scripts. Results are cached.

local bit = require "bit"
local memo = require "redlock.testing.memo"

local band, bor, bxor, bnot = bit.band, bit.bor, bit.bxor, bit.bnot
local rol, tobit, tohex = bit.rol, bit.tobit, bit.tohex
local byte, char, rep, format = string.byte, string.char, string.rep, string.format

local _M = {}

local function padded(s)
    local bits = #s * 8
    local high, low = math.floor(bits / 2 ^ 32), bits % 2 ^ 32
    local tail = ""
    for _, word in ipairs { high, low } do
        for shift = 3, 0, -1 do
            tail = tail .. char(math.floor(word / 256 ^ shift) % 256)
        end
    end
    return s .. "\128" .. rep("\0", (55 - #s) % 64) .. tail
end

local function round_of(i, b, c, d)
    if i < 20 then
        return bor(band(b, c), band(bnot(b), d)), 0x5A827999
    elseif i < 40 then
        return bxor(b, c, d), 0x6ED9EBA1
    elseif i < 60 then
        return bor(band(b, c), band(b, d), band(c, d)), 0x8F1BBCDC
    end
    return bxor(b, c, d), 0xCA62C1D6
end

local function digest(s)
    local h = { 0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0 }
    s = padded(s)
    local w = {}
    for block = 1, #s, 64 do
        for i = 0, 15 do
            local a, b, c, d = byte(s, block + i * 4, block + i * 4 + 3)
            w[i] = tobit(a * 2 ^ 24 + b * 2 ^ 16 + c * 2 ^ 8 + d)
        end
        for i = 16, 79 do
            w[i] = rol(bxor(w[i - 3], w[i - 8], w[i - 14], w[i - 16]), 1)
        end
        local a, b, c, d, e = h[1], h[2], h[3], h[4], h[5]
        for i = 0, 79 do
            local f, k = round_of(i, b, c, d)
            a, b, c, d, e = tobit(rol(a, 5) + f + e + k + w[i]), a, rol(b, 30), c, d
        end
        local now = { a, b, c, d, e }
        for i = 1, 5 do
            h[i] = tobit(h[i] + now[i])
        end
    end
    for i = 1, 5 do
        h[i] = tohex(h[i])
    end
    return format("%s%s%s%s%s", h[1], h[2], h[3], h[4], h[5])
end

--- @return 40 hexadecimal digits
_M.hex = memo(digest, 5000)

return _M
