--- What stands for a lease on the servers: the digits that prove it, and a card behind them.

local ffi = require "ffi"
local ffi_core = require "redlock.core.ffi"

local ffi_string = ffi.string

local _M = {}

local C, bytes_out, text_out

local function load()
    C = ffi_core.load()
    bytes_out = ffi.new "rl_bytes[1]"
    text_out = ffi.new("char[?]", C.RL_VALUE_MAX)        -- also for RL_DATA_MAX
    return C
end

--- A text for the core, until this is called again; nil: none.
-- @param text  that somebody else keeps alive; nil or false: none
function _M.bytes(text)
    if not text then
        return nil
    elseif not C then
        load()
    end
    bytes_out[0].data, bytes_out[0].len = text, #text
    return bytes_out
end

--- The value of a lease, with its card.
function _M.of(handle)
    return ffi_string(text_out, (C or load()).rl_lease_whole(handle, text_out))
end

--- Who has the keys of a lease that was taken, as a majority said; nil: none did.
-- @return the beginning of the value and the card (card.lua)
function _M.taker(handle)
    local len = (C or load()).rl_lease_taker(handle, text_out)
    return len > 0 and ffi_string(text_out, len) or nil
end

return _M
