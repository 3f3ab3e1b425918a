---@meta _

-- Part of types.lua: clients, and primitives that users define.

---The connections to one set of servers, and all holds taken through them.
---`tostring(client)` is for people: "client(3 nodes, 1 held)".
---@class redlock.Client
---@field options redlock.Options  as checked, with the defaults; read only
local Client = {}

-- ---- locks -----------------------------------------------------------------------

---Makes a plain lock: exclusive, and re-entrant for its owner. No I/O.
---```lua
---local lock = client:getLock "invoice:42"
---local job = client:getLock("invoice:42", { owner = "job 7" })
---assert(lock:tryLock(5) and not job:tryLock())
---```
---@param name string  1 to 65536 bytes, any bytes
---@param opts? redlock.LockOptions  its owner and labels
---@return redlock.Lock lock  a view of the owner's hold
function Client:getLock(name, opts) end

---Makes a lock whose holds have fencing tokens. It excludes plain locks of its name. No I/O.
---```lua
---local lock = client:getFencedLock "stock"
---local ok, token = lock:tryLock(5)
---assert(ok and token == lock:token())
---```
---@param name string  1 to 65536 bytes, any bytes
---@param opts? redlock.LockOptions  its owner and labels
---@return redlock.FencedLock lock  a view of the owner's hold
function Client:getFencedLock(name, opts) end

---Makes a lock that serves its waiters in order. A call that a majority of the servers had queued
---before another call began is served first. Use it in every program that takes the name: callers
---of its other kinds do not queue, and may starve those that do. No I/O.
---```lua
---local lock = client:getFairLock "printer"
---assert(lock:tryLock(5))
---```
---@param name string  1 to 65536 bytes; plain and fenced locks of the name exclude it
---@param opts? redlock.LockOptions  its owner and labels
---@return redlock.Lock lock  a view of the owner's hold
function Client:getFairLock(name, opts) end

---Makes a lock that many readers hold at once, or one writer. No I/O.
---```lua
---local pair = client:getReadWriteLock "prices"
---assert(pair:readLock():tryLock(5))
---```
---@param name string  1 to 65536 bytes; plain and fenced locks of the name exclude both
---@param opts? redlock.ReadWriteOptions  its owner; whether writers have tokens
---@return redlock.ReadWriteLock pair  gives the reader's lock and the writer's
function Client:getReadWriteLock(name, opts) end

---Makes a lock of several names, taken all or none, in one round. It and locks of any of the names
---exclude each other. No I/O.
---```lua
---local both = client:getMultiLock { "account:1", "account:2" }
---assert(both:tryLock(5))
---assert(both:unlock())
---```
---@param names string[]  1 to 128; at most 65536 bytes all together, and their lengths in digits
---@param opts? redlock.LockOptions  its owner and labels
---@return redlock.MultiLock lock  a view of what the owner holds of exactly this set
function Client:getMultiLock(names, opts) end

---Makes a semaphore: at most `permits` holders at once, each permit with a lease. No I/O.
---```lua
---local permit = assert(client:getSemaphore("downloads", 3):tryAcquire(5))
---assert(permit:release())
---```
---@param name string  1 to 65536 bytes; locks of the same name are independent of it
---@param permits integer  1 to 1024, the same in all programs; else the largest number counts
---@param opts? redlock.SemaphoreOptions  whether permits have tokens
---@return redlock.Semaphore semaphore  hands out permits
function Client:getSemaphore(name, permits, opts) end

---Does what `getSemaphore` does: permits always have a lease. Redisson's name for it.
---```lua
---assert(client:getPermitExpirableSemaphore("downloads", 3):tryAcquire(5, 10))
---```
---@param name string  1 to 65536 bytes; locks of the same name are independent of it
---@param permits integer  1 to 1024, the same in all programs; else the largest number counts
---@param opts? redlock.SemaphoreOptions  whether permits have tokens
---@return redlock.Semaphore semaphore  hands out permits
function Client:getPermitExpirableSemaphore(name, permits, opts) end

---Makes a latch: it opens when the set number of parties have arrived, and stays open. No I/O.
---```lua
---local loaded = client:getCountDownLatch "shards loaded"
---assert(loaded:trySetCount(1))
---assert(loaded:countDown "shard 1" and loaded:await(5))
---```
---@param name string  1 to 65536 bytes; locks of the same name are independent of it
---@param opts? redlock.LatchOptions  how long the servers keep it
---@return redlock.CountDownLatch latch  a view of what the servers store
function Client:getCountDownLatch(name, opts) end

