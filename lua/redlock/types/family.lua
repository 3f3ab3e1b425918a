---@meta _

-- Part of types.lua: what is beside plain and fenced locks.

-- ---- readers and writers ---------------------------------------------------------

---@class redlock.ReadWriteOptions: redlock.LockOptions
---@field fenced? boolean  true: writers have tokens, in one sequence with fenced locks of the name

---Many readers at once, or one writer. Plain and fenced locks of the name, and other libraries'
---locks of the Redlock page, keep out both, and are kept out by them. A writer that waits closes
---the door for new readers. The owner who writes may read as well, and goes on reading when it
---writes no more, unless writers have tokens; the owner who reads cannot write (`deadlock`).
---`tostring(pair)` is for people.
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
---@return redlock.Lock lock  with all methods of a lock; with `fenced` of a redlock.FencedLock
function ReadWriteLock:writeLock() end

---The name as it was given.
---```lua
---assert(client:getReadWriteLock("prices"):getName() == "prices")
---```
---@return string name  any bytes
function ReadWriteLock:getName() end

---Deletes it on all servers, whoever reads or writes. `forceUnlock` of a view lets its own side go:
---all readers, or the writer.
---```lua
---local prices = client:getReadWriteLock "prices"
---assert(prices:readLock():tryLock(5))
---assert(prices:writeLock():forceUnlock() == false)
---assert(prices:forceUnlockBoth() == true)
---```
---@return boolean|nil opened  false: nobody had it
---@return redlock.Error err  no_quorum; phase; closed
function ReadWriteLock:forceUnlockBoth() end

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

-- ---- permits ---------------------------------------------------------------------

---@class redlock.SemaphoreOptions
---@field fenced? boolean  true: permits have tokens, which takes a round trip more

---At most so many holders at once. There is a slot for each permit, and each slot is a lock of its
---own, so there are never more; a permit that nobody releases ends with its lease.
---`tostring(semaphore)` is for people.
---@class redlock.Semaphore
---@field permits integer  how many there are
local Semaphore = {}

---Takes a permit, and waits as long as all are taken.
---```lua
---local downloads = client:getSemaphore("downloads", 3)
---local permit = assert(downloads:acquire())
---assert(permit:release())
---```
---@param lease? number  seconds, not renewed; default: the client's, kept by the watchdog
---@return redlock.Permit|nil permit  its own owner: whoever has it may release it
---@return redlock.Error err  no_quorum; expired: won too late; overload
function Semaphore:acquire(lease) end

---Tries to take a permit for `wait` seconds.
---```lua
---local permit, err = client:getSemaphore("downloads", 3):tryAcquire(0.5, 10)
---if permit then permit:release() else print(err.code) end
---```
---@param wait? number  seconds; default 0: one attempt
---@param lease? number  seconds, not renewed; default: the client's, kept by the watchdog
---@return redlock.Permit|nil permit  its own owner: whoever has it may release it
---@return redlock.Error err  held: all are taken; no_quorum; expired: won too late; overload
function Semaphore:tryAcquire(wait, lease) end

---`acquire` as a future.
---```lua
---local permit = assert(client:getSemaphore("downloads", 3):acquireAsync():get())
---```
---@param lease? number  seconds, as for `acquire`
---@return redlock.Future future  of what `acquire` returns
function Semaphore:acquireAsync(lease) end

---`tryAcquire` as a future.
---```lua
---local permit = assert(client:getSemaphore("downloads", 3):tryAcquireAsync(5):get())
---```
---@param wait? number  seconds, as for `tryAcquire`
---@param lease? number  seconds, as for `tryAcquire`
---@return redlock.Future future  of what `tryAcquire` returns
function Semaphore:tryAcquireAsync(wait, lease) end

---How many permits nobody has, as a majority of the servers sees it.
---```lua
---assert(client:getSemaphore("downloads", 3):availablePermits() == 3)
---```
---@return integer|nil n  may have changed when it arrives
---@return redlock.Error err  no_quorum
function Semaphore:availablePermits() end

---The name as it was given.
---```lua
---assert(client:getSemaphore("downloads", 3):getName() == "downloads")
---```
---@return string name  any bytes
function Semaphore:getName() end

---A permit: held like a lock, and its own owner, so whoever has it may release it. When nobody has
---it any more it is released by the collector.
---@class redlock.Permit: redlock.Lock
local Permit = {}

---Lets it go. The same as `unlock`.
---```lua
---local permit = assert(client:getSemaphore("downloads", 3):tryAcquire(5))
---assert(permit:release())
---```
---@return true|nil ok  let go in time
---@return redlock.Error err  expired; held: its slot is another's by now; not_held; unknown
function Permit:release() end

