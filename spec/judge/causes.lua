-- What may keep a server from voting. Of each cause:
--   make(server, stage)  makes it so of a server; args: with what that server is started
--   says       a pattern of the line that names it, in all that is told of it, in small letters
--   briefly    what other verbs than check may say instead
--   rights     it is of what the user may do; command: of this command
--   also       another cause whose words may be said, too
--   partial    what fails depends on which scripts the server has already
--   init       how `init` ends, of what passes by itself (it fails)
--   remedy     a pattern of what `check` prints to do about it, and a function that does it
--   awaits     `check --wait` waits until that has been done; else it ends at once
--   passes     it passes by itself, so that run and lead wait for it, too
--   guarded    there are no such cells of a server alone; alone: only of that
--   deaf       the client asks it nothing, though it would answer
--   lacks      what this machine has not, so that there are no such cells
--   others     with what the servers are started that do not have it
--   some       it is not of all servers
--   spreads    other servers may say it, too
--   one_by_one the verbs are asked one after the other
--   every      it is of all servers, or of the client: there are no cells of some servers
local support = require "spec.support"

local LIFE = "3f9c0a1b2c3d4e5f"

-- A marker; words: as in spec/support/redis.lua.
local function mark(state, words)
    words = words or {}
    return function(server, stage)
        server:mark(("%s v%d %s %s %d %d %s%s"):format(LIFE, words.version or 4, state,
            server:life(), words.db or 0, words.max_lease or stage.max_lease * 1000,
            words.cluster or stage.name, state == "a" and "" or " 0 1795691426965"))
    end
end

-- What the user may do.
local function acl(...)
    local rules = { ... }
    return function(server)
        server:user("app", unpack(rules))
    end
end

local function call(...)
    local words = { ... }
    return function(server)
        local ok, err = server:call(unpack(words))
        assert(ok, err)
    end
end

-- Where the client looks for it.
local function at(pattern, text)
    return function(server)
        server.uri = server.uri:gsub(pattern, text)
    end
end

local function reset(server)
    server:user("app", "reset", "on", ">pw", "~*", "&*", "+@all")
end

local function admit(server, stage)
    server:admit(stage.max_lease, stage.name)
end

local MARKER = "redlock:{server}:marker"
local DEL = "del redlock:{server}:marker on that server"

local function delete_marker(server)
    server:call("DEL", MARKER)
end

-- A server without a marker, whose quarantine cannot begin.
local function stuck(make)
    return function(server)
        delete_marker(server)
        make(server)
    end
end

-- An address of this machine that is none of the loopback.
local function own_address()
    local pipe = io.popen "hostname -I"
    local address = pipe:read("*a"):match "%f[%d]%d+%.%d+%.%d+%.%d+"
    pipe:close()
    return address
end

local function take_back(server)
    server.uri = server.was
end

local function use_tls(server)
    server.uri = server.tls_uri
end

local function certify(server, stage)
    local its = stage.certificates .. "/good"
    assert(server:call("CONFIG", "SET", "tls-cert-file", its .. ".crt", "tls-key-file",
        its .. ".key"))
end

local DENIED = { "noperm", "user executing the script can.t run" }

-- What other verbs than check say of a command that is forbidden or renamed.
local LESS = { "redlock check names", "needs all acl rules", "unknown" }

local function waits() end           -- the remedy is time

