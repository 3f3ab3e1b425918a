---@meta _

-- Part of types.lua: the kinds of locks other than plain and fenced ones.

-- ---- readers and writers ---------------------------------------------------------

---@class redlock.ReadWriteOptions: redlock.LockOptions
---@field fenced? boolean  true: writers have tokens, in one sequence with fenced locks of the name

---Many readers at once, or one writer. Both exclude plain and fenced locks of the name, and locks
---of other libraries that follow the Redlock page. A waiting writer keeps new readers out. An owner
---that writes may read too, and keeps reading after it stops writing, unless writers have tokens.
---An owner that reads cannot write (`deadlock`). `tostring(pair)` is for people.
---@class redlock.ReadWriteLock: redlock.Named
local ReadWriteLock = {}

---Returns the reader's lock, which many owners hold at once.
---```lua
---local prices = client:getReadWriteLock "prices"
---assert(prices:readLock():tryLock(5))
---assert(prices:readLock():unlock())
---```
---@return redlock.Lock lock  with all methods of a lock
function ReadWriteLock:readLock() end

---Returns the writer's lock, which excludes all other owners.
---```lua
---local prices = client:getReadWriteLock "prices"
---assert(prices:writeLock():tryLock(5))
---assert(prices:readLock():lock())          -- reads as well: no request, the lease need not grow
---assert(prices:writeLock():unlock())       -- goes on reading: nobody wrote meanwhile
---assert(prices:readLock():unlock())
---```
---@return redlock.Lock lock  with all methods of a lock; with `fenced` of a redlock.FencedLock
function ReadWriteLock:writeLock() end

---Deletes it on all servers, whoever reads or writes. `forceUnlock` of one of the two locks removes
---all readers, or the writer.
---```lua
---local prices = client:getReadWriteLock "prices"
---assert(prices:readLock():tryLock(5))
---assert(prices:writeLock():forceUnlock() == false)
---assert(prices:forceUnlockBoth() == true)
---```
---@return boolean|nil opened  false: nobody held it
---@return redlock.Error err  no_quorum; phase; closed
function ReadWriteLock:forceUnlockBoth() end

-- ---- several names ---------------------------------------------------------------

---A lock of several names, all or none. It holds nothing while it waits, so overlapping sets never
---block each other. Its owner gets `deadlock` for one of its names alone, or another set.
---It has no `forceUnlock` and no fencing tokens.
---@class redlock.MultiLock: redlock.Lock
local MultiLock = {}

---Returns the names.
---```lua
---local both = client:getMultiLock { "b", "a", "b" }
---assert(table.concat(both:getNames(), " ") == "a b")
---```
---@return string[] names  sorted, without duplicates
function MultiLock:getNames() end

-- ---- permits ---------------------------------------------------------------------

---@class redlock.SemaphoreOptions
---@field fenced? boolean  true: permits have tokens, which takes a round trip more

---At most `permits` holders at once. Each permit has a slot, and each slot is a lock of its own, so
---there are never more holders. A permit that is not released ends with its lease.
---`tostring(semaphore)` is for people.
---@class redlock.Semaphore: redlock.Named
---@field permits integer  its size
---@field acquireAsync fun(self, lease?: number): redlock.Future  `acquire` as a future
---@field tryAcquireAsync fun(self, wait?: number, lease?: number): redlock.Future  `tryAcquire`
local Semaphore = {}

---Acquires a permit, waiting until one is free.
---```lua
---local downloads = client:getSemaphore("downloads", 3)
---local permit = assert(downloads:acquire())
---assert(permit:release())
---```
---@param lease? number  seconds, not renewed; default: the client's, kept by the watchdog
---@return redlock.Permit|nil permit  is its own owner: any code that has the object may release it
---@return redlock.Error err  no_quorum; expired: won too late; overload
function Semaphore:acquire(lease) end

---Acquires a permit, waiting at most `wait` seconds.
---```lua
---local permit, err = client:getSemaphore("downloads", 3):tryAcquire(0.5, 10)
---if permit then permit:release() else print(err.code) end
---```
---@param wait? number  seconds; default 0: one attempt
---@param lease? number  seconds, not renewed; default: the client's, kept by the watchdog
---@return redlock.Permit|nil permit  is its own owner: any code that has the object may release it
---@return redlock.Error err  held: all are taken; no_quorum; expired: won too late; overload
function Semaphore:tryAcquire(wait, lease) end

