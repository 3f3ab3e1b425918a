--- The interface of lua-resty-lock over a cluster (types/resty_lock.lua). Each object is its own
-- owner: any code that has the object may unlock it, in any phase, request or timer.

local errors = require "redlock.runtime.errors"
local options = require "redlock.servers.options"
local validate = require "redlock.runtime.validate"

local getmetatable, newproxy, pcall, setmetatable, tostring, type =
    getmetatable, newproxy, pcall, setmetatable, tostring, type
local getfenv, setfenv = debug.getfenv, debug.setfenv
local format = string.format
local max, min = math.max, math.min

local _M = {}

local EXPTIME, TIMEOUT = 30, 5           -- seconds, as in lua-resty-lock
local MAX_KEY = 65535                    -- bytes, as in shared dictionaries
local SHORTEST = 0.001                   -- reported wait of a call that waited, in seconds
local BAD_EXPTIME = "bad exptime: a number of seconds is needed"

-- Errors after which waiting may help; and those reported as "timeout".
local AGAIN = { held = true, no_quorum = true, expired = true }
local TIMED_OUT = { held = true, deadlock = true }

local clients = {}                       -- name of a dictionary -> client
local theirs                             -- lua-resty-lock, for the other dictionaries; false: none

-- Finds it also where this module has its name.
local function load_theirs()
    local named = package.loaded["resty.lock"]
    package.loaded["resty.lock"] = named ~= _M and named or nil
    local found, it = pcall(require, "resty.lock")
    theirs = found and it
    package.loaded["resty.lock"] = named
end

function _M.use(dict_name, client)
    validate.name("dict_name", dict_name, 1024)
    if client ~= nil and not (type(client) == "table" and type(client.getLock) == "function") then
        validate.bad("client", "one made by redlock.new is needed, not " .. type(client))
    end
    clients[dict_name] = client
    if theirs == nil then
        load_theirs()
    end
end

-- ---- locks -----------------------------------------------------------------------

local Lock = {}
Lock.__index = Lock

-- A guard gives a lock object the finalizer that a table does not have; it knows what owner holds
-- the lock.
local GUARD = newproxy(true)

getmetatable(GUARD).__gc = function(guard)
    local held = getfenv(guard)
    if held.owner then       -- without an event loop the collector finds the owner, some time later
        held.client.host.drop(held.owner)
    end
end

-- Notes what owner holds the object's lock; nil: none.
local function set_guard(self, owner)
    if not self.guard then
        self.guard = setfenv(newproxy(GUARD), { client = self.client })
    end
    getfenv(self.guard).owner = owner
end

local function is_exptime(exptime)
    return type(exptime) == "number" and exptime >= 0
end

-- The lease for an exptime; nil: one that the watchdog renews.
local function lease_of(client, exptime)
    local o = client.options
    if exptime > 0 and exptime <= options.longest_lease(o) then
        return max(exptime, options.min_lease(o))
    end
end

-- Has the watchdog renew a lock until exptime has passed, if no lease is as long.
local function keep(lock, exptime)
    local client = lock.client
    local hold = client.holds:get(lock.owner, lock.id)
    if exptime > 0 and not lease_of(client, exptime) and hold then
        client.holds:keep(hold, client.options.lease, exptime)
    end
end

--- A lock that is not acquired yet; lua-resty-lock's if its dictionary is not bound to a client.
-- luacheck: push ignore 212/self
function _M:new(cluster, opts)
    local client, prefix = clients[cluster], cluster
    if type(cluster) == "table" and type(cluster.getLock) == "function" then
        client, prefix = cluster, nil
    elseif not client and theirs then
        return theirs:new(cluster, opts)
    elseif not client then
        return nil, "dictionary not bound: call use(name, client), or install lua-resty-lock"
    end
    local exptime = opts and opts.exptime or EXPTIME
    if not is_exptime(exptime) then
        return nil, BAD_EXPTIME
    end
    local timeout = opts and opts.timeout
    return setmetatable({
        client = client,
        prefix = prefix and prefix .. ":" or "",
        exptime = exptime,
        timeout = timeout and min(timeout, exptime) or TIMEOUT,
        held = nil,              -- the library's lock
        guard = nil,             -- releases it when this object is collected
    }, Lock)
end
-- luacheck: pop

-- A lock of the library with a new owner, so that even calls for one object exclude each other.
local function lock_of(self, key)
    key = tostring(key)
    if key == "" then
        return nil, "empty key"
    elseif #key > MAX_KEY then
        return nil, "key too long"
    end
    local ok, lock = pcall(self.client.getLock, self.client, self.prefix .. key, { owner = {} })
    if not ok then
        errors.rethrow_interrupt(lock)
        return nil, (lock:gsub("^.-redlock: ", "redlock: "))
    end
    return lock
end

function Lock:lock(key)
    if not key then
        return nil, "nil key"
    elseif self.held then
        return nil, "locked"
    end
    local lock, why = lock_of(self, key)
    if not lock then
        return nil, why
    end
    self.client.host.let_go()            -- what objects held that were just collected
    local began, elapsed = self.client.now(), 0
    local lease = lease_of(self.client, self.exptime)
    local ok, err = lock:tryLock(0, lease)
    if not ok and self.timeout > 0 and AGAIN[err.code] then
        ok, err = lock:tryLock(self.timeout, lease)
        elapsed = max(self.client.now() - began, SHORTEST)
    end
    if not ok then               -- who does not wait knows only "timeout", wherever he asks
        local timed_out = TIMED_OUT[err.code] or err.code == "phase" and self.timeout <= 0
        return nil, timed_out and "timeout" or tostring(err)
    elseif self.held then                -- by another light thread, through this object
        lock:unlock()
        return nil, "locked"
    end
    self.held = lock
    keep(lock, self.exptime)
    set_guard(self, lock.owner)
    return elapsed
end

function Lock:unlock()
    local lock = self.held
    if not lock then
        return nil, "unlocked"
    end
    self.held = nil
    set_guard(self, nil)
    local ok, err = lock:unlock()
    if not ok then
        return nil, tostring(err)
    end
    return 1
end

function Lock:expire(exptime)
    local lock = self.held
    if not lock then
        return nil, "unlocked"
    end
    exptime = exptime or self.exptime
    if not is_exptime(exptime) then
        return nil, BAD_EXPTIME
    end
    local ok, err = lock:extend(lease_of(self.client, exptime))
    if ok then
        keep(lock, exptime)
        return true
    end
    return nil, (err.code == "lost" or err.code == "not_held") and "not found" or tostring(err)
end

function Lock:__tostring()
    return format("resty_lock(%s)", self.held and tostring(self.held) or "unlocked")
end

return _M
