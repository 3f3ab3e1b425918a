---@meta _

-- Part of types.lua: clients, and primitives of one's own.

---The connections to one set of servers, and everything that is held through them.
---`tostring(client)` is for people: "client(3 nodes, 1 held)".
---@class redlock.Client
---@field options redlock.Options  as checked, with the defaults; for reading only
local Client = {}

-- ---- locks -----------------------------------------------------------------------

---A plain lock: exclusive, re-entrant for its owner. No I/O.
---```lua
---local lock = client:getLock "invoice:42"
---local job = client:getLock("invoice:42", { owner = "job 7" })
---assert(lock:tryLock(5) and not job:tryLock())
---```
---@param name string  1 to 65536 bytes, any bytes
---@param opts? redlock.LockOptions  who the owner is
---@return redlock.Lock lock  a view of what the owner holds
function Client:getLock(name, opts) end

---A lock whose holds have fencing tokens. Excludes plain locks of its name. No I/O.
---```lua
---local lock = client:getFencedLock "stock"
---local ok, token = lock:tryLock(5)
---assert(ok and token == lock:token())
---```
---@param name string  1 to 65536 bytes, any bytes
---@param opts? redlock.LockOptions  who the owner is
---@return redlock.FencedLock lock  a view of what the owner holds
function Client:getFencedLock(name, opts) end

---A lock that those who wait get in the order in which they came: a call that had joined the line
---of a majority before another one began is served before it. No I/O.
---```lua
---local lock = client:getFairLock "printer"
---assert(lock:tryLock(5))
---```
---@param name string  1 to 65536 bytes; plain and fenced locks of the name exclude it
---@param opts? redlock.LockOptions  who the owner is
---@return redlock.Lock lock  a view of what the owner holds
function Client:getFairLock(name, opts) end

---Many readers at once, or one writer. No I/O.
---```lua
---local pair = client:getReadWriteLock "prices"
---assert(pair:readLock():tryLock(5))
---```
---@param name string  1 to 65536 bytes; plain and fenced locks of the name exclude both
---@param opts? redlock.ReadWriteOptions  who the owner is; whether writers have tokens
---@return redlock.ReadWriteLock pair  has a view for each of the two
function Client:getReadWriteLock(name, opts) end

---Several names at once, all or none, in one round. Locks of any of the names exclude it, and are
---excluded. No I/O.
---```lua
---local both = client:getMultiLock { "account:1", "account:2" }
---assert(both:tryLock(5))
---assert(both:unlock())
---```
---@param names string[]  1 to 128 of them, each 1 to 65536 bytes
---@param opts? redlock.LockOptions  who the owner is
---@return redlock.MultiLock lock  a view of what the owner holds of just this set
function Client:getMultiLock(names, opts) end

---At most so many holders at once, each with a permit that ends by itself. No I/O.
---```lua
---local permit = assert(client:getSemaphore("downloads", 3):tryAcquire(5))
---assert(permit:release())
---```
---@param name string  1 to 65536 bytes; locks of the name have nothing to do with it
---@param permits integer  1 to 1024; for all who use the name alike: the largest is the bound
---@param opts? redlock.SemaphoreOptions  whether permits have tokens
---@return redlock.Semaphore semaphore  gives permits
function Client:getSemaphore(name, permits, opts) end

---The same as `getSemaphore`: permits always end by themselves.
---```lua
---assert(client:getPermitExpirableSemaphore("downloads", 3):tryAcquire(5, 10))
---```
---@param name string  1 to 65536 bytes; locks of the name have nothing to do with it
---@param permits integer  1 to 1024; for all who use the name alike: the largest is the bound
---@param opts? redlock.SemaphoreOptions  whether permits have tokens
---@return redlock.Semaphore semaphore  gives permits
function Client:getPermitExpirableSemaphore(name, permits, opts) end

