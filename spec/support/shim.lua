-- Wall clocks that can be stepped, and names: the environment for a process, and a handle.
local ffi = require "ffi"
local build = require "spec.support.build"
local scope = require "spec.support.scope"
local sys = require "spec.support.sys"

local _M = {}

local Clock = {}
Clock.__index = Clock

-- Puts the clock so many seconds ahead of the true one; at once.
function Clock:set(seconds)
    local f = assert(io.open(self.file, "r+b"))
    f:write(ffi.string(ffi.new("int64_t[1]", seconds * 1000000), 8))
    f:close()
end

-- A clock; clock.env is the environment of the processes that have it.
function _M.clock()
    local self = setmetatable({ file = scope.tmpdir() .. "/offset" }, Clock)
    sys.write_file(self.file, ("\0"):rep(16))
    self.env = { LD_PRELOAD = build.program "clockshim.so", CLOCKSHIM = self.file }
    return self
end

-- The environment of a process to which 127.0.0.1-127.0.0.2.test is a host with these addresses.
function _M.names()
    local others = os.getenv "LD_PRELOAD"
    return { LD_PRELOAD = (others and others .. " " or "") .. build.program "nameshim.so" }
end

return _M
