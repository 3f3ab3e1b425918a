--- The interface of lua-resty-lock over a cluster: for code, and libraries, that were written for
-- resty.lock, and are to exclude each other on all hosts and not on one.
--
--     local resty_lock = require "redlock.resty_lock"
--     resty_lock.use("my_locks", client)              -- in init_by_lua
--     local lock, err = resty_lock:new("my_locks", { exptime = 10, timeout = 5 })
--     local elapsed, err = lock:lock(key)
--     local ok, err = lock:unlock()
--
-- Each object is an owner of its own, as there: whoever has the object may unlock it, in any
-- phase, request or timer; when it is collected, its lock is released. Leases are not renewed.

local options = require "redlock.api.options"
local validate = require "redlock.core.validate"

local pcall, setmetatable, tostring, type =
    pcall, setmetatable, tostring, type
local format = string.format
local max, min = math.max, math.min

local _M = {}

local EXPTIME, TIMEOUT = 30, 5           -- seconds, as in lua-resty-lock
local MAX_KEY = 65535                    -- bytes, as in shared dictionaries
local SHORTEST = 0.001                   -- that is waited, in seconds

-- Who waits for longer may get it; and what such a wait ends with.
local AGAIN = { held = true, no_quorum = true, expired = true }
local TIMED_OUT = { held = true, deadlock = true }

local clients = {}                       -- name of a dictionary -> client

--- From now on locks of that dictionary are locks of a cluster, with the dictionary's name and a
-- colon before their keys. There need not be a dictionary of that name.
-- @param dict_name  as it is given to new()
-- @param client     of redlock.new; nil: of none any more
function _M.use(dict_name, client)
    validate.name("dict_name", dict_name, 1024)
    if client ~= nil and not (type(client) == "table" and type(client.getLock) == "function") then
        validate.bad("client", "one made by redlock.new is needed, not " .. type(client))
    end
    clients[dict_name] = client
end

-- ---- locks -----------------------------------------------------------------------

local Lock = {}
Lock.__index = Lock

-- What a lease may be there; nil and why it may not.
local function lease_of(client, exptime)
    local o = client.options
    if type(exptime) ~= "number" or exptime ~= exptime or exptime < 0 then
        return nil, "bad exptime: a number of seconds is needed"
    elseif exptime > options.longest_lease(o) then
        return nil, "bad exptime: " .. options.too_long(o, exptime)
    end
    return max(exptime, options.min_lease(o))
end

--- A lock that is to be taken. No I/O.
-- @param cluster  the name of a dictionary, see use(); or a client, whose locks have the keys as
--   their names
-- @param opts     exptime: seconds after which the lock opens by itself (30; 0: it is renewed
--   until unlock); timeout: seconds that lock() waits (5), exptime at most; step, ratio,
--   max_step: without effect, as a release wakes those who wait
-- @return the lock; or nil and "dictionary not found", or what is wrong with exptime
-- luacheck: push ignore 212/self
function _M:new(cluster, opts)
    local client, prefix = clients[cluster], cluster
    if type(cluster) == "table" and type(cluster.getLock) == "function" then
        client, prefix = cluster, nil
    elseif not client then
        return nil, "dictionary not found"
    end
    local exptime = opts and opts.exptime or EXPTIME
    local lease, why
    if exptime ~= 0 then
        lease, why = lease_of(client, exptime)
        if not lease then
            return nil, why
        end
    end
    local timeout = opts and opts.timeout
    return setmetatable({
        client = client,
        prefix = prefix and prefix .. ":" or "",
        lease = lease,
        timeout = timeout and min(timeout, exptime) or TIMEOUT,
        held = nil,              -- the library's lock
    }, Lock)
end
-- luacheck: pop

-- A lock of the library with an owner of its own: also of several calls for one object.
local function lock_of(self, key)
    key = tostring(key)
    if key == "" then
        return nil, "empty key"
    elseif #key > MAX_KEY then
        return nil, "key too long"
    end
    local ok, lock = pcall(self.client.getLock, self.client, self.prefix .. key, { owner = {} })
    if not ok then
        return nil, (lock:gsub("^.-redlock: ", "redlock: "))
    end
    return lock
end

--- Takes the lock of a key, and waits for it for `timeout` seconds at most.
-- @return the seconds it has waited, 0 when it got it at once; or nil and a text: "timeout",
--   "locked" (this object has a lock already), "nil key", "empty key", "key too long", or what
--   the servers said ("redlock: no_quorum: ...")
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
    local began, elapsed = self.client.now(), 0
    local ok, err = lock:tryLock(0, self.lease)
    if not ok and self.timeout > 0 and AGAIN[err.code] then
        ok, err = lock:tryLock(self.timeout, self.lease)
        elapsed = max(self.client.now() - began, SHORTEST)
    end
    if not ok then
        return nil, TIMED_OUT[err.code] and "timeout" or tostring(err)
    elseif self.held then                -- by another light thread, through this object
        lock:unlock()
        return nil, "locked"
    end
    self.held = lock
    return elapsed
end

--- Releases the lock; whatever it returns, the object has none any more.
-- @return 1; or nil and a text: "unlocked" (there was none), or what became of it ("redlock:
--   expired: ..."): then somebody else may have had it before this
function Lock:unlock()
    local lock = self.held
    if not lock then
        return nil, "unlocked"
    end
    self.held = nil
    local ok, err = lock:unlock()
    if not ok then
        return nil, tostring(err)
    end
    return 1
end

--- Makes the lock last that long from now; never shortens it.
-- @param exptime  seconds; default: that of new()
-- @return true; or nil and a text: "unlocked" (there is none), "not found" (it is lost), or what
--   is wrong with exptime, or what the servers said
function Lock:expire(exptime)
    local lock = self.held
    if not lock then
        return nil, "unlocked"
    end
    local lease, why = self.lease, nil
    if exptime then
        lease, why = lease_of(self.client, exptime)
    end
    if why then
        return nil, why
    end
    local ok, err = lock:extend(lease)
    if ok then
        return true
    end
    return nil, (err.code == "lost" or err.code == "not_held") and "not found" or tostring(err)
end

--- For people: resty_lock(lock(my_locks:x, held, 27.3 s))
function Lock:__tostring()
    return format("resty_lock(%s)", self.held and tostring(self.held) or "unlocked")
end

return _M