---Opens when so many parties have arrived, and stays open. No I/O.
---```lua
---local loaded = client:getCountDownLatch "shards loaded"
---assert(loaded:trySetCount(1))
---assert(loaded:countDown "shard 1" and loaded:await(5))
---```
---@param name string  1 to 65536 bytes; locks of the name have nothing to do with it
---@param opts? redlock.LatchOptions  how long it stays
---@return redlock.CountDownLatch latch  a view of what the servers know
function Client:getCountDownLatch(name, opts) end

---How a latch differs from others.
---@class (exact) redlock.LatchOptions
---@field ttl? number  seconds that it stays after the last arrival; default 86400

---One of several candidates leads, in terms that grow. No I/O.
---```lua
---local election = client:getElection("scheduler", { id = "10.0.0.1:80" })
---local term = assert(election:campaign(5))
---assert(election:resign())
---```
---@param name string  1 to 65536 bytes; locks of the name exclude the leader
---@param opts redlock.ElectionOptions  who the candidate is
---@return redlock.Election election  as this candidate sees it
function Client:getElection(name, opts) end

---Who a candidate is.
---@class (exact) redlock.ElectionOptions
---@field id string  what observers are to know, 1 to 160 bytes
---@field on_elected? fun(election: redlock.Election, term: integer)  before `campaign` returns
---@field on_lost? fun(election: redlock.Election, reason: redlock.LossReason)  as `onLost`

---Runs a function if nobody has run it in this period. By default a run that fails or dies may be
---repeated; none begins after one has returned. With `before` none begins after one has begun.
---```lua
---assert(client:once("nightly", 3600, function() print "report" end))
---assert(client:once("nightly", 3600, function() print "again" end) == false)
---```
---@param name string  1 to 65536 bytes; locks of the name exclude it
---@param period number  seconds from the start of a run on in which there is no other
---@param fn function  the job; an error of it is raised again
---@param opts? redlock.OnceOptions  what a run that fails means
---@return boolean|nil ran  and the results of fn; false: somebody runs it, or has
---@return any err  no_quorum; expired: too late; unknown; lost: somebody else may have run it
function Client:once(name, period, fn, opts) end

---What a run that fails means.
---@class (exact) redlock.OnceOptions
---@field before? boolean  true: it counts as well; default: it may be repeated
---@field owner? any  who has the lock meanwhile; default: nobody else

---At most so many starts in any window of a period, over all processes. No I/O.
---```lua
---local mails = client:getRateLimiter("mails", 3, 60)
---if mails:tryAcquire(1) then print "send one" end
---```
---@param name string  1 to 65536 bytes; locks and semaphores of the name have nothing to do with it
---@param n integer  1 to 128 starts
---@param period number  seconds
---@return redlock.RateLimiter limiter  says when there is room for a start
function Client:getRateLimiter(name, n, period) end

---An object of a primitive of your own, with the methods of a lock. No I/O.
---```lua
---local slot = redlock.primitive {
---    name = "slot",
---    acquire = "return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0",
---    release = "return redis.call('del', KEYS[1])",
---    methods = { twice = function(self) return self:getName():rep(2) end },
---}
---assert(client:get(slot, "a"):twice() == "aa")
---```
---@param prim redlock.Primitive  from `redlock.primitive`
---@param name string  1 to 65536 bytes, any bytes
---@param opts? redlock.LockOptions  who the owner is
---@return redlock.Lock lock  with the methods of the definition, too
function Client:get(prim, name, opts) end

---Who owns what is taken through a lock object.
---@class (exact) redlock.LockOptions
---@field owner? any  who gives the same value is the same owner; default: the running coroutine
---@field label? string  what it is for, behind the client's label on the card
---@field traceparent? string  of W3C's Trace Context: `on_event` is told it with what happens

