--- Futures of a plain script that wait, each for one round, and continue when it is done. Most
-- need no coroutine; the others have one, suspended meanwhile. Waiting for one future runs the
-- loop for all.
--
-- An error that is raised while a future runs becomes its result, even an interrupt (Ctrl-C)
-- between any two instructions. What the future began is then given back.

local errors = require "redlock.runtime.errors"
local ffi_core = require "redlock.runtime.ffi"
local rounds = require "redlock.runtime.rounds"

local coroutine, error, ipairs, pairs = coroutine, error, ipairs, pairs
local pcall, setmetatable, tonumber = pcall, setmetatable, tonumber

local key_of = rounds.key

local _M = {}

local Tasks = {}
Tasks.__index = Tasks

-- A task's coroutine -> the Tasks that it belongs to.
local running_tasks = setmetatable({}, { __mode = "kv" })

function _M.new(client)
    return setmetatable({
        client = client,
        -- Key of a round -> the future that waits for it, or false. Keys stay, as the core uses its
        -- rounds again: tables that lose as many keys as they get are built anew all the time.
        waiting = {},
        count = 0,               -- of futures in `waiting`
        depth = 0,               -- how many run, each started by the one before
        going = nil,             -- the future that runs now
        missed = false,          -- whether a round may be done whose future was not resumed
    }, Tasks)
end

--- Whether the running coroutine is a task of this client, which must not block. A task of another
-- client that uses this one in a callback must block, as no loop here would resume it.
function _M.is_task(client)
    if client.tasks.depth == 0 then      -- LuaJIT does not compile coroutine.running()
        return false
    end
    local co = coroutine.running()
    return co ~= nil and running_tasks[co] == client.tasks
end

local YIELDED = "redlock: a callback (on_event, onLost, a password function) has yielded inside "
    .. "a future; it must not"

-- Requests that tasks begin are written together: at the loop's next turn, or after 1 ms.
local function hold_requests(self)
    self.depth = self.depth + 1
    if self.client.core then
        ffi_core.load().rl_hold(self.client.core, 1)
    end
end

local function send_requests(self)
    self.depth = self.depth - 1
    if self.depth == 0 and self.client.core then
        ffi_core.load().rl_hold(self.client.core, 0)
    end
end

local function resumed(self, ...)
    send_requests(self)
    return ...
end

local function resume(self, co, outcome)
    hold_requests(self)
    return resumed(self, coroutine.resume(co, outcome))
end

local function note(self, future, round)
    future.round = round
    self.count = self.count + 1
    self.waiting[key_of(round)] = future
end

-- Continues a future whose round is done, until it waits for another one, or ends.
-- (outcome: an error to raise in its coroutine instead.)
local function step(self, future, outcome)
    local co = future.co
    if not co then
        return future.how.finish(future)
    end
    local ok, round, waits = resume(self, co,
        outcome or future.round and tonumber(ffi_core.load().rl_round_outcome(future.round)))
    if not ok then           -- the body catches all errors: this one is a bug of ours
        future:finish(false, round)
    elseif coroutine.status(co) == "dead" then
        return
    elseif waits ~= rounds.SUSPENDED then
        future:finish(false, YIELDED)
    else
        note(self, future, round)
        ffi_core.load().rl_round_notify(round)
        if future.cancelled then      -- it cancelled itself while it ran
            self:forget(round)
            step(self, future, future.cancelled)
        end
    end
end

--- Removes the future that waits for a round.
function Tasks:forget(round)
    local key = key_of(round)
    local future = self.waiting[key]
    if future then
        self.waiting[key] = false
        self.count = self.count - 1
    end
end

--- Continues the future that waits for a round, which is done.
function Tasks:resume(round)
    local future = self.waiting[key_of(round)]
    if future then
        local before = self.going
        self.going = future
        self:forget(round)
        step(self, future)
        self.going = before
    end
end

local interrupted

-- Runs a coroutine that starts, or whose wait ends with an error.
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

