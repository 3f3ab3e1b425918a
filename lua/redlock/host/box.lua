--- Where an event loop finds finished rounds, and the coroutines that wait for them.
--
-- The room host/ knows how to wait: plain blocks in C, an event loop suspends coroutines. It uses
-- runtime/; only its box reaches the holds of clients, to look for losses and owners that ended.

local ffi = require "ffi"
local errors = require "redlock.runtime.errors"
local finalizers = require "redlock.runtime.finalizers"
local ffi_core = require "redlock.runtime.ffi"
local rounds = require "redlock.runtime.rounds"

local error, next, pairs, pcall = error, next, pairs, pcall
local setmetatable, tonumber = setmetatable, tonumber
local running = coroutine.running

local key_of = rounds.key

local _M = {}

local BATCH = 64
local LATE = 1                -- seconds that a timer may be late

local Box = {}
Box.__index = Box

-- Runs when the Lua state is closed: its coroutines are gone.
local function close(self)
    for key, w in pairs(self.waiting) do
        self.waiting[key] = nil
        if w.abandon then
            w.abandon(w.round, w.a, w.b)
        end
    end
    self.C.rl_mailbox_close(self.mailbox)
end

local function open(self)
    local C = ffi_core.load()
    local mailbox = C.rl_mailbox_open()
    if mailbox == nil then
        return
    end
    self.C = C
    self.done = ffi.new("rl_done[?]", BATCH)
    self.mailbox = mailbox
    self.sentinel = ffi.gc(ffi.new "char[1]", finalizers.last(function()
        close(self)
    end))
end

function Box:fd()
    local fd = self.C.rl_mailbox_fd(self.mailbox)
    if fd < 0 then           -- in the child of a fork, which needs another one
        error("redlock: no file descriptor for the event loop", 0)
    end
    return fd
end

--- Opens what waits need; call it before the first one. False: no memory, or no descriptor.
function Box:is_ready()
    if not self.mailbox then
        open(self)
    end
    return self.mailbox and self.C.rl_mailbox_fd(self.mailbox) >= 0
end

-- ---- waiting ---------------------------------------------------------------------

function Box:forget(key, w)
    if self.waiting[key] == w then
        self.waiting[key] = nil
        self.count = self.count - 1
    end
end

-- Like forget(), for a round that may never ring: the loop checks whether anybody still waits.
local function give_up(self, key, w)
    self:forget(key, w)
    self:look_again()
end

local function check_cancelled(task)
    if task and task.cancelled then
        error(task.cancelled, 0)
    end
end

