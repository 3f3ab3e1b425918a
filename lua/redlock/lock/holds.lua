--- What the owners of one process hold through one client.
--
-- A hold is { lease = cdata, count = hold count, seconds = as taken, kept = by the watchdog, name,
-- id, primitive, label unless it is the client's, since = when its owner got it, passed = how often
-- it was before, from the first owner's `run` on or nil, looked = when somebody looked at it last,
-- or it was let go, ends = when it was to end, once it is released, taker = what the host notes of
-- it, traceparent or nil, on_lost = { callbacks.lua } or nil, on_ending (the same), lost =
-- reason or nil, lost_at (when), holder = who has it now, if that is known when it is lost }. Lock
-- objects are views of holds: collecting one changes nothing. What an owner held that is gone is
-- let go when that is found: its coroutine has ended, or it was collected.
--
-- Nothing here takes longer the more is held: the core says which leases were lost, and what
-- has to be looked at once in a while stands in line.

local ffi = require "ffi"
local card = require "redlock.runtime.card"
local callbacks = require "redlock.lock.callbacks"
local happenings = require "redlock.runtime.happenings"
local rounds = require "redlock.runtime.rounds"
local tally = require "redlock.lock.tally"
local ffi_values = require "redlock.runtime.ffi_values"

local pairs, ipairs, setmetatable, next = pairs, ipairs, setmetatable, next
local huge, max, min = math.huge, math.max, math.min

local _M = {}

-- Leases that are never renewed may be lost by the thousands, where they are not to be released
-- but to run out: so many that were lost are remembered.
local REMEMBERED = 10000

local Holds = {}
Holds.__index = Holds

local function weak(mode)
    return setmetatable({}, { __mode = mode })
end

-- A line of holds by their times in `looked`: number -> hold. Weak, as the owner's end is
-- theirs.
local function new_line()
    local line = weak "v"
    line.first, line.last = 1, 0
    return line
end

local function stand_in(line, hold, now)
    hold.looked, hold.line = now, line
    hold.number = line.last + 1
    line.last = hold.number
    line[hold.number] = hold
end

-- Takes it out of its line.
-- @return whether it was in one
local function leave(hold)
    local line, number = hold.line, hold.number
    if not line then
        return false
    end
    hold.line, line[number] = nil, nil
    if number == line.last and number >= line.first then
        line.last = number - 1
    end
    return true
end

-- Takes the first out of a line.
-- @return it, or nil: it was collected
local function take_first(line)
    local hold = line[line.first]
    line.first = line.first + 1
    if hold then
        leave(hold)
    end
    return hold
end

function _M.new(client)
    return setmetatable({
        client = client,
        -- Weak: a hold must not keep its owner alive. It does not refer to it either.
        owners = weak "k",       -- owner -> id -> hold
        whose = weak "kv",       -- what is in there -> owner
        here = weak "v",         -- id -> the last hold of it
        live = weak "v",         -- those not known to be lost, by the core's names for them
        line = new_line(),
        run_out = new_line(),    -- of those that were never kept; the others stay in line
        fixed = 0,               -- how many are live that nobody keeps
        listeners = 0,           -- and how many of which somebody is told when they are lost
        happened = 0,            -- rl_happenings() as seen last
        losses = 0,              -- rl_losses()
        next_deadline = huge,    -- when the core has to be asked to look for what is lost
        next_sweep = 0,
        ending = weak "k",       -- holds with onEnding functions: callbacks.lua
        next_ending = huge,      -- when that is
    }, Holds)
end

--- The hold of an owner, also when its time is over; or nil.
function Holds:get(owner, id)
    local mine = self.owners[owner]
    return mine and mine[id]
end

--- Enters again what an owner holds: no round trip, the lease stays as it is.
-- @return whether it is held
function Holds:enter(owner, id)
    local hold = self:get(owner, id)
    if hold and rounds.remaining(hold.lease) > 0 then
        hold.count = hold.count + 1
        return true
    end
    return false
end

--- Registers a hold.
-- @param owner  whose it is
-- @param id     kind:name
-- @param hold   see above
-- @param now    of client.now()
-- @param ends   when its time is over, as of now
function Holds:set(owner, id, hold, now, ends)
    local mine = self.owners[owner]
    if not mine then
        mine = {}
        self.owners[owner], self.whose[mine] = mine, owner
    end
    -- First: an interrupt (Ctrl-C) may come between any two.
    hold.id, hold.mine, hold.key = id, mine, rounds.key(hold.lease)
    stand_in(self.line, hold, now)
    mine[id] = hold
    self.here[id] = hold
    self.live[hold.key] = hold
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
        self.client.host.look_again()        -- nothing else may happen that lets a loop end
    end
