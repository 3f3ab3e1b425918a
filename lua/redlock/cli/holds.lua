--- What `redlock run` holds, by its flags: a lock of one name or several, a reader's or writer's
-- lock, or a permit. With --once nobody holds it: the name is kept closed for the period.

local args = require "redlock.cli.args"
local card = require "redlock.text.card"
local client_options = require "redlock.servers.options"
local once_per_period = require "redlock.kinds.once"

local _M = {}

-- held: the message when another owner has the lock.
local Hold = { held = "%s is held by somebody else" }
Hold.__index = Hold

--- Begins to acquire it. wait: seconds; nil: until it is free.
-- @return a future
function Hold:acquire_async(wait)
    return wait and self.lock:tryLockAsync(wait) or self.lock:lockAsync()
end

--- Call when the future has the lock, with its result. A name that must stay closed for longer (for
-- at_least seconds, or nil) than the longest lease is kept closed from now on.
-- @return true; or nil and an error: it must not be used
function Hold:taken(got, at_least)
    local client = self.client
    self.lock = self.lock or got             -- for a semaphore: the permit
    self.token = self.lock.token and self.lock:token() or nil
    self.lock:onLost(function(_, reason) self.lost = reason end)
    self.max = client.options.max_hold or nil        -- seconds; false: no end
    if at_least and at_least > client_options.longest_lease(client.options) then
        return self.lock:settle(at_least, { keep = true })
    end
    return true
end

function Hold:remaining()
    return self.lock:remaining()
end

--- Releases the lock. at_least: as for taken().
-- @return what unlock() of the lock returns
function Hold:release(at_least)
    return self.lock:unlock { closed_for = at_least }
end

--- The message when another owner has the lock.
function Hold:refusal(err)
    return self.held:format((self.semaphore or self.lock):describe())
        .. (err.holder and (" (%s)"):format(err.holder.label) or "")
end

function Hold:variables()
    local lock = self.lock
    return { REDLOCK_NAME = table.concat(self.names, "\n"), REDLOCK_TOKEN = self.token,
        REDLOCK_SLOT = lock.slot and lock:slot() }
end

-- ---- kinds -----------------------------------------------------------------------

local function exclusive(hold, given)
    local name = hold.names[1]
    hold.lock = given["--plain"] and hold.client:getLock(name) or hold.client:getFencedLock(name)
end

-- Once per period: acquired, then kept closed for the period, so that nobody holds it.
local Once = setmetatable({}, Hold)
Once.__index = Once

function Once:refusal(err)
    self.held = once_per_period.has_run(err.holder) and "%s has started already in this period"
        or nil
    return Hold.refusal(self, err)
end

function Once:acquire_async()
    return self.lock:tryLockAsync(0)
end

function Once:taken(got)
    local ok, err = Hold.taken(self, got)
    if not ok then
        return nil, err
    end
    return self.lock:settle(self.period)
end

function Once.remaining()
    return math.huge
end

function Once.release()
    return true
end

local function once(hold, given)
    if given["--once"] == 0 then
        args.fail "--once needs a number of seconds, more than 0"
    end
    hold.period = given["--once"]
    exclusive(hold, given)
    hold.lock = once_per_period.view(hold.client, hold.lock.primitive, hold.names[1], {})
    setmetatable(hold, Once)
end

local function several(hold)
    hold.lock = hold.client:getMultiLock(hold.names)
    hold.names = hold.lock:getNames()
end

local function shared(hold)
    hold.lock = hold.client:getReadWriteLock(hold.names[1]):readLock()
end

local function writer(hold, given)
    hold.lock = hold.client:getReadWriteLock(hold.names[1], { fenced = given["--fenced"] })
        :writeLock()
end

local Permit = setmetatable({ held = "all permits of %s are taken" }, Hold)
Permit.__index = Permit

function Permit:acquire_async(wait)
    return wait and self.semaphore:tryAcquireAsync(wait) or self.semaphore:acquireAsync()
end

local function permit(hold, given)
    local n = given["--permits"]
    hold.semaphore = hold.client:getSemaphore(hold.names[1], tonumber(n) or n,
        { fenced = given["--fenced"] })
    hold.what = "the permit"
    setmetatable(hold, Permit)
end

-- ----------------------------------------------------------------------------------

-- The flags that choose a kind, and the flags that each excludes.
local KINDS = {
    { "--shared", shared, not_with = { "--at-least", "--plain", "--fenced" } },
    { "--write", writer, not_with = { "--plain" } },
    { "--permits", permit, not_with = { "--plain" } },
    { "--once", once, not_with = { "--at-least", "--wait" } },
}

--- Fails if flags and names do not go together.
function _M.check(given, names)
    local found
    for _, kind in ipairs(KINDS) do
        local flag = kind[1]
        if given[flag] and found then
            args.fail(found .. " and " .. flag .. " are two kinds of locks; give one of them")
        elseif given[flag] then
            found = flag
            for _, other in ipairs(kind.not_with) do
                if given[other] then
                    args.fail(other .. " does not go with " .. flag)
                end
            end
        end
    end
    if given["--plain"] and given["--fenced"] then
        args.fail "--fenced does not go with --plain"
    end
    for _, name in ipairs(names) do
        if names[2] and name:find "^[%w+]+://" then     -- from an unquoted list of servers
            args.fail("names of locks are wanted, not " .. args.words(names, 2) .. "; a list of "
                .. "servers is one word: --nodes 'redis://...'")
        end
    end
    local single = found or given["--at-least"] and "--at-least"
        or given["--fenced"] and "--fenced"
    if names[2] and single then
        args.fail(single .. " is for one name, not for " .. args.words(names, 1))
    end
end

--- Adds the name of a command to the labels of all holds of a client.
function _M.name(client, command)
    client.label = card.with_job(client.label, (command:match "[^/]+$" or "?"):sub(1, 100))
end

--- @return the hold that the flags ask for, not acquired yet, for a command to run
function _M.new(client, given, names, command)
    local hold = setmetatable({ client = client, names = names, what = "the lock" }, Hold)
    _M.name(client, command)
    local make = names[2] and several or exclusive
    for _, kind in ipairs(KINDS) do
        make = given[kind[1]] and kind[2] or make
    end
    make(hold, given)
    return hold
end

return _M
