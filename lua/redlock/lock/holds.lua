--- What the owners of one process hold through one client. A hold has:
--   lease, primitive, name, id (kind:name), count, seconds (of the lease, as taken)
--   kept         whether the watchdog renews it
--   label        unless it is the client's
--   traceparent  or nil
--   since        when its owner got it
--   passed, run  how often it was passed on before, and since when (nil: never)
--   seen         when its owner was last known to have it: at a check, or at its release
--   ends         once it is released: when it would have ended
--   followed     whether an attempt of this process follows its release
--   taker        the host's note
--   on_lost, on_ending  callbacks (callbacks.lua), or nil
--   lost, lost_at, holder  why and when it was lost, and who has the lock now, if known
--
-- Lock objects are views of holds: collecting one changes nothing. When an owner has ended (its
-- coroutine) or was collected, its holds are released as soon as that is found.
--
-- A poll takes no longer the more is held: the core names the leases that were lost, and holds
-- that need a look from time to time are in a list by age. Nor does a call: LuaJIT builds a table
-- that is full anew for each new key, even if as many keys are removed. So removed keys stay, as
-- false, until they are more than what is held (tidy).

local ffi = require "ffi"
local answers = require "redlock.runtime.answers"
local callbacks = require "redlock.lock.callbacks"
local changes = require "redlock.runtime.changes"
local rounds = require "redlock.runtime.rounds"
local outcomes = require "redlock.lock.outcomes"
local ffi_values = require "redlock.runtime.ffi_values"

local pairs, ipairs, setmetatable, next, type = pairs, ipairs, setmetatable, next, type
local huge, max, min = math.huge, math.max, math.min

local _M = {}

-- How many lost leases are remembered that were never renewed: an application may let thousands
-- expire instead of releasing them.
local REMEMBERED = 10000

local UNTIDY = 64             -- how many removed keys may stay, however little is held

local IMMORTAL = { string = true, number = true, boolean = true }   -- owners never collected

local Holds = {}
Holds.__index = Holds

local function weak(mode)
    return setmetatable({}, { __mode = mode })
end

-- A list of holds by their `seen`: number -> hold. Weak: holds live as long as their owners.
local function new_line()
    local line = weak "v"
    line.first, line.last = 1, 0
    return line
end

local function stand_in(line, hold, now)
    hold.seen, hold.line = now, line
    hold.number = line.last + 1
    line.last = hold.number
    line[hold.number] = hold
end

-- Removes a hold from its list.
-- @return whether it was in one
local function unlink(hold)
    local line, number = hold.line, hold.number
    if not line then
        return false
    end
    hold.line, line[number] = nil, false
    if number == line.last and number >= line.first then
        line.last = number - 1
    end
    return true
end

-- Removes the first hold from a list.
-- @return the hold, or nil: it was collected
local function take_first(line)
    local hold = line[line.first]
    line.first = line.first + 1
    if hold then
        unlink(hold)
    end
    return hold
end

function _M.new(client)
    return setmetatable({
        client = client,
        -- Weak: a hold must not keep its owner alive. It does not refer to it either.
        owners = weak "k",       -- owner -> id -> hold
        whose = weak "kv",       -- what `owners` has -> owner
        here = weak "v",         -- id -> the last hold of it
        live = weak "v",         -- the core's name -> hold, unless known to be lost
        size = 0,                -- how many `live` has, at most
        removed = 0,             -- since the last tidy()
        sets = weak "v",         -- id -> the live hold of several names
        line = new_line(),
        run_out = new_line(),    -- lost ones that were never kept; the others stay in line
        fixed = 0,               -- how many live ones the watchdog does not keep
        listeners = 0,           -- and how many have onLost functions
        changes = 0,             -- of rounds.look() when they were processed last
        losses = 0,              -- rl_counters.losses then
        next_deadline = huge,    -- when to have the core look for losses
        next_sweep = 0,
        ending = weak "k",       -- holds with onEnding functions: callbacks.lua
        next_ending = huge,      -- when the first of them is due
    }, Holds)
end

--- The hold of an owner, even after its end; or nil.
function Holds:get(owner, id)
    local mine = self.owners[owner]
    return mine and mine[id] or nil