---How long the servers keep a latch.
---@class (exact) redlock.LatchOptions
---@field ttl? number  seconds after the last arrival; default 86400

---Makes a candidate for an election: one of several leads, in terms that grow. No I/O.
---```lua
---local election = client:getElection("scheduler", { id = "127.0.0.1:80" })
---local term = assert(election:campaign(5))
---assert(election:resign())
---```
---@param name string  1 to 65536 bytes; locks of the name exclude the leader
---@param opts redlock.ElectionOptions  the candidate's id and callbacks
---@return redlock.Election election  this candidate's view
function Client:getElection(name, opts) end

---A candidate's id and callbacks.
---@class (exact) redlock.ElectionOptions
---@field id string  what observers see of it, 1 to 153 bytes; a space, a % and a byte that is not
---printable ASCII count as three
---@field on_elected? fun(election: redlock.Election, term: integer)  before `campaign` returns
---@field on_lost? fun(election: redlock.Election, reason: redlock.LossReason)  as `onLost`

---Runs a function unless it has already run in this period. By default a run that fails or dies may
---be repeated; none begins after one has returned. With `before`, none begins after one has begun.
---What lasts longer than `max_lease` is forgotten if a majority of the servers lose their memory
---meanwhile, even one by one, as in a rolling restart: where that does harm, keep "done" in a table
---of your own.
---```lua
---assert(client:once("nightly", 3600, function() print "report" end))
---local ran, err = client:once("nightly", 3600, function() print "again" end)
---assert(not ran and err.code == "held" and err.done)
---client:once("prune", 3600, function(lock, token)
---    lock:check()                           -- raises if the lock is lost
---    print("a table refuses tokens below", token)
---end, { fenced = true })
---```
---@param name string  1 to 65536 bytes; locks of the name exclude it
---@param period number  seconds from the start of a run in which no other one starts
---@param fn fun(lock?: redlock.Lock, token?: integer): ...  the job; its error is raised again
---@param opts? redlock.OnceOptions  whether a failed run counts; the owner; whether with a token
---@return true|nil ran  true, then the results of fn
---@return any err  held: see `done`; deadlock; no_quorum; expired; unknown; lost: perhaps ran twice
function Client:once(name, period, fn, opts) end

---Whether a failed run counts, the owner of the run, and whether it has a token.
---@class (exact) redlock.OnceOptions
---@field before? boolean  true: a failed run counts too, and `fn` gets no lock; default: it
---  may be repeated
---@field fenced? boolean  true: `fn` gets a fencing token, as of `getFencedLock`
---@field owner? any  owner of the lock during the run; default: a new one

---Makes a limiter: at most `n` starts in any window of `period`, over all processes. No I/O.
---```lua
---local mails = client:getRateLimiter("mails", 3, 60)
---if mails:tryAcquire(1) then print "send one" end
---```
---@param name string  1 to 65536 bytes; locks and semaphores of the same name are independent of it
---@param n integer  1 to 128 starts
---@param period number  seconds
---@return redlock.RateLimiter limiter  allows starts
function Client:getRateLimiter(name, n, period) end

---Makes a lock of a primitive that you defined, with the methods of a lock. No I/O.
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
---@param opts? redlock.LockOptions  its owner and labels
---@return redlock.Lock lock  also with the methods of the definition
function Client:get(prim, name, opts) end

---The owner of a lock object's holds, and their labels.
---@class (exact) redlock.LockOptions
---@field owner? any  equal values are one owner; default: the running coroutine
---@field label? string  the purpose; stored with the lock, after the client's label
---@field traceparent? string  of W3C's Trace Context; passed on to `on_event`, unless malformed

---Runs `fn(lock, token)` while it holds the lock, and always releases it. The token is nil unless
---the lock is fenced. An error in `fn` is raised again after the release.
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
---@param fn fun(lock: redlock.Lock, token?: integer): ...  the work to do under the lock
---@return boolean|nil held  true; false: the lease was lost before the end; nil: `fn` did not run
---@return any ...  what `fn` returned; after nil: the error, as for `lock` and `tryLock`
---@overload fun(self: redlock.Client, name: string|string[], fn: function): boolean?, any
function Client:using(name, opts, fn) end