local _M = {
    none = { make = function() end },
    down = { make = function(s) s:kill() end, says = "connection refused", awaits = true,
        remedy = { "check that the server runs there", function(s) s:start() reset(s) end } },
    frozen = { make = function(s) s:freeze() end,
        says = { "no answer to the handshake", "but no answer in time" }, awaits = true,
        remedy = { "check that the server is up", function(s) s:thaw() end } },
    slow_within = { make = function(s, stage) stage.proxy(s):delay("down", 200) end },
    slow = { max_lease = 20, make = function(s, stage)
        stage.proxy(s):delay("down", 900)
        stage.settings.timeout = 0.7
        stage.settings.connect_timeout = 8       -- a handshake takes two round trips
    end,
        says = "it answers after", briefly = { "no answer", "not connected" },
        remedy = { "raise the option `timeout`", function(_, stage)
            stage.settings.timeout = 6
        end } },
    wrong_password = { make = acl("resetpass", ">other"), says = "wrongpass",
        remedy = { "give user and password", acl ">pw" } },
    user_off = { make = acl "off", says = "wrongpass",
        remedy = { "give user and password", acl "on" } },
    no_password = { every = true, make = function(s, stage)
        s:user("default", "resetpass", ">secret")
        s.opts.password = "secret"
        stage.settings.user, stage.settings.password = nil, nil
    end, says = "noauth", remedy = { "give user and password", function(_, stage)
        stage.settings.user, stage.settings.password = "app", "pw"
    end } },
    needless_password = { every = true, make = function(_, stage)
        stage.settings.user = nil
    end, says = "without any password configured", remedy = { "give none", function(_, stage)
        stage.settings.password = nil
    end } },
    few_databases = { args = { "--databases", "1" }, make = function(s)
        s.was, s.uri = s.uri, s.uri .. "/1"
    end, says = "db index is out of range", remedy = { "use a smaller number", take_back } },
    nothing_allowed = { make = acl "-@all", says = DENIED, rights = true,
        remedy = { "allow this user", reset } },
    no_scripts = { make = acl "-@scripting", says = DENIED, rights = true,
        remedy = { "allow this user", reset } },
    no_writes = { make = acl "-@write", says = DENIED, rights = true,
        remedy = { "allow this user", reset } },
    no_keys = { make = acl("resetkeys", "~other:*"), says = DENIED, rights = true,
        remedy = { "allow this user", reset } },
    full = { make = call("CONFIG", "SET", "maxmemory", "1"), says = { "oom", "maxmemory" },
        remedy = { "raise maxmemory", call("CONFIG", "SET", "maxmemory", "0") } },
    cannot_save = { make = function(s)
        s:call("CONFIG", "SET", "save", "3600 1")
        assert(support.sh("rm -rf " .. s.dir))
        s:call "BGSAVE"
        support.eventually(function()
            return s:call("INFO", "persistence"):find "rdb_last_bgsave_status:err"
        end)
    end, says = "misconf", remedy = { "free its disk", function(s)
        assert(support.sh("mkdir -p " .. s.dir))
        s:call("CONFIG", "SET", "dir", s.dir)
        s:call("CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
    end } },
    no_name = { make = at("127.0.0.1", "no-such-host.invalid"), awaits = true,
        says = { "not known", "not resolved", "name resolution" },
        remedy = { "correct it, or the resolver", at("no%-such%-host.invalid", "127.0.0.1") } },
    max_clients = { make = call("CONFIG", "SET", "maxclients", "1"),
        says = "max number of clients", awaits = true, remedy = { "raise its maxclients",
            call("CONFIG", "SET", "maxclients", "1000") } },
    busy = { make = function(s)
        s:call("CONFIG", "SET", "lua-time-limit", "50")
        support.spawn { "redis-cli", "-p", s.port, "EVAL", "while true do end", "0",
            stdout = "null", stderr = "null" }
        support.eventually(function()
            local _, err = s:call "PING"
            return err and err:find "BUSY"
        end)
    end, says = { "busy[.)\n]", "busy redis" }, awaits = true,
        remedy = { "the script has ended", call("SCRIPT", "KILL") } },
    too_few_replicas = { make = call("CONFIG", "SET", "min-replicas-to-write", "1"),
        says = "noreplicas", briefly = "too few replicas",
        remedy = { "lower min%-replicas%-to%-write",
            call("CONFIG", "SET", "min-replicas-to-write", "0") } },
    replica = { make = function(s, stage)
        s:call("REPLICAOF", "127.0.0.1", stage:another().port)
        support.eventually(function()            -- its data are those of that one
            return s:call("INFO", "replication"):find "master_link_status:up"
        end)
    end, says = "only masters can vote", remedy = { "name its master", function(s)
        s:call("REPLICAOF", "NO", "ONE")
    end } },
    loading = { args = { "--save", "3600 1000000", "--rdbcompression", "no", "--key-load-delay",
        "2000", "--loading-process-events-interval-bytes", "1024", "--user", "app", "on", ">pw",
        "~*", "&*", "+@all" }, make = function(s)
        s:call("EVAL", "for i = 1, 30000 do redis.call('set', i, ('x'):rep(100)) end", 0)
        assert(s:call "SAVE" == "OK")
        s:restart()
    end, says = { "loading redis", "cannot be read or set .loading" }, awaits = true,
        remedy = { "until the server has loaded", function(s)
        s:call("CONFIG", "SET", "key-load-delay", "0")
        support.eventually(function() return s:call "PING" == "PONG" end)
    end } },
    protected_mode = { lacks = not own_address() and "an address beside the loopback",
        args = { "--protected-mode", "yes", "--bind", "127.0.0.1", own_address() },
        make = function(s)
            s.uri = s.uri:gsub("127.0.0.1", own_address())
        end, says = "protected mode", awaits = true, remedy = { "set protected%-mode no",
            call("CONFIG", "SET", "protected-mode", "no") } },
    not_redis = { make = function(s)
        s.was = s.uri
        s.uri = support.hostile { reply = "HTTP/1.1 400 Bad Request\r\n\r\n", close = true }.uri
    end, says = "protocol error",
        remedy = { "check that a redis server listens", take_back } },
    wrong_ca = { certificate = "elsewhere", make = function() end, says = "unknown ca",
        remedy = { "ca_file", certify } },
    expired = { certificate = "expired", make = function() end, says = "expired",
        remedy = { "renew the server.s certificate", certify } },
    ends_soon = { certificate = "named", make = at("127.0.0.1", "localhost"),
        says = "a certificate of its connection", remedy = { "renew it", certify } },
    plain_port = { certificate = "good", make = function(s)
        s.uri = s.uri:gsub(s.tls_port .. "$", s.port)
    end, says = "its tls port", awaits = "perhaps", remedy = { "its tls port", use_tls } },
    tls_port = { certificate = "good", make = function(s)
        s.uri = "redis://127.0.0.1:" .. s.tls_port
    end, says = "a tls port", awaits = true, remedy = { "use rediss://", use_tls } },
    twin = { some = true, spreads = true, others = { "--bind", "127.0.0.1", "127.0.0.2" },
        make = function(s, stage)
        s.was = s.uri
        local host = s == stage[1] and "localhost" or "127.0.0.2"
        s.uri = ("redis://%s:%d"):format(host, stage[stage.n].port)
    end, says = "the same server under two addresses",
        remedy = { "name each server once", take_back } },
    balancer = { one_by_one = true, make = function(s, stage)
        s.was = s.uri
        s.uri = support.proxy(s.port, stage:another(s).port).uri
    end, says = "not a balancer", remedy = { "each address must be one server", take_back } },
    sentinel = { make = function(s)
        local port = support.free_port()
        s.was, s.uri = s.uri, "redis://127.0.0.1:" .. port
        assert(support.sh(("printf 'bind 127.0.0.1\nport %d\nuser app on >pw +@all ~*\n' "
            .. "> %s/s.conf"):format(port, s.dir)))
        support.spawn { "redis-server", s.dir .. "/s.conf", "--sentinel", stdout = "null" }
        support.eventually(function() return support.connect(port) end)
    end, says = "a sentinel", remedy = { "name the masters", take_back } },
    clock_off = { clocks = true, make = function(s) s.clock:set(50) end,
        says = "its clock and ours differ", remedy = { "stop it first", function(s)
            s:kill()
            s.clock:set(0)
            s:start()
            reset(s)
        end } },
    odd_key = { make = function(s)
        s:call("HSET", "redlock:{z}:latch", "count", "abc", "id", "i")
        s:call("PEXPIRE", "redlock:{z}:latch", "60000")
        s:call("ZADD", "z", "inf", "1 abcdef")
    end },
    no_channels = { make = acl "resetchannels", says = "publish failed", rights = true,
        remedy = { "allow this user the channels", reset } },
    no_pubsub = { make = acl "-@pubsub", says = "publish failed", rights = true,
        remedy = { "allow this user publish", reset } },
    no_dangerous = { make = acl "-@dangerous", says = "info", rights = true,
        remedy = { "info", reset } },
    by_category = { make = acl("-@all", "+@read", "+@write", "+@scripting", "+@connection"),
        says = { "info", "time" }, briefly = DENIED, rights = true, remedy = { "info", reset } },
    cluster_mode = { bare = true, args = { "--cluster-enabled", "yes" }, make = function() end,
        says = "runs in cluster mode", remedy = { "cluster%-enabled no", function(s)
            s.opts.args = nil
            s:restart()
            reset(s)
        end } },
    new = { init = 0, make = mark "n", says = "has no memory of locks", awaits = true,
        passes = true,
        remedy = { "votes in", waits } },
    memory_lost = { make = mark "l", says = "lost its memory", awaits = true, passes = true,
        remedy = { "votes in", waits } },
    clock_stepped = { make = mark "s", says = "its clock was stepped", awaits = true,
        passes = true, remedy = { "votes in", waits } },
    older_version = { make = mark("a", { version = 3 }), says = "an older version of redlock",
        remedy = { DEL, delete_marker } },
    later_version = { make = mark("a", { version = 9 }), says = "a later version of redlock",
        remedy = { DEL, delete_marker } },
    other_database = { make = mark("a", { db = 3 }), says = "its marker is for database 3",
        remedy = { "redlock init %-%-force", function(_, stage) stage:init "--force" end } },
    other_max_lease = { make = mark("a", { max_lease = 7000 }),
        says = "another client set max_lease to 7 s", remedy = { "redlock init %-%-force",
            function(_, stage) stage:init "--force" end } },
    other_list = { make = mark("a", { cluster = "0123456789abcdef" }),
        says = "belongs to another list of servers", refuses = true,
        remedy = { "belongs to", admit } },
    changing = { make = mark("l", { cluster = "change.0123456789abcdef" }),
        says = "is closed by a change", refuses = true,
        remedy = { "finish it", admit } },
    other_cluster = { make = mark("a", { cluster = "theirs" }), says = "belongs to cluster theirs",
        refuses = true, remedy = { "belongs to", admit } },
    garbage = { make = call("SET", MARKER, "garbage"), says = "lost its memory",
        awaits = true, passes = true, remedy = { "votes in", waits } },
    wrong_type = { make = function(s) s:call("DEL", MARKER) s:call("RPUSH", MARKER, "x") end,
        says = "lost its memory", awaits = true, passes = true,
        remedy = { "votes in", waits } },
    guard_off = { alone = true, deaf = true, make = admit,
        says = "other clients use it with the restart guard",
        remedy = { "turn the guard on in all clients", function(_, stage)
            stage.settings.restart_guard = "true"
        end } },
    stuck_no_eval = { make = stuck(acl "-EVAL"),
        says = "eval is renamed in redis.conf or forbidden",
        command = "eval", partial = true, briefly = LESS,
        remedy = { "allow this user eval", reset } },
    stuck_no_time = { make = stuck(acl "-TIME"),
        says = "time is renamed in redis.conf or forbidden",
        command = "time", briefly = LESS, remedy = { "allow this user time", reset } },
    stuck_no_writes = { make = stuck(acl "-@write"), says = "cannot be read or set %(noperm%)",
        rights = true, remedy = { "allow this user the keys", reset } },
    stuck_full = { make = stuck(call("CONFIG", "SET", "maxmemory", "1")),
        says = "cannot be read or set %(oom%)", briefly = "oom", also = "full",
        remedy = { "raise maxmemory", call("CONFIG", "SET", "maxmemory", "0") } },
    unseeded = { make = call("HDEL", "redlock:{server}:floor", "base", "most"), awaits = true,
        says = "does not know the fencing tokens",
        remedy = { "redlock check %-%-wait teaches it", waits }, taught = true, passes = true,
        init = 0 },
}

-- Each command that locks use, forbidden and renamed. Redis 7 does not say which one a script must
-- not call: check does.
local NEEDED = { "EVAL", "EVALSHA", "SET", "GET", "DEL", "PTTL", "PEXPIRE", "PUBLISH", "HSET",
    "HMGET", "MGET", "TIME", "INFO", "GETRANGE" }
local PARTIAL = { EVAL = true, EVALSHA = true }
for _, command in ipairs(NEEDED) do
    local word = command:lower()
    local says = "%f[%w]" .. word .. "%f[%W]"
    local function add(name, cause)
        cause.says, cause.command, cause.partial = says, word, PARTIAL[command]
        cause.briefly = LESS
        _M[name .. word] = cause
    end
    add("no_", { make = acl("-" .. command), remedy = { says, reset } })
    add("renamed_", { args = { "--rename-command", command, "gone" }, renamed = command,
        make = function() end, remedy = { says, function(s)
            s.opts.args = nil
            s:restart()
            reset(s)
        end } })
end
-- And those without which locks can be had, and kept.
for _, command in ipairs { "SCAN", "TYPE", "SUBSCRIBE", "UNSUBSCRIBE", "CLIENT", "PING",
    "SCRIPT" } do
    local word = command:lower()
    _M["no_" .. word] = { make = acl("-" .. command), briefly = DENIED, command = word }
    _M["renamed_" .. word] = { args = { "--rename-command", command, "gone" }, renamed = command,
        make = function() end, briefly = "unknown", command = word }
end
_M.renamed_info = nil                -- the specs cannot set such a server up
-- A server alone has no marker.
for _, name in ipairs { "new", "memory_lost", "clock_stepped", "older_version", "later_version",
    "other_database", "other_max_lease", "other_cluster", "other_list", "changing", "garbage",
    "wrong_type", "unseeded", "cannot_save", "stuck_no_eval", "stuck_no_time", "stuck_no_writes",
    "stuck_full" } do
    _M[name].guarded = true
end

return _M
