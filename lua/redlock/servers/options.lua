--- The options of redlock.new and their defaults, in one place.

local card = require "redlock.text.card"
local limits = require "redlock.runtime.limits"
local uri = require "redlock.servers.uri"
local validate = require "redlock.runtime.validate"

local MAX_NODES, DAY, quorum = limits.MAX_NODES, limits.DAY, limits.quorum
local type, ipairs, pairs = type, ipairs, pairs
local format = string.format
local bad = validate.bad

local _M = {}

local COMMAND = "to use the servers of the command `redlock`: redlock.from_environment()"
local MINUTE = 60             -- seconds; more was meant as milliseconds

-- ---- how a value is checked: check(what, value, o, given) ------------------------------

-- A bound is a number, or a function of all options.
local function bound(limit, o)
    if type(limit) == "function" then
        return limit(o)
    end
    return limit
end

local function seconds(least, most)
    return function(what, value, o)
        validate.seconds(what, value, bound(least, o), bound(most, o))
    end
end

local function seconds_or_false(least)
    return function(what, value)
        if value ~= false then
            validate.seconds(what, value, least)
        end
    end
end

local function whole(least, most)
    return function(what, value)
        validate.integer(what, value, least, most)
    end
end

-- Refuses what does not fit, and says what is needed.
local function needs(words, fits)
    return function(what, value)
        if not fits(value) then
            bad(what, words)
        end
    end
end

local function one_of(words, ...)
    local known = {}
    for _, value in ipairs { ... } do
        known[value] = true
    end
    return needs(words .. " is needed", function(value) return known[value] end)
end

local flag = one_of("true or false", true, false)

local function path(what, value)
    if value ~= false then
        validate.text(what, value, 4096)
    end
end

local function label(what, value)
    if type(value) == "string" then
        validate.name(what, value, card.MAX)
    elseif type(value) ~= "boolean" then
        bad(what, "a string, true or false is needed, not " .. type(value))
    end
end

local drift = needs("a number from 0 to 0.5 is needed", function(value)
    return type(value) == "number" and value >= 0 and value <= 0.5
end)

local prefix = needs("a string of at most 1024 bytes is needed", function(value)
    return type(value) == "string" and #value <= 1024
end)

local cluster = needs("1 to 32 letters, digits and . _ - are needed, but not 16 hex digits, nor "
    .. "\"change.\" first; without this option clients compare addresses", function(value)
    return value == false or type(value) == "string" and #value <= 32 and not value:find "^change%."
        and value:find "^[%w._-]+$" and not value:find("^" .. ("%x"):rep(16) .. "$")
end)

-- A table with a function, or false.
local function has(field)
    return function(value)
        return value == false or type(value) == "table" and type(value[field]) == "function"
    end
end

--- Signals that end a process unless it catches them (RL_SIGNAL_* of the core).
_M.signals = { HUP = true, INT = true, QUIT = true, USR1 = true, USR2 = true, TERM = true }

local function signals(what, list)
    if list == false then
        return
    elseif type(list) ~= "table" then
        bad(what, 'a list such as { "TERM", "HUP" } is needed, not ' .. type(list))
    end
    for key, name in pairs(list) do
        if type(key) ~= "number" or not _M.signals[name] then
            bad(what, "a list of HUP, INT, QUIT, USR1, USR2, TERM is needed")
        end
    end
end

--- The shortest lease: it must exceed the allowance for clocks, lease * drift_factor + 2 ms, and
-- leave the holder min_validity.
function _M.min_lease(o)
    return (0.003 + o.min_validity) / (1 - o.drift_factor)
end

--- max_lease leaves this much for a lease.
function _M.longest_lease(o)
    return o.max_lease - o.lock_delay
end

--- Why a lease is too long, and what to do.
function _M.too_long(o, lease)
    return format("%.15g s is over max_lease%s (%.15g s); raise max_lease for every client", lease,
        o.lock_delay > 0 and " - lock_delay" or "", _M.longest_lease(o))
end