---How `client:using` takes the lock.
---@class (exact) redlock.UsingOptions
---@field wait? number  seconds to wait; default: until the lock is free
---@field lease? number  seconds, not renewed; default: the client's, kept by the watchdog
---@field owner? any  as for `client:getLock`
---@field label? string  as for `client:getLock`
---@field kind? "plain"|"fenced"|"read"|"write"|"fair"|"multi"|"permit"  default: plain
---@field traceparent? string  as for `client:getLock`
---@field fenced? boolean  true: a fenced lock; with "write" or `permits`: with a token
---@field permits? integer  size of the semaphore, as for `getSemaphore`; fn gets one permit

-- ---- looking ---------------------------------------------------------------------

---Lists the names below the prefix that a majority of the servers holds, and their holders.
---The list has every name that was held on this majority throughout the call, if at most a minority
---is out of reach. Names taken or released during the call may be missing. Servers run SCAN.
---```lua
---assert(lock:tryLock(5))
---for _, held in ipairs(assert(client:locks "*")) do
---    print(held.name, held.kind, held.holder and held.holder.label)
---end
---```
---@param pattern? string  a Redis pattern: `*`, `?`, `[a-z]`; default: all names
---@param opts? redlock.LocksOptions  which names, and how fast
---@return redlock.HeldLocks|nil locks  sorted by name
---@return redlock.Error err  no_quorum: with each server's reason, such as `noperm`; phase; closed
function Client:locks(pattern, opts) end

---Asks the servers for a lock's holder, as `lock:holder()` does. For all kinds except permits.
---```lua
---assert(client:holder "nobody's" == false)
---```
---@param name string  as for `client:getLock`
---@return redlock.Holder|false|nil holder  false: nobody holds it
---@return redlock.Error err  no_quorum: also when no majority names one holder; phase; closed
function Client:holder(name) end

-- ---- between processes -----------------------------------------------------------

---Takes over a hold that another process exported with `lock:export`, in one round trip. Of several
---imports of a transfer at most one succeeds, and the others get `lost`: a queue may deliver it
---twice. It is `unknown` if no majority of the servers confirms it. An import that fails releases
---what it has taken, and none takes a free lock.
---```lua
---assert(lock:tryLock(5))
---local transfer = assert(lock:export())
---local mine = assert(client:import(transfer))
---assert(mine:isValid() and mine:unlock())
---```
---@param text string  what `lock:export` returned
---@param opts? redlock.ImportOptions  the new owner
---@return redlock.Lock|nil lock  held, and renewed by the watchdog
---@return redlock.Error err  lost: `err.holder` has it, or it has ended; unknown; expired; config
function Client:import(text, opts) end

---The new owner of an imported hold.
---@class (exact) redlock.ImportOptions
---@field owner? any  as for `client:getLock`
---@field primitive? redlock.Primitive  needed for kinds other than plain and fenced

---Asks the servers whether a sequencer's hold is still current: the lock is held, and since then
---no larger token, and no lock of any kind, was granted.
---```lua
---local fenced = client:getFencedLock "stock"
---assert(fenced:tryLock(5))
---local text = assert(fenced:sequencer())
---assert(client:checkSequencer(text) == true)
---assert(fenced:unlock())
---assert(client:checkSequencer(text) == false)
---```
---@param text string  what `lock:sequencer` returned, in any process
---@return boolean|nil current  false: the hold has ended
---@return redlock.Error err  no_quorum; config: the text is not a sequencer
function Client:checkSequencer(text) end

-- ---- servers ---------------------------------------------------------------------

---Connects, and waits until a majority of the servers may vote and every other server is connected
---or has been tried once. A lock taken after that need not wait for connections. Call it when a
---program starts, or at any later time; it holds nothing. With 0 seconds it asks the connected
---servers, for at most `timeout`, and does not wait for the others.
---```lua
---local ok, err = client:connect(10)
---if not ok then
---    for _, row in ipairs(err.nodes) do
---        print(row.node, row.code, row.message)
---    end
---end
---```
---@param seconds? number  limit in seconds; default: `connect_timeout`. 0: see above
---@return true|nil ok  a majority may vote
---@return redlock.Error err  no_quorum: why each server has no vote; closed; config; phase
function Client:connect(seconds) end

