---@meta _

-- Part of types.lua: what is seen of locks, whoever has them.

---Which locks `client:locks` looks for.
---@class (exact) redlock.LocksOptions
---@field foreign? boolean  true: also keys with an end that other libraries may have written
---@field limit? integer  how many names are told; default: 100,000
---@field rate? integer  keys that a server looks at in a second; default: 100,000
---@field pause? fun(client: redlock.Client, s: number)  waits s seconds between pages; may raise
---@field within? number  seconds after which it is given up (no_quorum); default: 600

---A list of what is held.
---@class redlock.HeldLocks
---@field [integer] redlock.HeldLock  sorted by name
---@field long integer  names that are missing, as they are over 1024 bytes long
---@field more? boolean  true: there are more than `limit`

---A name that a majority of the servers has.
---@class (exact) redlock.HeldLock
---@field name string  without the client's prefix
---@field kind "lock"|"fenced lock"|"readers"|"permits"|"latch"|"foreign"  what it is held as
---@field remaining number  seconds until it opens by itself
---@field hold? string  eight digits that this hold has alone, as in `redlock status`; no proof
---@field holder? redlock.Holder  nil: the value does not say, or there may be many
---@field token? integer  the fencing token
---@field count? integer  of readers or permits: how many; of a latch: how many are missing
---@field waiting integer  connections that listen for its release
---@field queue integer  who stands in line for it as a fair lock
