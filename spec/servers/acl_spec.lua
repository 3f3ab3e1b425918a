-- The rules that examples/access gives are enough, and each of them is needed for what it says.
local support = require "spec.support"

-- { "~app:*", "+eval", ... } of the table there, in its order.
local function documented()
    local rules = {}
    local text = assert(io.open "examples/access/README.md"):read "*a"
    local section = assert(text:match "\n## Least privilege\n(.*)")
    for rule in section:gmatch "\n| `([^`]+)` |" do
        rules[#rules + 1] = rule:gsub("\\|", "|")
    end
    -- The command below the table is the same.
    local command = section:match "`ACL SETUSER[^`]*`"
    for _, rule in ipairs(rules) do
        assert(command:find("[%s]" .. rule:gsub("%p", "%%%0") .. "[%s`]"), rule)
    end
    return rules
end

describe("the documented ACL rules", function()
    local rules = documented()
    local cluster, client
    local channels = support.since(6, 2)

    -- A rule as this server knows it.
    local function known(rule)
        return support.since(7, 0) and rule or (rule:gsub("^%%R", ""))
    end

    -- A user with the rules but the one given.
    local function set_user(server, but)
        local argv = { "on", ">pw", "resetkeys", "resetchannels", "-@all" }
        for _, rule in ipairs(rules) do
            if rule ~= but then
                argv[#argv + 1] = known(rule)
            end
        end
        server:call("ACL", "DELUSER", "locks")
        server:user("locks", unpack(argv))
    end

    -- What was denied, but what is for others to do: to write the addresses, to list connections.
    local function denials(server)
        local list = {}
        for _, entry in ipairs(server:call("ACL", "LOG")) do
            local text = {}
            for i, word in ipairs(entry) do
                text[i] = tostring(word)
            end
            text = table.concat(text, " ")
            list[#list + 1] = not text:find("context lua object redlock:{server}:servers", 1,
                true) and not text:find "object client[| ]" and text or nil
        end
        return list
    end

    local function allow(but)
        cluster:each(function(server) set_user(server, but) end)
    end

    local function open(opts)
        local o = { prefix = "app:", user = "locks", password = "pw" }
        local nodes = {}
        for name, value in pairs(opts or {}) do
            o[name] = value
        end
        for i, server in ipairs(cluster) do
            nodes[i] = server.uri .. (o.db or "")
        end
        local db = o.db
        o.db = nil
        if db then                   -- each database has markers of its own
            local admin = support.client(nodes)
            assert(admin:init())
            admin:close()
        end
        return support.client(nodes, o)
    end

    -- A lock on all three, taken by somebody who may do everything.
    local function occupy(name)
        cluster:each(function(s) assert(s:call("SET", "app:" .. name, "theirs", "PX", 60000)) end)
    end

    setup(function() cluster = support.cluster(3) end)
    before_each(function() cluster:flush() end)
    after_each(function() if client then client:close() end end)

    local function take(name, lease)
        local l = client:getLock(name)
        local ok, err = l:tryLock(5, lease)
        assert.is_true(ok, tostring(err))
        return l
    end

    -- A call fails because of permissions.
    local function noperm(code, ok, err)
        assert.is_nil(ok)
        assert.equal(code, err.code, tostring(err))
        local n = 0
        for _, row in ipairs(err.nodes or {}) do
            n = n + (row.code == "noperm" and 1 or 0)
        end
        assert.is_true(n >= 2, tostring(err))
    end

    local function take_fenced(name, lease)
        local l = client:getFencedLock(name)
        local ok, token = l:tryLock(5, lease)
        assert.is_true(ok, tostring(token))
        assert.equal("number", type(token))
        return l, token
    end

    -- Plain locks work, and fenced ones do not, because of permissions.
    local function only_plain()
        assert.is_true(take("x", 5):unlock())
        local err = support.fails("no_quorum", client:getFencedLock("f"):tryLock(1))
        local n = 0
        for _, row in ipairs(err.nodes) do
            if row.code == "noperm" then
                n = n + 1
                local words = row.message:lower()        -- of the server, each has its own
                assert.truthy(words:find "can't run this" or words:find "no permissions to",
                    tostring(err))
            end
        end
        assert.is_true(n >= 1, tostring(err))       -- those whose floor was asked for
        return tostring(err)
    end

    -- check() warns of it at each node, and locks work.
    local function warned(kind, verdict)
        local report = client:check()
        assert.equal(verdict or "warning", report.verdict)
        for _, row in ipairs(report) do
            assert.equal(kind, row.findings[1].kind)
        end
        assert.is_true(take("x", 5):unlock())
    end

    -- Seconds from a release to the moment its waiter has it.
    -- From when somebody asked for what is released half a second later.
    -- @param listens  whether it subscribes, which a busy machine may do late: who has done so
    --   looks at once whether the lock is free
    local function wake_up(fallback, listens)
        local holder = open { fallback = fallback }
        client = open { fallback = fallback }
        local l = holder:getLock "w"
        assert.is_true(l:tryLock(5, 50))
        local began = support.now()
        local future = client:getLock("w"):tryLockAsync(60, 5)
        local channel = "redlock:{app:w}:free"
        support.eventually(function()
            return future:get(0.01) == nil and (not listens
                or cluster[1]:call("PUBSUB", "NUMSUB", channel)[2] == 1)
        end)
        assert.is_nil(future:get(0.5))
        assert.is_true(l:unlock())
        assert.is_true((future:get(60)))
        holder:close()
        return support.now() - began
    end

    local function names()
        local list = {}
        cluster:each(function(s)
            list[#list + 1] = s:call("CLIENT", "LIST"):match "name=redlock" or nil
        end)
        return #list
    end

    -- Calls with a digest so far.
    local function evalsha_calls()
        local n = 0
        cluster:each(function(s)
            n = n + s:calls_of "evalsha"
        end)
        return n
    end

    local function reset_stats()
        cluster:each(function(s) s:call("CONFIG", "RESETSTAT") end)
    end

    it("are enough for everything", function()
        allow()
        cluster:each(function(s) s:call("ACL", "LOG", "RESET") end)
        assert.is_true(wake_up(50) < 20)
        client:close()
        client = open { lease = 2 }
        local l = take "x"
        support.eventually(function() return client:stats().renewals > 1 end)    -- the watchdog
        assert.is_true(l:isValid())
        assert.is_true((l:extend()))
        assert.is_true(l:isLocked())
        assert.is_true(l:remainTimeToLive() > 0)
        assert.equal("held", select(2, client:getLock("x", { owner = 2 }):tryLock()).code)
        local imported = assert(client:import(assert(l:export())))
        assert.is_true(imported:unlock())
        take("y", 5)
        assert.is_true(client:getLock("y"):forceUnlock())
        assert.is_true((client:using("z", function() end)))
        assert.is_true(names() > 0)
        client:close()
        client = open { db = "/3" }                     -- by init()
        assert.is_true(take("x"):unlock())
        assert.equal(channels and "ok" or "warning", client:check().verdict)
        cluster:each(function(s)
            assert(s:call("SCRIPT", "FLUSH"))
            assert.same({}, denials(s))       -- nothing was denied
        end)
        assert.is_true(take("x"):unlock())
    end)

    it("are enough for fenced locks, and leaders", function()
        allow()
        cluster:each(function(s) s:call("ACL", "LOG", "RESET") end)
        client = open { lease = 6 }
        local first, token = take_fenced("x", 5)        -- its floors are seeded
        assert.is_true((first:extend()))
        assert.is_true(first:stillMine())
        local seq = assert(first:sequencer())
        assert.is_true(client:checkSequencer(seq))
        assert.is_true(first:unlock())
        assert.is_false(client:checkSequencer(seq))
        local second, larger
        local function on_all()
            return cluster:having "app:x" == #cluster
        end
        repeat                                          -- a server may have had no floor yet
            second, larger = take_fenced "x"            -- kept by the watchdog
        until pcall(support.eventually, on_all, 2) or not second:unlock()
        assert.is_true(larger > token)
        local witness                                   -- whose counter is not ahead of it
        cluster:each(function(s)
            local counter = s:call("GET", "redlock:{app:x}:fence")
            local counts = counter and counter:find(("%.0f "):format(larger), 9, true) == 9
            witness = counts and s or witness
        end)
        witness:call("DEL", "app:x")
        support.eventually(function()                   -- healed
            return witness:call("EXISTS", "app:x") == 1
        end, 30)
        assert.is_true(second:isValid())
        assert.is_true(second:unlock())
        cluster[2]:call("DEL", "redlock:{app:x}:fence", "redlock:{server}:floor")
        local third, largest = take_fenced("x", 5)
        assert.is_true(largest > larger)
        assert.is_true(third:unlock())
        client:close()
        client = open { lock_delay = 1, lease = 2 }
        assert.is_true(take_fenced("y"):unlock())
        assert.is_true((client:using("z", { fenced = true }, function() end)))
        local election = client:getElection("e", { id = "a" })
        assert.is_number((election:campaign(5)))
        assert.equal("a", election:leader().id)
        assert.is_true(election:resign())
        cluster:each(function(s) assert.same({}, denials(s)) end)
    end)

    it("are enough for a restarted server's quarantine", function()
        local other = support.cluster(3):admit(0.5)
        other:each(function(s) set_user(s) end)
        local admitted = false
        client = support.client(other, { prefix = "app:", user = "locks", password = "pw",
            max_lease = 0.5, lease = 0.4, on_event = function(e)
                admitted = admitted or e.type == "node_admitted"
            end })
        assert.is_true(take("x"):unlock())
        other[3]:call "FLUSHALL"
        support.eventually(function()
            take("x"):unlock()                          -- which may be late on a busy machine
            return admitted
        end, 20)
        other:each(function(s) assert.same({}, denials(s)) end)
        client:close()
        other:stop()
    end)

    -- What the server says to a user with the same rules for another prefix.
    it("keep tenants apart, but for the marker and the floors", function()
        allow()
        local argv = { "on", ">pw", "resetkeys", "resetchannels", "-@all" }
        for _, rule in ipairs(rules) do
            argv[#argv + 1] = known((rule:gsub("app:", "other:")))
        end
        local server = cluster[1]
        server:user("neighbour", unpack(argv))
        local conn = assert(support.connect(server.port))
        assert.equal("OK", conn:call("AUTH", "neighbour", "pw"))
        local function denied(...)
            local reply, err = conn:call(...)
            assert.matches("NOPERM", tostring(err or reply))
        end
        client = open()
        local l = take_fenced("x", 5)
        denied("DEL", "app:x")
        denied("GET", "app:x")
        denied("SET", "redlock:{app:x}:fence", "1")
        denied("SET", "redlock:{server}:else", "1")
        if support.since(7, 0) then
            denied("SET", "redlock:{server}:servers", "1")
            denied("DEL", "redlock:{server}:servers")
        end
        assert.is_nil((select(2, conn:call("GET", "redlock:{server}:servers"))))
        if channels then
            denied("PUBLISH", "redlock:{app:x}:free", "")
            denied("SUBSCRIBE", "redlock:{app:x}:free")
        end
        assert.is_true(l:unlock())
        assert.equal(1, conn:call("DEL", "redlock:{server}:marker"))
        assert.equal(1, conn:call("DEL", "redlock:{server}:floor"))
        conn:close()
        server:call("ACL", "DELUSER", "neighbour")
        cluster:admit()
    end)

    it("let a tenant stop everybody, and see names and numbers", function()
        local servers = support.cluster(3, { args = { "--lua-time-limit", "50" } })
        servers:each(function(s)
            for _, name in ipairs { "app", "other" } do
                s:user(name, "on", ">pw", "~" .. name .. ":*", "~redlock:{" .. name .. ":*",
                    "~redlock:{server}:*", "&redlock:{" .. name .. ":*", "+@all", "-script",
                    "-config")
            end
        end)
        local theirs = support.warm_client(servers, { user = "app", password = "pw",
            prefix = "app:", timeout = 0.3 })
        assert.is_true(theirs:getLock("secret"):tryLock(0, 30))
        local conns = {}
        for i, server in ipairs(servers) do
            conns[i] = assert(support.connect(server.port, 0.5))
            assert.equal("OK", conns[i]:call("AUTH", "other", "pw"))
        end
        assert.matches("app:secret", table.concat(conns[1]:call("SCAN", "0")[2], " "))
        assert.matches("NOPERM", (select(2, conns[1]:call("GET", "app:secret"))))
        assert.matches("connected_clients:%d", conns[1]:call "INFO")
        assert.equal(0, conns[1]:call("PUBSUB", "NUMSUB", "redlock:{app:secret}:free")[2])
        assert.is_nil((select(2, conns[1]:call("EVAL", "redis.log(redis.LOG_WARNING, 'x')", 0))))
        -- Memory: the limit is lowered here instead of filled.
        servers:each(function(s) s:call("CONFIG", "SET", "maxmemory", 1) end)
        assert.matches("oom", tostring(select(2, theirs:getLock("new"):tryLock(0))))
        servers:each(function(s) s:call("CONFIG", "SET", "maxmemory", 0) end)
        for _, conn in ipairs(conns) do
            conn:call("EVAL", "redis.call('SET', KEYS[1], 'x') while true do end", 1, "other:x")
        end
        support.eventually(function()
            return tostring(select(2, theirs:getLock("new"):tryLock(0))):find "loading %(BUSY"
        end, 20)
        servers:each(function(s)
            assert.matches("UNKILLABLE", (select(2, s:call("SCRIPT", "KILL"))))
            s:kill()
        end)
    end)

    it("let a tenant stop new locks by a marker, and extensions, but end no hold", function()
        allow()
        client = open()
        local l = take("x", 30)
        cluster[1]:mark((cluster[1]:marker():gsub("%S+$", "theirs")))
        support.eventually(function()
            local y = client:getLock "y"
            local ok, err = y:tryLock()          -- the other two may have answered first
            return not (ok and y:unlock()) and err and err.code == "config"
        end)
        cluster:each(function(s) s:call("DEL", "redlock:{server}:marker") end)
        support.fails("no_quorum", l:extend(30))
        assert.is_true(l:isValid())
        assert.is_true(l:unlock())
        cluster:admit()
    end)

    it("let a user who may write all keys of a server admit it, and deny nothing", function()
        local rule = assert(io.open "examples/access/README.md"):read "*a"
            :match "`ACL%s+SETUSER%s+locks%s+(~redlock:{server}:%*%s+%+client|list)`"
        allow()
        cluster:each(function(s)
            s:call("ACL", "SETUSER", "locks", rule:match "^(%S+)%s+(%S+)$")
            s:call("DEL", "redlock:{server}:marker", "redlock:{server}:servers")
            s:call("ACL", "LOG", "RESET")
        end)
        client = open()
        assert.is_true(client:init())
        assert.is_true(take("x", 5):unlock())
        cluster:each(function(s)
            assert.equal("a", s:marked().state)
            local addresses = s:call("GET", "redlock:{server}:servers")
            for _, other in ipairs(cluster) do
                assert.truthy(addresses:find(":" .. other.port, 1, true), addresses)
            end
            assert.same({}, s:call("ACL", "LOG"))
        end)
    end)

    -- What breaks without a rule.
    local breaks = {
        ["~app:*"] = function()
            noperm("no_quorum", client:getLock("x"):tryLock(1))
        end,
        ["+evalsha"] = function()
            noperm("no_quorum", client:getLock("x"):tryLock(1))
        end,
        ["+eval"] = function()
            assert.is_true(take("x"):unlock())
            cluster:each(function(s) s:call("SCRIPT", "FLUSH") end)
            noperm("no_quorum", client:getLock("x"):tryLock(1))
            cluster:each(function(s) s:call "FLUSHALL" end)
            support.eventually(function()
                local ok, err = client:init()           -- cannot set a marker
                return not ok and tostring(err):find "allow this user .*EVAL"
            end, 20)
            cluster:admit()
        end,
        ["+set"] = function()
            noperm("no_quorum", client:getLock("x"):tryLock(1))
        end,
        ["+get"] = function()
            noperm("no_quorum", client:getLock("x"):tryLock(1))        -- the marker
            client:close()
            client = open { restart_guard = false }
            local l = take("x", 5)
            noperm("no_quorum", l:extend())
            assert.is_true(l:unlock())
        end,
        ["+getrange"] = function()
            local l = take("y", 5)
            noperm("no_quorum", l:isLocked())
            noperm("unknown", l:unlock())
            local holder = open()
            assert.is_true(holder:getLock("x"):tryLock(5, 5))
            assert.is_nil(support.fails("held", client:getLock("x"):tryLock()).holder)
            cluster:each(function(s) s:call("ACL", "SETUSER", "locks", "+getrange") end)
            assert.is_table(support.fails("held", client:getLock("x"):tryLock()).holder)
            holder:close()
        end,
        ["+pttl"] = function()
            local l = take("x", 5)
            noperm("no_quorum", l:extend())
            noperm("no_quorum", l:isLocked())
            occupy "y"
            noperm("no_quorum", client:getLock("y"):tryLock(0.3))
        end,
        ["+pexpire"] = function()
            local l = take("x", 5)
            noperm("no_quorum", l:extend(20))
            assert.is_true(l:unlock())
        end,
        ["+del"] = function()
            noperm("unknown", take("x", 5):unlock())
            noperm("no_quorum", client:getLock("x"):forceUnlock())
        end,
        ["+type"] = function()
            assert.is_true(take("x", 5):unlock())
            noperm("no_quorum", client:getLock("x"):isLocked())
            noperm("no_quorum", client:getLock("x"):forceUnlock())
        end,
        ["+publish"] = function()
            assert.is_true(wake_up(2, true) >= 0.9)           -- half a fallback
        end,
        ["+subscribe"] = function()
            assert.is_true(wake_up(2) >= 0.9)
        end,
        ["&redlock:{app:*}:free"] = function()
            assert.is_true(wake_up(2) >= 0.9)
        end,
        ["+unsubscribe"] = function()
            assert.is_true(wake_up(50) < 20)
            local n = 0
            cluster:each(function(s)
                n = n + #s:call("PUBSUB", "CHANNELS", "redlock:*")
            end)
            assert.is_true(n > 0)
        end,
        ["+script|load"] = function()
            reset_stats()
            assert.is_true(take("x"):unlock())
            assert.is_true(take("x"):unlock())
            assert.equal(0, evalsha_calls())
        end,
        ["+client|setname"] = function()
            assert.is_true(take("x"):unlock())
            assert.equal(0, names())
        end,
        ["+ping"] = function()
            cluster:each(function(s) s:call("ACL", "LOG", "RESET") end)
            assert.is_true(take("x"):unlock())
            local denied = ""
            cluster:each(function(s)
                for _, entry in ipairs(s:call("ACL", "LOG")) do
                    denied = denied .. entry[8] .. " "
                end
            end)
            assert.matches("^ping ", denied)
        end,
        ["+select"] = function()
            local other = support.client({ cluster[1].uri .. "/3" },
                { user = "locks", password = "pw" })
            local ok, err = other:getLock("app:x"):tryLock(1)
            assert.is_nil(ok)
            assert.equal("noperm", err.nodes[1].code)
            other:close()
        end,
        ["~redlock:{server}:marker"] = function()
            noperm("no_quorum", client:getLock("x"):tryLock(1))
            local report = client:check()
            assert.equal("error", report.verdict)
            assert.equal("unknown", report[1].guard)
            assert.matches("allow this user the keys redlock:{server}:marker and ",
                report[1].remedy)
            local _, err = client:init()
            assert.equal("config", err.code)
            assert.matches("allow this user", tostring(err))
            client:close()
            client = open { restart_guard = false }
            assert.is_true(take("x"):unlock())
            client:close()
            cluster:each(function(server)            -- to read it is enough
                server:call("ACL", "SETUSER", "locks", known "%R~redlock:{server}:marker")
                server:call("ACL", "LOG", "RESET")
            end)
            client = open()
            assert.is_true(take("x"):unlock())
            assert.is_true(take_fenced("x"):unlock())
            cluster:each(function(s) assert.same({}, denials(s)) end)
        end,
        ["%R~redlock:{server}:servers"] = function()
            cluster:each(function(s) s:call("ACL", "LOG", "RESET") end)
            assert.is_true(take("x"):unlock())
            cluster:each(function(s)                 -- it is asked for, and not again
                support.eventually(function() return #s:call("ACL", "LOG") > 0 end, 60)
                s:call("CLIENT", "KILL", "TYPE", "normal")
                s:call("ACL", "LOG", "RESET")
            end)
            assert.is_true(take("x"):unlock())
            cluster:each(function(s) assert.same({}, s:call("ACL", "LOG")) end)
            client:close()
            local others = support.client({ cluster[1], cluster[2] }, { cluster = false })
            support.eventually(function() return others:init { force = true } end)
            others:close()
            client = open { cluster = false }
            local text = tostring(support.fails("config", client:getLock("x"):tryLock(5)))
            assert.matches("belongs to another list of servers %(%x+%)", text)
            cluster:each(function(s)
                local rule = known "%R~redlock:{server}:servers"
                s:call("ACL", "SETUSER", "locks", rule)
            end)
            client:close()
            client = open { cluster = false }
            support.eventually(function()
                local _, err = client:getLock("x"):tryLock(5)
                return tostring(err):find("belongs to {%S+:" .. cluster[1].port)
                    or tostring(err):find("belongs to {%S+:" .. cluster[2].port)
            end)
            cluster:admit()
        end,
        ["+info"] = function()
            warned("unverified", "error")
            -- Who cannot see that a server lives still as when it was admitted by others
            -- trusts none of its counters.
            local err = support.fails("no_quorum", client:getFencedLock("f"):tryLock(1))
            assert.matches("noperm %(it does not show its master_replid", tostring(err))
        end,
        ["+time"] = function()
            warned "no_clock"
            assert.is_true(take_fenced("f"):unlock())
        end,
        ["~redlock:{app:*}:fence"] = only_plain,
        ["~redlock:{server}:floor"] = only_plain,
        ["+mget"] = only_plain,
        ["+hset"] = only_plain,
        ["+hmget"] = only_plain,
    }

    for _, rule in ipairs(rules) do
        it("include " .. rule, function()
            assert.is_function(breaks[rule], "this rule has no spec")
            if rule:find "^&" and not channels then
                return pending "Redis before 6.2 has no rules for channels"
            end
            allow(rule)
            client = open()
            breaks[rule]()
        end)
    end

    it("are a row each", function()
        for rule in pairs(breaks) do
            assert.is_true(table.concat(rules, " "):find(rule, 1, true) ~= nil, rule)
        end
    end)
end)