---Runs `fn(lock)` while the lock is held, and releases it whatever happens. An error in `fn` is
---raised again after the release.
---```lua
---local held, sum = client:using("invoice:42", { wait = 5 }, function(lock)
---    lock:check()
---    return 1 + 2
---end)
---assert(held and sum == 3)
---```
---```lua
---client:using("prices", { kind = "read" }, function() end)
---client:using({ "account:1", "account:2" }, { wait = 5 }, function() end)
---client:using("downloads", { permits = 3 }, function(permit) print(permit:slot()) end)
---```
---@param name string|string[]  of the lock; a list: all of them at once, as for `getMultiLock`
---@param opts? redlock.UsingOptions  may be left out: `client:using(name, fn)`
---@param fn fun(lock: redlock.Lock): ...  what is to be done under the lock
---@return boolean|nil held  true; false: the lease was lost before the end; nil: `fn` did not run
---@return any ...  what `fn` returned; with nil: the error, as of `lock` and `tryLock`
---@overload fun(self: redlock.Client, name: string|string[], fn: function): boolean?, any
function Client:using(name, opts, fn) end

---How `client:using` takes the lock.
---@class (exact) redlock.UsingOptions
---@field wait? number  seconds; default: as long as it takes
---@field lease? number  seconds, not renewed; default: the client's, kept by the watchdog
---@field owner? any  as for `client:getLock`
---@field label? string  as for `client:getLock`
---@field kind? "plain"|"fenced"|"read"|"write"|"fair"|"multi"|"permit"  default: plain
---@field traceparent? string  as for `client:getLock`
---@field fenced? boolean  true: a fenced lock; with "write" or permits: one with a token
---@field permits? integer  how many permits there are, as for `getSemaphore`: fn gets one of them

-- ---- looking ---------------------------------------------------------------------

---The names that a majority of the servers has below the prefix, and whose they are. All that were
---held on that majority all the time are there, if no more than a minority is out of reach; what
---comes and goes meanwhile may be there or not. Servers are asked by SCAN.
---```lua
---assert(lock:tryLock(5))
---for _, held in ipairs(assert(client:locks "*")) do
---    print(held.name, held.kind, held.holder and held.holder.label)
---end
---```
---@param pattern? string  as of Redis: `*`, `?`, `[a-z]`; default: all names
---@param opts? redlock.LocksOptions  which, and how fast
---@return redlock.HeldLocks|nil locks  sorted by name
---@return redlock.Error err  no_quorum: with each server's reason, as `noperm`; phase; closed
function Client:locks(pattern, opts) end

---Whose a lock is, of whatever kind but permits: as `lock:holder()`.
---```lua
---assert(client:holder "nobody's" == false)
---```
---@param name string  as for `client:getLock`
---@return redlock.Holder|false|nil holder  false: nobody holds it
---@return redlock.Error err  no_quorum: also when no majority names one holder; phase; closed
function Client:holder(name) end

-- ---- between processes -----------------------------------------------------------

---Takes over a hold that another process gave away with `lock:export`. Import a transfer exactly
---once; a second import makes a second owner.
---```lua
---assert(lock:tryLock(5))
---local transfer = assert(lock:export())
---local mine = assert(client:import(transfer))
---assert(mine:isValid() and mine:unlock())
---```
---@param text string  a transfer, as `lock:export` returned
---@param opts? redlock.ImportOptions  who owns it from now on
---@return redlock.Lock|nil lock  held, and kept by the watchdog
---@return redlock.Error err  lost; no_quorum; not_held: in a forked child; config: no text for this
function Client:import(text, opts) end

---What `client:import` wants to know.
---@class (exact) redlock.ImportOptions
---@field owner? any  as for `client:getLock`
---@field primitive? redlock.Primitive  of a lock that is neither plain nor fenced

