--- Loads the C core and declares its header. No logic.
--
-- package.cpath has the library as "redlock/core-<abi>", so that a process that still runs an
-- older version never mixes the two.
--
-- This folder: the C core as Lua sees it (ffi, cores, rounds, question, answers, subscription,
-- changes, tasks); errors (errors, node_codes); checks of arguments (validate). It knows servers
-- and leases as numbers and cdata. It must not know kinds of locks, policies, or how a host waits:
-- rounds call client.host.wait().

local ffi = require "ffi"

local _M = {}

local C

--- @return the FFI namespace of the core, loaded at first use. Raises when the library is missing
--   or was built for another ABI
function _M.load()
    if C then
        return C
    end
    local declared = require "redlock.cdef"      -- made by the build: help works without it
    local path, tried = package.searchpath("redlock.core-" .. declared.abi, package.cpath)
    if not path then
        error("redlock: the C core is not installed; build it with `make` or install the "
            .. "rock. Looked for:" .. tried, 0)
    end
    if not pcall(ffi.typeof, "rl_client") then
        ffi.cdef(declared.cdef)
    end
    local lib = ffi.load(path)
    if lib.rl_abi() ~= declared.abi then
        error(("redlock: %s has ABI %d, this Lua code needs %d; install both from the "
            .. "same version"):format(path, lib.rl_abi(), declared.abi), 0)
    end
    C = lib
    return C
end

return _M
