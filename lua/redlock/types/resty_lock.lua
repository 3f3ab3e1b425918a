---@meta redlock.resty_lock

-- Part of types.lua: locks for code that was written for lua-resty-lock.

---The interface of lua-resty-lock, with the same returns and texts, over a cluster. Each object is
---an owner of its own: whoever has it may unlock it, and when it is collected its lock is released.
---Leases are not renewed. For libraries that require "resty.lock" themselves, in `init_by_lua`
---before they are loaded: `package.loaded["resty.lock"] = require "redlock.resty_lock"`.
---```lua
---local resty_lock = require "redlock.resty_lock"
---resty_lock.use("my_locks", client)
---local lock = assert(resty_lock:new("my_locks", { exptime = 10, timeout = 5 }))
---assert(lock:lock "key")
---assert(lock:unlock())
---```
---@class redlock.resty_lock
local resty_lock = {}

---Makes the locks of a dictionary those of a cluster, under the dictionary's name, a colon and
---their keys. There need not be a dictionary of that name.
---```lua
---require("redlock.resty_lock").use("my_locks", client)
---```
---@param dict_name string  as it is given to `new`
---@param client? redlock.Client  of the cluster; nil: of none any more
---@return nil nothing  raises for what is no name, or no client
function resty_lock.use(dict_name, client) end

---A lock that is to be taken. No I/O.
---```lua
---local lock, err = require("redlock.resty_lock"):new(client, { timeout = 0 })
---assert(lock, err)
---```
---@param cluster string|redlock.Client  a dictionary, see `use`; or a client: keys are the names
---@param opts? redlock.RestyLockOptions  how long it lasts, and is waited for
---@return redlock.RestyLock|nil lock  to be taken
---@return string|nil err  "dictionary not found", or what is wrong with exptime
function resty_lock:new(cluster, opts) end

---Those of lua-resty-lock.
---@class redlock.RestyLockOptions
---@field exptime? number  seconds until it opens by itself; 0: renewed until `unlock`; default: 30
---@field timeout? number  seconds that `lock` waits, exptime at most; default: 5
---@field step? number  seconds; without effect: a release wakes those who wait
---@field ratio? number  no unit; without effect
---@field max_step? number  seconds; without effect

---A lock, and who has it. `tostring` of it is for people.
---@class redlock.RestyLock
local RestyLock = {}

---Takes the lock of a key, and waits for it for `timeout` seconds at most. Other texts than the two
---named below: "nil key", "empty key", "key too long", and what the servers said, such as
---"redlock: no_quorum: ...".
---```lua
---local lock = require("redlock.resty_lock"):new(client)
---local elapsed, err = lock:lock "key"
---assert(elapsed == 0, err)
---```
---@param key string|number  up to 65535 bytes
---@return number|nil elapsed  seconds it has waited; 0: it got it at once
---@return string|nil err  "timeout", "locked" (this object has one), or what else is wrong
function RestyLock:lock(key) end

---Releases the lock; whatever it returns, the object has none any more. A lock that has run out is
---"redlock: expired: ...": somebody else may have had it before this.
---```lua
---local lock = require("redlock.resty_lock"):new(client)
---assert(lock:lock "key" and lock:unlock())
---```
---@return integer|nil ok  1: released
---@return string|nil err  "unlocked" (there was none); or what became of it
function RestyLock:unlock() end

---Makes the lock last that long from now; never shortens it.
---```lua
---local lock = require("redlock.resty_lock"):new(client)
---assert(lock:lock "key" and lock:expire(50) and lock:unlock())
---```
---@param exptime? number  seconds; default: that of `new`
---@return true|nil ok  it lasts so long
---@return string|nil err  "unlocked" (there is none), "not found" (it is lost), or what is wrong
function RestyLock:expire(exptime) end

return resty_lock
