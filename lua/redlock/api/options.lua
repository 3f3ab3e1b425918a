--- The options of redlock.new and their defaults, in one place.

local validate = require "redlock.core.validate"
local uri = require "redlock.api.uri"

local type, ipairs, pairs, tostring = type, ipairs, pairs, tostring
local format = string.format
local bad = validate.bad

local _M = {}

local MAX_NODES = 32          -- RL_MAX_NODES of the core
local MAX_PREFIX = 1024
local DAY = 86400

--- Seconds unless said otherwise. Sources: 1 % + 2 ms of drift and the retry delay of
-- 200 ms are those of the Redlock page.
_M.defaults = {
    lease = 30,               -- of lock() and tryLock() without a lease
    max_lease = 60,           -- bounds every lease, with its lock_delay
    lock_delay = 0,           -- how much longer a lock stays closed that nobody released
    timeout = 0.25,           -- one node's answer
    connect_timeout = 1,      -- name, connection and handshake of one node
    wake = "push",            -- waiters are woken by messages; "poll": they only ask
    retry_delay = 0.2,        -- between two attempts without messages, +- half
    fallback = 1,             -- between two attempts with messages, +- half
    max_hold = 3600,          -- how long the watchdog keeps a lock; false: no bound
    patience = 10,            -- lock() gives up after no majority answered for so long
    drift_factor = 0.01,      -- how much faster a server's clock may run (no unit)
    prefix = "",              -- put before every lock name
    client_name = "redlock",  -- shown by CLIENT LIST; false: none
    on_event = "auto",        -- a function that is told of what happens (events.lua); "auto":
                              --   in nginx the log is told what becomes of servers
    handover = 16,            -- holds passed on within the process in a row; 0: none
    max_waiting = 10000,      -- who may wait for locks of the client at once, in a process
    signals = false,          -- plain hosts: a list of signals ("TERM", "HUP") that release first
                              --   what is held
    host = false,             -- who knows how to wait; false: found out
    fence_ttl = DAY,          -- how long the counter of an idle fenced lock stays
    restart_guard = "auto",   -- on for more than one server; true, false, "require"
    user = false,             -- of all nodes without a password of their own, with one of ...
    password = false,         -- a string, or a function() that returns password[, user]
    password_file = false,    -- its first line, read for each connection
    password_env = false,     -- the name of an environment variable
    password_refresh = 300,   -- how old what the function returned may get
    ca_file = false,          -- certificates to trust for TLS; false: the system's
    cert_file = false,        -- the client's certificate, with its chain, for servers that
    key_file = false,         --   want one; and its key
    tls_verify = true,        -- false: any certificate will do (check() reports it)
}

--- The allowance for clocks: lease * drift_factor + 2 ms; a lease must be longer.
function _M.min_lease(o)
    return 0.003 / (1 - o.drift_factor)
end

--- What max_lease leaves for a lease.
function _M.longest_lease(o)
    return o.max_lease - o.lock_delay
end

--- Why a lease is too long, and what to do.
function _M.too_long(o, lease)
    return format("%g s is over max_lease%s (%g s); raise max_lease for every client", lease,
        o.lock_delay > 0 and " - lock_delay" or "", _M.longest_lease(o))
end

-- @param given  what the user said: the others are defaults
local function check_lease(o, given)
    local longest = _M.longest_lease(o)
    if type(o.lease) == "number" and o.lease > longest then
        if given.lease == nil and given.max_lease ~= nil then
            bad("option max_lease", format("%g s%s is less than the lease (%g s, unless you give "
                .. "another one); give a shorter lease as well", o.max_lease,
                o.lock_delay > 0 and " - lock_delay" or "", o.lease))
        end
        bad("option lease", _M.too_long(o, o.lease))
    end
    validate.seconds("option lease", o.lease, _M.min_lease(o))
end

--- Those that end a process, unless it catches them (RL_SIGNAL_* of the core).
_M.signals = { HUP = true, INT = true, QUIT = true, USR1 = true, USR2 = true, TERM = true }

local function check_signals(list)
    if type(list) ~= "table" then
        bad("option signals", 'a list as { "TERM", "HUP" } is needed, not ' .. type(list))
    end
    for key, name in pairs(list) do
        if type(key) ~= "number" or not _M.signals[name] then
            bad("option signals", "a list of HUP, INT, QUIT, USR1, USR2, TERM is needed")
        end
    end
end

