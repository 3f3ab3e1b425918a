---@meta _

-- Part of types.lua: what is beside plain and fenced locks.

-- ---- readers and writers ---------------------------------------------------------

---Many readers at once, or one writer. Plain and fenced locks of the name, and other libraries'
---locks of the Redlock page, keep out both, and are kept out by them. A writer that waits closes
---the door for new readers. The owner who writes may read as well, and goes on reading when it
---writes no more; the owner who reads cannot write (`deadlock`). `tostring(pair)` is for people.
---@class redlock.ReadWriteLock
local ReadWriteLock = {}

---The view of who reads: a lock that many owners hold at once.
---```lua
---local prices = client:getReadWriteLock "prices"
---assert(prices:readLock():tryLock(5))
---assert(prices:readLock():unlock())
---```
---@return redlock.Lock lock  with all methods of a lock
function ReadWriteLock:readLock() end

---The view of who writes: a lock that keeps out everybody else.
---```lua
---local prices = client:getReadWriteLock "prices"
---assert(prices:writeLock():tryLock(5))
---assert(prices:readLock():lock())          -- reads as well, without a word to the servers
---assert(prices:writeLock():unlock())       -- goes on reading: nobody wrote meanwhile
---assert(prices:readLock():unlock())
---```
---@return redlock.Lock lock  with all methods of a lock
function ReadWriteLock:writeLock() end

---The name as it was given.
---```lua
---assert(client:getReadWriteLock("prices"):getName() == "prices")
---```
---@return string name  any bytes
function ReadWriteLock:getName() end

-- ---- several names ---------------------------------------------------------------

---A lock of several names, all or none: nothing is held while it waits, so sets that overlap never
---block each other for good. An owner who holds one of the names alone is somebody else to it.
---`forceUnlock` and fencing tokens are not for it.
---@class redlock.MultiLock: redlock.Lock
local MultiLock = {}

---The names.
---```lua
---local both = client:getMultiLock { "b", "a", "b" }
---assert(table.concat(both:getNames(), " ") == "a b")
---```
---@return string[] names  sorted, without doubles
function MultiLock:getNames() end
