---@meta _

-- Part of types.lua: locks and futures.

---A view of what an owner holds of a name: cheap, and collecting one changes nothing. All objects
---of one name and owner are views of one hold. The owner is the running coroutine, in nginx the
---request, or `opts.owner`. `tostring(lock)` is for people: "lock(invoice:42, held, 27.3 s)".
---@class redlock.Lock
---@field client redlock.Client  whose lock it is, for `args` of a primitive
local Lock = {}

-- ---- taking and letting go -------------------------------------------------------

---Takes it, and waits as long as somebody else holds it. Whoever holds it enters again at once;
---the last `unlock` releases it.
---```lua
---assert(lock:lock())           -- the watchdog keeps it
---assert(lock:unlock())
---assert(lock:lock(10))         -- for 10 s, unless it is extended
---```
---@param lease? number  seconds, not renewed; default: the client's, kept by the watchdog
---@return true|nil ok  it is held
---@return redlock.Error err  no_quorum: for `patience` seconds; expired; deadlock; overload
function Lock:lock(lease) end

---Takes it, and waits for at most so long. Returns within `wait` and the option `timeout`; where
---several callers split the votes, one more `timeout`.
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
---@return true|nil ok  it is held
---@return redlock.Error err  held; no_quorum: votes were split, too; expired: too late; deadlock
function Lock:tryLock(wait, lease) end

