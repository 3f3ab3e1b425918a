-- client:check(): a row per node, what is wrong, and what to do.
local support = require "spec.support"
local sys = require "spec.support.sys"

local function kinds(findings)
    local list = {}
    for i, found in ipairs(findings) do
        list[i] = found.kind
    end
    return table.concat(list, " ")
end

-- A server that stands still for a moment is not `warning` then.
local PATIENT = { timeout = 5, connect_timeout = 10 }

describe("client:check()", function()
    it("tells what each server is like", function()
        local cluster = support.cluster(3)
        local client, threads = support.client(cluster, PATIENT), support.threads()
        local report = client:check()
        assert.equal("ok", report.verdict, tostring(report))
        assert.equal(3, report.voting)
        assert.equal(2, report.quorum)
        for i, row in ipairs(report) do
            local info = cluster[i]:call "INFO"
            assert.equal(cluster[i].uri, row.node)
            assert.is_true(row.reachable)
            local valkey = info:match "valkey_version:(%S+)"
            assert.equal(valkey and "valkey " .. valkey or info:match "redis_version:(%S+)",
                row.version)
            assert.equal(info:match "run_id:(%x+)", row.run_id)
            assert.equal("master", row.role)
            assert.is_true(math.abs(row.uptime - info:match "uptime_in_seconds:(%d+)") <= 5)
            assert.is_true(row.round_trip >= 0 and row.round_trip < 5)
            assert.is_true(math.abs(row.clock_offset) <= row.clock_error + 0.2)
            assert.equal("none seen", row.persistence)
            assert.equal("noeviction", row.eviction)
            assert.equal("admitted", row.guard)
            assert.equal("ok", row.verdict)
            assert.is_nil(row.remedy)
        end
        local text = tostring(report)
        assert.matches("^node +verdict +guard[^\n]+\n  version +role", text)
        assert.matches(cluster[2].uri:gsub("%p", "%%%0") .. " +ok +admitted [^\n]+\n  [v%d]", text)
        for line in text:gmatch "[^\n]+" do
            assert.is_true(#line <= 80, line)
        end
        for _, row in ipairs(report) do      -- servers tell whole seconds
            local uptime = text:match(row.run_id:sub(1, 8) .. "  (.-)  ")
            assert.equal(row.uptime == 0 and "< 1 s" or row.uptime .. " s", uptime)
        end
        assert.matches("\nverdict: ok$", text)
        assert.is_true(support.threads() <= threads)
    end)

    it("asks anew each time", function()
        local cluster = support.cluster(3, { args = { "--appendonly", "no" } })
        local client = support.client(cluster, PATIENT)
        assert.equal("none seen", client:check()[1].persistence)
        cluster[1]:call("CONFIG", "SET", "appendonly", "yes")
        cluster[2]:call("CONFIG", "SET", "maxmemory", "100mb")
        cluster[2]:call("CONFIG", "SET", "maxmemory-policy", "volatile-lru")
        local report = client:check()
        assert.equal("aof", report[1].persistence)
        assert.equal("eviction", kinds(report[2].findings))
        assert.equal("warning", report[2].verdict)
        assert.matches("volatile%-lru can drop locks; set it to noeviction", report[2].remedy)
        assert.equal("warning", report.verdict)
        cluster[3]:call("REPLICAOF", "127.0.0.1", support.server().port)
        report = client:check()
        assert.equal("error", report[3].verdict)
        assert.matches("replica", report[3].remedy)
        assert.equal("warning", report.verdict)       -- two of three still vote
    end)

    it("names servers that are down, frozen, replicas, or listed twice", function()
        local cluster = support.cluster(4, { unixsocket = true })
        cluster[1]:kill()
        cluster[2]:freeze()
        local master = support.server()
        cluster[3]:call("REPLICAOF", "127.0.0.1", master.port)
        local client = support.client({ cluster[1], cluster[2], cluster[3], cluster[4],
            "unix://" .. cluster[4].socket }, { connect_timeout = 0.3 })
        local t = support.now()
        local report = client:check()
        assert.is_true(support.now() - t < 20)
        assert.equal("refused", report[1].code)
        assert.equal("timeout", report[2].code)
        assert.is_false(report[1].reachable)
        assert.equal("readonly", report[3].code)
        assert.is_true(report[3].reachable)
        assert.matches("replica of 127.0.0.1:" .. master.port, report[3].remedy)
        local twin = report[4].ready and report[5] or report[4]
        local first = report[4].ready and report[4] or report[5]
        assert.equal("config", twin.code)
        assert.matches("the same server under two addresses: it is " .. first.node:gsub("%p",
            "%%%0"), twin.remedy)
        assert.equal("ok", first.verdict)
        assert.equal("error", report.verdict)
        assert.matches("verdict: error: 1 of 5 vote: no locks$", tostring(report))
        cluster[2]:thaw()
    end)

    it("warns of few, even, forgetful and wrong", function()
        local cluster = support.cluster(4, { clocks = true, new = true })
        cluster[1].clock:set(5)
        local client = support.client(cluster, { restart_guard = false })
        local report = client:check()
        assert.equal("even", kinds(report.findings))
        assert.equal("persistence clock", kinds(report[1].findings))
        assert.matches("%+[45]%.%d+ s, which is more than the 0.302 s", report[1].remedy)
        assert.equal("persistence", kinds(report[2].findings))
        assert.equal("off", report[2].guard)
        assert.matches("all: 4 servers tolerate no more failures than 3", tostring(report))
        cluster:admit()
        client:close()
        report = support.client({ cluster[2], cluster[3] }, PATIENT):check()
        assert.equal("two", kinds(report.findings))
        assert.equal("", kinds(report[1].findings))
    end)

    it("asks servers that have frozen meanwhile, and does not repeat what they said", function()
        local cluster = support.cluster(3)
        local client = support.client(cluster, { connect_timeout = 30 })   -- and keeps connections
        assert.is_true(support.warm(client):connect(0))
        support.warm(client)                               -- has heard all answers
        for i = 1, 2 do
            cluster[i]:freeze()
        end
        local at = client.now()                            -- in milliseconds, as it is decided
        support.eventually(function() return client.now() > at end)
        local _, err = client:connect(0)                   -- nobody has missed an answer so far
        assert.equal("timeout timeout ok", table.concat({ err.nodes[1].code, err.nodes[2].code,
            err.nodes[3].code }, " "))
        local report = client:check()
        assert.equal("error", report.verdict)
        for i, row in ipairs(report) do
            assert.equal(i < 3 and "timeout" or "ok", row.code)
            assert.equal(i < 3 or nil, row.stale)
            assert.equal(i == 3, row.ready)
            assert.is_string(row.version)
        end
        assert.matches("no answer.*the values shown are its last ones", report[2].remedy)
        local uri = cluster[1].uri:gsub("%p", "%%%0")
        assert.matches(uri .. "  error  .-  master  %x+  %-  +%-  +none", tostring(report))
        for i = 1, 2 do
            cluster[i]:thaw()
        end
        support.eventually(function()
            return client:check().verdict == "ok" and client:connect(0)
        end)
    end)

    it("shows what a frozen server said last, also after another connection to it", function()
        local server, row = support.server(), nil
        local client = support.client({ server }, { timeout = 0.1, connect_timeout = 0.2 })
        support.eventually(function() return client:check()[1].ready end)
        server:freeze()
        support.eventually(function()
            row = client:check()[1]
            return row.message == "no answer to the handshake"
        end)
        server:thaw()
        assert.is_true(row.stale)
        assert.equal("master", row.role)
        assert.matches("the values shown are its last ones", row.remedy)
    end)

    it("takes and releases a lock, and names the command that fails, and as whom", function()
        local server = support.server()
        local function tried(...)
            server:call("ACL", "DELUSER", "app")
            server:user("app", "on", ">pw", "~app:*", "~redlock:*", "&*", "+@all", ...)
            local client = support.client({ server }, { user = "app", password = "pw",
                prefix = "app:", timeout = 5, connect_timeout = 10 })
            local said = { "" }
            for _, found in ipairs(client:check()[1].findings) do
                local ours = found.kind == "trial" or found.kind == "rights"
                said[1] = ours and found.verdict or said[1]
                said[#said + 1] = ours and found.message or nil
            end
            client:close()
            return said[1], table.concat(said, "; ", 2)
        end
        assert.equal("", (tried()))
        for command, said in pairs {
            evalsha = "error no lock can be taken",
            eval = "warning no lock can be taken when a server has forgotten its scripts",
            set = "error no lock can be taken", get = "error locks cannot be looked at",
            del = "warning released locks stay", pttl = "warning leases are not extended",
            pexpire = "warning leases are not extended", publish = "warning waiters are not woken",
            hset = "warning there are no fenced locks", mget = "warning there are no fenced locks",
        } do
            local verdict, remedy = tried("-" .. command)
            assert.matches("as user app, and [^(]*" .. command:upper() .. "[^(]* failed %(.*%): "
                .. said:match " (.*)", remedy, command)
            assert.equal(said:match "%l+", verdict)
        end
        assert.matches("EVAL or EVALSHA failed %([^)]*key", (select(2, tried("resetkeys",
            "~other:*"))))
        assert.matches("there are no fenced locks", (select(2, tried("-hset", "-mget",
            "-hmget"))))
        server:call("CONFIG", "SET", "maxmemory", "1")
        assert.matches("as user app, and SET failed %([^)]*OOM", (select(2, tried())))
        server:call("CONFIG", "SET", "maxmemory", "0")
        for _, key in ipairs(server:call("KEYS", "*redlock:check*")) do      -- if DEL was forbidden
            assert.is_true(server:call("PTTL", key) <= 5000)
        end
    end)

    it("awaits the release, too", function()
        local server = support.server()
        server:call("CONFIG", "SET", "appendonly", "yes")
        local proxy = support.proxy(server.port)
        local client = support.client({ proxy.uri }, { timeout = 0.2 })
        support.eventually(function() return client:check().verdict == "ok" end)
        proxy:hold_request "\r\nrelease\r\n"
        local report = client:check()
        assert.equal("error", report.verdict)
        assert.matches("^it answers after more than 200 ms", report[1].remedy)
    end)

    it("says in a line whether locks are had, and whether a server can be spared", function()
        local cluster = support.cluster(3)
        local function says(...)
            for i = ... and 1 or #cluster + 1, #cluster do
                cluster[i]:call("ACL", "DELUSER", "app")
                cluster[i]:user("app", "on", ">pw", "~*", "&*", ...)
            end
            local client = support.client(cluster, { user = "app", password = "pw", timeout = 5,
                connect_timeout = 10 })
            local report = client:check()
            local ran = client:getFencedLock("x" .. table.concat { ... }):tryLock(0, 1)
            client:close()
            return tostring(report):match "\nverdict: ([^\n]*)$", ran
        end
        assert.same({ "ok", true }, { says "+@all" })
        assert.same({ "warning: 3 of 3 vote: mend what is listed above", true },
            { says("+@all", "-time") })
        local lacks = "error: 3 of 3 vote, but this user lacks rights that redlock run needs"
        assert.same({ lacks }, { says("+@all", "-info") })
        assert.same({ lacks }, { says("+@all", "-hset") })
        assert.same({ lacks }, { says("+@all", "-hset", "-mget", "-hmget") })
        assert.equal(lacks, (says("+@all", "-eval")))    -- had, until a server forgets its scripts
        assert.same({ "error: 0 of 3 vote: no locks" }, { says("+@all", "-eval", "-script") })
        says "+@all"
        local client = support.client(cluster, { user = "app", password = "pw" })
        assert.equal("ok", client:check().verdict)
        for _, server in ipairs(cluster) do      -- no longer its marker
            server:user("app", "resetkeys", "~redlock:check:*", "~redlock:{redlock:check:*")
        end
        assert.matches("0 of 3 vote: no locks", tostring(client:check()))
        client:close()
        says "+@all"
        cluster[1]:kill()
        assert.equal("warning: 2 of 3 vote: restart no other server", (says()))
        cluster[2]:kill()
        assert.equal("error: 1 of 3 vote: no locks", (says()))
    end)

    -- The model of a server is like Redis 6.0 in this.
    it("names servers on which one user's scripts can change those of all", function()
        local world = require("redlock.testing").new { nodes = 1 }
        local function told(opts)
            local client = world:client(opts)
            local found = client:check()[1].findings
            client:close()
            return found
        end
        assert.not_matches("shared", kinds(told {}))
        local found = told { user = "app", password = "pw" }
        assert.matches("shared$", kinds(found))
        assert.matches("redis.call for all users.*upgrade it to Redis 6.2.7, 7.0.0 or later",
            found[#found].message)
        world:close()
        local server = support.server()
        server:user("app", "on", ">pw", "~*", "&*", "+@all")
        local real = kinds(support.client({ server }, { user = "app", password = "pw" })
            :check()[1].findings)
        local changed = server:call("EVAL", "redis.call = redis.call return 1", 0) == 1
            or server:call("EVAL", "local m = getmetatable('') m.__index = m.__index return 1", 0)
                == 1
        assert.equal(changed, real:find "shared" ~= nil, real)
    end)

    it("counts connections of clients with another list of servers", function()
        local cluster = support.cluster(3)
        local client = support.client(cluster, PATIENT)
        assert.equal("ok", client:check().verdict)
        local others = { cluster[1], cluster[2] }
        local other = support.client(others, PATIENT)
        assert.is_true(other:connect(60))
        local report = client:check()
        assert.equal("warning", report.verdict)
        for i = 1, 2 do
            assert.equal("1 connection of 1 host uses another list of servers; all clients need "
                .. "the same", report[i].remedy)
            assert.equal("lists", kinds(report[i].findings))
        end
        assert.is_nil(report[3].remedy)
        assert.equal("lists", kinds(other:check()[1].findings))
        other:close()
        support.eventually(function() return client:check().verdict == "ok" end)
        cluster:each(function(server)
            server:user("app", "on", ">pw", "~*", "&*", "+@all", "-client")
        end)
        local blind = support.client(others, { user = "app", password = "pw" })
        assert.is_nil(kinds(blind:check()[1].findings):find "lists")     -- nor is that an error
    end)

    it("warns of servers without TLS beside others with it", function()
        local client = support.client { "rediss://127.0.0.1:1", "redis://127.0.0.1:2",
            "unix:///nowhere" }
        local found = client:check().findings
        assert.equal("tls_mix", kinds(found))
        assert.matches("others %(redis://127.0.0.1:2%) do not", found[1].message)
        assert.equal("", kinds(support.client { "rediss://127.0.0.1:1", "rediss://127.0.0.1:2",
            "unix:///nowhere" }:check().findings))
    end)

    it("warns of files that everybody may write, or replace", function()
        local folder = support.tmpdir() .. "/open"
        local file = folder .. "/below/ca.pem"
        assert.is_true(support.sh(("mkdir -p '%s/below' && touch '%s'"):format(folder, file)))
        local function warned(file_mode, folder_mode)
            assert.is_true(support.sh(("chmod %s '%s' && chmod %s '%s'"):format(file_mode, file,
                folder_mode, folder)))
            local client = support.client({ "redis://127.0.0.1:1" }, { ca_file = file })
            local found = client:check().findings[1]
            client:close()
            return found and found.kind, found and found.message
        end
        assert.is_nil((warned("644", "755")))
        assert.is_nil((warned("644", "1777")))
        for _, modes in ipairs { { "646", "755" }, { "644", "757" } } do
            local kind, message = warned(modes[1], modes[2])
            assert.equal("exposed", kind)
            assert.matches("every user of this machine can write or replace "
                .. file:gsub("%p", "%%%0"), message)
        end
    end)

    it("warns of files with secrets that everybody may read", function()
        local server = support.server { password = "pw" }
        local file = support.tmpdir() .. "/password"
        sys.write_file(file, "pw\n")
        local function warned(mode)
            assert.is_true(support.sh(("chmod %s '%s'"):format(mode, file)))
            local client = support.client({ server, "redis://127.0.0.1:1" },
                { password_file = file })
            local found = client:check().findings
            client:close()
            return kinds(found), found[2] and found[2].message
        end
        local found, message = warned "644"
        assert.equal("two exposed", found)
        assert.equal("every user of this machine can read the secret in " .. file .. ": "
            .. "chmod 600 it", message)
        assert.equal("two", (warned "640"))
    end)

    it("tells of hours and days in words", function()
        local cluster = support.cluster(2, { clocks = true })
        cluster[1].clock:set(3 * 3600)
        cluster[2].clock:set(5 * 86400)
        support.eventually(function()
            return cluster[2]:call("INFO"):match "uptime_in_seconds:(%d+)" + 0 > 86400
        end)
        local text = tostring(support.client(cluster):check())
        assert.matches(cluster[1].port .. "[^\n]*\n[^\n]*  3%.0 h  ", text)
        assert.matches(cluster[2].port .. "[^\n]*\n[^\n]*  5 days  ", text)
    end)

    it("tells how long an answer takes", function()
        local server = support.server()
        local proxy = support.proxy(server.port)
        proxy:delay("down", 100)
        local client = support.client({ proxy.uri }, PATIENT)
        support.eventually(function()
            local ms = tonumber(tostring(client:check()):match "  (%d+) ms\n")
            assert.is_true(not ms or ms >= 100)
            return ms and ms < 1000
        end)
    end)

    it("tells what an old server cannot do, and whom that concerns", function()
        local lacks = require("redlock.servers.health").lacks
        for version, said in pairs {
            ["5.0.14"] = "version channels", ["2.8"] = "version channels", ["6.0.16"] = "channels",
            ["6.1.241"] = "channels", ["6.2.0"] = "", ["7.0.15"] = "", ["10.0.1"] = "",
            ["valkey 7.2.7"] = "", ["valkey 10.1"] = "", ["?"] = "", [""] = "",
        } do
            assert.equal(said, kinds(lacks({}, version, "app")), version)
            assert.equal((said:gsub(" ?channels", "")), kinds(lacks({}, version)), version)
        end
    end)

    it("warns a user of a server without rules for channels", function()
        local server = support.server()
        server:user("app", "on", ">pw", "~*", "&*", "+@all")
        local function told(opts)
            return kinds(support.client({ server }, opts):check()[1].findings)
        end
        local as_app = told { user = "app", password = "pw" }
        assert.equal(not support.since(6, 2), as_app:find "channels" ~= nil)
        assert.is_nil(told():find "channels")
    end)

    it("tells which servers know no fencing tokens, or impossible ones", function()
        local cluster = support.cluster(3)
        local client = support.client(cluster, PATIENT)
        cluster[1]:call("HDEL", "redlock:{server}:floor", "base", "most")
        cluster[2]:call("HSET", "redlock:{server}:floor", "most",
            cluster[2]:call("HGET", "redlock:{server}:floor", "base"):sub(1, 8) .. ("9"):rep(15))
        local report = client:check()
        assert.equal("tokens tokens", kinds(report[1].findings) .. " " .. kinds(report[2].findings))
        assert.matches("^it does not know the fencing tokens of before; while", report[1].remedy)
        assert.matches("^it counts fencing tokens from %d+, years ahead", report[2].remedy)
        assert.equal("warning warning ok", report[1].verdict .. " " .. report[2].verdict .. " "
            .. report[3].verdict)
    end)

    it("tells that new servers may be admitted by init", function()
        local report = support.client(support.cluster(3, { new = true }), PATIENT):check()
        assert.equal("new", kinds(report.findings))
    end)

    it("tells of quarantines", function()
        local cluster = support.cluster(3, { new = true })
        cluster[2]:admit()
        cluster[3]:admit(30)
        local report = support.client(cluster, PATIENT):check()
        assert.equal("guarded", report[1].guard)
        assert.is_true(report[1].guard_left > 50 and report[1].guard_left <= 61.6)
        assert.matches("^it has no memory of locks yet; it votes in %d+ s of 62, counted while ",
            report[1].remedy)
        assert.equal("admitted", report[2].guard)
        assert.equal("disagrees", report[3].guard)
        assert.matches("another client set max_lease to 30 s there", report[3].remedy)
        assert.equal("error", report.verdict)
        assert.equal(1, report.voting)
    end)

    it("has no time for quarantines of servers that are down", function()
        local cluster = support.cluster(3, { new = true })
        local client = support.client(cluster)
        assert.equal("guarded", client:check()[2].guard)
        cluster[2]:kill()
        local row = support.eventually(function()
            local row = client:check()[2]
            return not row.ready and row
        end)
        assert.equal("guarded", row.guard)
        assert.is_nil(row.guard_left)
        assert.matches("it has no memory of locks yet; no votes until it is back", row.remedy)
    end)

    it("says what keeps it from connecting at all", function()
        local client = support.client({ "rediss://127.0.0.1:1" }, { ca_file = "/none.crt" })
        for _, method in ipairs { "check", "init" } do
            local err = support.fails("config", client[method](client))
            assert.matches("/none%.crt", tostring(err))
        end
    end)

    it("is closed after close", function()
        local client = support.client(support.cluster(1))
        client:close()
        for _, method in ipairs { "check", "init" } do
            support.fails("closed", client[method](client))
        end
    end)
end)

describe("warnings", function()
    it("come once, as events, with the remedy", function()
        local cluster = support.cluster(4)
        cluster[2]:call("CONFIG", "SET", "maxmemory", "100mb")
        cluster[2]:call("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        local warnings = {}
        local client = support.warm_client(cluster, { on_event = function(e)
            if e.type == "warning" then
                warnings[#warnings + 1] = ("%s %s"):format(e.node or "all", e.kind)
                assert.is_true(#e.message > 20)
            end
        end })
        cluster[3]:restart()
        for _ = 1, 20 do
            assert.is_true(client:getLock("x"):tryLock(5))
            assert.is_true(client:getLock("x"):unlock())
        end
        table.sort(warnings)
        assert.same({ "all even", cluster[2].uri .. " eviction" }, warnings)
    end)

    for how, bytes_per_second in pairs { quick = 0, slow = 50000 } do
        it("of restarts are events of their own, in order: the handshake is " .. how, function()
            local cluster = support.cluster(3):admit(0.5)
            local proxies = support.proxies(cluster)
            local told = {}
            local client = support.warm_client(proxies, { max_lease = 0.5, lease = 0.4,
                on_event = function(e)
                    if e.type:find "^node_" and e.node == proxies[2].uri then
                        told[#told + 1] = e.type
                    end
                end })
            proxies[2]:bandwidth(bytes_per_second)
            local function last_told()
                assert.is_true(client:getLock("x"):tryLock(5))
                client:getLock("x"):unlock()         -- if its short lease is not over
                return told[#told]
            end
            cluster[2]:kill()
            support.eventually(function() return last_told() == "node_down" end, 10)
            cluster[2]:start()
            support.eventually(function()
                local last = last_told()
                if last == "node_guarded" then
                    proxies[2]:bandwidth(0)
                end
                return last == "node_admitted"
            end, 20)
            assert.same({ "node_up", "node_down", "node_up", "node_guarded", "node_admitted" },
                told)
        end)
    end
end)
