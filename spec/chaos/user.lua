-- What one user of locks does, whatever waits for it: takes and releases them at random, uses
-- resources under them, and sends marks of all that (see history.lua for what each means).
local resource = require "redlock.resource"
local marks = require "spec.chaos.marks"
local resp = require "spec.support.resp"

local _M = {}

local SAMPLE_S = 0.04           -- how often a holder looks at its validity
local FREE_NAME_ROUNDS = 10     -- how often a lock that nobody else wants is taken at the end

local now = marks.now

local User = {}
User.__index = User

--- @param o  id: of the process, in its marks; config: as world.lua writes it; client: of the
--   library; send: of marks.lua; wait: a table of call(lock, method, ...), sleep(seconds) and
--   perhaps hasty (see worker.lua); ended(): whether all faults are over
function _M.new(o)
    o.shared = marks.shared(o.config.resource)
    o.serial = 0                -- numbers the calls of this process
    return setmetatable(o, User)
end

function User:mark(slot, fields)
    fields.c, fields.s = self.id, slot.number
    self.send(fields)
end

-- ---- resources -------------------------------------------------------------------

-- Read, think, write: an update is lost when two do it at once. Checked: only while valid.
function User:use(slot, lock, index, seconds, checked)
    local value = self.shared[index]
    self.wait.sleep(seconds)
    if checked and not lock:isValid() then
        return
    end
    self.shared[index] = value + 1
    self:mark(slot, { k = "wrote", l = slot.name, n = slot.n, a = now() })
end

-- One step under the token. @return the reply (for a read: "" if there was none), or nil
function User:guarded(slot, token, method, value)
    if not self.accounts or not self.accounts:usable() then
        self.accounts = assert(resp.connect(self.config.accounts))
    end
    local account = resource.new(slot.name, function(...) return self.accounts:call(...) end)
    local a = now()
    local ok, reply, highest = account[method](account, token, value)
    if ok or reply == "stale" then
        self:mark(slot, { k = ok and "accepted" or "refused", l = slot.name, n = slot.n, a = a,
            b = now(), token = token, value = value, highest = highest })
    end
    return ok and (reply or "")
end

-- The same at a resource that looks at tokens; without an answer nothing is known.
function User:use_guarded(slot, token, seconds)
    local value = self:guarded(slot, token, "get")
    if value then
        self.wait.sleep(seconds)
        self:guarded(slot, token, "set", (tonumber(value) or 0) + 1)
    end
end

-- ---- one hold --------------------------------------------------------------------

-- What there is besides plain and fenced locks. Permits have a name of their own; the others share
-- those of the locks, and whoever stands in line the first of these, so that there is a line.
local PERMITS, HOW_MANY = "permits", 2
local SHARED = { read = true, permit = true }

local family = {}

function family.read(client, name) return client:getReadWriteLock(name):readLock() end
function family.write(client, name) return client:getReadWriteLock(name):writeLock() end
function family.fair(client, name, slot) return client:getFairLock(name, { owner = slot }) end
function family.permit(client, name) return client:getSemaphore(name, HOW_MANY) end
function family.multi(client, name) return client:getMultiLock { name, name .. " too" } end
family["token write"] = function(client, name)
    return client:getReadWriteLock(name, { fenced = true }):writeLock()
end

-- Takes it in a way of the family; nil: as a lock.
-- @return what is held, and its token if it has one; or nil and an error
function User:take(slot, name, how, seconds, lease, patience)
    local wait, client = self.wait, self.client
    local object = how and family[how](client, name, slot)
        or slot.fenced and client:getFencedLock(name) or client:getLock(name)
    local once, always = "tryLock", "lock"
    if how == "permit" then
        once, always = "tryAcquire", "acquire"
    end
    local ok, more
    if patience and wait.hasty then
        ok, more = wait.hasty(object, once, patience, seconds, lease)
    elseif seconds then
        ok, more = wait.call(object, once, seconds, lease)
    else
        ok, more = wait.call(object, always, lease)
    end
    if not ok then
        return nil, more
    end
    return how == "permit" and ok or object, how ~= "permit" and more or nil
end

-- Validity as it was at some moment between `at` and `by`.
function User:validity(slot, lock, kind, fields)
    local at = now()
    local left = lock:remaining() * 1000
    fields.k, fields.at, fields.by, fields.left = kind, at, now(), left
    self:mark(slot, fields)
    return left > 0
end

