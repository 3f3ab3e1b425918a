---@meta redlock.resty_lock

-- Part of types.lua: locks for code written for lua-resty-lock.

---The interface of lua-resty-lock, with the same return values and texts, over a cluster. Each
---object is its own owner: any code that has it may unlock it, and collecting it releases its lock.
---It renews leases with exptime 0, or over max_lease. For libraries that require "resty.lock"
---themselves, set in `init_by_lua` before they load:
---`package.loaded["resty.lock"] = require "redlock.resty_lock"`.
---Dictionaries that you give to `use` become the cluster's; all others stay lua-resty-lock's.
---```lua
---local resty_lock = require "redlock.resty_lock"
---resty_lock.use("my_locks", client)
---local lock = assert(resty_lock:new("my_locks", { exptime = 10, timeout = 5 }))
---assert(lock:lock "key")
---assert(lock:unlock())
---```
---@class redlock.resty_lock
local resty_lock = {}

---Uses a cluster for the locks of a dictionary. Their names are the dictionary's name, a colon and
---the key. The dictionary need not exist.
---```lua
---require("redlock.resty_lock").use("my_locks", client)
---```
---@param dict_name string  as given to `new`
---@param client? redlock.Client  of the cluster; nil: stop using one
---@return nil nothing  raises on a bad name or client
function resty_lock.use(dict_name, client) end

---Makes a lock object; lua-resty-lock's for a dictionary that nothing was bound to, if that is
---installed. No I/O.
---```lua
---local lock, err = require("redlock.resty_lock"):new(client, { timeout = 0 })
---assert(lock, err)
---```
---@param cluster string|redlock.Client  a dictionary, see `use`; or a client: keys are the names
---@param opts? redlock.RestyLockOptions  its lease and time to wait
---@return redlock.RestyLock|nil lock  not locked yet
---@return string|nil err  "dictionary not found", "... not bound", or what is wrong with exptime
function resty_lock:new(cluster, opts) end

---The options of lua-resty-lock.
---@class redlock.RestyLockOptions
---@field exptime? number  seconds until it expires, if longer than max_lease, a lease later at
---  most; 0: renewed until `unlock`; default: 30
---@field timeout? number  seconds that `lock` waits, at most exptime; default: 5
---@field step? number  seconds; no effect, as a release wakes the waiters
---@field ratio? number  no unit; no effect
---@field max_step? number  seconds; no effect

---A lock object. `tostring` of it is for people.
---@class redlock.RestyLock
local RestyLock = {}

---Locks a key, waiting at most `timeout` seconds. Errors other than the two below: "nil key",
---"empty key", "key too long", and failures of the servers, such as "redlock: no_quorum: ...".
---```lua
---local lock = require("redlock.resty_lock"):new(client)
---local elapsed, err = lock:lock "key"
---assert(elapsed == 0, err)
---```
---@param key string|number  up to 65535 bytes
---@return number|nil elapsed  seconds it waited; 0: the lock was free
---@return string|nil err  "timeout", "locked" (this object holds one), or another error
function RestyLock:lock(key) end

---Releases the lock; in every case the object holds none afterwards. The error of an expired lock
---is "redlock: expired: ...": another owner may have held it meanwhile.
---```lua
---local lock = require("redlock.resty_lock"):new(client)
---assert(lock:lock "key" and lock:unlock())
---```
---@return integer|nil ok  1: released
---@return string|nil err  "unlocked" (it held none), or another error
function RestyLock:unlock() end

---Makes the lock last `exptime` seconds from now. Never shortens it.
---```lua
---local lock = require("redlock.resty_lock"):new(client)
---assert(lock:lock "key" and lock:expire(50) and lock:unlock())
---```
---@param exptime? number  seconds; default: that of `new`
---@return true|nil ok  it lasts at least that long
---@return string|nil err  "unlocked" (it holds none), "not found" (lost), or another error
function RestyLock:expire(exptime) end

return resty_lock
