--- Lock objects: cheap views of what an owner holds. types/lock.lua documents their methods.
-- Durations are seconds.

local acquire = require "redlock.lock.acquire"
local callbacks = require "redlock.lock.callbacks"
local card = require "redlock.text.card"
local handover = require "redlock.lock.handover"
local validate = require "redlock.runtime.validate"
local closing = require "redlock.lock.closing"
local errors = require "redlock.runtime.errors"
local limits = require "redlock.runtime.limits"
local options = require "redlock.servers.options"
local reentry = require "redlock.lock.reentry"
local rounds = require "redlock.runtime.rounds"
local outcomes = require "redlock.lock.outcomes"
local printable = require("redlock.text.encoding").printable

local setmetatable, tostring, type = setmetatable, tostring, type
local byte, format, sub = string.byte, string.format, string.sub
local huge = math.huge

local _M = {}

-- The methods of every lock; asking.lua, background.lua and client.lua (export) add more.
local Lock = {}
_M.methods = Lock

local OWN_KEYS = "redlock:{"
local OPTIONS = { owner = true, label = true, traceparent = true }
local SETTLE = { keep = true }

local function class_of(prim)
    local class = {}
    validate.methods(class, "lock", Lock)
    validate.any_methods(class, "lock", prim.methods)
    prim.class = class
    return class
end

-- @return the owner, the label and the trace in the options of a lock
local function read_options(client, opts)
    local owner, job = validate.options("options", opts, OPTIONS).owner, opts.label
    local trace = opts.traceparent
    if owner ~= owner then
        validate.bad("owner", "must not be NaN, which equals nothing")
    elseif job ~= nil then
        validate.name("label", job, card.MAX)
    end
    if trace ~= nil then
        trace = validate.traceparent("traceparent", trace)
    end
    return owner, card.with_job(client.label, job), trace
end

