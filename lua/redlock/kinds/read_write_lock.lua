--- The read-write lock: many readers at once, or one writer.
--
-- Readers are a sorted set in the plain lock's own key, and a writer is a plain lock: so plain and
-- fenced locks of the name, and other libraries' locks of the Redlock page, exclude readers and
-- writers. Any majorities of a writer and a reader share a server, which refused one of the two
-- while the other's entry lived.
--
-- A refused writer that waits closes the door for new readers. The owner of the writer may read as
-- well, and still reads after it releases the writer: on each server the reader replaces the writer
-- in one step. A reader cannot become a writer: two of them would wait for each other.

local closing = require "redlock.lock.closing"
local ffi_values = require "redlock.runtime.ffi_values"
local handover = require "redlock.lock.handover"
local lock = require "redlock.lock.lock"
local plain_lock = require "redlock.kinds.plain_lock"
local primitive = require "redlock.kinds.primitive"
local printable = require("redlock.text.encoding").printable
local question = require "redlock.runtime.question"
local reentry = require "redlock.lock.reentry"
local rounds = require "redlock.runtime.rounds"
local script = require("redlock.runtime.script_text").own
local validate = require "redlock.runtime.validate"

local ipairs, setmetatable, type = ipairs, setmetatable, type
local format, huge, max, min = string.format, math.huge, math.max, math.min

local _M, Lock = {}, lock.methods
local function reader(name)
    return script("now", "lock.shape", "rw.readers", "rw." .. name)
end

local function keys(client, name)
    local key = client.options.prefix .. name
    return { key, "redlock:{" .. key .. "}:door" }
end

local writing, reading

-- The owner's view as a writer while it holds the writer and has entered to read; or nil.
local function as_writer(view)
    local owner = lock.owner_of(view)
    local hold = view.client.holds:get(owner, view.within)
    if hold and hold.reads and not lock.hold_of(view, owner) then
        return lock.view(view, writing, owner), hold
    end
end

local read_methods, write_methods = {}, {}

-- Enters to read if this owner holds the writer, whose lease grows to the reader's. Else calls
-- how(view, a, b), which acquires.
local function enter_or(view, lease, how, a, b)
    local client, owner = view.client, lock.owner_of(view)
    local hold = client.core and client.holds:get(owner, view.within)
    if not hold or client.holds:remaining(hold) <= 0 then
        return how(view, a, b)
    end
    local ok, err = reentry.grow(lock.view(view, writing, owner), owner, hold, lease)
    if ok then
        hold.reads = (hold.reads or 0) + 1
        hold.reads_until = max(hold.reads_until or 0, lease and client.now() + lease or huge)
        return true
    elseif err.code == "not_held" then       -- another coroutine released it meanwhile
        return how(view, a, b)
    end
    return nil, err
end

function read_methods:lock(lease)
    return enter_or(self, lock.check_lease(self, lease), Lock.lock, lease)
end

function read_methods:tryLock(wait, lease)
    lock.check_wait(wait)
    return enter_or(self, lock.check_lease(self, lease), Lock.tryLock, wait, lease)
end

function read_methods:unlock(opts)
    local _, hold = as_writer(self)
    if not hold then
        return Lock.unlock(self, opts)
    end
    hold.reads = hold.reads > 1 and hold.reads - 1 or nil
    hold.reads_until = hold.reads and hold.reads_until
    if self.client.holds:remaining(hold) <= 0 then
        return lock.failure(self, "expired")
    end
    return true
end

function read_methods:getHoldCount()
    local writer, hold = as_writer(self)
    return writer and (writer:isValid() and hold.reads or 0) or Lock.getHoldCount(self)
end

function read_methods:check()
    Lock.check(as_writer(self) or self)
    return self
end

function read_methods:onLost(fn)
    local _, hold = as_writer(self)
    if not hold then
        return Lock.onLost(self, fn)
    end
    validate.is_function("fn", fn)
    return self.client.holds:on_lost(hold, fn, self)
