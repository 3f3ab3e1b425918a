--- The local queues: the calls of this process that want one name. kind:name -> queue of places.
--
-- The first call contends on the network, and only while no owner of the process holds the lock;
-- the others sleep. An owner that releases the lock passes it to the first place that sleeps. Only
-- hosts in which a wait does not block other calls have queues.
--
-- A place has no reference to its call's owner: the owner may be killed while the call sleeps,
-- which is found when the owner is collected.
--
-- If the servers have a queue too (primitive.places), the first call asks them for all: it also
-- contends while an owner of the process holds the lock, draws tickets, and keeps all places.

local hooks = require "redlock.lock.hooks"
local rounds = require "redlock.runtime.rounds"

local pairs, setmetatable = pairs, setmetatable

local _M = {}

local Place = {}
Place.__index = Place

--- Makes a place for a call (its lock, lease, deadline, and wait or nil: see acquire.lua), which
-- has joined no queue yet.
function _M.place(lock, lease, ends, wait)
    local client = lock.client
    return setmetatable({ client = client, id = lock.id, queue = nil, behind = client.waiting,
        primitive = lock.primitive, lease = lease, label = lock.label, ends = ends, wait = wait,
        lock = wait and hooks.copy(lock) }, Place)
end

-- A lease that has lost less than this share, and the drift, passes on as it is.
local WORN = 0.01

--- @return the least seconds that are left of a lease of `seconds` that counts as a new one
function _M.least_left(client, seconds)
    return seconds * (1 - client.options.drift_factor - WORN)
end

--- Whether a released hold may pass to this call as it is, without a request: the servers have what
-- an attempt would put there. Not with fencing tokens, as each hold has its own; and not after an
-- extension, which may be under way, or may have reached only some servers.
function Place:suits(hold)
    local o, prim = self.client.options, self.primitive
    local seconds, left = self.lease or o.lease, rounds.remaining(hold.lease)
    local label = hold.label
    if label == nil then
        label = self.client.label            -- false: none
    end
    return prim.vote ~= "largest" and prim.import_script and not (prim.shared or prim.places)
        and not hold.extended and hold.seconds == seconds and hold.kept == (self.lease == nil)
        and label == self.label and left >= _M.least_left(self.client, seconds)
        and left <= seconds
end

--- Joins the end of the queue for its name. After an interrupt between any two steps leave() works.
function Place:join()
    local client = self.client
    local queue = client.queues[self.id]
    if not queue then
        queue = { first = 1, last = 0, gone = 0, watching = 0, held = false, before = nil,
            joined = 0, asked = 0 }      -- how many have; when the first one last asked the servers
        client.queues[self.id] = queue
    end
    self.queue = queue
    client.waiting = client.waiting + 1
    queue.joined = queue.joined + 1
    self.number = queue.joined
    queue[queue.last + 1] = self
    queue.last = queue.last + 1
end

--- Waits beside the queues. For leave() it is the same.
function Place:stand()
    self.client.standing[self] = true
    self.client.waiting = self.client.waiting + 1
end

function Place:is_first()
    local queue = self.queue
    return queue[queue.first] == self
end

--- The queue whose first call has this `wait`, or nil.
function _M.led_by(lock, wait)
    local queue = lock.client.queues[lock.id]
    local first = queue and queue[queue.first]
    return first and first.wait == wait and queue or nil
end

--- Notes that the call with this `wait` asks the servers. If it is the first one, the places that
-- have joined may draw tickets from the answers; those that join later may not.
function _M.ask(lock, wait)
    local queue = _M.led_by(lock, wait)
    if queue then
        queue.asked, wait.asked_for = lock.client.now(), queue.joined
    end
end

--- Wakes the first call of a queue, or of nil, if it sleeps.
function _M.wake_first(queue)
    local first = queue and queue[queue.first]
    if first and first.round then
        rounds.wake(first.round)
    end
end

--- A list of what waits in a client, in its queues or beside them, for hooks.abandoned(): each has
-- wait, and with it lock.
function _M.waiters(client)
    local list = {}
    for place in pairs(client.standing) do
        list[#list + 1] = place
    end
    for _, queue in pairs(client.queues) do
        for i = queue.first, queue.last do
            list[#list + 1] = not queue[i].gone and queue[i] or nil
        end
    end
    return list
end

function _M.wake_all(queue)
    for i = queue.first, queue.last do
        if queue[i].round then
            rounds.wake(queue[i].round)
        end
    end
end

-- An interrupt (Ctrl-C) may come between any two of the following steps. Then leave() is called
-- again: no place gets lost.

-- Closes the gaps after the first place, when they are most of the queue.
local function close_ranks(queue)
    if queue.gone * 2 <= queue.last - queue.first then
        return
    end
    local to, last = queue.first, queue.last
    for i = queue.first, last do
        local place = queue[i]
        if not place.gone then
            queue[to] = place
            to = to + 1
        end
    end
    queue.last, queue.gone = to - 1, 0
    for i = to, last do
        queue[i] = nil
    end
end

-- Removes places that were left from the head of the queue.
-- @return whether there were any
local function advance(queue)
    local from = queue.first
    while queue.first <= queue.last and queue[queue.first].gone do
        queue.first, queue.gone = queue.first + 1, queue.gone - 1
        queue[queue.first - 1] = nil
    end
    return queue.first > from
end

--- Ends the wait. If another place becomes the first in the queue, wakes its call.
function Place:leave()
    local client, queue, again = self.client, self.queue, self.gone
    if self.left or not (queue or client.standing[self]) then    -- it was given up, or never began
        return
    end
    if not again then
        self.gone, self.round = true, nil
        client.waiting = client.waiting - 1
    end
    if not queue then
        client.standing[self] = nil
        return
    elseif not again then
        queue.gone = queue.gone + 1
    end
    if not advance(queue) and not again then
        close_ranks(queue)
    elseif queue.first > queue.last then
        client.queues[self.id] = nil
    else
        _M.wake_first(queue)
    end
    self.left = true
end

--- Offers a released hold to the first place whose call sleeps and has time left, if the hold suits
-- that one. The call takes the hold when it has woken.
-- @return whether it was offered
function _M.offer(queue, hold)
    for i = queue.first, queue.last do
        local place = queue[i]
        if place.round and not place.gone and not place.offer
            and place.client.now() < place.ends then
            if not place:suits(hold) then
                return false
            end
            place.offer = hold
            rounds.wake(place.round)
            return true
        end
    end
    return false
end

--- Leaves the queue when the coroutine was killed; passes on what it was offered.
function Place:abandon()
    local hold = self.offer
    self.round, self.offer = nil, nil
    self:leave()
    if hold and not _M.offer(self.queue, hold) then
        rounds.give(hold.lease, "abandon")
    end
    hooks.abandoned(self)
end

--- Sleeps until it is woken, or the subscription of `call` (or nil) is, for `seconds` at most. Not
-- at all with an offer, which may have come as the last sleep ended.
function _M.sleep(place, call, seconds)
    local client, subscription = place.client, call and call.sleeps.subscription
    if place.offer then
        return
    end
    place.round = rounds.begin_sleep(client, seconds, subscription,
        subscription and call.sleeps.seen)
    rounds.finish_sleep(client, place.round, place)
    place.round = nil
end

return _M
