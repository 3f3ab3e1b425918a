--- The command's client. Its settings are its options, and what servers/settings.lua reads.

local client = require "redlock.client.client"
local health = require "redlock.servers.health"
local options = require "redlock.servers.options"
local report = require "redlock.cli.report"
local settings = require "redlock.servers.settings"

local _M = {}

--- @return the options for redlock.new, and where they come from: see settings.load
function _M.client_options(given)
    local opts = { nodes = given["--nodes"] }
    for _, row in ipairs(options.rows) do
        local value = given[row.flag or false]
        if value ~= nil then
            opts[row.name] = value ~= true and value     -- --no-...
        end
    end
    return settings.load(opts, given["--config"], "--nodes")
end

--- @return the names of the environment variables that have a password
function _M.secret_variables(given)
    return settings.secret_variables(_M.client_options(given))
end

--- Makes a client of the configured servers; `changes` may be nil.
function _M.client(given, changes)
    local opts, from = _M.client_options(given)
    for option, value in pairs(changes or {}) do
        if opts[option] == nil then
            opts[option] = value
        end
    end
    local made = client.new(opts, from)
    for _, warning in ipairs(health.exposed(made)) do
        report.note("warning: ", warning)
    end
    return made
end

local WARM_UP = 0.3           -- seconds

--- Gives all servers a moment to connect. Otherwise the first attempt, which ends with the votes of
-- a majority, leaves out slower servers until the first renewal, and one failure before that would
-- cost the lock.
function _M.connect(made)
    made:connect(WARM_UP)      -- the attempt itself will report errors
end

return _M
