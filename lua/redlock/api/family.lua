--- The other members of the family, as methods of clients.

local multi_lock = require "redlock.api.multi_lock"
local read_write_lock = require "redlock.api.read_write_lock"

local ipairs = ipairs

local _M = {}

--- The primitives whose holds can be exported, by their names.
_M.kinds = {}
for _, prim in ipairs { read_write_lock.reading, read_write_lock.writing, multi_lock.primitive } do
    _M.kinds[prim.name] = prim
end

local methods = {}
_M.methods = methods

--- Many readers at once, or one writer. No I/O.
-- @param name  as for getLock; plain and fenced locks of the name exclude both
-- @param opts  as for getLock
-- @return an object with readLock() and writeLock(), each with the methods of a lock (see
--   read_write_lock.lua)
function methods:getReadWriteLock(name, opts)
    return read_write_lock.new(self, name, opts)
end

--- Several names at once, all or none. No I/O.
-- @param names  a list of 1 to 128 names, each as for getLock; locks of each name exclude it
-- @param opts   as for getLock
-- @return a lock object, with getNames() (see multi_lock.lua)
function methods:getMultiLock(names, opts)
    return multi_lock.new(self, names, opts)
end

return _M
