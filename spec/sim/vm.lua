--- The library in a Lua VM without chance: loaded once, before anything else of it.
--
-- What could differ between two runs of one seed is replaced before the library is loaded:
-- math.random, the order of pairs(), finalizers (they run when the simulator says so), and
-- the core itself (build/sim/redlock/core-<abi>.so: the shipped objects in a simulated
-- world, c/world). The library's own files are unchanged.

local ffi = require "ffi"

local _M = {}

local rawgc, rawpairs = ffi.gc, pairs

-- ---- finalizers ------------------------------------------------------------------

local finalizers = {}

function ffi.gc(object, fn)
    finalizers[object] = fn
    return object
end

--- Runs all finalizers: what a process that ends leaves to its collector.
function _M.finalize()
    local list = finalizers
    finalizers = {}
    for object, fn in rawpairs(list) do
        fn(object)
    end
end

-- ---- the core --------------------------------------------------------------------

--- Loads it all.
-- @param opts  cpath: where redlock/core-<abi>.so is; lua: templates for the library's files
--   (default: lua/); host: the host module; core: a table for what is there of the core and
--   the simulated world (its functions may be replaced)
-- @return redlock, and the core as it is
function _M.load(opts)
    package.cpath = (opts.cpath or "build/sim/?.so") .. ";" .. package.cpath
    local lua = opts.lua or "lua"
    package.path = table.concat({ lua .. "/?.lua", lua .. "/?/init.lua", "build/?.lua", "?.lua",
        package.path }, ";")
    _G.pairs = require("redlock.testing.library").ordered(function()
        error("the library iterates over keys that have no order", 3)
    end)
    local loader = require "redlock.runtime.ffi"
    local lib = loader.load()
    ffi.cdef(require("redlock.cdef").world)
    math.random = function() -- luacheck: ignore 122
        return lib.sim_random(0xffffffff) / 0xffffffff
    end
    local C = setmetatable(opts.core, { __index = function(t, name)
        local value = lib[name]
        rawset(t, name, value)
        return value
    end })
    loader.load = function() return C end
    for name, value in pairs(require "redlock.host.plain") do
        opts.host[name] = opts.host[name] or value
    end
    package.loaded["redlock.host.plain"] = opts.host
    local redlock = require "redlock"
    finalizers = {}              -- those of the Lua state: a process that ends is no end of it
    _G.pairs = rawpairs
    _M.raw_gc = rawgc
    return redlock, lib
end

return _M
