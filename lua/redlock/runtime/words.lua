--- KEYS and ARGV of a script as the core takes them.

local ffi_new = require("ffi").new

local _M = {}

--- Makes room for those of a call: they are there until the next one fills it.
-- @param C  the core
function _M.load(C)
    _M.keys, _M.args = ffi_new("rl_bytes[?]", C.RL_MAX_KEYS), ffi_new("rl_bytes[?]", C.RL_MAX_ARGS)
end

--- Puts a list of strings, which the caller keeps alive, into one of the two.
-- @return how many they are
function _M.fill(buffer, list)
    for i = 1, #list do
        buffer[i - 1].data, buffer[i - 1].len = list[i], #list[i]
    end
    return #list
end

return _M
