-- Clients for the plugins of a gateway. Each worker makes one client for each instance of a plugin,
-- from its configuration.
--
--     local client = clients.enter(id, conf)      -- in access
--     clients.leave(id)                           -- in log
--
-- id:   the instance; it stays the same when the configuration changes
-- conf: nodes (a list of URIs); prefix, user and password may be left out
local redlock = require "redlock"

local _M = {}

local current = {}        -- id -> { conf, key, client, users: how many requests, retired }

-- Configurations with the same key can share a client. The password may differ: see new_entry().
local function key_of(conf)
    return table.concat({ conf.prefix or "", conf.password and "password" or "",
        unpack(conf.nodes) }, "\n")
end

local function new_entry(conf)
    local entry = { conf = conf, key = key_of(conf), users = 0 }
    local function password()
        return entry.conf.password, entry.conf.user      -- of the newest configuration
    end
    entry.client = redlock.new {                         -- opens nothing yet
        nodes = conf.nodes, prefix = conf.prefix, password = conf.password and password }
    return entry
end

local function close_if_unused(entry)
    if entry.retired and entry.users == 0 then
        entry.client:close()
    end
end

--- Checks a configuration, for the plugin's schema.
-- @return true; or nil and what is wrong
function _M.check(conf)
    local ok, why = pcall(new_entry, conf)
    if not ok then
        return nil, tostring(why)
    end
    return true
end

--- Stops using an instance's client. Requests that have it keep it, and their locks, until leave().
function _M.retire(id)
    local entry = current[id]
    current[id] = nil
    if entry then
        entry.retired = true
        close_if_unused(entry)
    end
end

--- The client for this request; the same one in all its phases.
function _M.enter(id, conf)
    local entered = ngx.ctx.redlock_clients or {}
    ngx.ctx.redlock_clients = entered
    if not entered[id] then
        local entry = current[id]
        if not entry or entry.key ~= key_of(conf) then
            local new = new_entry(conf)                  -- raises if the configuration is wrong
            _M.retire(id)
            current[id], entry = new, new
        end
        entry.conf = conf
        entry.users = entry.users + 1
        entered[id] = entry
    end
    return entered[id].client
end

--- Releases what the request still holds.
function _M.leave(id)
    local entered = ngx.ctx.redlock_clients
    local entry = entered and entered[id]
    if entry then
        entered[id] = nil
        entry.client:releaseAll()
        entry.users = entry.users - 1
        close_if_unused(entry)
    end
end

return _M
