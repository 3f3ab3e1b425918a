-- Random numbers that depend on a seed alone, the same on every machine.
local bit = require "bit"

local bxor, lshift, rshift, tobit = bit.bxor, bit.lshift, bit.rshift, bit.tobit

local _M = {}
_M.__index = _M

-- FNV-1a of any text, never 0; then xorshift32.
local function hash(text)
    local h = 0x811c9dc5
    for i = 1, #text do
        h = bxor(h, text:byte(i))
        h = tobit(h + lshift(h, 1) + lshift(h, 4) + lshift(h, 7) + lshift(h, 8) + lshift(h, 24))
    end
    return h ~= 0 and h or 1
end

--- @param ...  what the numbers shall depend on
function _M.new(...)
    local parts = { ... }
    for i, part in ipairs(parts) do
        parts[i] = tostring(part)
    end
    local self = setmetatable({ state = hash(table.concat(parts, ":")) }, _M)
    for _ = 1, 8 do
        self:float()
    end
    return self
end

--- In [0, 1).
function _M:float()
    local x = self.state
    x = bxor(x, lshift(x, 13))
    x = bxor(x, rshift(x, 17))
    x = bxor(x, lshift(x, 5))
    self.state = x
    return rshift(x, 8) % 0x1000000 / 0x1000000
end

--- A number in [low, high).
function _M:between(low, high)
    return low + (high - low) * self:float()
end

--- A whole number in [low, high].
function _M:integer(low, high)
    return low + math.floor(self:float() * (high - low + 1))
end

function _M:pick(list)
    return list[self:integer(1, #list)]
end

--- Exponentially distributed with this mean.
function _M:exponential(mean)
    return -mean * math.log(1 - self:float())
end

return _M