---Asks the servers whether the hold that a sequencer stands for is still current: the lock is
---held, and neither a larger token nor a lock of any kind was given out since.
---```lua
---local fenced = client:getFencedLock "stock"
---assert(fenced:tryLock(5))
---local text = assert(fenced:sequencer())
---assert(client:checkSequencer(text) == true)
---assert(fenced:unlock())
---assert(client:checkSequencer(text) == false)
---```
---@param text string  what `lock:sequencer` returned, anywhere
---@return boolean|nil current  true; false: the hold is over
---@return redlock.Error err  no_quorum; config: the text is no sequencer
function Client:checkSequencer(text) end

-- ---- servers ---------------------------------------------------------------------

---Connects, and waits until a majority of the servers may vote, and each other one is connected, or
---was tried once: then a lock can be taken without a wait for connections. For the start of a
---program. Holds nothing, and may be called at any time. With 0 seconds it asks servers that are
---connected, for at most `timeout`, and does not wait for the others.
---```lua
---local ok, err = client:connect(10)
---if not ok then
---    for _, row in ipairs(err.nodes) do
---        print(row.node, row.code, row.message)
---    end
---end
---```
---@param seconds? number  it may take, in seconds; default: `connect_timeout`. 0: see above
---@return true|nil ok  a majority may vote
---@return redlock.Error err  no_quorum: why each server has no vote; closed; config; phase
function Client:connect(seconds) end

---Asks every server how it is, and takes and releases a lock of its own there.
---```lua
---local report = assert(client:check())
---for _, row in ipairs(report) do
---    print(row.node, row.verdict, row.remedy or "")
---end
---print(report)        -- the same as a table for people
---```
---@return redlock.Report|nil report  a row for each server, and a verdict
---@return redlock.Error err  closed; config; phase
function Client:check() end

---Admits the servers of a brand-new cluster at once, which otherwise takes `max_lease` * 1.01 + 1
---seconds. Only when nobody can hold a lock. Without `force` every server must answer, and none
---may be admitted already, unless all are. With the guard off there is nothing to admit.
---With the option `cluster`, where all vote and are known by the hash of these addresses: replaces
---the hash by the name, while programs hold locks. Clients without the name are refused after that.
---```lua
---assert(client:init())
---```
---@param opts? redlock.InitOptions  whether to insist
---@return true|nil ok  all are admitted; with `force` a majority, and all that answer
---@return redlock.Error err  no_quorum; config: not a new cluster, or another one, as it says
function Client:init(opts) end

---Whether `client:init` insists.
---@class (exact) redlock.InitOptions
---@field force? boolean  admits whatever answers, also what had another `max_lease` or belonged to
---  another cluster; only when all clients have stopped and nothing is held or closed any more

---Counters since the client was made. No I/O.
---```lua
---assert(lock:tryLock(5) and lock:unlock())
---local stats = client:stats()
---assert(stats.acquired == 1 and #stats.nodes > 0)
---```
---@return redlock.Stats stats  a new table each time
function Client:stats() end

---Releases everything that the current owner holds, however often it was entered. In nginx that
---is the request, with what `client:using` took for coroutines of it that are no more: for
---`log_by_lua`, where the releases are sent and not waited for.
---```lua
---assert(lock:tryLock(5) and client:getLock("invoice:43"):tryLock(5))
---assert(client:releaseAll())
---assert(not lock:isValid())
---```
---@return true|nil ok  also when nothing was held
---@return redlock.Error err  expired; held; unknown: the first one, after all the others; closed
function Client:releaseAll() end

---Releases everything that is held through the client and closes its connections. Waits 50 ms
---at most: what is not released by then ends with its lease. Later calls fail with `closed`.
---```lua
---assert(client:close())
---assert(select(2, lock:tryLock()).code == "closed")
---```
---@return true ok  always; may be called again
function Client:close() end

---The time as the library counts it: on CLOCK_BOOTTIME, which goes on during suspend and is
---never set. `e.time` of events is of it.
---```lua
---local began = client.now()
---assert(lock:tryLock(5))
---print(("had it after %.3f s"):format(client.now() - began))
---```
---@return number now  seconds
function Client.now() end
