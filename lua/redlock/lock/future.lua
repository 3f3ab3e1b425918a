--- Futures: many calls in flight from one plain script. Each call runs in a coroutine, suspended
-- while it waits for a round. A caller of get() runs the loop for all of them.
--
-- In an event loop each call is a coroutine of the loop, and a caller that waits for a future
-- sleeps until the future wakes it.

local errors = require "redlock.runtime.errors"
local validate = require "redlock.runtime.validate"
local rounds = require "redlock.runtime.rounds"

local pcall, error, select, unpack = pcall, error, select, unpack
local ipairs, pairs, type = ipairs, pairs, type
local getmetatable, rawget, setmetatable = getmetatable, rawget, setmetatable
local huge, max, min = math.huge, math.max, math.min

local _M = {}

-- ---- futures ---------------------------------------------------------------------

local Future, methods = {}, {}
Future.__index, Future.is_future = Future, true

-- Results: ok, whether the call returned (did not raise); n, how many values; and the values.
local TRUE = { ok = true, n = 1, true }

--- Sets the results. The first ones stand.
function methods:finish(ok, ...)
    if self.done then
        return
    end
    self.results = { ok = ok, n = select("#", ...), ... }
    self.done = true
    for round in pairs(self.sleepers or {}) do
        rounds.wake(round)
    end
end

--- Like finish(true, true), for a future that nobody sleeps for.
function methods:finish_true()
    self.results = TRUE
    self.done = true         -- last, as an interrupt may come in between
end

-- A caller that sleeps until a future is done. abandon() runs before its round is freed, if its
-- coroutine is killed or cancelled.
local Sleeper = {}
Sleeper.__index = Sleeper

function Sleeper:abandon()
    self.future.sleepers[self.round] = nil
end

-- Sleeps, in an event loop, until the future is done, for the host's `nap` at most: that is how a
-- killed sleeper is found. Once the client is closed nothing wakes a sleeper, so the result is
-- `closed`.
local function sleep(future, seconds)
    local client = future.client
    local round = client.core and rounds.begin_sleep(client, min(seconds, client.host.nap))
    if not round then
        future:finish(true, nil, errors.new("closed", "a future"))
        return
    end
    future.sleepers[round] = true
    local sleeper = setmetatable({ future = future, round = round }, Sleeper)
    local ok, err = pcall(rounds.finish_sleep, client, round, sleeper)
    sleeper:abandon()
    if not ok then
        error(err, 0)
    end
end

-- Waits until it is done, for `seconds` at most. It belongs to the class, as futures of a world
-- (redlock.testing) have another one.
-- @return true; or nil and an error: the caller cannot wait
local function await(future, seconds)
    local client = future.client
    if not client.host.can_wait() then
        return nil, errors.new("phase", "a future")
    end
    if future.sleepers then
        local finish = client.now() + (seconds or huge)
        repeat
            if not client.closed and rounds.is_ending(client) then
                return nil, errors.new("closed", "a future")
            end
            sleep(future, max(finish - client.now(), 0))
        until future.done or client.now() >= finish
        return true
    end
    local limit = seconds and rounds.begin_sleep(client, seconds)
    client.tasks:run(future, limit)
    if limit then
        rounds.free(limit)
    end
    if client.closed then    -- the Lua state ended: nothing will finish it
        future:finish(true, nil, errors.new("closed", "a future"))
    end
    return true
end

Future.__await = await             -- no method, which would check its object again

local function is_future(value)
    local class = getmetatable(value)
    return type(class) == "table" and rawget(class, "is_future") == true
end

local function start(future, fn, ...)
    local args, n = { ... }, select("#", ...)
    local function body()
        future:finish(pcall(fn, unpack(args, 1, n)))
    end
    if future.client.closed then         -- fn fails without a wait
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

--- Starts a call of `lock` without a coroutine, if the host can and the call allows it. For `how`
-- see Tasks:begin_directly: its functions find the lock in the future's `lock`, and have its `what`
-- to themselves. a to d go to how.begin().
-- @return its future; or nil: it needs a coroutine
function _M.start_directly(lock, how, a, b, c, d)
    local directly = lock.client.host.begin_directly
    if not directly then
        return nil
    end
    -- All fields at once: a table that grows is slow. A nil would keep no room.
    local future = setmetatable({ client = lock.client, lock = lock, how = how, round = nil,
        what = nil, results = false, done = false }, Future)
    return directly(future, a, b, c, d) and future or nil
end

--- Continues a future that was started directly: with fn(...), as a task.
function _M.go_on(future, fn, ...)
    start(future, fn, ...)
end

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

function methods:isDone()
    if not self.done and not self.sleepers then
        self.client.tasks:poll()
    end
    return self.done == true
end

--- Cancels the call; in a callback of the call itself, when it waits next.
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
    for i = 1, validate.list("list", not is_future(list) and list, "a list of futures") do
        if not is_future(list[i]) then
            validate.bad(("list[%d]"):format(i), "a future is needed, not " .. type(list[i]))
        end
    end
end

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
                    return nil, errors.new("timeout", "a future")
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
