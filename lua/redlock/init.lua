--- redlock: distributed locks on N independent Redis servers. What this module returns is
-- documented in types.lua; each folder's first file says what is in the folder.

local client = require "redlock.client.client"
local errors = require "redlock.runtime.errors"
local future = require "redlock.lock.future"
local lazy = require "redlock.runtime.lazy"
local primitive = require "redlock.kinds.primitive"

local _M = { _VERSION = "0.1.0" }

--- Makes a client of N servers: see types.lua and client/client.lua.
function _M.new(opts)
    return client.new(opts)
end

--- Makes a client with the settings of the command: see servers/settings.lua.
function _M.from_environment(opts)
    return client.from_environment(opts)
end

--- Defines a primitive, a kind of lock of your own. types/primitive.lua has the contract of its
-- scripts and functions.
function _M.primitive(def)
    return primitive.define(def)
end

_M.wait_all = future.wait_all

--- @return whether a value is an error object of this library
_M.is_error = errors.is_error

-- Modules that are loaded at first use.
local PARTS = { resource = lazy.loader "redlock.resource",
    testing = function() return require "redlock.testing" end }

return setmetatable(_M, { __index = function(_, name)
    _M[name] = PARTS[name] and PARTS[name]()
    return rawget(_M, name)
end })