local function all_waiting(self)
    local list = {}
    for _, future in pairs(self.waiting) do
        if future then
            list[#list + 1] = future
        end
    end
    return list
end

-- Ends a future that was interrupted at any point. A coroutine gives back what it has itself.
interrupted = function(self, future, err)
    local round = future.round
    if round ~= nil and self.waiting[key_of(round)] == future then
        self:forget(round)
    end
    self.count = #all_waiting(self)
    if future.done then
        return
    elseif future.co and coroutine.status(future.co) ~= "suspended" then
        future:finish(false, err)
    else
        fail(self, future, future.co and { raise = err } or err)
    end
end

-- Continues all futures whose rounds are done.
local function look_at_all(self)
    for _, future in ipairs(all_waiting(self)) do
        local round = future.round
        if self.waiting[key_of(round)] == future and rounds.is_done(round) then
            self:resume(round)
        end
    end
end

-- Compiled code does not check for signals (Ctrl-C); calling this uncompiled function does.
local function look_for_signals()
end
if jit then
    jit.off(look_for_signals)
end

-- Does what Tasks:run() says; an error may leave self.going set.
local function turn(self, future, limit)
    local client = self.client
    if self.missed then
        self.missed = false
        look_at_all(self)
    end
    while not (future and future.done) do
        local round = ffi_core.load().rl_next(client.core, limit, future and 1 or 0)
        if round ~= nil then     -- else none is done, or `limit` is, or a signal came
            self:resume(round)
        elseif not future or limit and rounds.is_done(limit) or client.closed then
            return
        else
            look_for_signals()
        end
    end
end

--- Runs tasks until a future or the round `limit` is done; without a future, as far as they can
-- get without waiting.
function Tasks:run(future, limit)
    local before, ok, err = self.going
    if before == nil then
        self.depth = 0       -- an interrupt may have left it higher
    end
    hold_requests(self)
    repeat
        ok, err = pcall(turn, self, future, limit)
        local going = self.going
        self.going = before
        if not ok and going ~= before then
            interrupted(self, going, err)
        end
    until ok or going == before
    send_requests(self)
    if not ok then
        self.missed = true
        error(err, 0)
    end
end

function Tasks:poll()
    if self.count > 0 and self.client.core then
        self:run()
    end
end

--- Ends all tasks, which get a `closed` error.
function Tasks:close()
    local list = all_waiting(self)
    while #list > 0 do       -- an ended task may wait for something else
        for _, future in ipairs(list) do
            if self.waiting[key_of(future.round)] == future then
                self:forget(future.round)
                fail(self, future, errors.new("closed", "a future"))
            end
        end
        list = all_waiting(self)
    end
end

--- Runs the coroutine of a future until it waits, or ends.
function Tasks:start(future)
    running_tasks[future.co] = self      -- not the future: it refers to its coroutine
    future.round = nil
    go_on(self, future)
end

local function begin(self, future, a, b, c, d)
    local round = future.how.begin(future, a, b, c, d)
    if round == nil then     -- also true of a NULL pointer
        return false
    end
    note(self, future, round)
    return true
end

--- Begins a future that needs no coroutine until its first round is done. Its `how` has these
-- functions, none of which waits:
--   begin(future, a, b, c, d)  starts a round for rl_next() and returns it; or nil, and either
--                     nothing has happened, or the future continues in a coroutine
--   finish(future)    future.round is done: resolves the future, or continues in a coroutine
--   fail(future, err) resolves it with an error, and gives back all that it has
-- @return whether the future has begun
function Tasks:begin_directly(future, a, b, c, d)
    local ok, begun = pcall(begin, self, future, a, b, c, d)
    if not ok then
        interrupted(self, future, begun)
    end
    return not ok or begun or future.co ~= nil
end

--- Ends the wait of a future with its error future.cancelled.
function Tasks:cancel(future)
    local round = future.round
    if round ~= nil and self.waiting[key_of(round)] == future
        and (not future.co or coroutine.status(future.co) == "suspended") then
        self:forget(round)
        fail(self, future, future.cancelled)
    end
end

return _M
