---@meta _

-- Part of types.lua: locks and futures.

---Whatever has a name on the servers.
---@class redlock.Named
local Named = {}

---Returns the name, as given.
---```lua
---assert(client:getLock("a"):getName() == "a")
---```
---@return string name  any bytes; without the client's prefix
function Named:getName() end

---A view of an owner's hold of a name. It is cheap, and collecting it changes nothing: all objects
---with one name and owner share one hold. The owner is `opts.owner`, else in nginx the request,
---else the running coroutine. `tostring(lock)` is for people: "lock(invoice:42, held, 27.3 s)".
---
---A method whose name ends in `Async` begins the call, for the owner that calls it, and returns a
---future of its results.
---@class redlock.Lock: redlock.Named
---@field client redlock.Client  the client that made it; for `args` of a primitive
---@field isHeldByCurrentThread fun(self): boolean  `isValid`: Redisson's name
---@field lockAsync fun(self, lease?: number): redlock.Future  `lock` as a future
---@field tryLockAsync fun(self, wait?: number, lease?: number): redlock.Future  `tryLock`
---@field unlockAsync fun(self, opts?: redlock.UnlockOptions): redlock.Future  `unlock`
---@field extendAsync fun(self, lease?: number): redlock.Future  `extend`
---@field isLockedAsync fun(self): redlock.Future  `isLocked`
---@field remainTimeToLiveAsync fun(self): redlock.Future  `remainTimeToLive`
---@field forceUnlockAsync fun(self, opts?: redlock.ForceOptions): redlock.Future  `forceUnlock`
local Lock = {}

-- ---- taking and letting go -------------------------------------------------------

---Acquires the lock, waiting until it is free. An owner that holds it already takes it again; its
---last `unlock` releases it. A longer lease than is left extends the hold, which asks the servers;
---without a lease, the watchdog keeps the hold until the last `unlock`. No call makes it shorter.
---After an error the hold is as before. Where nothing can wait, the lease stays as it is.
---```lua
---assert(lock:lock())           -- the watchdog keeps it
---assert(lock:unlock())
---assert(lock:lock(10))         -- for 10 s, unless it is extended
---```
---@param lease? number  seconds, not renewed; default: the client's, kept by the watchdog
---@return true|nil ok  true: held
---@return redlock.Error err  no_quorum: for `patience` seconds; expired; lost; deadlock; overload
function Lock:lock(lease) end

---Acquires the lock, waiting at most `wait` seconds. The call may take the option `timeout` longer,
---and one more `timeout` where callers split the votes. An owner takes it again as with `lock`.
---```lua
---local ok, err = lock:tryLock(5, 10)     -- wait up to 5 s, keep it for 10 s
---if not ok then
---    if err.code == "held" then return end
---    error(tostring(err))
---end
---assert(lock:unlock())
---```
---@param wait? number  seconds; default 0: one attempt
---@param lease? number  seconds, not renewed; default: the client's, kept by the watchdog
---@return true|nil ok  true: held
---@return redlock.Error err  held; no_quorum: also split votes; expired; lost; deadlock; overload
function Lock:tryLock(wait, lease) end

