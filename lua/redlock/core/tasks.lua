--- The futures of a plain script that wait: each for a round, and goes on when that is done. Most
-- need nothing else; the others have a coroutine, which is suspended meanwhile. Whoever waits for
-- one of them turns the loop for all.
--
-- An error that is raised where a future goes on is its result, be that an interrupt (Ctrl-C)
-- between any two instructions: what it has begun is given back.

local ffi = require "ffi"
local errors = require "redlock.core.errors"
local ffi_core = require "redlock.core.ffi"
local rounds = require "redlock.core.rounds"

local coroutine, error, ipairs, pairs = coroutine, error, ipairs, pairs
local pcall, setmetatable, tonumber = pcall, setmetatable, tonumber
local cast = ffi.cast

local _M = {}

local Tasks = {}
Tasks.__index = Tasks

-- Of coroutines that are tasks, among whose.
local running_tasks = setmetatable({}, { __mode = "kv" })

function _M.new(client)
    return setmetatable({
        client = client,
        waiting = {},            -- by its round: who waits
        count = 0,               -- how many
        depth = 0,               -- how many run, each started by the one before
        going = nil,             -- the one that goes on now
        missed = false,          -- whether a round may be done that nobody was told of
    }, Tasks)
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
    return tonumber(cast("intptr_t", round))
end

local YIELDED = "redlock: a callback (on_event, onLost, a password function) has yielded inside "
    .. "a future; it must not"

-- What tasks begin is written with the next turn of the loop, or 1 ms later, for all of them.
local function enter(self)
    self.depth = self.depth + 1
    if self.client.core then
        ffi_core.load().rl_lazy(self.client.core, 1)
    end
end

local function leave(self)
    self.depth = self.depth - 1
    if self.depth == 0 and self.client.core then
        ffi_core.load().rl_lazy(self.client.core, 0)
    end
end

local function resumed(self, ...)
    leave(self)
    return ...
end

local function resume(self, co, outcome)
    enter(self)
    return resumed(self, coroutine.resume(co, outcome))
end

local function note(self, future, round)
    future.round = round
    self.count = self.count + 1
    self.waiting[key_of(round)] = future
end

-- Waits for a round on behalf of a future.
local function wait_for(self, future, round)
    note(self, future, round)
    ffi_core.load().rl_round_notify(round)
end

-- Lets a future go on, whose round is done: until it waits for another one, or ends.
-- (outcome: an error instead, for a coroutine.)
local function step(self, future, outcome)
    local co = future.co
    if not co then
        return future.how.finish(future)
    end
    local ok, round, waits = resume(self, co,
        outcome or future.round and tonumber(ffi_core.load().rl_round_outcome(future.round)))
    if not ok then           -- the body catches all errors: this is one of ours
        future:settle(false, round)
    elseif coroutine.status(co) == "dead" then
        return
    elseif waits ~= rounds.SUSPENDED then
        future:settle(false, YIELDED)
    else
        wait_for(self, future, round)
        if future.cancelled then      -- by itself, while it ran
            self:take(round)
            step(self, future, future.cancelled)
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
    local future = self.waiting[key_of(round)]
    if future then
        local before = self.going
        self.going = future
        self:take(round)
        step(self, future)
        self.going = before
    end
end

local interrupted

-- The same for a coroutine that is begun, or whose wait ends with an error.
local function go_on(self, future, outcome)
    local before = self.going
    self.going = future
    local ok, err = pcall(step, self, future, outcome)
    self.going = before
    if not ok then
        interrupted(self, future, err)
    end
end

-- Ends the wait of a future with an error.
local function fail(self, future, err)
    if future.co then
        go_on(self, future, err)
    else
        future.how.fail(future, err)
    end
end