--- Whether a name would denote one of the library's own keys.
function _M.is_reserved(client, name)
    local prefix = client.options.prefix
    return (prefix ~= "" or byte(name) == byte(OWN_KEYS))
        and sub(prefix .. sub(name, 1, #OWN_KEYS), 1, #OWN_KEYS) == OWN_KEYS
end

--- Makes a lock object for `name`; checked, no I/O.
function _M.new(client, prim, name, opts)
    validate.name("name", name, limits.MAX_NAME)
    if _M.is_reserved(client, name) then
        validate.bad("name", "keys that begin with '" .. OWN_KEYS .. "' are the library's own; "
            .. "give the client a prefix if names come from outside")
    end
    local owner, label, trace = nil, client.label, nil
    if opts ~= nil then
        owner, label, trace = read_options(client, opts)
    end
    local self = {
        client = client,
        primitive = prim,
        name = name,
        id = prim.name .. ":" .. name,
        owner = owner,
        label = prim.labelled and label,
        traceparent = trace,
        within = prim.within and prim.within .. ":" .. name,
    }
    setmetatable(self, prim.class or class_of(prim))     -- LuaJIT compiles no tail call of this
    return self
end

--- The same name for an owner, as another kind of lock.
function _M.view(self, prim, owner)
    local view = _M.new(self.client, prim, self.name, { owner = owner })
    view.label = self.label
    return view
end

--- Its name in errors: lock 'invoice:42'. Made when an error is printed: most never are.
function Lock:describe()
    return self.primitive.name .. " '" .. printable(self.name) .. "'"
end

-- ---- what the owner holds --------------------------------------------------------

function _M.owner_of(self)
    local owner = self.owner
    if owner == nil then
        local client = self.client
        owner = client.host.owner(client.holds, self.id, self.within)
    end
    return owner
end
local owner_of = _M.owner_of

--- The hold of an owner, even after its end; or nil.
--
-- During a wait or a function of the user, others may release the hold, pass it on or close the
-- client. After that its lease must not be used, so look the hold up again.
function _M.hold_of(self, owner)
    return self.client.holds:get(owner or owner_of(self), self.id)
end
local hold_of = _M.hold_of

function _M.failure(self, code)
    return nil, errors.new(code, self)
end

local function not_held(self)
    return _M.failure(self, self.client.closed and "closed" or "not_held")
end

--- Begins a public call.
-- @return the time, of client.now(); or nil and an error: closed, config
function _M.open(self)
    local client = self.client
    if not client.core or client.closed then
        local ok, err = client:open()
        if not ok then
            return nil, err or errors.new("closed", self)
        end
    end
    if client.credentials.dynamic then       -- its function may take its time, and close the client
        client.credentials:poll()
        if client.closed then
            return nil, errors.new("closed", self)
        end
    end
    return client.holds:poll()
end
local open = _M.open

--- Like open(), for a call that waits for the servers.
function _M.open_to_wait(self)
    if not self.client.host.can_wait() then
        return _M.failure(self, "phase")
    end
    return open(self)
end

--- The hold of the current owner, after a poll for losses.
-- @return the hold, or nil; and the time, of client.now()
function _M.current_hold(self, owner)
    local client = self.client
    if client.core then
        local now = client.holds:poll()
        return hold_of(self, owner), now
    end
end
local current_hold = _M.current_hold

--- The hold of the current owner while it is valid.
-- @return the hold; or nil and an error: not_held, lost, closed
function _M.valid_hold(self, owner)
    local hold = current_hold(self, owner)
    if not hold then
        return not_held(self)
    end
    if self.client.holds:remaining(hold) <= 0 then
        local err = errors.new("lost", self)
        errors.because(err, self, hold.lost or "expired")
        return nil, err
    end
    return hold
end

--- The token or the slot of a valid hold; or nil and an error, as valid_hold().
function _M.number_of(self)
    local hold, err = _M.valid_hold(self)
    if not hold then
        return nil, err
    end
    return rounds.token(hold.lease)
end

-- ---- acquire ---------------------------------------------------------------------

--- The results for an owner that acquired the lock: true, and the token if it has one. An on_event
-- function may have released it.
function _M.granted(self, owner)
    local hold = self.client.holds:get(owner, self.id)
    if not hold then
        return not_held(self)
    end
    if self.primitive.vote == "largest" then
        return true, rounds.token(hold.lease)
    end
    return true
end

-- Enters again what the owner holds. Releases what the owner has lost: a new attempt, with a new
-- value, will follow.
-- @return whether it was held; or nil and an error
local function reenter(self, owner, lease)
    if not self.client.holds:get(owner, self.id) then
        return false
    end
    local entered, err = reentry.enter(self, owner, lease)
    if entered or err then
        return entered, err
    end
    local hold = hold_of(self, owner)
    if not hold then
        return false
    elseif self.client.holds:remaining(hold) > 0
        or hold_of(self, owner) ~= hold then     -- taken anew by an onLost function
        return reenter(self, owner, lease)
    end
    self.client.holds:remove(owner, self.id)
    rounds.free_release(hold.lease, rounds.release(hold.lease))
    return false
end

function _M.check_lease(self, lease)
    local client = self.client
    if lease == nil then
        return nil
    elseif type(lease) == "number" and lease >= client.min_lease
        and lease <= client.longest_lease then
        return lease
    elseif type(lease) == "number" and lease > client.longest_lease then
        validate.bad("lease", options.too_long(client.options, lease) .. ", or extend in time")
    end
    return validate.seconds("lease", lease, client.min_lease)
end

local check_lease = _M.check_lease

function _M.check_wait(wait)
    if type(wait) == "number" and wait >= 0 then
        return wait
    end
    return wait == nil and 0 or validate.seconds("wait", wait, 0)
end

-- Acquires the lock for the caller, unless the caller has it already. Arguments as for acquire().
-- @return as lock() and tryLock()
local function acquire_or_enter(self, lease, wait, patience)
    local now, err = open(self)
    if not now then
        return nil, err
    end
    local owner = owner_of(self)
    local entered
    entered, err = reenter(self, owner, lease)
    if err then
        return nil, err
    elseif not entered then
        if not self.client.host.can_wait() then
            return _M.failure(self, "phase")
        end
        local ok
        ok, err = acquire.acquire(self, owner, lease, wait, patience, now)
        if not ok then
            return nil, err
        end
    end
    return _M.granted(self, owner)
end

function Lock:lock(lease)
    return acquire_or_enter(self, check_lease(self, lease), nil, self.client.options.patience)
end

--- Tries for `wait` seconds; with 0 once, and again only after split votes. Returns within wait +
-- timeout, after split votes wait + 2 * timeout; a client's first attempt, which connects, may
-- take connect_timeout.
function Lock:tryLock(wait, lease)
    wait = _M.check_wait(wait)
    return acquire_or_enter(self, check_lease(self, lease), wait, huge)
end

-- ---- release ---------------------------------------------------------------------

function Lock:unlock(opts)
    local client, owner = self.client, owner_of(self)
    local closed_for = opts ~= nil and closing.options(opts) or nil
    if client.credentials.dynamic then
        client.credentials:poll()
    end
    local hold, now = current_hold(self, owner)
    if not hold then
        return not_held(self)
    end
    if hold.count > 1 then
        hold.count = hold.count - 1
        if client.holds:remaining(hold) <= 0 then
            return _M.failure(self, "expired")
        end
        return true
    end
    local left = closed_for and closing.left(self, hold, closed_for) or 0
    if left > 0 and rounds.remaining(hold.lease) > 0 then
        return closing.settle(self, owner, hold, left)
    end
    if handover.pass(self, hold) then
        client.holds:remove(owner, self.id)
        hold.seen = client.now()
        outcomes.released(client, hold)
        return true
    end
    local can_wait = client.host.can_wait()
    local round = closing.begin(self, owner, hold, now,
        can_wait and not client.host.concurrent(client) and "wait" or nil)
    if not can_wait then
        rounds.free_release(hold.lease, round)
        outcomes.released(client, hold)
        handover.released(self, nil, hold)
        return true
    end
    handover.follow(self, hold)
    return closing.done(self, hold, rounds.released(client, self, hold.lease, round))
end

function Lock:settle(seconds, opts)
    validate.seconds("seconds", seconds, 0.001, rounds.FOREVER)
    local keep = validate.flag("keep", validate.options("options", opts, SETTLE).keep)
    local owner = owner_of(self)
    if not self.client.host.can_wait() then
        return _M.failure(self, "phase")
    end
    local hold, err = _M.valid_hold(self, owner)
    if not hold then
        return nil, err
    end
    return closing.settle(self, owner, hold, seconds, keep)
end

-- ---- holding ---------------------------------------------------------------------

-- Extends, or with `lease` 0 only asks; nil: as it was taken.
-- @return as Lock:extend
local function prolong(self, lease)
    local client, owner = self.client, owner_of(self)
    local can_wait = client.host.can_wait()
    if can_wait then
        client.credentials:poll()
    end
    local hold = current_hold(self, owner)
    if not hold then
        return not_held(self)
    elseif not can_wait then
        return _M.failure(self, "phase")
    end
    local ok, err = reentry.extend(self, owner, hold, lease or hold.seconds)
    if not ok then
        return nil, err
    end
    return true, rounds.remaining(hold.lease)
end

function Lock:extend(lease)
    return prolong(self, check_lease(self, lease))
end

function Lock:stillMine()
    local ok, err = prolong(self, 0)
    return ok, not ok and err or nil
end

function Lock:remaining()
    local hold = current_hold(self)
    return hold and self.client.holds:remaining(hold) or 0
end

function Lock:isValid()
    return self:remaining() > 0
end

function Lock:check()
    local hold, err = _M.valid_hold(self)
    if not hold then
        validate.raise(tostring(err))
    end
    return self
end

function Lock:onLost(fn)
    validate.is_function("fn", fn)
    local owner = owner_of(self)
    local hold = current_hold(self, owner)
    if hold then
        return self.client.holds:on_lost(hold, fn, self)
    elseif self.client.closed then
        return _M.failure(self, "closed")
    end
    self.early = self.early or setmetatable({}, { __mode = "k" })
    local early = self.early[owner] or {}
    self.early[owner], early[#early + 1] = early, fn
    return true
end

function Lock:onEnding(seconds, fn)
    validate.seconds("seconds", seconds, 0.001, limits.DAY)
    validate.is_function("fn", fn)
    local hold, err = _M.valid_hold(self)
    if not hold then
        return nil, err
    end
    callbacks.on_ending(self.client.holds, hold, seconds, fn, self)
    return true
end

function Lock:getHoldCount()
    local hold = current_hold(self)
    return hold and self.client.holds:remaining(hold) > 0 and hold.count or 0
end

function Lock:votes()
    local hold = current_hold(self)
    return hold and self.client.holds:remaining(hold) > 0 and rounds.votes(hold.lease) or 0
end

--- Redisson's name for isValid.
Lock.isHeldByCurrentThread = Lock.isValid

-- ---- looking ---------------------------------------------------------------------

function Lock:getName()
    return self.name
end

function Lock:__tostring()
    local left = self:remaining()
    local state = left > 0 and format("held, %.1f s", left) or "not held"
    return format("%s(%s, %s)", self.primitive.name, printable(self.name), state)
end

return _M