-- given: the user's options, without defaults.
local function lease(what, value, o, given)
    local longest = _M.longest_lease(o)
    if type(value) == "number" and value > longest then
        if given.lease == nil and given.max_lease ~= nil then
            bad("option max_lease", format("%g s%s is less than the lease (%g s by default); "
                .. "give a shorter lease as well", o.max_lease,
                o.lock_delay > 0 and " - lock_delay" or "", value))
        end
        bad(what, _M.too_long(o, value))
    end
    validate.seconds(what, value, _M.min_lease(o))
end

-- ---- the options -----------------------------------------------------------------------

-- One row for each: name, default, type (for editors), description. And
--   check     see above; rows with `late` are checked last, as they compare with other options
--   c, as     the field of rl_options, and how its value is made (see client.lua)
--   flag      of the command; it begins with --no- when it sets false; arg: its argument's name
--   env       true: may be given by a variable, REDLOCK_... Programs that share locks and lack the
--             variable fail, or work as well; other options are refused there (settings.lua)
--   of        the verb that has the flag; absent: all
-- Source: 1 % + 2 ms of drift are those of the Redlock page.
local NUMBER, WORDS = "number", "string|false"
_M.rows = {
    { "max_lease", 60, NUMBER, "seconds; longer leases are refused; equal in all clients",
        check = seconds(_M.min_lease, DAY), late = true, c = "max_lease_ms", as = "ms" },
    { "lock_delay", 0, NUMBER, "seconds a name stays closed after its holder is lost",
        check = seconds(0, function(o) return o.max_lease - _M.min_lease(o) end), late = true,
        c = "lock_delay_ms", as = "ms" },
    { "lease", 30, NUMBER, "seconds; the lease of locks that are given none",
        check = lease, late = true, c = "lease_ms", as = "ms", flag = "--lease", of = "run" },
    { "timeout", 0.25, NUMBER, "seconds to wait for one server's answer",
        check = seconds(0.001, MINUTE), c = "timeout_ms", as = "ms", flag = "--timeout" },
    { "connect_timeout", 1, NUMBER, "seconds to resolve the name, connect and shake hands",
        check = seconds(0.001, MINUTE), c = "connect_timeout_ms", as = "ms",
        flag = "--connect-timeout" },
    { "max_hold", 3600, "number|false", "seconds the watchdog renews a lock; false: no limit",
        check = seconds_or_false(0.001), flag = "--max-hold", of = "run" },
    { "fallback", 1, NUMBER, "seconds between attempts that no message wakes, +- half",
        check = seconds(0.001, MINUTE) },
    { "patience", 10, NUMBER, "seconds in a row without a majority before a wait ends",
        check = seconds(0) },
    { "drift_factor", 0.01, NUMBER, "no unit: how much faster a server's clock may run",
        check = drift, c = "drift_ppm", as = "ppm" },
    { "prefix", "", "string", "put before names; the same in all programs that share locks",
        check = prefix, flag = "--prefix", arg = "TEXT" },
    { "cluster", false, WORDS, "name of these servers; the same in all programs",
        check = cluster, c = "cluster", flag = "--cluster", arg = "NAME",
        env = true },
    { "label", true, "string|boolean", "the holder's name; true: host, process, program",
        check = label, flag = "--label", arg = "TEXT", of = "run" },
    { "on_event", "auto", '"auto"|false|fun(e: redlock.Event)', "\"auto\": to nginx's log",
        check = needs('a function, false or "auto" is needed', function(value)
            return value == false or value == "auto" or type(value) == "function"
        end) },
    { "metrics", false, "redlock.Metrics|false", "counts for Prometheus: `redlock.metrics`",
        check = needs("the result of new() of the module redlock.metrics is needed, or false",
            has "attach") },
    { "handover", 16, "integer", "hand-overs in a row within the process; 0: none",
        check = whole(0, 1e6) },
    { "max_waiting", 10000, "integer", "calls that may wait in the process, for all names",
        check = whole(1, 1e9) },
    { "margin", 0, "integer", "servers needed beyond a majority to acquire",
        check = whole(0, 31), c = "margin" },
    { "min_validity", 0, NUMBER, "seconds; a lock must have this much validity",
        check = seconds(0, DAY), c = "min_validity_ms", as = "ms" },
    { "signals", false, "redlock.Signal[]|false", "plain LuaJIT: these release all locks",
        check = signals, c = "signals", as = "signals" },
    { "host", false, "redlock.Host|false", "the event loop; false: found by itself",
        check = needs('a module such as require "redlock.host.luv", or the result of '
            .. 'require("redlock.host.loop").new, is needed', has "wait") },
    { "restart_guard", "auto", 'boolean|"auto"', "no vote after a loss; \"auto\": if several",
        check = one_of('true, false or "auto"', true, false, "auto") },
    { "behind_proxy", false, "boolean", "servers may restart while connections to them stay",
        check = flag, c = "behind_proxy" },
    { "user", false, WORDS, "for nodes that have no password of their own",
        flag = "--user", arg = "NAME", env = true },
    { "password", false, "false|string|fun(): string, string?", "or a function", env = true },
    { "password_file", false, WORDS, "file whose first line is the password",
        flag = "--password-file", arg = "FILE", env = true },
    { "password_env", false, WORDS, "environment variable that holds the password",
        flag = "--password-env", arg = "NAME", env = true },
    { "password_refresh", 300, NUMBER, "seconds to use a password function's result",
        check = seconds(0.001) },
    { "ca_file", false, WORDS, "PEM file: the CAs to trust; false: the system's", check = path,
        c = "ca_file", flag = "--ca-file", arg = "FILE", env = true },
    { "cert_file", false, WORDS, "PEM file with client certificate and chain", check = path,
        c = "cert_file", flag = "--cert-file", arg = "FILE", env = true },
    { "key_file", false, WORDS, "PEM file with the key of that certificate", check = path,
        c = "key_file", flag = "--key-file", arg = "FILE", env = true },
    { "tls_verify", true, "boolean", "false: accept any certificate",
        check = flag, c = "tls_verify", flag = "--no-tls-verify" },
}

