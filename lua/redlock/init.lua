--- redlock: distributed locks on N independent Redis servers. What this module returns is
-- documented in types.lua; each folder's first file says what is in the folder.

if not jit then
    error("redlock needs LuaJIT or OpenResty; this is " .. _VERSION .. ", which has no FFI", 0)
end

local client = require "redlock.client.client"
local errors = require "redlock.runtime.errors"
local future = require "redlock.lock.future"
local primitive = require "redlock.kinds.primitive"

local _M = { _VERSION = "0.1.0" }

function _M.new(opts)
    return client.new(opts)
end

_M.from_environment = client.from_environment
_M.primitive = primitive.define
_M.wait_all = future.wait_all
_M.is_error = errors.is_error
_M.resource = require "redlock.resource"

-- Only specs load worlds.
return setmetatable(_M, { __index = function(_, name)
    if name == "testing" then
        _M.testing = require "redlock.testing"
        return _M.testing
    end
end })