---Whether locks can be taken now: for `/healthz`, however often it is called. It answers from what
---is known. At most once a second a client asks the servers; only the calls of that moment wait,
---until a majority has answered, for at most `timeout`. So a majority that falls silent is noticed
---within a second and `timeout`.
---```lua
---local healthy, err = client:health()
---print(healthy and "ok" or err)
---```
---@return true|nil healthy  a majority (and `margin` more) may vote, and answers
---@return redlock.Error err  no_quorum: why each server has no vote; closed; config; phase
function Client:health() end

---Asks each server for its state, and takes and releases a lock of its own on it.
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

---Lets the servers of a brand-new cluster vote after 5 to 8 s; otherwise that takes `max_lease` *
---1.01 + 1 s. Call it only for servers that were never used. All must be up and new, and no program
---that got votes from them may be connected. It cannot know about programs that are cut off or
---paused. If all servers vote already, it only teaches fencing tokens to those that know none.
---Without the restart guard it has nothing to do.
---```lua
---assert(client:init())
---```
---@param opts? redlock.InitOptions  whether to force it
---@return true|nil ok  all are admitted; with `force` a majority, and all that answer
---@return redlock.Error err  no_quorum; config: not a new cluster, in use, or another one
function Client:init(opts) end

---Gives the cluster other servers, beside programs that use it: this client has the present list,
---and `new` the one from then on. The old list ends at once. The servers of the new one vote after
---a quarantine (`max_lease` * 1.01 + 1 s), in which nobody has a lock; fencing tokens go on.
---Programs get the new list at any time: with another one they get `config`. One server must stay.
---If it was killed, call it again; of two changes at once one is refused.
---```lua
---local new = require("redlock").new { nodes = servers }      -- these are the old ones
---local change, err = client:change(new)
---print(change and change.seconds or err)
---```
---@param new redlock.Client  a client of the new list, with the same `max_lease`, and the guard on
---@param opts? redlock.ChangeOptions  which old servers will not answer
---@return redlock.Change|nil change  what was changed
---@return redlock.Error err  config: what is in the way; no_quorum; closed; phase
function Client:change(new, opts) end

---Servers that `client:change` does not wait for.
---@class (exact) redlock.ChangeOptions
---@field gone? string[]  those of the old list that do not answer, and are stopped permanently

---What `client:change` has changed.
---@class (exact) redlock.Change
---@field comes string[]  servers of the new list alone
---@field goes string[]  servers of the old list alone
---@field stays string[]  servers of both
---@field seconds number  about how many seconds the new list has no vote

---Which servers `client:init` admits.
---@class (exact) redlock.InitOptions
---@field force? boolean  admits all servers that answer, also used ones, and with another
---  `max_lease` or cluster; only when all clients have stopped and no name is held or kept closed

---Returns counters since the client was made. No I/O.
---```lua
---assert(lock:tryLock(5) and lock:unlock())
---local stats = client:stats()
---assert(stats.acquired == 1 and #stats.nodes > 0)
---```
---@return redlock.Stats stats  a new table each time
function Client:stats() end

---Releases everything that the current owner holds, whatever its hold counts. In nginx the owner is
---the request; holds that `client:using` took for its ended coroutines are included. In
---`log_by_lua` it sends the releases and does not wait for answers.
---```lua
---assert(lock:tryLock(5) and client:getLock("invoice:43"):tryLock(5))
---assert(client:releaseAll())
---assert(not lock:isValid())
---```
---@return true|nil ok  also when nothing was held
---@return redlock.Error err  expired; held; unknown: the first, after all were tried; closed
function Client:releaseAll() end

---Releases everything that is held through the client and closes its connections. Waits at most
---50 ms, in an event loop without stopping it, and there not at all where it cannot wait, as in a
---callback; unreleased holds end with their leases. Later calls fail with `closed`.
---```lua
---assert(client:close())
---assert(select(2, lock:tryLock()).code == "closed")
---```
---@return true ok  always; may be called again
function Client:close() end

---The library's clock, CLOCK_BOOTTIME: it runs during suspend and is never set. `e.time` of events
---uses it.
---```lua
---local began = client.now()
---assert(lock:tryLock(5))
---print(("had it after %.3f s"):format(client.now() - began))
---```
---@return number now  seconds
function Client.now() end