---Which of the permits it is.
---```lua
---local permit = assert(client:getSemaphore("downloads", 3):tryAcquire(5))
---assert(permit:slot() >= 1 and permit:slot() <= 3)
---```
---@return integer|nil slot  from 1 to the number of permits; nobody else's while it is held
---@return redlock.Error err  not_held; lost
function Permit:slot() end

---The fencing token of this hold of its slot. Local. It stays as it is; where the permit is
---exported to it may be larger, if a majority of the servers has forgotten it.
---```lua
---local numbered = client:getSemaphore("numbered", 3, { fenced = true })
---local permit = assert(numbered:tryAcquire(5))
---assert(permit:token() > 0)
---```
---@return integer|nil token  larger than all that the slot had before, and below 10^14
---@return redlock.Error err  not_held; lost; unsupported: its semaphore gives none
function Permit:token() end

-- ---- latches ---------------------------------------------------------------------

---A count-down latch. It never opens early, whatever is lost, late or repeated, and what was seen
---open stays open; an acknowledged arrival counts, as long as a majority of the servers has not
---forgotten since the last look (`await`, `getCount`), which repairs those that have.
---`tostring(latch)` is for people.
---@class redlock.CountDownLatch
local Latch = {}

---Makes it, for so many parties. One that is open may be made anew, and is closed then.
---```lua
---assert(client:getCountDownLatch("loaded"):trySetCount(3))
---```
---@param n integer  1 to 4096
---@return boolean|nil made  false: there is one that is not open
---@return redlock.Error err  no_quorum; unknown: what is there ends soon
function Latch:trySetCount(n) end

---Says that a party has arrived. Saying it again with the same `who` changes nothing.
---```lua
---local loaded = client:getCountDownLatch "loaded"
---assert(loaded:trySetCount(1))
---assert(loaded:countDown "shard 1")
---```
---@param who? string  which party; default: one that nobody else is
---@return true|nil ok  a majority has acknowledged it
---@return redlock.Error err  not_found; no_quorum, for `patience`
function Latch:countDown(who) end

---How many are missing.
---```lua
---local loaded = client:getCountDownLatch "loaded"
---assert(loaded:trySetCount(3) and loaded:getCount() == 3)
---```
---@return integer|nil left  0: open
---@return redlock.Error err  not_found: not made, or too many servers forgot it; no_quorum
function Latch:getCount() end

---Waits until all have arrived.
---```lua
---local loaded = client:getCountDownLatch "loaded"
---assert(loaded:trySetCount(3) and loaded:await(0.1) == false)
---```
---@param wait? number  seconds; default: as long as it takes
---@return boolean|nil open  false: the time is over
---@return redlock.Error err  not_found; no_quorum, for `patience`
function Latch:await(wait) end

---Deletes it; who waits finds that it is not there.
---```lua
---local loaded = client:getCountDownLatch "loaded"
---assert(loaded:trySetCount(3) and loaded:delete())
---```
---@return boolean|nil deleted  false: there was none
---@return redlock.Error err  no_quorum
function Latch:delete() end

---`await` as a future.
---```lua
---local loaded = client:getCountDownLatch "loaded"
---assert(loaded:trySetCount(1))
---local waiting = loaded:awaitAsync(10)
---assert(loaded:countDown() and waiting:get())
---```
---@param wait? number  seconds, as for `await`
---@return redlock.Future future  of what `await` returns
function Latch:awaitAsync(wait) end

---`countDown` as a future.
---```lua
---local loaded = client:getCountDownLatch "loaded"
---assert(loaded:trySetCount(1) and loaded:countDownAsync():get())
---```
---@param who? string  as for `countDown`
---@return redlock.Future future  of what `countDown` returns
function Latch:countDownAsync(who) end

---The name as it was given.
---```lua
---assert(client:getCountDownLatch("loaded"):getName() == "loaded")
---```
---@return string name  any bytes
function Latch:getName() end

-- ---- elections -------------------------------------------------------------------

---One of several candidates leads: at most one valid leader, in terms that are unique and grow. The
---leader holds a fenced lock, kept by the watchdog, and its term is the token.
---`tostring(election)` is for people.
---@class redlock.Election
local Election = {}

---Stands for election, and waits until it is won. Who leads already gets the term.
---```lua
---local election = client:getElection("scheduler", { id = "a" })
---local term = assert(election:campaign(5))
---```
---@param wait? number  seconds; default: as long as somebody else leads
---@return integer|nil term  larger than all before
---@return redlock.Error err  held: somebody else leads; no_quorum; expired; lost; overload
function Election:campaign(wait) end