---Asks a majority of the servers how many permits are free.
---```lua
---assert(client:getSemaphore("downloads", 3):availablePermits() == 3)
---```
---@return integer|nil n  may have changed since they answered
---@return redlock.Error err  no_quorum
function Semaphore:availablePermits() end

---A permit: held like a lock. It is its own owner, so any code that has the object may release it.
---Collecting the last reference to it releases it.
---@class redlock.Permit: redlock.Lock
local Permit = {}

---Releases the permit, as `unlock` does.
---```lua
---local permit = assert(client:getSemaphore("downloads", 3):tryAcquire(5))
---assert(permit:release())
---```
---@return true|nil ok  released in time
---@return redlock.Error err  expired; held: its slot is taken again; not_held; unknown
function Permit:release() end

---Returns the number of its slot.
---```lua
---local permit = assert(client:getSemaphore("downloads", 3):tryAcquire(5))
---assert(permit:slot() >= 1 and permit:slot() <= 3)
---```
---@return integer|nil slot  from 1 to the semaphore's size; unique while it is held
---@return redlock.Error err  not_held; lost
function Permit:slot() end

---Returns the fencing token of this hold of its slot. Local. It never changes, but after an
---export the importer may see a larger one, if a majority of the servers has forgotten it.
---```lua
---local numbered = client:getSemaphore("numbered", 3, { fenced = true })
---local permit = assert(numbered:tryAcquire(5))
---assert(permit:token() > 0)
---```
---@return integer|nil token  larger than all earlier ones of the slot, and below 10^14
---@return redlock.Error err  not_held; lost; unsupported: the semaphore has no tokens
function Permit:token() end

-- ---- latches ---------------------------------------------------------------------

---A count-down latch. It never opens early, whatever is lost, late or repeated, and stays open once
---seen open. An acknowledged arrival counts unless a majority of the servers has forgotten it since
---the last `await` or `getCount`; these repair servers that forgot.
---`tostring(latch)` is for people.
---@class redlock.CountDownLatch: redlock.Named
---@field awaitAsync fun(self, wait?: number): redlock.Future  `await` as a future
---@field countDownAsync fun(self, who?: string): redlock.Future  `countDown` as a future
local Latch = {}

---Makes the latch for `n` parties. One that exists stays as it is, also when it is open: to make it
---anew, call `delete` first.
---```lua
---assert(client:getCountDownLatch("loaded"):trySetCount(3))
---```
---@param n integer  1 to 4096
---@return boolean|nil made  false: there is one
---@return redlock.Error err  no_quorum; unknown: what was stored ends soon
function Latch:trySetCount(n) end

---Records that a party has arrived. A repeated call with the same `who` changes nothing.
---```lua
---local loaded = client:getCountDownLatch "loaded"
---assert(loaded:trySetCount(1))
---assert(loaded:countDown "shard 1")
---```
---@param who? string  the party; default: a unique one
---@return true|nil ok  a majority has acknowledged it
---@return redlock.Error err  not_found; no_quorum: for `patience` seconds
function Latch:countDown(who) end

---Asks the servers how many parties are missing.
---```lua
---local loaded = client:getCountDownLatch "loaded"
---assert(loaded:trySetCount(3) and loaded:getCount() == 3)
---```
---@return integer|nil left  0: open
---@return redlock.Error err  not_found: not made, or too many servers forgot it; no_quorum
function Latch:getCount() end

---Waits until all parties have arrived.
---```lua
---local loaded = client:getCountDownLatch "loaded"
---assert(loaded:trySetCount(3))
---local open, err = loaded:await(0.1)
---assert(not open and err.code == "timeout")
---```
---@param wait? number  seconds; default: until it opens
---@return true|nil open  all have arrived
---@return redlock.Error err  timeout: not all in time; not_found; no_quorum: for `patience` seconds
function Latch:await(wait) end

---Deletes the latch that there is now. Its waiters then fail with `not_found`.
---```lua
---local loaded = client:getCountDownLatch "loaded"
---assert(loaded:trySetCount(3) and loaded:delete())
---```
---@return boolean|nil deleted  false: there was none
---@return redlock.Error err  no_quorum
function Latch:delete() end

-- ---- elections -------------------------------------------------------------------

