--- Server addresses: URIs or tables, checked and brought into one shape.

local encoding = require "redlock.text.encoding"
local validate = require "redlock.runtime.validate"

local type, tonumber, tostring, ipairs = type, tonumber, tostring, ipairs
local each = pairs            -- for finalizers: see finalizers.lua
local format, find, match = string.format, string.find, string.match
local bad = validate.bad

local _M = {}

local SCHEMES = { redis = true, valkey = true, rediss = true, valkeys = true }
local SECURE = { rediss = true, valkeys = true }
local FIELDS = { host = true, port = true, path = true, user = true, password = true, db = true,
    password_file = true, password_env = true, tls = true, server_name = true }
local DEFAULT_PORT = 6379
local MAX_DB, MAX_TEXT = 65535, 4096

local function unescape(s)
    return s and encoding.unescape(s)
end

-- Escapes s for a label, from which it can be parsed again. keep: further characters to leave.
local function escape(s, keep)
    return encoding.escape(s, "%w._~" .. keep .. "-")
end

-- Splits "user:password@rest". The password may contain ":".
local function split_credentials(rest)
    local credentials, host = match(rest, "^(.*)@([^@]*)$")
    if not credentials then
        return rest
    end
    local user, password = match(credentials, "^([^:]*):(.*)$")
    if not user then
        user, password = nil, credentials      -- redis://password@host, as redis-cli has it
    end
    return host, user ~= "" and unescape(user) or nil, unescape(password)
end

local function parse_unix(rest, what)
    local before, path, query = match(rest, "^([^/]*)(/[^?]*)%??(.*)$")
    if not path or path == "/" then
        bad(what, "unix:// needs an absolute path: unix:///run/redis.sock")
    end
    local _, user, password = split_credentials(before)
    local db
    if query ~= "" then
        db = tonumber(match(query, "^db=(%d+)$"))
        if not db then
            bad(what, "only ?db=<number> may follow a unix socket's path")
        end
    end
    return { path = unescape(path), user = user, password = password, db = db }
end

-- What else may be wrong: lists are split at spaces and commas.
local IN_PASSWORD = "; in a password write / as %2F , as %2C ? as %3F and a space as %20, or use "
    .. "password_file"

local function parse_tcp(rest, what)
    local authority, db = match(rest, "^([^/?]*)/?([^/?]*)$")
    if not authority then
        bad(what, "a URI is redis://[user[:password]@]host[:port][/db], and nothing may follow"
            .. IN_PASSWORD)
    end
    local host_port, user, password = split_credentials(authority)
    local host, port = match(host_port, "^%[([^%]]+)%]:?(%d*)$")
    if not host then
        host, port = match(host_port, "^([^:]+):?(%d*)$")
    end
    if not host then
        bad(what, "there is no host, or the port is not a number; IPv6 addresses go in "
            .. "brackets: redis://[::1]:6379" .. IN_PASSWORD)
    end
    if db ~= "" and not find(db, "^%d+$") then
        bad(what, "the path is the number of a database: redis://host/0")
    end
    return { host = unescape(host), port = tonumber(port), user = user, password = password,
        db = tonumber(db) }
end

local function parse(uri, what)
    local scheme, rest = match(uri, "^([%a][%w+.-]*)://(.*)$")
    if not scheme and find(uri, "^[%w.-]+:%d+$") then
        bad(what, format("a URI is needed, not '%s': write redis://%s", uri, uri))
    elseif not scheme then
        bad(what, "a URI is redis://host[:port][/db] or unix:///path" .. (find(uri, "^[\"'[]")
            and "; leave out quotes and brackets" or find(uri, "@", 1, true) and IN_PASSWORD or ""))
    end
    scheme = scheme:lower()
    if scheme == "unix" then
        return parse_unix(rest, what)
    elseif SCHEMES[scheme] then
        local n = parse_tcp(rest, what)
        n.tls = SECURE[scheme]
        return n
    end
    bad(what, "unknown scheme '" .. scheme .. "'; use redis, rediss (TLS), valkey or unix")
