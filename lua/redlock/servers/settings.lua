--- Settings that a program is given from outside: the environment, and a file of lines
-- `option = value`. redlock.from_environment and the command read them. Error messages name the
-- place of a bad setting and never repeat its value, which may be a password.

local ffi = require "ffi"
local options = require "redlock.servers.options"
local validate = require "redlock.runtime.validate"

local ipairs, tonumber, type = ipairs, tonumber, type
local each = pairs            -- for finalizers: see finalizers.lua
local getenv, open, upper = os.getenv, io.open, string.upper

local _M = {}

ffi.cdef [[unsigned long redlock_getauxval(unsigned long) __asm__("getauxval");]]

local AT_SECURE = 23
local PASSWORDS = { "password", "password_file", "password_env" }

local function fail(...)
    validate.raise("redlock: " .. table.concat { ... }:gsub("%c", "?"))
end

-- An environment variable; an empty one counts as unset. So does each in a program that was given
-- more rights than its caller has (setuid, setgid, file capabilities): the caller chooses them.
local function variable(name)
    local value = ffi.C.redlock_getauxval(AT_SECURE) == 0 and getenv(name)
    return value ~= "" and value or nil
end

-- The path of the first of the usual files that exists, opened once, as it may be a FIFO.
local function find()
    local home = variable "HOME"
    local own = variable "XDG_CONFIG_HOME" or home and home .. "/.config"
    for _, path in each { own and own .. "/redlock.conf", "/etc/redlock.conf" } do
        local file = open(path)
        if file then
            return path, file
        end
    end
end

-- Fails for what people add to a value. A password may have it.
local function check_value(key, text, where)
    if key ~= "password" and text:find "%s#" then
        fail(where, ": a comment needs a line of its own, which begins with #")
    elseif key ~= "password" and key ~= "nodes" and text:find "^(['\"]).*%1$" then
        fail(where, ": ", key, ": leave out the quotes")
    end
end

local function convert(key, text, where)
    local kind = type(options.defaults[key])
    check_value(key, text, where)
    if text == "false" or (text == "true" and (kind == "boolean" or key == "restart_guard")) then
        return text == "true"
    elseif kind == "number" then
        return tonumber(text) or fail(where, ": ", key, " needs a number")
    elseif key:find "_file$" and text:find "^[^/]" then
        return (where:match "^.*/" or "") .. text         -- paths count from the file's folder
    end
    return text
end

local function lines_of(path, file)
    local why
    if not file then
        file, why = open(path)
    end
    if not file then
        fail("the configuration cannot be read: ", why)
    end
    local text
    text, why = file:read "*a"
    file:close()
    if not text then
        fail("the configuration cannot be read: ", path, ": ", why)
    end
    return text:gsub("^\239\187\191", ""):gmatch "([^\n]*)\n?"      -- some editors begin so
end

local function read_file(path, file)
    local opts, number, in_nodes = {}, 0, false
    local function add_nodes(text, where)
        check_value("nodes", text, where)
        opts.nodes = (opts.nodes or "") .. " " .. text:gsub("\\$", "")
    end
    for line in lines_of(path, file) do
        number = number + 1
        local where = path .. ":" .. number
        local key, text = line:match "^%s*([%w_]+)%s*=%s*(.-)%s*$"
        if key == "nodes" or key == "node" then
            in_nodes = true
            add_nodes(text, where)
        elseif key and options.defaults[key] ~= nil and key ~= "on_event" then
            in_nodes = false
            opts[key] = convert(key, text, where)
        elseif in_nodes and not key and line:find "^%s*%a[%w+.-]*://" then
            add_nodes(line:match "^(.-)%s*$", where)
        elseif line:find "^%s*[^#%s]" then
            fail(where, ": a line is `option = value`, with an option of redlock.new; "
                .. "below `nodes =` there may be more URIs. This is neither",
                -- Before "=" at the start of a line there is no value that could be secret.
                line:find "^[%l_]+%s*=%s*[^%s=]" and ": " .. key or "")
        end
    end
    return opts
end

-- Whether a text of URIs has a password.
local function has_password(nodes)
    return nodes ~= nil and nodes:find "://[^/%s,]*@" ~= nil
end

local function no_servers(origin)
    local ngx = rawget(_G, "ngx")
    validate.raise("redlock: no servers are given. Name them "
        .. (origin == "--nodes" and "with --nodes 'URI ...', or " or "")
        .. "in the environment, as in\n"
        .. "  export REDLOCK_NODES='redis://HOST1:6379 redis://HOST2:6379 redis://HOST3:6379'\n"
        .. (ngx and ngx.config and "and, as nginx hides variables from its workers, with this line "
        .. "at the top of nginx.conf:\n  env REDLOCK_NODES;\n" or "")
        .. "or as `nodes = ...` in ~/.config/redlock.conf or /etc/redlock.conf. For servers to "
        .. "play with: redlock dev")
end

local function override(opts, given)
    for _, name in ipairs(PASSWORDS) do
        if given[name] then
            opts.password, opts.password_file, opts.password_env = nil, nil, nil
        end
    end
    for name, value in each(given) do
        opts[name] = value
    end
end

--- Reads the settings from a file (nil: REDLOCK_CONFIG, or the first of the usual ones that exists)
-- and the environment. Given options, or nil, win; origin says where given.nodes come from.
-- @return the options for redlock.new; and { source: says where they come from; path: of the file,
--   or nil; secret: whether a password is in it }
function _M.load(given, path, origin)
    given = validate.options("options", given, given)
    path = path or variable "REDLOCK_CONFIG"
    local file
    if not path then
        path, file = find()
    end
    local opts = path and read_file(path, file) or {}
    local from = { path = path, secret = opts.password and true or has_password(opts.nodes) }
    local found, source = {}, { given.nodes ~= nil and origin or nil }
    local function look_up(name, is_read)
        local env = "REDLOCK_" .. upper(name)
        local value = given[name] == nil and variable(env)
        if value and not is_read then
            fail(env, ": this option is not read from the environment, as programs without the "
                .. "variable would differ silently. Give it in the settings file: ", name, " = ...")
        elseif value then
            found[name], source[#source + 1] = value, env
        end
    end
    look_up("nodes", true)
    for _, row in ipairs(options.rows) do
        look_up(row.name, row.env)
    end
    source[#source + 1] = path
    override(opts, found)
    override(opts, given)
    if not opts.nodes or type(opts.nodes) == "string" and not opts.nodes:find "[^%s,]" then
        no_servers(origin)
    end
    from.source = table.concat(source, ", ")
    return opts, from
end

--- @return the names of the environment variables that have a password, with these options
function _M.secret_variables(opts)
    local list = { "REDLOCK_PASSWORD", opts.password_env or nil }
    if has_password(getenv "REDLOCK_NODES") then
        list[#list + 1] = "REDLOCK_NODES"
    end
    return list
end

return _M