end

--- Registers a hold of an owner under an id (kind:name). ends: when its validity ends, as known.
function Holds:set(owner, id, hold, now, ends)
    local mine = self.owners[owner]
    if not mine then
        mine = {}
        self.owners[owner], self.whose[mine] = mine, owner
    end
    -- First, as an interrupt (Ctrl-C) may come between any two steps.
    hold.id, hold.mine, hold.key = id, mine, rounds.key(hold.lease)
    stand_in(self.line, hold, now)
    mine[id] = hold
    self.here[id] = hold
    self.live[hold.key], self.size = hold, self.size + 1
    if hold.primitive.names then
        self.sets[id] = hold
    end
    local host = self.client.host
    host.took(hold, owner, self.client.options.lease / 3)
    if not hold.kept then
        self.fixed = self.fixed + 1
        self.next_deadline = min(self.next_deadline, host.poll_at(ends))
    end
end

local function is_not_listened_to(self)
    self.listeners = self.listeners - 1
    if self.listeners == 0 then
        self.client.host.look_again()        -- perhaps nothing else lets the loop end
    end
end

--- Has the watchdog keep a hold from now on, for max_hold seconds (false: no bound), by leases of
-- `lease` seconds.
function Holds:keep(hold, lease, max_hold)
    rounds.keep(hold.lease, lease, max_hold)
    self.fixed = self.fixed - (self.live[hold.key] == hold and not hold.kept and 1 or 0)
    hold.kept = true
end

-- The hold was released, or is known to be lost.
local function end_hold(self, hold)
    if self.sets[hold.id] == hold then
        self.sets[hold.id] = nil
    end
    if self.live[hold.key] == hold then
        self.live[hold.key], self.size = false, self.size - 1
        self.fixed = self.fixed - (hold.kept and 0 or 1)
    end
    if hold.sentinel then
        ffi.gc(hold.sentinel, nil)
        hold.sentinel = nil
        is_not_listened_to(self)
    end
end

-- Removes the keys that are false. No pairs(): finalizers call it.
-- @return how many others there are
local function clear(t)
    local n, key, value = 0, next(t)
    while key ~= nil do
        if value == false then
            t[key] = nil
        else
            n = n + 1
        end
        key, value = next(t, key)
    end
    return n
end

-- After a hold has left one of the tables.
local function tidy(self)
    self.removed = self.removed + 1
    if self.removed <= max(self.size, UNTIDY) then
        return
    end
    self.removed, self.size = 0, clear(self.live)
    clear(self.here)
    clear(self.line)
    clear(self.run_out)
    local owner, mine = next(self.owners)
    while owner ~= nil do
        -- Other owners keep an empty table until they are collected: it may be used again soon.
        if clear(mine) == 0 and IMMORTAL[type(owner)] then
            self.owners[owner] = nil
        end
        owner, mine = next(self.owners, owner)
    end
end

local function take_out(self, hold)
    local id, mine = hold.id, hold.mine
    if self.here[id] == hold then
        self.here[id] = false
    end
    end_hold(self, hold)
    unlink(hold)
    local left = self.client.host.left
    if left then
        left(hold)
    end
    if mine[id] == hold then
        mine[id] = false
    end
    tidy(self)
end

function Holds:remove(owner, id)
    take_out(self, self.owners[owner][id])
end