local function check_values(o, given)
    validate.seconds("option timeout", o.timeout, 0.001, DAY)
    validate.seconds("option connect_timeout", o.connect_timeout, 0.001, DAY)
    validate.seconds("option retry_delay", o.retry_delay, 0.001, DAY)
    validate.seconds("option fallback", o.fallback, 0.001, DAY)
    if o.wake ~= "push" and o.wake ~= "poll" then
        bad("option wake", '"push" or "poll" is needed')
    end
    validate.seconds("option patience", o.patience, 0, nil)
    if type(o.drift_factor) ~= "number" or not (o.drift_factor >= 0 and o.drift_factor <= 0.5) then
        bad("option drift_factor", "a number from 0 to 0.5 is needed")
    end
    validate.seconds("option max_lease", o.max_lease, _M.min_lease(o), DAY)
    validate.seconds("option fence_ttl", o.fence_ttl, o.max_lease, nil)
    validate.seconds("option lock_delay", o.lock_delay, 0, o.max_lease - _M.min_lease(o))
    check_lease(o, given)
    if type(o.prefix) ~= "string" or #o.prefix > MAX_PREFIX then
        bad("option prefix", format("a string of at most %d bytes is needed", MAX_PREFIX))
    end
    if o.client_name ~= false then
        validate.name("option client_name", o.client_name, 64)
        if o.client_name:find "[^!-~]" then
            bad("option client_name", "printable characters without spaces are needed")
        end
    end
    if o.max_hold ~= false then
        validate.seconds("option max_hold", o.max_hold, 0.001)
    end
    if o.on_event ~= false and o.on_event ~= "auto" and type(o.on_event) ~= "function" then
        bad("option on_event", 'a function, false or "auto" is needed, not ' .. type(o.on_event))
    end
    if o.signals ~= false then
        check_signals(o.signals)
    end
    validate.integer("option handover", o.handover, 0, 1e6)
    validate.integer("option max_waiting", o.max_waiting, 1, 1e9)
    if o.host ~= false and (type(o.host) ~= "table" or type(o.host.wait) ~= "function") then
        bad("option host", 'a module as require "redlock.host.luv", or what '
            .. 'require("redlock.host.loop").new returned, is needed')
    end
    if type(o.restart_guard) ~= "boolean" and o.restart_guard ~= "auto"
        and o.restart_guard ~= "require" then
        bad("option restart_guard", 'true, false, "auto" or "require" is needed')
    end
end

-- A gap or a name in the list would silently make N, and with it the majority, smaller.
local function check_list(nodes)
    local n = 0
    for _ in pairs(nodes) do
        n = n + 1
    end
    for key in pairs(nodes) do
        if type(key) ~= "number" or key % 1 ~= 0 or key < 1 or key > n then
            bad("option nodes", format("a list without gaps is needed; nodes[%s] is out of it",
                tostring(key)))
        end
    end
    if n == 0 then
        bad("option nodes", "a list of one or more server addresses is needed")
    elseif n > MAX_NODES then
        bad("option nodes", format("%d are too many; at most %d", n, MAX_NODES))
    end
end

local function check_tls(o)
    for _, field in ipairs { "ca_file", "cert_file", "key_file" } do
        if o[field] ~= false then
            validate.text("option " .. field, o[field], 4096)
        end
    end
    if (o.cert_file == false) ~= (o.key_file == false) then
        bad("option " .. (o.cert_file and "key_file" or "cert_file"), "a client certificate "
            .. "needs cert_file and key_file")
    end
    if type(o.tls_verify) ~= "boolean" then
        bad("option tls_verify", "true or false is needed")
    end
end

-- What the nodes without a password of their own have.
local function shared_password(o)
    local shared = {}
    for _, field in ipairs { "user", "password", "password_file", "password_env" } do
        shared[field] = o[field] or nil
    end
    if shared.user ~= nil then
        validate.text("option user", shared.user, 4096)
    end
    local given = uri.password("option ", shared)
    if shared.user and not given then
        bad("option user", "a user needs a password, password_file or password_env")
    end
    validate.seconds("option password_refresh", o.password_refresh, 0.001)
    return shared
end

local function check_nodes(nodes, shared)
    if type(nodes) == "string" then
        nodes = { nodes }
    elseif type(nodes) ~= "table" then
        bad("option nodes", "a list of one or more server addresses is needed")
    end
    check_list(nodes)
    local list, seen = {}, {}
    for i, node in ipairs(nodes) do
        local n = uri.node(node, format("nodes[%d]", i), shared)
        if seen[n.label] then
            bad(format("nodes[%d]", i), format("%s is nodes[%d] already; one server must not "
                .. "vote twice", n.label, seen[n.label]))
        end
        seen[n.label] = i
        list[i] = n
    end
    return list
end

--- Checks the argument of redlock.new.
-- @return a table with every option set, and nodes as a list of checked addresses
function _M.new(opts)
    if type(opts) ~= "table" then
        bad("options", "a table is needed: redlock.new { nodes = { \"redis://...\" } }")
    end
    if opts.socket_dir ~= nil then
        bad("option socket_dir", "not of a client, but of all workers of nginx; in init_by_lua: "
            .. 'require("redlock.host.nginx").set_socket_dir(path)')
    end
    local known = { nodes = true }
    local o = {}
    for name, default in pairs(_M.defaults) do
        known[name] = true
        o[name] = opts[name]
        if o[name] == nil then
            o[name] = default
        end
    end
    validate.options("options", opts, known)
    check_values(o, opts)
    check_tls(o)
    local shared = shared_password(o)
    o.user, o.password, o.password_file, o.password_env = nil, nil, nil, nil
    o.nodes = check_nodes(opts.nodes, shared)
    return o
end

return _M