end

local function check_text(what, value)
    return value ~= nil and validate.text(what, value, MAX_TEXT)
end

--- Where the password comes from: at most one of the fields password (a string or a function),
-- password_file and password_env, which becomes a password. `what` is put before their names in
-- errors.
function _M.password(what, fields)
    local source
    for _, field in ipairs { "password", "password_file", "password_env" } do
        local value = fields[field]
        if value ~= nil and source then
            bad(what .. field, "there is " .. source .. " already; one of them is enough")
        elseif value ~= nil then
            source = field
            if not (field == "password" and type(value) == "function") then
                check_text(what .. field, value)
            end
        end
    end
    if fields.password_env then
        fields.password = os.getenv(fields.password_env)
        if not fields.password or fields.password == "" then
            bad(what .. "password_env", "there is no environment variable "
                .. fields.password_env .. ", or it is empty")
        end
        fields.password_env = nil
    end
    return source ~= nil
end

local function label(n)
    if n.path then
        return "unix://" .. escape(n.path, "/") .. (n.db > 0 and "?db=" .. n.db or "")
    end
    return format(find(n.host, ":", 1, true) and "%s://[%s]:%d%s" or "%s://%s:%d%s",
        n.tls and "rediss" or "redis", escape(n.host, ":"), n.port,
        n.db > 0 and "/" .. tostring(n.db) or "")
end

local function check_tls(what, n)
    if n.tls ~= nil and type(n.tls) ~= "boolean" then
        bad(what .. ".tls", "true or false is needed")
    elseif n.tls and n.path then
        bad(what .. ".tls", "a unix socket has no TLS")
    elseif n.server_name and not n.tls then
        bad(what .. ".server_name", "it is of use with TLS only")
    elseif n.tls and not require("redlock.cdef").tls then
        bad(what, "unsupported: this build has no TLS; install libssl-dev and pkg-config and "
            .. "build again")
    end
    local name = n.tls and (n.server_name or n.host)
    if name and (#name > 255 or find(name, "^%.") or find(name, "[%c%s]")) then
        bad(what .. (n.server_name and ".server_name" or ".host"), "the name in the server's "
            .. "certificate has 1 to 255 bytes, does not begin with a dot, and has no spaces")
    end
end

--- The address of a node: a URI string or a table of FIELDS. what: its name in errors, as
-- "nodes[1]"; shared: the user, and password or password_file, of nodes without a password of their
-- own, or nil.
-- @return { host, port, path, user, password, password_file, db, tls, server_name, label };
--   label has no secrets
function _M.node(node, what, shared)
    local n
    if type(node) == "string" then
        n = parse(node, what)
    elseif type(node) == "table" then
        validate.options(what, node, FIELDS)
        n = {}
        for field in each(FIELDS) do
            n[field] = node[field]
        end
    else
        bad(what, "a URI or a table is needed, not " .. type(node))
    end
    for _, field in ipairs { "host", "path", "user", "server_name" } do
        check_text(what .. "." .. field, n[field])
    end
    if not _M.password(what .. ".", n) and shared then
        n.user = n.user or shared.user
        n.password, n.password_file = shared.password, shared.password_file
    end
    check_tls(what, n)
    if (n.host == nil) == (n.path == nil) then
        bad(what, "either host or path is needed")
    end
    if n.path and n.port ~= nil then
        bad(what .. ".port", "a unix socket has none")
    end
    if n.user and not (n.password or n.password_file) then
        bad(what, "a user needs a password")
    end
    if n.path and not find(n.path, "^/.") then
        bad(what, "the path of a unix socket is absolute: /run/redis.sock")
    elseif n.path and #n.path > 107 then
        bad(what, "the path of a unix socket has at most 107 bytes")
    end
    n.db = validate.integer(what .. ".db", n.db or 0, 0, MAX_DB)
    if n.host then
        n.port = validate.integer(what .. ".port", n.port or DEFAULT_PORT, 1, 65535)
    end
    n.label = label(n)
    return n
end

return _M