---Leaves it once; the last leave releases it on all servers, or passes it on to another owner of
---this process who waits for it. Where the caller cannot wait (nginx's log phase) the release is
---sent, and its outcome is not known.
---```lua
---assert(lock:tryLock(5))
---local ok, err = lock:unlock()
---if not ok then print(err) end
---assert(lock:tryLock(5))
---assert(lock:unlock { closed_for = 2 })    -- nobody gets it before 2 s have passed
---```
---@param opts? redlock.UnlockOptions  whether the name opens
---@return true|nil ok  left, or released in time
---@return redlock.Error err  expired; held: by another now; not_held; unknown; unsupported
function Lock:unlock(opts) end

---Gives what the hold has on the servers an end of its own, be it far behind `max_lease`, and ends
---the hold, however often it was entered: nobody can release or extend it any more.
---```lua
---assert(lock:tryLock(5))
---assert(lock:settle(2))                    -- nobody gets it before 2 s have passed
---```
---@param seconds number  for how many seconds it stays, from now on
---@param opts? redlock.SettleOptions  whether the hold goes on
---@return true|nil ok  a majority of the servers confirmed it
---@return redlock.Error err  expired; held: by another now; unknown; not_held; lost; unsupported
function Lock:settle(seconds, opts) end

---What becomes of a hold that is settled.
---@class (exact) redlock.SettleOptions
---@field keep? boolean  true: it goes on, and `unlock` lets it go all the same

---Asks the servers one of the primitive's own questions (its `asks`).
---```lua
---local kind = redlock.primitive { name = "kind", acquire = "return 1", release = "return 1",
---    asks = { size = { "return {1, redis.call('dbsize')}" } } }
---for _, answer in ipairs(assert(client:get(kind, "x"):ask("size"))) do
---    print(answer.node, answer.info)
---end
---```
---@param name string  of the question
---@param args? string[]  its ARGV, at most 16; default: the primitive's `args`
---@return redlock.Answer[]|nil answers  of a majority of the servers at least
---@return redlock.Error err  no_quorum; phase; closed
function Lock:ask(name, args) end

---What `lock:unlock` leaves behind.
---@class (exact) redlock.UnlockOptions
---@field closed_for? number  seconds since it was taken; until then the name stays closed, for all

---Makes the hold last `lease` seconds from now; never shortens it.
---```lua
---assert(lock:tryLock(5, 10))
---local ok, left = lock:extend(30)
---assert(ok and left > 20)
---```
---@param lease? number  seconds; default: as it was taken
---@return true|nil ok  it is held, and for how long is returned as well
---@return redlock.SecondsOrError left  seconds left; or lost; no_quorum; not_held; unsupported
function Lock:extend(lease) end

---Deletes it on all servers, whoever holds it. The holder is told at its next extension.
---```lua
---assert(lock:tryLock(5))
---assert(lock:forceUnlock() == true)
---assert(lock:forceUnlock() == false)
---```
---@return boolean|nil opened  true: it was held; false: it was not
---@return redlock.Error err  no_quorum; unsupported
function Lock:forceUnlock() end

-- ---- holding ---------------------------------------------------------------------

---Whether this owner holds it now. Local: one clock read.
---```lua
---assert(lock:tryLock(5) and lock:isValid())
---```
---@return boolean valid  by the local clock
function Lock:isValid() end

---For how long it is held still. Local: one clock read.
---```lua
---assert(lock:tryLock(5, 30))
---assert(lock:remaining() > 20)
---```
---@return number left  seconds of validity; 0: not held by this owner, or over
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

---Has `fn(lock, reason, holder)` called once, when this hold is lost: in an event loop when that
---happens, in plain LuaJIT in the owner's next call of the library; at once if it is lost already.
---An error in `fn` goes to the log. With `taken` comes who has it now, if a majority says who.
---```lua
---assert(lock:tryLock(5))
---assert(lock:onLost(function(l, reason)
---    print(l:getName(), reason)
---end))
---```
---@param fn fun(lock: redlock.Lock, reason: redlock.LossReason, holder?: redlock.Holder)  called
---@return true|nil ok  it will be called
---@return redlock.Error err  not_held
function Lock:onLost(fn) end

---How often this owner has entered it. Local.
---```lua
---assert(lock:tryLock(5) and lock:tryLock())
---assert(lock:getHoldCount() == 2)
---```
---@return integer count  0: not held
function Lock:getHoldCount() end

---How many servers have confirmed this hold when it was taken or extended last, or since: more
---than a majority when all is well. With the option `margin` the event `thin` tells when they are
---few.
---```lua
---assert(lock:tryLock(5))
---assert(lock:votes() >= 1)
---```
---@return integer count  0: not held
function Lock:votes() end

---Whether this owner holds it now, as `isValid`: Redisson's name for it.
---```lua
---assert(not lock:isHeldByCurrentThread())
---```
---@return boolean held  by the local clock
function Lock:isHeldByCurrentThread() end

---Gives the hold away: this owner does not hold it any more, and it is not released. It ends with
---its lease unless `client:import` takes it over somewhere before.
---```lua
---assert(lock:tryLock(5))
---local transfer = assert(lock:export())      -- for another process
---assert(not lock:isValid())
---```
---@return string|nil transfer  printable, for `client:import`, once
---@return redlock.Error err  not_held; lost; unsupported
function Lock:export() end

-- ---- looking ---------------------------------------------------------------------

---Whether anybody holds it, as a majority of the servers sees it.
---```lua
---assert(lock:tryLock(5) and lock:isLocked())
---```
---@return boolean|nil locked  true: somebody does
---@return redlock.Error err  no_quorum; unsupported
function Lock:isLocked() end

---Whose it is, as a majority sees it. A server that lies cannot name somebody else.
---```lua
---assert(lock:tryLock(5))
---print(lock:holder().label)               -- web-1 4242 worker.lua
---assert(lock:unlock())
---assert(lock:holder() == false)
---```
---@return redlock.Holder|false|nil holder  false: nobody holds it
---@return redlock.Error err  no_quorum: also when no majority names one holder; unsupported
function Lock:holder() end

---How long it stays closed if nobody renews or releases it, as a majority sees it.
---```lua
---assert(lock:tryLock(5, 30))
---assert(lock:remainTimeToLive() > 20)
---```
---@return number|nil left  seconds; 0: nobody has it; math.huge: a key without an end
---@return redlock.Error err  no_quorum; unsupported
function Lock:remainTimeToLive() end

---The name as it was given.
---```lua
---assert(client:getLock("a"):getName() == "a")
---```
---@return string name  without the client's prefix
function Lock:getName() end

-- ---- in the background -----------------------------------------------------------

---`lock` as a future, on behalf of the owner who calls this.
---```lua
---local future = lock:lockAsync()
---assert(future:get())
---```
---@param lease? number  seconds, as for `lock`
---@return redlock.Future future  of what `lock` returns
function Lock:lockAsync(lease) end

---`tryLock` as a future, on behalf of the owner who calls this.
---```lua
---local a = client:getLock("a"):tryLockAsync(5)
---local b = client:getLock("b"):tryLockAsync(5)
---assert(a:get() and b:get())
---```
---@param wait? number  seconds, as for `tryLock`
---@param lease? number  seconds, as for `tryLock`
---@return redlock.Future future  of what `tryLock` returns
function Lock:tryLockAsync(wait, lease) end

---`unlock` as a future, on behalf of the owner who calls this.
---```lua
---assert(lock:tryLock(5))
---assert(lock:unlockAsync():get())
---```
---@param opts? redlock.UnlockOptions  as for `unlock`
---@return redlock.Future future  of what `unlock` returns
function Lock:unlockAsync(opts) end

---`extend` as a future, on behalf of the owner who calls this.
---```lua
---assert(lock:tryLock(5, 10))
---local ok, left = lock:extendAsync(30):get()
---assert(ok and left > 20)
---```
---@param lease? number  seconds, as for `extend`
---@return redlock.Future future  of what `extend` returns
function Lock:extendAsync(lease) end

-- ---- what holders are told ---------------------------------------------------------

---Calls fn when so many seconds of the validity are left, or fewer: before it is over, as nobody
---has renewed it. Once, and again when it was renewed meanwhile. Where an event loop runs (nginx,
---luv, cqueues) that is when it happens; in plain LuaJIT at the next call into the library.
---```lua
---assert(lock:tryLock(5))
---assert(lock:onEnding(10, function(l, left)
---    print(l:getName() .. " ends in " .. left .. " s, unless the servers are back by then")
---end))
---```
---@param seconds number  seconds; less than two thirds of a lease that the watchdog keeps
---@param fn fun(lock: redlock.Lock, left: number)  left: seconds
---@return true|nil ok  it will be told; nil: there is nothing to be told of
---@return redlock.Error err  not_held; lost; closed
function Lock:onEnding(seconds, fn) end

-- ---- fencing tokens --------------------------------------------------------------

---A lock whose every hold has a token: a whole number below 10^14 that only grows, for resources
---that refuse late writers.
---@class redlock.FencedLock: redlock.Lock
local FencedLock = {}

---As of every lock; the token is returned as well.
---```lua
---local ok, token = fenced:lock()
---assert(ok and token > 0)
---```
---@param lease? number  seconds, not renewed; default: the client's, kept by the watchdog
---@return true|nil ok  it is held
---@return redlock.TokenOrError token  of this hold; or no_quorum; expired; deadlock; overload
function FencedLock:lock(lease) end

---As of every lock; the token is returned as well.
---```lua
---local ok, token = fenced:tryLock(5)
---if not ok then error(tostring(token)) end
---```
---@param wait? number  seconds; default 0: one attempt
---@param lease? number  seconds, not renewed; default: the client's, kept by the watchdog
---@return true|nil ok  it is held
---@return redlock.TokenOrError token  of this hold; or held; no_quorum; expired; deadlock; overload
function FencedLock:tryLock(wait, lease) end

---The token of this hold. Local.
---```lua
---assert(fenced:tryLock(5))
---local token = assert(fenced:token())
---```
---@return integer|nil token  from 1 to below 10^14
---@return redlock.Error err  not_held; lost: a token is of no use any more
function FencedLock:token() end

---Asks the servers whether a larger token can have been given out. The lease stays as it is.
---```lua
---assert(fenced:tryLock(5))
---assert(fenced:stillMine())
---```
---@return true|nil mine  none had been when this was called
---@return redlock.Error err  lost; no_quorum; not_held
function FencedLock:stillMine() end

---The hold as one printable string, which can travel with a request to whoever has to know that
---the lock was held: see `client:checkSequencer`.
---```lua
---assert(fenced:tryLock(5))
---print(fenced:sequencer())        -- fence;invoice:42;exclusive;17;...
---```
---@return string|nil text  without spaces
---@return redlock.Error err  not_held; lost
function FencedLock:sequencer() end

-- For editors these are both at once, as they cannot tell which one goes with `true`.

---A token, after `true`; after `nil` the error in its place.
---@class redlock.TokenOrError: integer, redlock.Error

---Seconds, after `true`; after `nil` the error in their place.
---@class redlock.SecondsOrError: number, redlock.Error

-- ---- futures ---------------------------------------------------------------------

---A call under way, begun by `lockAsync` and others. Many can be in flight from one plain script:
---whoever waits in the library turns the loop for all of them.
---@class redlock.Future
local Future = {}

---What the call returned, as soon as it has. An error that the call raised is raised here.
---```lua
---local future = lock:tryLockAsync(5)
---local ok, err = future:get(10)
---assert(ok, err)
---```
---@param timeout? number  seconds to wait for it; default: as long as it takes
---@return any ...  the results of the call; or nil and an error: timeout, and the call goes on
function Future:get(timeout) end

---Whether `get` would return at once.
---```lua
---local future = lock:tryLockAsync(5)
---while not future:isDone() do end
---assert(future:get())
---```
---@return boolean done  lets other futures of a plain script go on, too
function Future:isDone() end

---Ends the call: what an attempt under way has got is released, and `get` returns nil and
---`cancelled`.
---```lua
---assert(client:getLock("a", { owner = "another" }):tryLock(5))
---local future = client:getLock("a"):lockAsync()
---assert(future:cancel())
---assert(select(2, future:get()).code == "cancelled")
---```
---@return boolean cancelled  false: it was done before
function Future:cancel() end