--- name -> default.
_M.defaults = {}
for _, row in ipairs(_M.rows) do
    row.name, row.default, row.type, row.text = row[1], row[2], row[3], row[4]
    _M.defaults[row.name] = row.default
end

local function check_values(o, given)
    for pass = 1, 2 do
        for _, row in ipairs(_M.rows) do
            if row.check and (row.late == true) == (pass == 2) then
                row.check("option " .. row.name, o[row.name], o, given)
            end
        end
    end
    if (o.cert_file == false) ~= (o.key_file == false) then
        bad("option " .. (o.cert_file and "key_file" or "cert_file"), "a client certificate "
            .. "needs cert_file and key_file")
    end
end

-- The user and password of nodes without a password of their own.
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
    return shared
end

local function check_nodes(nodes, shared)
    if type(nodes) == "string" then
        local text = nodes
        nodes = {}
        for word in text:gmatch "[^%s,]+" do
            nodes[#nodes + 1] = word
        end
    elseif type(nodes) ~= "table" then
        bad("option nodes", "a list of one or more server addresses is needed; " .. COMMAND)
    end
    local count = validate.list("option nodes", nodes, "a list of server addresses")
    if count == 0 then
        bad("option nodes", "a list of one or more server addresses is needed")
    elseif count > MAX_NODES then
        bad("option nodes", format("%d servers are too many; at most %d", count, MAX_NODES))
    end
    local list, seen = {}, {}
    for i, node in ipairs(nodes) do
        local n = uri.node(node, format("nodes[%d]", i), shared)
        if seen[n.label] then
            bad(format("nodes[%d]", i), format("%s is nodes[%d] already; "
                .. "one server must not vote twice", n.label, seen[n.label]))
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
        bad("options", "a table is needed: redlock.new { nodes = { \"redis://...\" } }; "
            .. COMMAND)
    end
    local known = { nodes = true }
    local o = {}
    for _, row in ipairs(_M.rows) do
        local name = row.name
        known[name] = true
        o[name] = opts[name]
        if o[name] == nil then
            o[name] = row.default
        end
    end
    validate.options("options", opts, known)
    check_values(o, opts)
    local shared = shared_password(o)
    o.user, o.password, o.password_file, o.password_env = nil, nil, nil, nil
    o.nodes = check_nodes(opts.nodes, shared)
    local spare = #o.nodes - quorum(#o.nodes)
    if o.margin > spare then
        bad("option margin", format("at most %d: %d servers have a majority of %d", spare,
            #o.nodes, quorum(#o.nodes)))
    end
    return o
end

return _M