---One of several candidates leads: at most one valid leader at a time, in terms that are unique and
---grow. The leader holds a fenced lock that the watchdog renews; its term is the token.
---`tostring(election)` is for people.
---@class redlock.Election: redlock.Named
---@field campaignAsync fun(self, wait?: number): redlock.Future  `campaign` as a future
local Election = {}

---Stands for election, and waits until this candidate leads. The leader gets its term at once. If
---`on_elected` raises an error, the candidate resigns, and `campaign` raises the same error. Calls
---that run at the same time win one term together, and one `resign` ends it.
---```lua
---local election = client:getElection("scheduler", { id = "a" })
---local term = assert(election:campaign(5))
---```
---@param wait? number  seconds; default: until it is elected
---@return integer|nil term  larger than all before
---@return redlock.Error err  held; not_held: it has resigned; no_quorum; expired; lost; overload
function Election:campaign(wait) end

---Says whether this candidate leads now, by the local clock.
---```lua
---assert(not client:getElection("scheduler", { id = "a" }):isLeader())
---```
---@return boolean leads  no round trip
function Election:isLeader() end

---Says for how long this candidate leads if its lease is not renewed.
---```lua
---assert(client:getElection("scheduler", { id = "a" }):remaining() == 0)
---```
---@return number left  seconds; 0: it does not lead. No round trip
function Election:remaining() end

---Returns the term. Send it along with whatever the leader does.
---```lua
---local election = client:getElection("scheduler", { id = "a" })
---assert(election:campaign(5) == election:term())
---```
---@return integer|nil term  a fencing token
---@return redlock.Error err  not_held; lost
function Election:term() end

---Resigns. Another candidate may lead at once.
---```lua
---local election = client:getElection("scheduler", { id = "a" })
---assert(election:campaign(5) and election:resign())
---```
---@return true|nil ok  it led until now
---@return redlock.Error err  expired; held: another one leads; not_held; unknown
function Election:resign() end

---Asks the servers for the leader. The answer may be out of date when it arrives: act by the term.
---```lua
---local leader = client:getElection("scheduler", { id = "a" }):leader()
---assert(leader == false)
---```
---@return redlock.Leader|false|nil leader  false: nobody leads
---@return number|redlock.Error|nil seconds  seconds that it still leads at least; or no_quorum
function Election:leader() end

---A leader.
---@class redlock.Leader
---@field id string?  as that candidate gave it; nil: the holder of a fenced lock of the name
---@field term integer

---Calls a function with the leader now, and again at each change of leader. A call's term is never
---below that of an earlier one. An error of the function ends the calls; `get` raises it again.
---```lua
---local watch = client:getElection("scheduler", { id = "a" }):observe(function(leader)
---    print(leader and leader.id or "nobody")
---end)
---assert(watch:cancel())
---```
---@param fn fun(leader: redlock.Leader?)  nil: nobody leads
---@return redlock.Future future  runs until `cancel`, or until the client is closed
function Election:observe(fn) end

-- ---- rates -----------------------------------------------------------------------

---At most `permits` starts in any window of `period`, less the drift of clocks. A start counts from
---when it is granted. What lasts longer than `max_lease` is forgotten if a majority of the servers
---lose their memory meanwhile, even one by one, as in a rolling restart: where that does harm, keep
---"done" in a table of your own. `tostring(limiter)` is for people.
---@class redlock.RateLimiter: redlock.Named
---@field permits integer  starts in a period
---@field period number  seconds
---@field tryAcquire fun(self, wait?: number): true?, redlock.Error  `acquire`; default of wait: 0
---@field acquireAsync fun(self, wait?: number): redlock.Future  `acquire` as a future
---@field tryAcquireAsync fun(self, wait?: number): redlock.Future  `acquire`; default of wait: 0
local RateLimiter = {}

---Waits until a start is allowed.
---```lua
---assert(client:getRateLimiter("mails", 3, 60):acquire(5))
---```
---@param wait? number  seconds; default: until there is room
---@return true|nil ok  start now
---@return redlock.Error err  held: no room in time; no_quorum; expired; unknown; overload
function RateLimiter:acquire(wait) end

---Asks a majority of the servers how many starts are allowed now.
---```lua
---assert(client:getRateLimiter("mails", 3, 60):availablePermits() == 3)
---```
---@return integer|nil n  may have changed since they answered
---@return redlock.Error err  no_quorum
function RateLimiter:availablePermits() end

