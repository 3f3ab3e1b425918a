--- The other members of the family, as methods of clients.

local read_write_lock = require "redlock.api.read_write_lock"

local ipairs = ipairs

local _M = {}

--- The primitives whose holds can be exported, by their names.
_M.kinds = {}
for _, prim in ipairs { read_write_lock.reading, read_write_lock.writing } do
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

return _M
