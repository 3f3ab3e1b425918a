--- What the owners of one process hold through one client.
--
-- A hold is { lease = cdata, count = hold count, seconds = as taken, kept = by the watchdog,
-- name, primitive, taker = what the host notes of it, number (in the order they were taken),
-- on_lost = { { fn, lock }, ... } or nil, lost = reason or nil, lost_at (when) }. Lock objects
-- are views of holds: collecting one changes nothing. What an owner held that is gone is let go
-- when that is found: its coroutine has ended, or it was collected.

local rounds = require "redlock.rounds"

local pairs, ipairs, pcall, setmetatable, next = pairs, ipairs, pcall, setmetatable, next
local huge, tostring = math.huge, tostring

local _M = {}

local Holds = {}
Holds.__index = Holds

function _M.new(client)
    return setmetatable({
        client = client,
        -- Weak: a hold must not keep its owner alive. It does not refer to it either.
        owners = setmetatable({}, { __mode = "k" }),
        here = setmetatable({}, { __mode = "v" }),      -- id -> the last hold of it
        -- Those that are not known to be lost, by their numbers; weak, as the owner's end is
        -- theirs.
        live = setmetatable({}, { __mode = "v" }),
        number = 0,
        happened = 0,            -- rl_happenings() as seen last
        losses = 0,              -- rl_losses()
        next_deadline = huge,    -- of a lease that nobody watches
        next_sweep = 0,
    }, Holds)
end

--- The hold of an owner, also when its time is over; or nil.
function Holds:get(owner, id)
    local mine = self.owners[owner]
    return mine and mine[id]
end

function Holds:set(owner, id, hold)
    local mine = self.owners[owner]
    if not mine then
        mine = {}
        self.owners[owner] = mine
    end
    self.number = self.number + 1
    hold.number = self.number    -- first: an interrupt (Ctrl-C) may come between any two
    mine[id] = hold
    self.here[id] = hold
    self.live[hold.number] = hold
    local host = self.client.host
    if host.taken then
        host.taken(hold, owner)
    end
    if host.mortal then          -- his death is to be noticed, also if he never waited
        host.box:attend()
    end
    if not hold.kept then
        local deadline = self.client.now() + rounds.remaining(hold.lease)
        if deadline < self.next_deadline then
            self.next_deadline = deadline
        end
    end
end

function Holds:remove(owner, id)
    local mine = self.owners[owner]
    local hold = mine[id]
    if self.here[id] == hold then
        self.here[id] = nil
    end
    self.live[hold.number] = nil
    mine[id] = nil
    if next(mine) == nil then
        self.owners[owner] = nil
    end
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

--- How long somebody else of this process will hold a name: seconds, math.huge when the
-- watchdog keeps it, nil when nobody does. What somebody has who is gone is let go.
function Holds:held_by_others(owner, id)
    for other, mine in pairs(self.owners) do
        local hold = other ~= owner and mine[id]
        local left = hold and rounds.remaining(hold.lease) or 0
        if left > 0 and not self.client.host.alive(other) then
            self.client:bury(other)
        elseif left > 0 then
            return hold.kept and huge or left
        end
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
    return hold and rounds.remaining(hold.lease) > 0 and self.client.now() - hold.since or 0
end

--- Whether anything is held, perhaps by nobody any more: an owner may be collected long before
-- his hold.
function Holds:any()
    return next(self.live) ~= nil
end

--- Whether somebody is to be told when a hold is lost.
function Holds:listened()
    for _, mine in pairs(self.owners) do
        for _, hold in pairs(mine) do
            if hold.on_lost then
                return true
            end
        end
    end
    return false
end

--- How many are held now.
function Holds:count()
    local n = 0
    for _, hold in pairs(self.live) do
        n = n + (rounds.remaining(hold.lease) > 0 and 1 or 0)
    end
    return n
end

--- A list of all holds, also of those that are lost.
function Holds:all()
    local list = {}
    for _, mine in pairs(self.owners) do
        for _, hold in pairs(mine) do
            list[#list + 1] = hold
        end
    end
    return list
end

local function report(self, hold, fn, lock)
    local host = self.client.host
    host.defer(function()
        local ok, err = pcall(fn, lock, hold.lost)
        if not ok then       -- it must not hit whoever happens to call the library
            host.log("an onLost function failed: " .. tostring(err))
        end
    end)
end

--- Registers fn(lock, reason) for the loss of a hold; at once when it is lost.
function Holds:on_lost(hold, fn, lock)
    if hold.lost then
        report(self, hold, fn, lock)
        return
    end
    hold.on_lost = hold.on_lost or {}
    hold.on_lost[#hold.on_lost + 1] = { fn, lock }
    local host = self.client.host
    if host.shared then
        host.box:attend()
    end
end

--- Marks a hold as lost, once, and tells those who asked for it.
function Holds:lose(hold, reason)
    if hold.lost then
        return
    end
    hold.lost, hold.lost_at = reason, self.client.now()
    self.live[hold.number] = nil
    self.client.counters.lost = self.client.counters.lost + 1
    self.client.events:emit { type = "lost", name = hold.name, reason = reason }
    local fns = hold.on_lost or {}
    hold.on_lost = nil
    for i = 1, #fns do
        report(self, hold, fns[i][1], fns[i][2])
    end
end

--- Seconds of validity left; 0: over, and the loss is told.
function Holds:remaining(hold)
    local left = rounds.remaining(hold.lease)
    if left <= 0 then
        self:lose(hold, rounds.lost(hold.lease) or "expired")
    end
    return left
end

local function look_for_losses(self, now)
    self.next_deadline = huge
    local list = {}              -- who is told of a loss may take another lock
    for _, hold in pairs(self.live) do
        list[#list + 1] = hold
    end
    for _, hold in ipairs(list) do       -- or let one go
        local left = self.live[hold.number] == hold and self:remaining(hold) or 0
        if left > 0 and not hold.kept and now + left < self.next_deadline then
            self.next_deadline = now + left
        end
    end
end

-- Owners that have ended without letting go; and what was lost so long ago that nobody asks.
local function sweep(self, now)
    local forgotten = now - self.client.options.max_lease
    for owner, mine in pairs(self.owners) do
        if not self.client.host.alive(owner) then
            self.client:bury(owner)
        end
        for id, hold in pairs(mine) do
            if hold.lost and hold.lost_at < forgotten then
                rounds.drop(hold.lease)
                self:remove(owner, id)
            end
        end
    end
end

--- Notices what the core did since the last call.
function Holds:look()
    local happened = rounds.happened(self.client)
    if happened == self.happened then
        return
    end
    self.happened = happened
    local losses = rounds.losses(self.client)
    if losses ~= self.losses then
        self.losses = losses
        look_for_losses(self, self.client.now())
    end
    self.client.events:poll()
end

--- The same, and what time did: every public call begins with it.
function Holds:poll()
    local client = self.client
    local now = client.now()
    if now >= self.next_deadline then
        self.losses = rounds.losses(client)
        look_for_losses(self, now)
    end
    self:look()
    if now >= self.next_sweep then
        self.next_sweep = now + client.options.lease / 3
        sweep(self, now)
    end
end

return _M