end

-- It is not held any more, or known to be lost.
local function is_over(self, hold)
    if self.live[hold.key] == hold then
        self.live[hold.key] = nil
        self.fixed = self.fixed - (hold.kept and 0 or 1)
    end
    if hold.sentinel then
        ffi.gc(hold.sentinel, nil)
        hold.sentinel = nil
        is_not_listened_to(self)
    end
end

local function take_out(self, hold)
    local id, mine = hold.id, hold.mine
    if self.here[id] == hold then
        self.here[id] = nil
    end
    is_over(self, hold)
    leave(hold)
    local left = self.client.host.left
    if left then
        left(hold)
    end
    if mine[id] == hold then
        mine[id] = nil
    end
    local owner = self.whose[mine]
    if next(mine) == nil and owner ~= nil and self.owners[owner] == mine then
        self.owners[owner] = nil
    end
end

function Holds:remove(owner, id)
    take_out(self, self.owners[owner][id])
end

local NOTHING = {}

--- What an owner has, also what is lost, by kind:name. Not to be changed.
function Holds:of(owner)
    return self.owners[owner] or NOTHING
end

--- A list of what an owner holds now.
function Holds:held_by(owner)
    local list = {}
    for _, hold in pairs(self:of(owner)) do
        if rounds.remaining(hold.lease) > 0 then
            list[#list + 1] = hold
        end
    end
    return list
end

--- How long somebody else of this process (owner nil: anybody) will hold a name: seconds,
-- math.huge when the watchdog keeps it, nil when nobody does. What somebody has who is gone is
-- let go.
function Holds:held_by_others(owner, id)
    local hold = self.here[id]
    local other = hold and self.whose[hold.mine]
    local left = other ~= nil and other ~= owner and rounds.remaining(hold.lease) or 0
    if left > 0 and not self.client.host.alive(other) then
        self.client:bury(other)
    elseif left > 0 then
        return hold.kept and huge or left
    end
end

--- How long some owner of this process will hold a name at least; 0: nobody does.
function Holds:left_here(id)
    local hold = self.here[id]
    return hold and rounds.remaining(hold.lease) or 0
end

--- For how long some owner of this process has held a name; 0: nobody does.
function Holds:held_for(id)
    local hold = self.here[id]
    local held = hold and rounds.remaining(hold.lease) > 0
    return held and self.client.now() - (hold.run or hold.since) or 0
end

--- The hold that the core calls so, if it is not known to be lost; or nil.
function Holds:known_as(key)
    return self.live[key]
end

--- Whether anything is held, perhaps by nobody any more: an owner may be collected long before
-- his hold.
function Holds:any()
    return next(self.live) ~= nil
end

--- Whether somebody is to be told when a hold is lost.
function Holds:listened()
    return self.listeners > 0
end

--- Gives back what is held, in a finalizer (so without pairs(): see Box:note_end).
function Holds:orphan_all()
    local key, hold = next(self.live)
    while key do
        rounds.orphan(hold.lease)
        key, hold = next(self.live, key)
    end
end

--- A list of all holds, also of those that are lost.
function Holds:all()
    local list = {}
    for _, line in ipairs { self.line, self.run_out } do
        for number = line.first, line.last do
            list[#list + 1] = line[number]
        end
    end
    return list
end

--- Looks at some of those that are not known to be lost; holds may come and go between two calls.
-- @param number  where to go on; nil: at the first
-- @param most    so many places are looked at
-- @param fn      function(hold)
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

--- How many are held now.
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

--- Registers fn(lock, reason, holder) for the loss of a hold; at once when it is lost.
-- @return true
function Holds:on_lost(hold, fn, lock)
    local one = callbacks.new("onLost", fn, lock)
    if hold.lost then
        report(self, hold, one)
        return true
    end
    hold.on_lost = hold.on_lost or {}
    hold.on_lost[#hold.on_lost + 1] = one
    if not hold.sentinel then        -- an event loop does not end meanwhile
        self.listeners = self.listeners + 1
        -- Of those that are collected nobody is told any more.
        hold.sentinel = ffi.gc(ffi.new "char[1]", function()
            is_not_listened_to(self)
        end)
    end
    self.client.host.attend()
    return true
end

-- Gives back what nobody asks for any more.
local function forget(self, hold)
    rounds.drop(hold.lease)
    take_out(self, hold)
end

-- Those that have run out are forgotten when they were lost before that time, and when they
-- are too many.
local function forget_run_out(self, time)
    local line = self.run_out
    while line.first <= line.last do
        local hold = line[line.first]
        if hold and hold.looked >= time and line.last - line.first < REMEMBERED then
            return
        end
        hold = take_first(line)
        if hold then
            forget(self, hold)
        end
    end
end

--- Marks a hold as lost, once, and tells those who asked for it.
-- @param hold   one of these
-- @param reason  why, as events tell it
-- @param taker  who has the keys, or false: of a hold whose lease was given back; nil: its
--   lease knows
function Holds:lose(hold, reason, taker)
    if hold.lost then
        return
    end
    hold.lost, hold.lost_at = reason, self.client.now()
    if reason == "taken" then
        if taker == nil then
            taker = ffi_values.taker(hold.lease)
        end
        hold.holder = taker and card.behind(taker, 20)
    end
    is_over(self, hold)
    if not hold.kept and leave(hold) then
        stand_in(self.run_out, hold, hold.lost_at)
        forget_run_out(self, 0)
    end
    tally.lost(self.client, hold.name, reason)
    self.client.events:emit { type = "lost", name = hold.name, reason = reason,
        held = hold.lost_at - hold.since, holder = hold.holder, traceparent = hold.traceparent }
    local those = hold.on_lost or {}
    hold.on_lost = nil
    for i = 1, #those do
        report(self, hold, those[i])
    end
end

--- Seconds of validity left; 0: over, and the loss is told.
function Holds:remaining(hold)
    local left = rounds.remaining(hold.lease)
    if left <= 0 then
        self:lose(hold, happenings.why_lost(hold.lease) or "expired")
    end
    return left
end

-- Looks at all that is held, as the core has lost so much that it does not know what.
local function look_at_all(self)
    local list = self:all()      -- who is told of a loss may take another lock, or let one go
    for _, hold in ipairs(list) do
        if self.live[hold.key] == hold then
            self:remaining(hold)
        end
    end
end

local function look_for_losses(self, from, to)
    for k = from, to do
        local key = happenings.lost_as(self.client, k)
        local hold = self.live[key]
        if not key then
            look_at_all(self)
            return
        elseif hold then
            self:remaining(hold)
        end
    end
end

local function let_go_of_the_gone(self, hold)
    local owner = self.whose[hold.mine]
    if owner == nil then         -- collected; so will be the hold, but who knows when
        rounds.orphan(hold.lease)
        take_out(self, hold)
    elseif not self.client.host.alive(owner) then
        self.client:bury(owner)
    end
end

-- Looks at those at which nobody has looked for a third of a lease: has the owner ended
-- without letting go? Was it lost so long ago that nobody asks?
local function sweep(self, now)
    local line, interval = self.line, self.client.options.lease / 3
    local forgotten = now - self.client.options.max_lease
    forget_run_out(self, forgotten)
    self.next_sweep = now + interval
    while line.first <= line.last do
        local hold = line[line.first]
        if hold and hold.looked + interval > now then
            self.next_sweep = hold.looked + interval
            return
        end
        hold = take_first(line)
        if hold and hold.lost and hold.lost_at < forgotten then
            forget(self, hold)
        elseif hold then
            stand_in(line, hold, now)
            let_go_of_the_gone(self, hold)
        end
    end
end

--- Notices what the core did since the last call.
function Holds:look()
    local happened = happenings.happened(self.client)
    if happened == self.happened then
        return
    end
    self.happened = happened
    local losses = happenings.losses(self.client)
    if losses ~= self.losses then
        local seen = self.losses
        self.losses = losses
        look_for_losses(self, seen + 1, losses)
    end
    self.client.events:poll()
end

--- The same, and what time did: every public call begins with it.
function Holds:poll()
    local client = self.client
    local now = client.now()
    if now >= self.next_deadline then
        local due = happenings.poll(client)
        self.next_deadline = self.fixed > 0 and max(due, now + 0.001) or huge
    end
    self:look()
    if now >= self.next_ending then
        callbacks.call_endings(self, now)
    end
    if now >= self.next_sweep then
        sweep(self, now)
    end
end

--- The same, for who calls it when nobody calls the library.
-- @param sees_ends  whether owners who are gone are found without that
-- @return in how many seconds it is to be called again; nil: nothing is held, or nobody is to be
--   told or looked for
function Holds:patrol(sees_ends)
    self:poll()
    local next_time = min(self.next_ending, sees_ends and huge or self.next_sweep)
    return self:any() and next_time < huge and max(next_time - self.client.now(), 0.001) or nil
end

return _M
