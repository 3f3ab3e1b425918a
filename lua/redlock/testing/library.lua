--- Loads the library a second time, for a world, beside the one that the program uses.
--
-- The files are the same, but with their own core (redlock/world-<abi>: the core without the
-- objects that touch sockets, threads and clocks) and another host. Two things that could make two
-- runs of one seed differ are replaced in this copy: the order of pairs(), and finalizers, which
-- run when the world ends. The modules of primitives and errors need no core, and both copies
-- share them, so that the program's own primitives and errors work in both.

local ffi = require "ffi"

local rawpairs, next, require = pairs, next, require
local assert, error, loadfile, pcall, setfenv, setmetatable = assert, error, loadfile, pcall,
    setfenv, setmetatable
local sort, type = table.sort, type

local _M = {}

local SHARED = { ["redlock.runtime.errors"] = true, ["redlock.kinds.primitive"] = true }

-- ---- order -----------------------------------------------------------------------

local RANK = { number = 1, string = 2 }

local function less(a, b)
    local x, y = RANK[type(a)], RANK[type(b)]
    if x ~= y then
        return x < y
    end
    return a < b
end

--- Makes a function like pairs(), in the order of the keys.
-- @param unordered  function(t): what it returns where keys are neither numbers nor strings
function _M.ordered(unordered)
    return function(t)
        local one = next(t)
        if one == nil or next(t, one) == nil then
            return next, t
        end
        local keys, n = {}, 0
        for key in rawpairs(t) do
            if not RANK[type(key)] then
                return unordered(t)
            end
            n = n + 1
            keys[n] = key
        end
        sort(keys, less)
        local i = 0
        return function()
            i = i + 1
            local key = keys[i]
            if key ~= nil then
                return key, t[key]
            end
        end
    end
end

-- ---- the core --------------------------------------------------------------------

local C

--- The core in a world, loaded at first use.
-- @return its FFI namespace
function _M.core()
    if C then
        return C
    end
    local declared = require "redlock.cdef"
    local path, tried = package.searchpath("redlock.world-" .. declared.abi, package.cpath)
    if not path then
        error("redlock.testing: the core for worlds is not installed. Looked for:" .. tried, 0)
    end
    if not pcall(ffi.typeof, "rl_client") then
        ffi.cdef(declared.cdef)
    end
    if not pcall(ffi.typeof, "sim_step") then
        ffi.cdef(declared.world)
    end
    C = ffi.load(path)
    return C
end

-- ---- the modules -----------------------------------------------------------------

-- ffi, with finalizers that run on demand.
local function own_ffi(finalizers)
    return setmetatable({
        gc = function(object, fn)
            finalizers[object] = fn
            return object
        end,
    }, { __index = ffi })
end

--- Loads the copy.
-- @param host  the host that replaces redlock.host.plain
-- @return the copy of redlock; a function that loads another of its modules; and a function that
--   runs its finalizers
function _M.load(host)
    local finalizers = {}
    local loaded = {
        ffi = own_ffi(finalizers),
        ["redlock.runtime.ffi"] = { load = _M.core },
        ["redlock.host.plain"] = host,
    }
    local env = setmetatable({ _G = {}, pairs = _M.ordered(rawpairs) }, { __index = _G })

    function env.require(name)
        local module = loaded[name]
        if module ~= nil then
            return module
        elseif SHARED[name] or not name:find "^redlock%f[.%z]" or name == "redlock.cdef" then
            return require(name)
        end
        local path = assert(package.searchpath(name, package.path))
        loaded[name] = setfenv(assert(loadfile(path)), env)(name)
        return loaded[name]
    end

    local function finalize()
        for object, fn in rawpairs(finalizers) do
            finalizers[object] = nil
            fn(object)
        end
    end
    local redlock = env.require "redlock"
    for object in rawpairs(finalizers) do
        finalizers[object] = nil         -- they are for the end of the Lua state, not of a world
    end
    return redlock, env.require, finalize
end

return _M