--- @return the lock, and its token if it has one; or nil and an error
function User:acquire(slot, name, seconds, lease, patience, how)
    local config = self.config
    self.serial = self.serial + 1
    slot.name, slot.n = name, self.serial
    local a = now()
    self:mark(slot, { k = "call", l = name, n = slot.n, a = a, wait = seconds, lease = lease,
        r = slot.request, how = how })
    local lock, more = self:take(slot, name, how, seconds, lease, patience)
    local b = now()
    if not lock then
        self:mark(slot, { k = "fail", l = name, n = slot.n, a = a, b = b, wait = seconds,
            code = more.code })
        return nil, more
    end
    self:validity(slot, lock, "got", { l = name, n = slot.n, a = a, b = b, wait = seconds,
        lease = (lease or config.lease) * 1000, kept = lease == nil, token = more, how = how,
        place = how == "permit" and lock:slot() or nil })
    local n = slot.n
    lock:onLost(function(_, why)
        self:mark(slot, { k = "lost", l = name, n = n, a = now(), why = why })
    end)
    return lock, more
end

function User:release(slot, lock)
    local n, name = slot.n, slot.name
    local a = now()
    self:mark(slot, { k = "exit", l = name, n = n, a = a })
    local ok, err = self.wait.call(lock, "unlock")
    self:mark(slot, { k = "released", l = name, n = n, a = a, b = now(), ok = ok or false,
        code = err and err.code })
    return ok, err
end

function User:hold(slot, lock, seconds)
    local r = slot.random
    local finish = now() + seconds * 1000
    while not self.ended() do
        local left = (finish - now()) / 1000
        if left <= 0 then
            return
        end
        self.wait.sleep(math.min(left, SAMPLE_S))
        if r:float() < 0.1 then
            local a = now()
            local ok, err = self.wait.call(lock, "extend")
            self:mark(slot, { k = "extended", l = slot.name, n = slot.n, a = a, b = now(),
                ok = ok or false, code = not ok and err.code or nil })
        end
        if not self:validity(slot, lock, "valid", { l = slot.name, n = slot.n }) then
            return
        end
    end
end

-- ---- what a slot does ------------------------------------------------------------

function User:one_careful(slot)
    local r, config = slot.random, self.config
    local index = r:integer(1, #config.locks)
    local lease = r:float() < 0.6 and r:pick(config.leases) or nil
    local seconds = r:pick { 0, 0.2, 1, 1 }
    if not lease and r:float() < 0.3 then
        seconds = nil                            -- lock(): as long as it takes
    end
    local patience = seconds and r:float() < 0.1 and r:exponential(0.005) or nil
    local length = r:exponential(config.hold_s)
    if r:float() < 0.02 then
        length = r:between(0.5, 3) * config.lease    -- longer than the lease
    end
    local how = slot.ways and r:pick(slot.ways) or nil
    index = how == "fair" and 1 or index
    local lock, token = self:acquire(slot, how == "permit" and PERMITS or config.locks[index],
        seconds, lease, patience, how)
    if lock then
        if not SHARED[how] then
            self:use(slot, lock, index, math.min(length, 0.01), true)
        end
        if token then
            self:use_guarded(slot, token, math.min(length, 0.01))
        end
        self:hold(slot, lock, length)
        self:release(slot, lock)
    end
    self.wait.sleep(r:exponential(0.02))
end

-- The control: somebody who takes a lock and then ignores how long it is valid. What follows
-- must be seen by whoever judges the others. Tokens save what looks at them.
function User:one_careless(slot)
    local r, config = slot.random, self.config
    local lock, token = self:acquire(slot, config.careless, 1, config.leases[1])
    if lock then
        local length = r:between(0, 2) * config.leases[1]
        if token then
            self:use_guarded(slot, token, length)
        else
            self:use(slot, lock, 0, length, false)
        end
        self:release(slot, lock)
    end
    self.wait.sleep(r:exponential(0.02))
end

--- Takes a lock once, if it can be had.
function User:one(slot)
    if slot.careless then
        self:one_careless(slot)
    else
        self:one_careful(slot)
    end
end

--- All faults are over: every lock can be had, and one that nobody wants at the first try.
function User:settle(slot)
    local config = self.config
    for _, name in ipairs(config.locks) do
        local lock, err = self:acquire(slot, name, config.settle_s, config.leases[1])
        if lock then
            self:release(slot, lock)
        else
            self:mark(slot, { k = "bad", l = name, a = now(), text = ("%s was not to be had in "
                .. "%g s after all faults were over: %s"):format(name, config.settle_s,
                tostring(err)) })
        end
    end
    local own = ("own %s %d"):format(self.id, slot.number)
    for _ = 1, FREE_NAME_ROUNDS do
        local lock, err = self:acquire(slot, own, 0, config.leases[1])
        local ok = lock and self:release(slot, lock)
        -- A busy machine may be slower than a time-out, but nobody else may have it.
        if not lock and err.code == "held" then
            self:mark(slot, { k = "bad", l = own, a = now(), text = "a released lock is still "
                .. "held: " .. tostring(err) })
        elseif ok then
            slot.freed = (slot.freed or 0) + 1
        end
    end
    if not slot.freed then
        self:mark(slot, { k = "bad", l = own, a = now(), text = "a lock that nobody else wants "
            .. "was not taken and released once" })
    end
end

return _M