---`campaign` as a future.
---```lua
---local term = assert(client:getElection("scheduler", { id = "a" }):campaignAsync(5):get())
---```
---@param wait? number  seconds, as for `campaign`
---@return redlock.Future future  of what `campaign` returns
function Election:campaignAsync(wait) end

---Whether this candidate leads now, by the local clock.
---```lua
---assert(not client:getElection("scheduler", { id = "a" }):isLeader())
---```
---@return boolean leads  no round trip
function Election:isLeader() end

---For how long this candidate leads, if the lease is not prolonged.
---```lua
---assert(client:getElection("scheduler", { id = "a" }):remaining() == 0)
---```
---@return number left  seconds; 0: it does not lead. No round trip
function Election:remaining() end

---The term, to be sent along with whatever the leader does.
---```lua
---local election = client:getElection("scheduler", { id = "a" })
---assert(election:campaign(5) == election:term())
---```
---@return integer|nil term  a fencing token
---@return redlock.Error err  not_held; lost
function Election:term() end

---Leads no more; another candidate may at once.
---```lua
---local election = client:getElection("scheduler", { id = "a" })
---assert(election:campaign(5) and election:resign())
---```
---@return true|nil ok  it led until now
---@return redlock.Error err  expired; held: somebody else leads; not_held; unknown
function Election:resign() end

---Asks the servers who leads. It may be over when the answer is there: act by the term.
---```lua
---local leader = client:getElection("scheduler", { id = "a" }):leader()
---assert(leader == false)
---```
---@return redlock.Leader|false|nil leader  false: nobody leads
---@return number|redlock.Error|nil seconds  for how many seconds at least; or no_quorum
function Election:leader() end

---Who leads.
---@class redlock.Leader
---@field id string?  as that candidate gave it; nil: not known yet
---@field term integer

---Calls a function now and whenever somebody else leads, or nobody: never with a term below one
---before.
---```lua
---local watch = client:getElection("scheduler", { id = "a" }):observe(function(leader)
---    print(leader and leader.id or "nobody")
---end)
---assert(watch:cancel())
---```
---@param fn fun(leader: redlock.Leader?)  nil: nobody leads
---@return redlock.Future future  goes on until the client is closed, or `cancel`
function Election:observe(fn) end

---The name as it was given.
---```lua
---assert(client:getElection("scheduler", { id = "a" }):getName() == "scheduler")
---```
---@return string name  any bytes
function Election:getName() end

-- ---- rates -----------------------------------------------------------------------

---At most so many starts in any window of the period, less the drift of clocks; a start counts from
---when it was asked for. `tostring(limiter)` is for people.
---@class redlock.RateLimiter
---@field permits integer  starts in a period
---@field period number  seconds
local RateLimiter = {}

---Waits until there is room for a start.
---```lua
---assert(client:getRateLimiter("mails", 3, 60):acquire(5))
---```
---@param wait? number  seconds; default: as long as it takes
---@return true|nil ok  start now
---@return redlock.Error err  held: no room in time; no_quorum; expired; unknown; overload
function RateLimiter:acquire(wait) end

---The same for a call that does not wait if it is not told to.
---```lua
---assert(client:getRateLimiter("mails", 3, 60):tryAcquire())
---```
---@param wait? number  seconds; default 0
---@return true|nil ok  start now
---@return redlock.Error err  held: no room in time; no_quorum; expired; unknown; overload
function RateLimiter:tryAcquire(wait) end

---`acquire` as a future.
---```lua
---assert(client:getRateLimiter("mails", 3, 60):acquireAsync(5):get())
---```
---@param wait? number  seconds, as for `acquire`
---@return redlock.Future future  of what `acquire` returns
function RateLimiter:acquireAsync(wait) end

---`tryAcquire` as a future.
---```lua
---assert(client:getRateLimiter("mails", 3, 60):tryAcquireAsync():get())
---```
---@param wait? number  seconds, as for `tryAcquire`
---@return redlock.Future future  of what `tryAcquire` returns
function RateLimiter:tryAcquireAsync(wait) end

---How many starts there is room for now, as a majority of the servers sees it.
---```lua
---assert(client:getRateLimiter("mails", 3, 60):availablePermits() == 3)
---```
---@return integer|nil n  may have changed when it arrives
---@return redlock.Error err  no_quorum
function RateLimiter:availablePermits() end

---The name as it was given.
---```lua
---assert(client:getRateLimiter("mails", 3, 60):getName() == "mails")
---```
---@return string name  any bytes
function RateLimiter:getName() end