--- Suspends the caller until the round, of a client of this process, is done; returns the outcome.
-- If the caller is killed meanwhile, abandon(round, a, b) cleans up; it must not wait.
function Box:wait(round, abandon, a, b)
    local task = next(self.tasks) and self.tasks[running()] or nil
    check_cancelled(task)
    local outcome = self.C.rl_round_post(round, self.mailbox)
    if outcome ~= 0 then
        return outcome
    end
    local pool, key = self.pool, key_of(round)
    local w = pool[#pool] or {}
    pool[#pool] = nil
    w.outcome, w.err, w.came = nil, nil, nil
    w.abandon, w.round, w.a, w.b, w.task = abandon, round, a, b, task
    self.waiting[key] = w
    self.count = self.count + 1
    if task then
        task.waiter = w
    end
    self.waits = self.waits + 1
    local suspend = self.host.suspend
    local ok, why = pcall(self.host.listen, self, w)
    -- The first call is outside of the loop: LuaJIT aborts a trace that enters a loop, which cost
    -- an nginx worker 8 % of its time for a single request.
    if ok then
        ok, why = pcall(suspend, w)
    end
    while ok and not w.outcome do
        ok, why = pcall(suspend, w)
    end
    if task then
        task.waiter = nil        -- the pool gives it to another
    end
    if not ok then
        give_up(self, key, w)
        error(why, 0)
    end
    if w.gone then
        error(rounds.GIVEN_UP, 0)
    end
    local result, err = w.outcome, w.err
    w.came = true
    w.abandon, w.round, w.a, w.b, w.task = nil, nil, nil, nil, nil
    if not self.host.mortal then     -- else free_killed() returns it
        pool[#pool + 1] = w
    end
    if err then
        error(err, 0)
    end
    check_cancelled(task)
    return result
end

local function wake(self, w, outcome)
    w.outcome = outcome
    if self.host.mortal then
        self.woken[#self.woken + 1] = w
        self.wakes = self.wakes + 1
    end
    self.host.wake(w)
end

--- Cleans up after woken waiters that did not run: they were killed. For hosts whose coroutines can
-- be killed, once all woken ones had their turn.
function Box:free_killed()
    local woken = self.woken
    for i = 1, #woken do
        local w = woken[i]
        woken[i] = nil
        if w.came then
            self.pool[#self.pool + 1] = w
        else
            w.gone = true
            if w.abandon then
                w.abandon(w.round, w.a, w.b)
            end
            if w.task then           -- others may wait for it
                w.task:finish(false, errors.new("cancelled", "a future"))
            end
        end
    end
end

--- Wakes some waiters whose rounds are done. What several of them start is sent by the next call.
-- @return how many rounds were done
function Box:take()
    local done = self.done
    local n = self.C.rl_mailbox_take(self.mailbox, done, BATCH)
    -- Finds all before it wakes one, which may free another's round, whose address is then reused.
    local found = n > 1 and {}
    for i = 0, n - 1 do
        local key = key_of(done[i].round)
        local w = self.waiting[key]
        if w then
            self:forget(key, w)
            if n == 1 then
                wake(self, w, done[i].outcome)
            else
                found[#found + 1], found[#found + 2] = w, done[i].outcome
            end
        end
    end
    for i = 1, found and #found or 0, 2 do
        wake(self, found[i], found[i + 1])
    end
    return n
end

--- Notes that an owner is gone. The collector calls it too, so it must have no loop over pairs():
-- LuaJIT before August 2023 never leaves a compiled one entered in a finalizer (its issue 1045).
function Box:note_end(owner)
    self.gone[#self.gone + 1] = owner
end

--- Releases the holds of owners that are gone.
function Box:let_go()
    local gone = self.gone
    while #gone > 0 do
        local owner = gone[#gone]
        gone[#gone] = nil
        for client in pairs(self.clients) do
            client:free_owner(owner)
        end
    end
end

--- Releases what ended owners held, and has clients look for losses.
-- @return how many wait; at least 1 while onLost() was called for a hold
function Box:look()
    self:let_go()
    for client in pairs(self.clients) do
        client.holds:look()
    end
    return self.count > 0 and self.count or self:is_listened_to() and 1 or 0
end

--- Wakes all waiters whose rounds are done, sends together what they start, and returns look().
-- let_run() returns when several woken waiters have run; nil: wake() runs them at once.
function Box:drain(let_run)
    repeat
        local n = self:take()
        if n > 1 and let_run then
            let_run()
        end
    until n < 2
    return self:look()
end

--- Has the loop listen, to notice losses and dead owners as they happen.
function Box:attend()
    if self.mailbox then
        self.host.listen(self)
    end
end

-- Looks for ended owners of holds; again in a third of a lease while something is held.
local function patrol(self)
    self.reminder = nil
    for client in pairs(self.clients) do
        local seconds = client.holds:patrol(self.host.mortal)
        if seconds then
            self:patrol(seconds)
        end
    end
end

--- Makes sure that patrol() runs within `seconds`, as a hold's owner may end unnoticed.
function Box:patrol(seconds)
    local before, now = self.reminder, tonumber(ffi_core.load().rl_now_ms()) / 1000
    local due = now + seconds
    -- One that is long overdue will not come: its timer was closed.
    if before and before.due <= due and before.due + LATE > now then
        return
    end
    local reminder = { seconds = seconds, due = due }
    self.reminder = reminder
    self.host.remind(seconds, function()
        if self.reminder == reminder then    -- else an earlier one replaced it
            patrol(self)
        end
    end)
end

--- Has the loop check whether it still must listen.
function Box:look_again()
    if self.mailbox then
        self.C.rl_mailbox_ring(self.mailbox)
    end
end

--- The process is told to end: calls the onEnding functions, and wakes the calls that this ends
-- (w.ends, where host.is_ending()).
function Box:announce_end()
    for _, w in pairs(self.waiting) do
        if w.ends then
            rounds.wake(w.round)
        end
    end
    for client in pairs(self.clients) do
        client.holds:announce_end()
    end
end

--- Whether onLost() was called for something that is held.
function Box:is_listened_to()
    for client in pairs(self.clients) do
        if client.holds.listeners > 0 then
            return true
        end
    end
    return false
end

--- Whether something is held that may be lost, or whose owner may be gone.
function Box:holds_something()
    for client in pairs(self.clients) do
        if client.holds:any() then
            return true
        end
    end
    return false
end

--- Whether a call of this process waits for a name that was held for at least `seconds`.
function Box:is_waited_for(seconds)
    for client in pairs(self.clients) do
        for id in pairs(client.queues) do
            if client.holds:held_for(id) >= seconds then
                return true
            end
        end
    end
    return false
end

--- Ends the wait of a task with an error. (A task that runs or is about to run finds that it is
-- cancelled when its wait ends, or at its next one.)
function Box:cancel(task, err)
    local w = task.waiter
    local key = w and w.round and key_of(w.round)
    if key and self.waiting[key] == w then
        give_up(self, key, w)
        w.err = err
        wake(self, w, -1)
    end
end

function _M.new(host)
    return setmetatable({
        host = host,
        waiting = {},            -- round -> waiter
        count = 0,               -- of them
        waits = 0,               -- waits so far
        pool = {},               -- waiters to reuse
        woken = {},              -- waiters that may not have run yet ...
        wakes = 0,               -- ... and how many were woken so far
        gone = {},               -- ended owners whose holds may not be released yet
        tasks = setmetatable({}, { __mode = "k" }),      -- coroutine -> its future
        clients = setmetatable({}, { __mode = "k" }),    -- those that are open
    }, Box)
end

return _M
