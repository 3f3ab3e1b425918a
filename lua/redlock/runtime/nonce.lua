--- Random hex digits, which identify a repeated question or a place in a queue.

local ffi = require "ffi"
local ffi_core = require "redlock.runtime.ffi"

local error = error

--- @return 16 digits
return function()
    local C = ffi_core.load()
    local text = ffi.new("char[?]", C.RL_NONCE_LEN)
    if C.rl_nonce(text) ~= 0 then
        error("redlock: the kernel has no random numbers", 0)
    end
    return ffi.string(text, C.RL_NONCE_LEN)
end
