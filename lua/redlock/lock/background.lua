--- A lock's calls as futures (see future.lua), for the owner that makes them. The call has begun
-- when these return; in a plain script its requests are sent as soon as somebody waits, or 1 ms
-- later. Bad arguments raise at once.

local acquire = require "redlock.lock.acquire"
local closing = require "redlock.lock.closing"
local future_of = require "redlock.lock.future"
local hooks = require "redlock.lock.hooks"
local lock = require "redlock.lock.lock"
local rounds = require "redlock.runtime.rounds"

local ipairs = ipairs
local huge = math.huge

local methods = lock.methods

-- Runs a method in a coroutine, on the same lock for the same owner.
local function start(self, method, ...)
    return future_of.start(self.client, method, hooks.copy(self, lock.owner_of(self)), ...)
end

-- ---- without a coroutine, as long as nothing goes wrong ---------------------------------

-- future.what: for taking, the call (acquire.lua); for letting_go, the hold.

local taking, letting_go = {}, {}

function taking.begin(future, owner, lease, wait, patience)
    local self = future.lock
    if not lock.open(self) or lock.hold_of(self, owner) then
        return nil
    end
    local call = acquire.new_plain_call(self, owner, lease, wait, patience)
    future.what = call
    return call and acquire.begin(call)
end

local function take_on(self, call)
    local ok, err = acquire.go_on(call)
    if not ok then
        return nil, err
    end
    return lock.granted(self, call.owner)
end

function taking.finish(future)
    local call, round = future.what, future.round
    future.round = nil       -- the call has it
    if acquire.decided(call, round) then
        future:finish_true()
    else
        future_of.go_on(future, take_on, future.lock, call)
    end
end

function taking.fail(future, err)
    if future.what then
        acquire.give_up(future.what, future.round)
    end
    future:finish(false, err)
end

local function release_on(self, hold, round, granted)
    return closing.done(self, hold,
        rounds.release_done(self.client, self, hold.lease, round, granted))
end

--- Only for the last unlock, when no call of this process waits for the lock.
function letting_go.begin(future, owner)
    local self = future.lock
    self.client.credentials:poll()
    local hold, now = lock.current_hold(self, owner)
    if not hold or hold.count > 1 or self.client.queues[self.id]
        or self.primitive.name ~= "lock" then
        return nil
    end
    future.what = hold
    local round = closing.begin(self, owner, hold, now, "future")
    if round == nil then
        future_of.go_on(future, release_on, self, hold, nil, false)
    end
    return round
end

function letting_go.finish(future)
    local hold, round = future.what, future.round
    future.round = nil
    if rounds.is_granted(round) then
        release_on(future.lock, hold, round, true)
        future:finish_true()
    else                     -- a loss may have callbacks
        future_of.go_on(future, release_on, future.lock, hold, round, false)
    end
end

function letting_go.fail(future, err)
    rounds.free(future.round)
    future:finish(false, err)
end

-- ---- what users call ---------------------------------------------------------------------

function methods:lockAsync(lease)
    lock.check_lease(self, lease)
    return future_of.start_directly(self, taking, lock.owner_of(self), lease, nil,
        self.client.options.patience) or start(self, self.lock, lease)
end

function methods:tryLockAsync(wait, lease)
    wait = lock.check_wait(wait)
    lock.check_lease(self, lease)
    return future_of.start_directly(self, taking, lock.owner_of(self), lease, wait, huge)
        or start(self, self.tryLock, wait, lease)
end

function methods:unlockAsync(opts)
    closing.options(opts)
    return opts == nil and future_of.start_directly(self, letting_go, lock.owner_of(self))
        or start(self, self.unlock, opts)
end

function methods:extendAsync(lease)
    lock.check_lease(self, lease)
    return start(self, self.extend, lease)
end

-- The futures of calls that ask the servers (asking.lua).
for _, name in ipairs { "isLocked", "remainTimeToLive" } do
    methods[name .. "Async"] = function(self) return start(self, self[name]) end
end
function methods:forceUnlockAsync(opts) return start(self, self.forceUnlock, opts) end
