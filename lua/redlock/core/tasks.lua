--- The coroutines of futures in a plain script: each waits for a round, and goes on when it is
-- done. Whoever waits for one of them turns the loop for all.

local ffi = require "ffi"
local errors = require "redlock.core.errors"
local ffi_core = require "redlock.core.ffi"
local rounds = require "redlock.core.rounds"

local coroutine, ipairs, pairs = coroutine, ipairs, pairs
local setmetatable, tonumber = setmetatable, tonumber

local _M = {}

local Tasks = {}
Tasks.__index = Tasks

-- depth: how many of them run, each started by the one before.

-- Of coroutines that are tasks, among whose.
local running_tasks = setmetatable({}, { __mode = "kv" })

function _M.new(client)
    return setmetatable({ client = client, waiting = {}, count = 0, depth = 0 }, Tasks)
end

--- Whether the running coroutine is a task of this client, which must not block. One of another
-- client that uses this one in a callback has to: nobody would look for it here.
function _M.is_task(client)
    if client.tasks.depth == 0 then      -- coroutine.running() is nothing that LuaJIT compiles
        return false
    end
    local co = coroutine.running()
    return co ~= nil and running_tasks[co] == client.tasks
end

local function key_of(round)
    return tonumber(ffi.cast("intptr_t", round))
end

local YIELDED = "redlock: a callback (on_event, onLost, a password function) has yielded inside "
    .. "a future; it must not"

-- While it is on, what is begun is written with the next turn of the loop, or 1 ms later.
local function lazy(self, on)
    local core = self.client.core
    if core then
        ffi_core.load().rl_lazy(core, on)
    end
end

local function resumed(self, ...)
    self.depth = self.depth - 1
    if self.depth == 0 then
        lazy(self, 0)
    end
    return ...
end

-- What tasks begin is written together for all of them.
local function resume(self, co, outcome)
    self.depth = self.depth + 1
    lazy(self, 1)
    return resumed(self, coroutine.resume(co, outcome))
end

--- Runs a task until it waits for a round or ends.
function Tasks:step(future, outcome)
    local co = future.co
    local ok, round, waits = resume(self, co, outcome)
    if not ok then           -- the body catches all errors: this is one of ours
        future:settle(false, round)
    elseif coroutine.status(co) == "dead" then
        return
    elseif waits ~= rounds.SUSPENDED then
        future:settle(false, YIELDED)
    else
        future.round = round
        self.waiting[key_of(round)] = future
        self.count = self.count + 1
        ffi_core.load().rl_round_notify(round)
        if future.cancelled then      -- by itself, while it ran
            self:take(round)
            self:step(future, future.cancelled)
        end
    end
end

--- The future that waits for a round, which does not wait any more; nil: it was cancelled.
function Tasks:take(round)
    local key = key_of(round)
    local future = self.waiting[key]
    if future then
        self.waiting[key] = nil
        self.count = self.count - 1
    end
    return future
end

--- Lets the task that waits for a round go on.
function Tasks:resume(round)
    local future = self:take(round)
    if future then
        self:step(future, tonumber(ffi_core.load().rl_round_outcome(round)))
    end
end

-- The next round that is done; nil: none, or `limit` is done, or a signal came.
local function next_done(client, limit, block)
    local round = ffi_core.load().rl_next(client.core, limit, block and 1 or 0)
    return round ~= nil and round or nil
end

--- Lets tasks go on until done() is true, or the round `limit` is done.
-- @return whether done() is true
function Tasks:run(done, limit)
    while not done() do
        local round = next_done(self.client, limit, true)
        if round then
            self:resume(round)
        elseif limit and rounds.is_done(limit) or self.client.closed then
            return done()
        end
    end
    return true
end

-- Compiled code would not look for signals (Ctrl-C) between two rounds.
if jit then
    jit.off(Tasks.run)
end

--- Lets tasks go on as far as they can without waiting.
function Tasks:poll()
    local round = self.count > 0 and self.client.core
        and next_done(self.client, nil, false)
    while round do
        self:resume(round)
        round = next_done(self.client, nil, false)
    end
end

--- Ends all tasks, which get a `closed` error.
function Tasks:close()
    while self.count > 0 do      -- one that is ended may wait for something else
        local list = {}
        for _, future in pairs(self.waiting) do
            list[#list + 1] = future
        end
        for _, future in ipairs(list) do
            if self.waiting[key_of(future.round)] == future then
                self:take(future.round)
                self:step(future, errors.new("closed", "a future"))
            end
        end
    end
end

--- Runs the coroutine of a future until it waits, or ends.
function Tasks:begin(future)
    running_tasks[future.co] = self      -- not the future, which knows its coroutine
    self:step(future)
end

--- Lets the coroutine of a future that waits go on with an error.
function Tasks:cancel(future)
    if coroutine.status(future.co) == "suspended"
        and self.waiting[key_of(future.round)] == future then
        self:take(future.round)
        self:step(future, future.cancelled)
    end
end

return _M
