--- Futures: many calls in flight from one plain script.
--
-- Each call runs in a coroutine of its own; when it waits for a round, the coroutine is
-- suspended until that round is done. Whoever calls get() turns the loop for all.

local errors = require "redlock.runtime.errors"
local validate = require "redlock.runtime.validate"
local rounds = require "redlock.runtime.rounds"

local pcall, error, select, unpack = pcall, error, select, unpack
local tostring, ipairs, pairs, type = tostring, ipairs, pairs, type
local getmetatable, rawget, setmetatable = getmetatable, rawget, setmetatable
local huge, max, min = math.huge, math.max, math.min

local _M = {}

-- ---- futures ---------------------------------------------------------------------

-- Where an event loop runs the coroutines, each call is one of its own, and whoever waits
-- for a future sleeps until it wakes him.

local Future, methods = {}, {}
Future.__index, Future.is_future = Future, true

-- What a call returned: ok, whether it returned at all; n, how many values; and those.
local TRUE = { ok = true, n = 1, true }

--- The first result stands.
function methods:settle(ok, ...)
    if self.done then
        return
    end
    self.results = { ok = ok, n = select("#", ...), ... }
    self.done = true
    for round in pairs(self.sleepers or {}) do
        rounds.wake(round)
    end
end

--- The same with `true`, for a future that nobody sleeps for.
function methods:settle_true()
    self.results = TRUE
    self.done = true         -- an interrupt may come in between
end

-- Who sleeps until a future is done; the round of one who was killed or cancelled is given back
-- before that.
local Sleeper = {}
Sleeper.__index = Sleeper

function Sleeper:vanish()
    self.future.sleepers[self.round] = nil
end

-- In an event loop: sleeps until it is done; for `nap` of the host at most, as who was killed is
-- found by that. Nothing wakes who waits where its client is closed: then that is the result.
local function sleep(future, seconds)
    local client = future.client
    local round = client.core and rounds.begin_sleep(client, min(seconds, client.host.nap))
    if not round then
        future:settle(true, nil, errors.new("closed", "a future"))
        return
    end
    future.sleepers[round] = true
    local sleeper = setmetatable({ future = future, round = round }, Sleeper)
    local ok, err = pcall(rounds.finish_sleep, client, round, sleeper)
    sleeper:vanish()
    if not ok then
        error(err, 0)
    end
end

-- Waits until it is done, at most `seconds`: of the class, as futures of a world (redlock.testing)
-- have another one.
-- @return true; or nil and an error: the caller cannot wait
local function await(future, seconds)
    local client = future.client
    if not client.host.can_wait() then
        return nil, errors.new("phase", "a future")
    end
    if future.sleepers then
        local finish = client.now() + (seconds or huge)
        repeat
            sleep(future, max(finish - client.now(), 0))
        until future.done or client.now() >= finish
        return true
    end
    local limit = seconds and rounds.begin_sleep(client, seconds)
    client.tasks:run(future, limit)
    if limit then
        rounds.free(limit)
    end
    if client.closed then    -- by the end of the Lua state: nobody will come
        future:settle(true, nil, errors.new("closed", "a future"))
    end
    return true
end

Future.__await = await             -- no method: wait_all() checks what it is given

local function is_future(value)
    local class = getmetatable(value)
    return type(class) == "table" and rawget(class, "is_future") == true
end

local function start(future, fn, ...)
    local args, n = { ... }, select("#", ...)
    local function body()
        future:settle(pcall(fn, unpack(args, 1, n)))
    end
    if future.client.closed then         -- there is nothing to wait for
        body()
    else
        future.client.host.start(future, body)
    end
    return future
end

--- Starts fn(...) as a task.
-- @return its future
function _M.start(client, fn, ...)
    return start(setmetatable({ client = client }, Future), fn, ...)
end

--- Starts what needs no coroutine, as long as nothing goes wrong.
-- @param lock  the lock object that is used
-- @param how   see Tasks:begin_directly; it has the future's `lock`, and its `what` to itself
-- @param a     for how.begin(),
-- @param b     the same,
-- @param c     the same,
-- @param d     the same
-- @return its future; or nil: it needs one
function _M.start_directly(lock, how, a, b, c, d)
    local directly = lock.client.host.begin_directly
    if not directly then
        return nil
    end
    -- All fields at once: a table that grows is slow.
    local future = setmetatable({ client = lock.client, lock = lock, how = how, round = nil,
        what = nil, results = nil, done = nil }, Future)
    return directly(future, a, b, c, d) and future or nil
end

--- Goes on with fn(...) as a task of a future that was started directly.
function _M.go_on(future, fn, ...)
    start(future, fn, ...)
end

--- The results of the call, as it would have returned them.
-- @param timeout  seconds to wait for them; default: as long as it takes
-- @return the call's results; or nil and an error, and the call goes on: timeout, phase (the
--   caller cannot wait)
function methods:get(timeout)
    if timeout ~= nil then
        validate.seconds("timeout", timeout, 0)
    end
    if not self.done then
        local ok, err = await(self, timeout)
        if not ok then
            return nil, err
        end
    end
    if not self.done then
        return nil, errors.new("timeout", "a future")
    end
    local results = self.results
    if not results.ok then
        if errors.is_error(results[1]) then
            return nil, results[1]           -- cancelled
        end
        error(results[1], 0)
    elseif results.n == 1 then               -- LuaJIT does not compile unpack()
        return results[1]
    end
    return unpack(results, 1, results.n)
end

--- @return whether get() would return at once
function methods:isDone()
    if not self.done and not self.sleepers then
        self.client.tasks:poll()
    end
    return self.done == true
end

--- Ends the call: an attempt under way is released, get() returns nil and `cancelled`. In a
-- callback of the call itself: when it waits next.
-- @return false when it was done before
function methods:cancel()
    if self:isDone() then
        return false
    end
    self.cancelled = errors.new("cancelled", "a future")
    self.client.host.cancel(self)
    return true
end

function Future:__tostring()
    return self.done and "future(done)" or "future(pending)"
end

validate.methods(Future, "future", methods)

local function check_list(list)
    if type(list) ~= "table" or is_future(list) then
        validate.bad("list", "a list of futures is needed")
    end
    local n = 0
    for key in pairs(list) do
        if type(key) ~= "number" or key % 1 ~= 0 or key < 1 then
            validate.bad("list", ("a list of futures is needed; it has a key '%s'"):format(
                tostring(key)))
        end
        n = n + 1
    end
    for i = 1, n do              -- with a gap, something is behind n, and nil before
        if not is_future(list[i]) then
            validate.bad(("list[%d]"):format(i), "a future is needed, not " .. type(list[i]))
        end
    end
end

--- Waits for all futures of a list.
-- @param list     futures, of any clients
-- @param timeout  seconds; default: as long as it takes
-- @return true when all are done, false otherwise; or nil and an error: phase (the caller
--   cannot wait)
function _M.wait_all(list, timeout)
    check_list(list)
    if timeout ~= nil then
        validate.seconds("timeout", timeout, 0)
    end
    local finish = timeout and list[1] and list[1].client.now() + timeout
    for _, future in ipairs(list) do
        while not future.done do
            local left = finish and finish - future.client.now()
            if left and left <= 0 then
                if not future:isDone() then
                    return false
                end
                break
            end
            local ok, err = future:__await(left)
            if not ok then
                return nil, err
            end
        end
    end
    return true
end

return _M
