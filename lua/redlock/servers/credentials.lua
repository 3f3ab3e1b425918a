--- Passwords that change: functions that return a fresh one, such as a cloud token.
--
-- The core connects by itself, also while no Lua runs, with the password it got last. The functions
-- run on the thread of the library's caller: at first use; before calls that ask the servers, when
-- the last results are older than password_refresh; and as soon as a server refused one. (The core
-- reads password files itself, for each connection.)

local errors = require "redlock.runtime.errors"
local cores = require "redlock.runtime.cores"
local changes = require "redlock.runtime.changes"

local pcall, type, ipairs, setmetatable = pcall, type, ipairs, setmetatable
local min = math.min

local _M = {}

-- What printing a client, a lock or an error must not show. For each Credentials: `sources`, where
-- each node's password comes from (a string, a function, nil); `given`, the last results.
local private = setmetatable({}, { __mode = "k" })

local Credentials = {}
Credentials.__index = Credentials

-- Seconds between two calls after refusals: the pause doubles from the first to the second.
local RETRY_MIN, RETRY_MAX = 0.1, 10
local BUSY = 10               -- seconds for which a running call keeps others out

function _M.new(client)
    local self = setmetatable({ client = client, failures = 0, at = 0, pause = RETRY_MIN },
        Credentials)
    local sources = {}
    for i, node in ipairs(client.options.nodes) do
        sources[i], node.password = node.password, nil
        self.dynamic = self.dynamic or type(sources[i]) == "function"
    end
    private[self] = { sources = sources, given = {} }
    return self
end

local function call(fn)
    local ok, password, user = pcall(fn)
    if not ok then
        return nil, (errors.failed("the password function", password):gsub("[^ -~]", "?"))
    elseif type(password) ~= "string" or password == "" or password:find "%z" then
        return nil, "the password function returned no password"
    elseif user ~= nil and (type(user) ~= "string" or user == "" or user:find "%z") then
        return nil, "the password function returned a user that is not a string"
    end
    return { password = password, user = user }
end

-- Calls each function once.
-- @return a list: { password, user } for a node with a function, else false; or nil and what failed
local function fetch(self)
    local fresh, got = {}, {}
    self.at = self.client.now()
    for i = 1, #self.client.options.nodes do
        local fn = private[self].sources[i]
        if type(fn) == "function" and not got[fn] then
            local why
            got[fn], why = call(fn)
            if not got[fn] then
                return nil, why
            end
        end
        fresh[i] = got[fn] or false
    end
    return fresh
end

--- The user and password with which node i begins.
-- @return password, user; password is nil when there is none or it comes from a file
function Credentials:of(i)
    local user = self.client.options.nodes[i].user
    local given = private[self].given[i]
    if given then
        return given.password, given.user or user
    end
    return private[self].sources[i], user
end

--- Fetches the passwords that the core begins with.
-- @return true; or nil and a `config` error
function Credentials:fetch_first()
    if not self.dynamic then
        return true
    end
    local fresh, why = fetch(self)
    if not fresh then
        return nil, errors.new("config", why)
    end
    private[self].given = fresh
    return true
end

local function due(self)
    local client = self.client
    local age, failures = client.now() - self.at, changes.counters(client).auth_failures
    if failures ~= self.failures then
        if age < self.pause then
            return false
        end
        self.failures = failures
        self.pause = age > RETRY_MAX and RETRY_MIN or min(self.pause * 2, RETRY_MAX)
        return true
    end
    return age >= client.options.password_refresh
end

--- Gives the core fresh passwords when they are due.
-- @return whether a node got another one
function Credentials:poll()
    local client = self.client
    local busy = self.busy_until and client.now() < self.busy_until
    if not self.dynamic or not client.core or busy or not due(self) then
        return false
    end
    -- A password function may yield while others call this, and may never return.
    self.busy_until = client.now() + BUSY
    local fresh, why = fetch(self)
    self.busy_until = nil
    if not fresh then
        client.events:emit { type = "password_failed", message = why }
        return false
    end
    local changed, given = false, private[self].given
    for i, node in ipairs(client.options.nodes) do
        local new, old = fresh[i], given[i]
        if new and (new.password ~= old.password or new.user ~= old.user) then
            local set = cores.set_password(client.core, i, new.user or node.user, new.password)
            changed, fresh[i] = changed or set, set and new or old       -- else the next time
        end
    end
    private[self].given = fresh
    return changed
end

return _M