---Leaves the lock once. The last leave releases it on all servers, or hands it over to another
---owner in this process that waits for it. Where the caller cannot wait (nginx's log phase), the
---release is sent and its outcome stays unknown.
---```lua
---assert(lock:tryLock(5))
---local ok, err = lock:unlock()
---if not ok then print(err) end
---assert(lock:tryLock(5))
---assert(lock:unlock { closed_for = 2 })    -- nobody gets it before 2 s have passed
---```
---@param opts? redlock.UnlockOptions  for how long the name stays closed
---@return true|nil ok  left, or released in time
---@return redlock.Error err  expired; held: by another now; not_held; unknown; unsupported
function Lock:unlock(opts) end

---Ends the hold, whatever its hold count, and leaves its keys on the servers for `seconds`, even
---far longer than `max_lease` (see `closed_for`). Nobody can release or extend it after that.
---```lua
---assert(lock:tryLock(5))
---assert(lock:settle(2))                    -- nobody gets it before 2 s have passed
---```
---@param seconds number  seconds from now that the keys stay
---@param opts? redlock.SettleOptions  whether to keep the hold
---@return true|nil ok  a majority of the servers confirmed it
---@return redlock.Error err  expired; held: by another now; unknown; not_held; lost; unsupported
function Lock:settle(seconds, opts) end

---Whether `lock:settle` keeps the hold, whose keys then end no sooner than before.
---@class (exact) redlock.SettleOptions
---@field keep? boolean  true: the hold continues, and `unlock` still releases it

---Asks the servers one of the questions that the primitive defines (its `asks`).
---```lua
---local kind = redlock.primitive { name = "kind", acquire = "return 1", release = "return 1",
---    asks = { size = { "return {1, redis.call('dbsize')}" } } }
---for _, answer in ipairs(assert(client:get(kind, "x"):ask("size"))) do
---    print(answer.node, answer.info)
---end
---```
---@param name string  the question's name
---@param args? string[]  its ARGV, at most 16; default: the primitive's `args`
---@return redlock.Answer[]|nil answers  from at least a majority of the servers
---@return redlock.Error err  no_quorum; phase; closed
function Lock:ask(name, args) end

---What `lock:unlock` leaves on the servers. What lasts longer than `max_lease` is forgotten if a
---majority of the servers lose their memory meanwhile, even one by one, as in a rolling restart:
---where that does harm, keep "done" in a table of your own.
---@class (exact) redlock.UnlockOptions
---@field closed_for? number  seconds from the acquisition during which nobody can take the name

---Makes the hold last `lease` seconds from now. Never shortens it.
---```lua
---assert(lock:tryLock(5, 10))
---local ok, left = lock:extend(30)
---assert(ok and left > 20)
---```
---@param lease? number  seconds; default: the lease it was taken with
---@return true|nil ok  true: held
---@return redlock.SecondsOrError left  seconds left; or lost; no_quorum; not_held; unsupported
function Lock:extend(lease) end

---Asks a majority of the servers whether this owner still holds the lock. The lease stays as it is.
---Needed where the local clock may have stood still: a virtual machine that was paused with its
---clocks believes in its locks until it next hears the servers' time, about a second later. A
---fenced lock also checks that no larger token existed when this was called.
---```lua
---assert(lock:tryLock(5))
---assert(lock:stillMine())
---```
---@return true|nil mine  a majority of the servers has this hold
---@return redlock.Error err  lost; no_quorum; not_held; unsupported
function Lock:stillMine() end

---Releases the lock for whoever holds it now: each server tells that, and removes nobody else. The
---holder notices at its next extension. Data of other programs under the lock's name stay.
---```lua
---assert(lock:tryLock(5))
---assert(lock:forceUnlock() == true)
---assert(lock:forceUnlock() == false)
---```
---@param opts? redlock.ForceOptions  whose
---@return boolean|nil opened  true: it was held; false: it was not
---@return redlock.Error err  no_quorum; not_a_lock; unsupported
function Lock:forceUnlock(opts) end

---@class (exact) redlock.ForceOptions
---@field foreign? boolean  true: also what other libraries may have written (as in `client:locks`)
---@field holder? string  only this holder's: the digits that `redlock status` shows

-- ---- holding ---------------------------------------------------------------------

---Says whether this owner holds the lock now. Local: one clock read.
---```lua
---assert(lock:tryLock(5) and lock:isValid())
---```
---@return boolean valid  by the local clock
function Lock:isValid() end

---Says how much validity is left. Local: one clock read.
---```lua
---assert(lock:tryLock(5, 30))
---assert(lock:remaining() > 20)
---```
---@return number left  seconds of validity; 0: expired, or not held by this owner
function Lock:remaining() end

---Raises unless this owner holds it now: "redlock: lost: ..." or "redlock: not_held: ...". Local.
---```lua
---assert(lock:tryLock(5))
---lock:check()
---assert(lock:unlock())
---assert(not pcall(lock.check, lock))
---```
---@return redlock.Lock self  the lock itself
function Lock:check() end

---Has `fn(lock, reason, holder)` called once when this hold is lost; at once if it is lost already.
---Called before the lock is acquired, it is for the next hold of this lock object and owner.
---An event loop calls it when that happens, plain LuaJIT in the owner's next call of the library.
---An error in `fn` goes to the log. `holder` comes with the reason `taken`, if a majority agrees.
---```lua
---assert(lock:onLost(function(l, reason)
---    print(l:getName(), reason)
---end))
---assert(lock:tryLock(5))
---```
---@param fn fun(lock: redlock.Lock, reason: redlock.LossReason, holder?: redlock.Holder)  callback
---@return true|nil ok  true: `fn` will be called
---@return redlock.Error err  closed
function Lock:onLost(fn) end

---Returns how many times this owner has entered the lock. Local.
---```lua
---assert(lock:tryLock(5) and lock:tryLock())
---assert(lock:getHoldCount() == 2)
---```
---@return integer count  0: not held
function Lock:getHoldCount() end

---Returns how many servers have confirmed this hold since it was last taken or extended: normally
---more than a majority. With the option `margin`, the event `thin` reports too few.
---```lua
---assert(lock:tryLock(5))
---assert(lock:votes() >= 1)
---```
---@return integer count  0: not held
function Lock:votes() end

---Gives the hold away without releasing it: this owner no longer holds it, whatever the outcome.
---It ends with its lease unless another process takes it over with `client:import` before that.
---```lua
---assert(lock:tryLock(5))
---local transfer = assert(lock:export())      -- for another process
---assert(not lock:isValid())
---```
---@return string|nil transfer  printable; only its first import succeeds
---@return redlock.Error err  not_held; lost; expired; unknown: it is released; phase; unsupported
function Lock:export() end

-- ---- looking ---------------------------------------------------------------------

---Asks the servers whether anybody holds it. The answer is that of a majority.
---```lua
---assert(lock:tryLock(5) and lock:isLocked())
---```
---@return boolean|nil locked  true: an owner anywhere holds it
---@return redlock.Error err  no_quorum; unsupported
function Lock:isLocked() end

---Asks the servers for the holder. The answer is that of a majority, so one lying server cannot
---name another holder.
---```lua
---assert(lock:tryLock(5))
---print(lock:holder().label)               -- web-1 4242 worker.lua
---assert(lock:unlock())
---assert(lock:holder() == false)
---```
---@return redlock.Holder|false|nil holder  false: nobody holds it
---@return redlock.Error err  no_quorum: also when no majority names one holder; unsupported
function Lock:holder() end

---Asks a majority how long the name stays closed if nobody renews or releases it.
---```lua
---assert(lock:tryLock(5, 30))
---assert(lock:remainTimeToLive() > 20)
---```
---@return number|nil left  seconds; 0: nobody holds it; math.huge: its key has no end
---@return redlock.Error err  no_quorum; unsupported
function Lock:remainTimeToLive() end

-- ---- before the end ----------------------------------------------------------------

---Has `fn` called when at most `seconds` of validity are left, before the hold ends because it was
---not renewed. Once; and again after a renewal. An event loop (nginx, luv, cqueues) calls it when
---that happens, plain LuaJIT at the next call into the library. nginx also calls it when the worker
---begins to exit; the hold is renewed as before while its request or timer runs.
---```lua
---assert(lock:tryLock(5))
---assert(lock:onEnding(10, function(l, left)
---    print(l:getName() .. " ends in " .. left .. " s, unless the servers are back by then")
---end))
---```
---@param seconds number  seconds; less than two thirds of a lease that the watchdog keeps
---@param fn fun(lock: redlock.Lock, left: number)  left: seconds
---@return true|nil ok  true: `fn` will be called
---@return redlock.Error err  not_held; lost; closed
function Lock:onEnding(seconds, fn) end

-- ---- fencing tokens --------------------------------------------------------------

---A lock whose holds each have a fencing token: a whole number below 10^14 that only grows, for
---resources that refuse late writers.
---@class redlock.FencedLock: redlock.Lock
---@field lock fun(self, lease?: number): true?, redlock.TokenOrError  `lock`, with a token
---@field tryLock fun(self, wait?: number, lease?: number): true?, redlock.TokenOrError  `tryLock`
local FencedLock = {}

---Returns the token of this hold. Local.
---```lua
---assert(fenced:tryLock(5))
---local token = assert(fenced:token())
---```
---@return integer|nil token  from 1 to below 10^14
---@return redlock.Error err  not_held; lost: the token is of no use any more
function FencedLock:token() end

---Returns the hold as one printable string. Send it along with a request; the receiver checks with
---`client:checkSequencer` that the lock is still held.
---```lua
---assert(fenced:tryLock(5))
---print(fenced:sequencer())        -- fence;invoice:42;exclusive;17;...
---```
---@return string|nil text  without spaces
---@return redlock.Error err  not_held; lost
function FencedLock:sequencer() end

-- Each type below is both at once, as editors cannot tell which one comes with `true`.

---A token after `true`; an error after `nil`.
---@class redlock.TokenOrError: integer, redlock.Error

---Seconds after `true`; an error after `nil`.
---@class redlock.SecondsOrError: number, redlock.Error

-- ---- futures ---------------------------------------------------------------------

---A call in progress, begun by `lockAsync` and others. A plain script can have many of them in
---flight: any call that waits in the library advances all of them.
---@class redlock.Future
local Future = {}

---Waits for the call and returns its results. Raises again what the call raised.
---```lua
---local future = lock:tryLockAsync(5)
---local ok, err = future:get(10)
---assert(ok, err)
---```
---@param timeout? number  seconds to wait; default: until the call returns
---@return any ...  the results of the call; or nil and an error: timeout, and the call continues
function Future:get(timeout) end

---Says whether `get` would return at once.
---```lua
---local future = lock:tryLockAsync(5)
---while not future:isDone() do end
---assert(future:get())
---```
---@return boolean done  the question also advances other futures of a plain script
function Future:isDone() end

---Cancels the call. What an attempt in progress has taken is released, and `get` returns nil and
---`cancelled`.
---```lua
---assert(client:getLock("a", { owner = "another" }):tryLock(5))
---local future = client:getLock("a"):lockAsync()
---assert(future:cancel())
---assert(select(2, future:get()).code == "cancelled")
---```
---@return boolean cancelled  false: the call had ended
function Future:cancel() end