end
for _, name in ipairs { "extend", "stillMine", "remaining", "isValid", "isHeldByCurrentThread",
        "onEnding", "isLocked", "remainTimeToLive", "holder", "votes" } do
    read_methods[name] = function(self, a, b)
        return Lock[name](as_writer(self) or self, a, b)     -- some are loaded later
    end
end

--- The last unlock of an owner that has entered to read makes it a reader, who imports what the
-- writer has.
-- @return as Lock:unlock; also lost: it holds nothing any more; unsupported: a closed name has no
--   readers
function write_methods:unlock(opts)
    local owner = lock.owner_of(self)
    local hold = self.client.holds:get(owner, self.id)
    local reads = hold and hold.count == 1 and hold.reads
    if reads and (opts ~= nil and closing.options(opts) or 0) > 0 then
        return lock.failure(self, "unsupported")
    elseif not reads or not self.client.host.can_wait()
        or self.client.holds:remaining(hold) <= 0 then
        return Lock.unlock(self, opts)
    end
    local client, view, lease = self.client, lock.view(self, reading, owner), nil
    if hold.reads_until < huge then
        lease = max(hold.reads_until - client.now(), client.min_lease)
    elseif not hold.kept then
        lease = hold.seconds
    end
    client.holds:remove(owner, self.id)
    local value = ffi_values.value(hold.lease)
    rounds.give(hold.lease, "disown")
    local ok, err = handover.import(view, owner, value, 0, lease)
    if ok then
        client.holds:get(owner, view.id).count = reads
    end
    return ok, err
end

-- They would end the reader, too.
for _, name in ipairs { "settle", "export" } do
    write_methods[name] = function(self, a, b)
        local hold = lock.hold_of(self)
        if hold and hold.reads and not (type(b) == "table" and b.keep) then
            return lock.failure(self, "unsupported")
        end
        return Lock[name](self, a, b)
    end
end

reading = primitive.new {
    name = "read lock",
    rivals = true,
    within = "write lock",
    shared = true,
    line = false,
    acquire = script("now", "lock.shape", "rw.readers", "rw.read_acquire", "lock.refused"),
    extend = reader "read_extend",
    heal = reader "read_heal",
    release = reader "read_release",
    import = reader "read_import",
    peek = script("lock.shape", "lock.only_lock", "now", "rw.read_peek"),
    force = script("lock.shape", "lock.only_lock", "rw.only_readers", "lock.named", "lock.force"),
    keys = keys,
    channel = primitive.channel,
    methods = read_methods,
}

-- How long a waiting writer keeps the door closed: until the answer to its next attempt.
local function door(view, wait)
    local o = view.client.options
    return { format("%d", rounds.to_ms(min(wait.left or huge, 2 * o.fallback + o.timeout))) }
end

writing = primitive.new {
    name = "write lock",
    like = plain_lock,
    waits = true,
    acquire = script("lock.acquire", "rw.shut", "lock.shape", "lock.refused"),
    heal = plain_lock.acquire_script,
    release = script("rw.leave", "lock.release", "lock.shape", "lock.not_ours"),
    peek = script("lock.shape", "lock.only_lock", "rw.only_writer", "lock.peek"),
    force = script("lock.shape", "lock.only_lock", "rw.only_writer", "lock.named", "lock.force"),
    asks = { open = { script "rw.open" } },
    keys = keys,
    args = door,
    gave_up = function(view)
        question.send(view.client, { primitive = view.primitive, script = "open",
            keys = keys(view.client, view.name) })
    end,
    methods = write_methods,
}

_M.reading, _M.writing = reading, writing
local Pair, methods = {}, {}

function _M.new(client, name, opts)
    return setmetatable({ reader = lock.new(client, reading, name, opts),
        writer = lock.new(client, writing, name, opts) }, Pair)
end

function methods:readLock() return self.reader end
function methods:writeLock() return self.writer end
function methods:getName() return self.reader.name end
function methods:forceUnlockBoth()
    return lock.new(self.reader.client, plain_lock, self.reader.name):forceUnlock()
end

function methods:__tostring()
    return format("read-write lock(%s)", printable(self.reader.name))
end
validate.methods(Pair, "lock", methods)

return _M
