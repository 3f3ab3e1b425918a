---@meta _

-- Part of types.lua: lists of held locks, of any owner.

---Which locks `client:locks` looks for.
---@class (exact) redlock.LocksOptions
---@field foreign? boolean  true: also keys with an end that other libraries may have written
---@field limit? integer  most names to return; default: 100,000
---@field rate? integer  locks a second from each server, or 7 times as many other keys; default:
---  100,000 keys
---@field pause? fun(client: redlock.Client, s: number)  waits s seconds between pages; may raise
---@field within? number  seconds until it gives up with no_quorum; default: 600

---A list of held names.
---@class redlock.HeldLocks
---@field [integer] redlock.HeldLock  sorted by name
---@field long integer  names left out because they are longer than 1024 bytes
---@field more? boolean  true: `limit` was reached, there are more

---A name that a majority of the servers holds.
---@class (exact) redlock.HeldLock
---@field name string  without the client's prefix
---@field kind "lock"|"fenced lock"|"readers"|"permits"|"latch"|"foreign"  the kind of hold
---@field remaining number  seconds until it opens by itself
---@field hold? string  eight digits unique to this hold, as in `redlock status`; no proof of it
---@field holder? redlock.Holder  nil: the value has no label, or there may be several holders
---@field token? integer  the fencing token
---@field count? integer  readers or permits held; for a latch: parties missing
---@field waiting integer  connections that listen for its release
---@field queue integer  waiters in the queue of a fair lock
