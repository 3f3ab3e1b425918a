--- Strings as the core takes and gives them: KEYS and ARGV of a script, lease values, nonces.

local ffi = require "ffi"
local ffi_core = require "redlock.runtime.ffi"

local ffi_new, ffi_string = ffi.new, ffi.string

local _M = {}

local C, text_out

--- Makes the buffers, once the core is loaded. `keys` and `args` are valid until the next fill().
function _M.load(core)
    _M.keys = ffi_new("rl_bytes[?]", core.RL_MAX_KEYS)
    _M.args = ffi_new("rl_bytes[?]", core.RL_MAX_ARGS)
end

--- Puts strings into `keys` or `args`. The caller keeps the list alive.
-- @return how many strings there are
function _M.fill(buffer, list)
    local first = list[1]
    if first then            -- outside of the loop, which would end a trace
        buffer[0].data, buffer[0].len = first, #first
    end
    for i = 2, #list do
        buffer[i - 1].data, buffer[i - 1].len = list[i], #list[i]
    end
    return #list
end

-- Made once for each text: making one costs a good part of what a lock costs.
local known = setmetatable({}, { __mode = "v" })

local function make(text)
    local bytes = ffi_new "rl_bytes[1]"
    bytes[0].data, bytes[0].len = text, #text
    known[text] = bytes
    return bytes
end

--- @param text  nil or false: none
-- @return rl_bytes[1], valid while the caller keeps the text; nil: none
function _M.bytes(text)
    return text and (known[text] or make(text)) or nil
end

local function load()
    C = ffi_core.load()
    text_out = ffi_new("char[?]", C.RL_VALUE_MAX)        -- RL_DATA_MAX is not larger
    return C
end

--- @return 16 random hex digits, to identify a repeated question or a place in a queue
function _M.nonce()
    if (C or load()).rl_nonce(text_out) ~= 0 then
        error("redlock: the kernel has no random numbers", 0)
    end
    return ffi_string(text_out, C.RL_NONCE_LEN)
end

--- @return the value of a lease: the digits that prove it, and its card (card.lua)
function _M.value(handle)
    local len = (C or load()).rl_lease_text(handle, 0, text_out)
    return ffi_string(text_out, len)
end

--- @return the value of the lease that took the keys of this one, cut after the card, as a
--   majority said; nil: no majority named one
function _M.taker(handle)
    local len = (C or load()).rl_lease_text(handle, 1, text_out)
    return len > 0 and ffi_string(text_out, len) or nil
end

return _M
