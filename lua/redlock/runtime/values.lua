--- What stands for a lease on the servers: the digits that prove it, and a card behind them.

local ffi = require "ffi"
local ffi_core = require "redlock.runtime.ffi"

local ffi_string = ffi.string

local _M = {}

local C, text_out

-- Texts as the core takes them, made once: to make one takes as long as much of a lock.
local known = setmetatable({}, { __mode = "v" })

local function load()
    C = ffi_core.load()
    text_out = ffi.new("char[?]", C.RL_VALUE_MAX)        -- also for RL_DATA_MAX
    return C
end

local function make(text)
    local bytes = ffi.new "rl_bytes[1]"
    bytes[0].data, bytes[0].len = text, #text
    known[text] = bytes
    return bytes
end

--- A text for the core, as long as somebody keeps the text.
-- @param text  nil or false: there is none
function _M.bytes(text)
    return text and (known[text] or make(text)) or nil
end

--- The value of a lease, with its card.
function _M.of(handle)
    local len = (C or load()).rl_lease_whole(handle, text_out)
    return ffi_string(text_out, len)
end

--- Who has the keys of a lease that was taken, as a majority said; nil: none did.
-- @return the beginning of the value and the card (card.lua)
function _M.taker(handle)
    local len = (C or load()).rl_lease_taker(handle, text_out)
    return len > 0 and ffi_string(text_out, len) or nil
end

return _M