-- A list of those who wait.
local function all_waiting(self)
    local list = {}
    for _, future in pairs(self.waiting) do
        list[#list + 1] = future
    end
    return list
end

-- Ends a future that was interrupted, wherever that was. The coroutine knows what it has.
interrupted = function(self, future, err)
    local round = future.round
    if round ~= nil and self.waiting[key_of(round)] == future then
        self:take(round)
    end
    self.count = #all_waiting(self)
    if future.done then
        return
    elseif future.co and coroutine.status(future.co) ~= "suspended" then
        future:settle(false, err)
    else
        fail(self, future, future.co and { raise = err } or err)
    end
end

-- Lets those go on whose rounds are done.
local function look_at_all(self)
    for _, future in ipairs(all_waiting(self)) do
        local round = future.round
        if self.waiting[key_of(round)] == future and rounds.is_done(round) then
            self:resume(round)
        end
    end
end

-- The next round that is done; nil: none, or `limit` is done, or a signal came.
local function next_done(client, limit, block)
    local round = ffi_core.load().rl_next(client.core, limit, block)
    return round ~= nil and round or nil
end

-- Compiled code does not look for signals (Ctrl-C): this is called where one may have come.
local function look_for_signals()
end
if jit then
    jit.off(look_for_signals)
end

-- Lets tasks go on until a future is done, or the round `limit`; nil: as far as they can without
-- waiting.
local function turn(self, future, limit)
    local client = self.client
    if self.missed then
        self.missed = false
        look_at_all(self)
    end
    while not (future and future.done) do
        local round = next_done(client, limit, future and 1 or 0)
        if round then
            self:resume(round)
        elseif not future or limit and rounds.is_done(limit) or client.closed then
            return
        else
            look_for_signals()
        end
    end
end

--- Lets tasks go on until a future is done, or the round `limit`.
-- (future nil: as far as they can without waiting.)
function Tasks:run(future, limit)
    local before, ok, err = self.going
    if before == nil then
        self.depth = 0       -- also after an interrupt
    end
    enter(self)
    repeat
        ok, err = pcall(turn, self, future, limit)
        local going = self.going
        self.going = before
        if not ok and going ~= before then
            interrupted(self, going, err)
        end
    until ok or going == before
    leave(self)
    if not ok then
        self.missed = true
        error(err, 0)
    end
end

--- Lets tasks go on as far as they can without waiting.
function Tasks:poll()
    if self.count > 0 and self.client.core then
        self:run()
    end
end

--- Ends all tasks, which get a `closed` error.
function Tasks:close()
    local list = all_waiting(self)
    while #list > 0 do       -- one that is ended may wait for something else
        for _, future in ipairs(list) do
            if self.waiting[key_of(future.round)] == future then
                self:take(future.round)
                fail(self, future, errors.new("closed", "a future"))
            end
        end
        list = all_waiting(self)
    end
end

--- Runs the coroutine of a future until it waits, or ends.
function Tasks:begin(future)
    running_tasks[future.co] = self      -- not the future, which knows its coroutine
    future.round = nil
    go_on(self, future)
end

local function begin(self, future, a, b, c, d)
    local round = future.how.begin(future, a, b, c, d)
    if round == nil then     -- or a pointer to nothing
        return false
    end
    note(self, future, round)
    return true
end

--- Begins something for a future that needs no coroutine until its first round is done. Its `how`
-- has these functions, none of which waits:
--   begin(future, a, b, c, d)  starts a round for rl_next() and returns it; or nil, and either
--                     nothing has happened, or the future goes on in a coroutine
--   finish(future)    future.round is done: settles the future, or goes on in a coroutine
--   fail(future, err) settles it with an error, and gives back all that it has
-- @return whether the future needs nothing else
function Tasks:begin_directly(future, a, b, c, d)
    local ok, begun = pcall(begin, self, future, a, b, c, d)
    if not ok then
        interrupted(self, future, begun)
    end
    return not ok or begun or future.co ~= nil
end

--- Ends the wait of a future with its error `cancelled`.
function Tasks:cancel(future)
    local round = future.round
    if round ~= nil and self.waiting[key_of(round)] == future
        and (not future.co or coroutine.status(future.co) == "suspended") then
        self:take(round)
        fail(self, future, future.cancelled)
    end
end

return _M
