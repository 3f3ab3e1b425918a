--- Settings of the command: from its options, else from the environment, else from a file of lines
-- `option = value`. Error messages name the place of a bad setting and never repeat its value,
-- which may be a password.

local args = require "redlock.cli.args"
local report = require "redlock.cli.report"
local options = require "redlock.servers.options"
local health = require "redlock.servers.health"

local _M = {}

local defaults = options.defaults

-- An environment variable; an empty one counts as unset.
local function variable(name)
    local value = os.getenv(name)
    return value ~= "" and value or nil
end

local function places()
    local home = variable "XDG_CONFIG_HOME" or variable "HOME" and os.getenv "HOME" .. "/.config"
    return { home and home .. "/redlock.conf", "/etc/redlock.conf" }
end

local function find()
    for _, path in pairs(places()) do
        local file = io.open(path)
        if file then
            file:close()
            return path
        end
    end
end

local function split(text)
    local list = {}
    for word in text:gmatch "[^%s,]+" do
        list[#list + 1] = word
    end
    return list
end

local function convert(key, text, where)
    local kind = type(defaults[key])
    if text == "false" or (text == "true" and (kind == "boolean" or key == "restart_guard")) then
        return text == "true"
    elseif kind == "number" then
        return tonumber(text) or args.fail(("%s: %s needs a number"):format(where, key))
    end
    return text
end

local function add_nodes(opts, text)
    opts.nodes = opts.nodes or {}
    for _, uri in ipairs(split((text:gsub("\\$", "")))) do
        table.insert(opts.nodes, uri)
    end
end

local function lines_of(path)
    local file, why = io.open(path)
    if not file then
        args.fail("the configuration cannot be read: " .. why)
    end
    local lines
    lines, why = file:read "*a"
    file:close()
    if not lines then
        args.fail(("the configuration cannot be read: %s: %s"):format(path, why))
    end
    return lines:gmatch "([^\n]*)\n?"
end

-- Reads a file of settings into opts.
local function read(path, opts)
    local number, in_nodes = 0, false
    for line in lines_of(path) do
        number = number + 1
        local where = path .. ":" .. number
        local key, text = line:match "^%s*([%w_]+)%s*=%s*(.-)%s*$"
        if key == "nodes" or key == "node" then
            in_nodes = true
            add_nodes(opts, text)
        elseif key and defaults[key] ~= nil and key ~= "on_event" then
            in_nodes = false
            opts[key] = convert(key, text, where)
        elseif in_nodes and not key and line:find "^%s*%a[%w+.-]*://" then
            add_nodes(opts, line:match "^(.-)%s*$")
        elseif line:find "^%s*[^#%s]" then
            args.fail(where .. ": a line is `option = value`, with an option of redlock.new; "
                .. "below `nodes =` there may be more URIs. This is neither"
                -- Before "=" at the start of a line there is no value that could be secret.
                .. (line:find "^[%l_]+%s*=%s*[^%s=]" and ": " .. key or ""))
        end
    end
end

local function has_password(nodes)
    for _, uri in ipairs(nodes or {}) do
        if uri:find "://[^/]*@" then
            return true
        end
    end
    return false
end

--- @return the options for redlock.new; and their files, as a list of { path, whether it has a
--   password }
function _M.client_options(given)
    local opts, files = {}, {}
    local path = given["--config"] or variable "REDLOCK_CONFIG" or find()
    if path then
        read(path, opts)
        files[1] = { path, (opts.password or has_password(opts.nodes)) and true }
    end
    local nodes = given["--nodes"] or variable "REDLOCK_NODES"
    if nodes then
        opts.nodes = split(nodes)
    end
    if not opts.nodes or #opts.nodes == 0 then
        args.fail("no servers are given. Name them with\n"
            .. "  --nodes 'redis://10.0.0.1 redis://10.0.0.2 redis://10.0.0.3'\n"
            .. "or in REDLOCK_NODES, or as `nodes = ...` in ~/.config/redlock.conf or\n"
            .. "/etc/redlock.conf. For servers to play with: redlock dev")
    end
    for _, row in ipairs(options.rows) do
        local value = given[row.flag or false]
        local set = row.env and variable(row.env)
        if value ~= nil then
            opts[row.name] = value ~= true and value     -- --no-...
        elseif set then
            opts[row.name] = set
        end
    end
    if given["--password-file"] or given["--password-env"] then
        opts.password = nil
        opts.password_file, opts.password_env = given["--password-file"], given["--password-env"]
    end
    files[#files + 1] = opts.password_file and { opts.password_file, true } or nil
    return opts, files
end

--- @return the names of the environment variables that have a password
function _M.secret_variables(given)
    local nodes = os.getenv "REDLOCK_NODES"
    local list = { _M.client_options(given).password_env or nil }
    if nodes and has_password(split(nodes)) then
        list[#list + 1] = "REDLOCK_NODES"
    end
    return list
end

--- Makes a client of the configured servers; `changes` may be nil.
function _M.client(given, changes)
    local opts, files = _M.client_options(given)
    for _, file in ipairs(files) do
        local exposed = health.exposed(file[1], file[2])
        if exposed then
            report.note("warning: ", exposed)
        end
    end
    for option, value in pairs(changes or {}) do
        if opts[option] == nil then
            opts[option] = value
        end
    end
    local ok, client = pcall(require("redlock").new, opts)
    if not ok then
        args.fail(report.text_of(client))
    end
    return client
end

local WARM_UP = 0.3           -- seconds

--- Gives all servers a moment to connect. Otherwise the first attempt, which ends with the votes of
-- a majority, leaves out slower servers until the first renewal, and one failure before that would
-- cost the lock.
function _M.connect(client)
    client:connect(WARM_UP)      -- the attempt itself will report errors
end

return _M