--- A list of what an owner has, including lost holds.
function Holds:all_of(owner)
    local list = {}
    for _, hold in pairs(self.owners[owner] or list) do
        list[#list + 1] = hold or nil
    end
    return list
end

--- A list of what an owner holds now.
function Holds:held_by(owner)
    local list = {}
    for _, hold in ipairs(self:all_of(owner)) do
        if rounds.remaining(hold.lease) > 0 then
            list[#list + 1] = hold
        end
    end
    return list
end

--- For how many seconds another owner of this process (owner nil: any) holds a name; math.huge:
-- the watchdog keeps it; nil: none does. Releases the holds of an owner that no longer exists.
function Holds:held_by_others(owner, id)
    local hold = self.here[id]
    local other = hold and self.whose[hold.mine] or nil
    local left = other ~= nil and other ~= owner and rounds.remaining(hold.lease) or 0
    if left > 0 and not self.client.host.alive(other) then
        self.client:free_owner(other)
    elseif left > 0 then
        return hold.kept and huge or left
    end
end

--- For how many seconds at least an owner of this process holds a name; 0: none does.
function Holds:left_here(id)
    local hold = self.here[id]
    return hold and rounds.remaining(hold.lease) or 0
end

--- Since how many seconds an owner of this process has held a name; 0: none does.
function Holds:held_for(id)
    local hold = self.here[id]
    local held = hold and rounds.remaining(hold.lease) > 0
    return held and self.client.now() - (hold.run or hold.since) or 0
end

--- Whether there are holds, perhaps without an owner: an owner may be collected long before them.
function Holds:any()
    local key, hold = next(self.live)
    while hold == false do
        key, hold = next(self.live, key)
    end
    return key ~= nil
end

--- Gives back what is held, in a finalizer (so without pairs(): see Box:note_end).
function Holds:orphan_all()
    local key, hold = next(self.live)
    while key do
        if hold then
            rounds.give(hold.lease, "orphan")
        end
        key, hold = next(self.live, key)
    end
end

--- A list of all holds, including lost ones.
function Holds:all()
    local list = {}
    for _, line in ipairs { self.line, self.run_out } do
        for number = line.first, line.last do
            list[#list + 1] = line[number] or nil
        end
    end
    return list
end

--- Calls fn(hold) for holds that are not known to be lost, of `most` places from `number` on (nil:
-- the first). Holds may come and go between two calls.
-- @return the number for the next call; nil: that was all
function Holds:scan(number, most, fn)
    local line = self.line
    number = max(number or line.first, line.first)
    local last = min(number + most - 1, line.last)
    for i = number, last do
        local hold = line[i]
        if hold and self.live[hold.key] == hold then
            fn(hold)
        end
    end
    return last < line.last and last + 1 or nil
end

function Holds:count()
    local n = 0
    for _, hold in ipairs(self:all()) do
        n = n + (not hold.lost and rounds.remaining(hold.lease) > 0 and 1 or 0)
    end
    return n
end

local function report(self, hold, one)
    callbacks.call(self, hold, one, function() return hold.lost, hold.holder end)
end

--- Registers fn(lock, reason, holder) for the loss of a hold; calls it at once if that is lost.
-- @return true
function Holds:on_lost(hold, fn, lock)
    local one = callbacks.new("onLost", fn, lock)
    if hold.lost then
        report(self, hold, one)
        return true
    end
    hold.on_lost = hold.on_lost or {}
    hold.on_lost[#hold.on_lost + 1] = one
    if not hold.sentinel then        -- keeps an event loop from ending
        self.listeners = self.listeners + 1
        -- A collected hold calls nobody any more.
        hold.sentinel = ffi.gc(ffi.new "char[1]", function()
            is_not_listened_to(self)
        end)
    end
    self.client.host.attend()
    return true
end

-- Frees a lost hold that nobody asks for any more.
local function forget(self, hold)
    rounds.give(hold.lease, "drop")
    take_out(self, hold)
end

-- Forgets holds in run_out that were lost before `time`, or that are too many.
local function forget_run_out(self, time)
    local line = self.run_out
    while line.first <= line.last do
        local hold = line[line.first]
        if hold and hold.seen >= time and line.last - line.first < REMEMBERED then
            return
        end
        hold = take_first(line)
        if hold then
            forget(self, hold)
        end
    end
end

--- Marks a hold as lost, once, and calls its onLost functions. reason: as in events; taker: who has
-- the keys, or false: of a hold whose lease was freed; nil: the lease knows.
function Holds:lose(hold, reason, taker)
    if hold.lost then
        return
    end
    hold.lost, hold.lost_at = reason, self.client.now()
    if reason == "taken" then
        if taker == nil then
            taker = ffi_values.taker(hold.lease)
        end
        hold.holder = taker and answers.card(self.client, taker, 20)
    end
    end_hold(self, hold)
    tidy(self)
    if not hold.kept and unlink(hold) then
        stand_in(self.run_out, hold, hold.lost_at)
        forget_run_out(self, 0)
    end
    outcomes.lost(self.client, hold.name, reason)
    self.client.events:emit { type = "lost", name = hold.name, reason = reason,
        held = hold.lost_at - hold.since, holder = hold.holder, traceparent = hold.traceparent }
    local those = hold.on_lost or {}
    hold.on_lost = nil
    for i = 1, #those do
        report(self, hold, those[i])
    end
end

--- Seconds of validity left. 0: it has ended, and is marked as lost.
function Holds:remaining(hold)
    local left = rounds.remaining(hold.lease)
    local why = left <= 0 and changes.why_lost(hold.lease)
    if why == nil and hold.ends then         -- Ctrl-C during its release
        take_out(self, hold)
    elseif left <= 0 then
        self:lose(hold, why or "expired")
    end
    return left
end

-- Looks at all holds, when the core has lost more than it can name.
local function look_at_all(self)
    local list = self:all()      -- a copy, as onLost functions may change the holds
    for _, hold in ipairs(list) do
        if self.live[hold.key] == hold then
            self:remaining(hold)
        end
    end
end

local function look_for_losses(self, from, to)
    for k = from, to do
        local key = changes.noted(self.client, 0, k)
        local hold = self.live[key]
        if not key then
            look_at_all(self)
            return
        elseif hold then
            self:remaining(hold)
        end
    end
end

--- Releases a hold whose owner is gone.
function Holds:orphan(hold)
    take_out(self, hold)
    rounds.give(hold.lease, "orphan")
    if not hold.lost and self.client.options.lock_delay == 0 then
        hold.seen = self.client.now()
        outcomes.released(self.client, hold)
    end
end

local function release_for_gone_owners(self, hold)
    local owner = self.whose[hold.mine]
    if owner == nil then         -- collected, before the hold is
        self:orphan(hold)
    elseif not self.client.host.alive(owner) then
        self.client:free_owner(owner)
    end
end

-- Checks the holds that were not checked for a third of a lease: whether the owner has ended
-- without a release, and whether the hold was lost so long ago that it can be forgotten.
local function sweep(self, now)
    local line, interval = self.line, self.client.options.lease / 3
    local forgotten = now - self.client.options.max_lease
    forget_run_out(self, forgotten)
    self.next_sweep = now + interval
    while line.first <= line.last do
        local hold = line[line.first]
        if hold and hold.seen + interval > now then
            self.next_sweep = hold.seen + interval
            return
        end
        hold = take_first(line)
        if hold and hold.lost and hold.lost_at < forgotten then
            forget(self, hold)
        elseif hold then
            stand_in(line, hold, now)
            release_for_gone_owners(self, hold)
        end
    end
end

--- Processes what the core did since the last call.
-- @return the time, of client.now()
function Holds:look()
    local now, number = rounds.look(self.client)
    if number == self.changes then
        return now
    end
    self.changes = number
    local losses = changes.counters(self.client).losses
    if losses ~= self.losses then
        local seen = self.losses
        self.losses = losses
        look_for_losses(self, seen + 1, losses)
    end
    self.client.events:poll()
    return now
end

--- Like look(), and does what is due by time. Every public call begins with it.
-- @return the time, of client.now()
function Holds:poll()
    local now = self:look()
    if now >= self.next_deadline then
        local due = changes.poll(self.client)
        self.next_deadline = self.fixed > 0 and max(due, now + 0.001) or huge
        now = self:look()
    end
    if now >= self.next_ending then
        callbacks.call_endings(self, now)
    end
    if now >= self.next_sweep then
        sweep(self, now)
    end
    return now
end

--- Calls the onEnding functions, as the process is told to end.
function Holds:announce_end()
    for hold in pairs(self.ending) do
        callbacks.call_all_endings(self, hold)
    end
end

--- Like poll(), for a timer of the host, while nobody calls the library. sees_ends: whether the
-- host finds owners that ended by itself.
-- @return seconds until the next call; nil: nothing is held, or nothing is due
function Holds:patrol(sees_ends)
    self:poll()
    local next_time = min(self.next_ending, sees_ends and huge or self.next_sweep)
    return self:any() and next_time < huge and max(next_time - self.client.now(), 0.001) or nil
end

return _M
