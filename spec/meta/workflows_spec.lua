-- examples/workflows: scripts of `redlock lua` that do what they say, once, and in their order.
local build = require "spec.support.build"
local cli = require "spec.support.command"
local redlock = require "redlock"
local support = require "spec.support"
local sys = require "spec.support.sys"

local RAISED, LOST = 1, 123

describe("the workflow", function()
    local cluster = support.shared_cluster(3)
    local client, home, log

    setup(function() client = support.client(cluster) end)
    before_each(function()
        home = support.tmpdir()
        log = home .. "/log"
        sys.write_file(log, "")
    end)

    local function start(name, ...)
        return cli.start(cluster, home, {}, "lua", build.root .. "/examples/workflows/" .. name
            .. ".lua", ...)
    end

    local function run(name, ...)
        return cli.ends(start(name, ...))
    end

    local function logged()
        return sys.read_file(log)
    end

    it("says how it is used", function()
        for name, words in pairs { rolling_restart = { "a", "b" }, blue_green = {},
            drain = { "2", "true" },
            resume = { "job", "database" } } do
            local status, text = run(name, unpack(words))
            assert.equal(RAISED, status)
            assert.matches(name .. ".lua:%d+: usage: " .. name .. ".lua %u", text)
        end
    end)

    describe("rolling_restart", function()
        local function restart(healthy)
            local command = 'echo "down $1" >> %s; sleep 0.1; echo "up $1" >> %s'
            return start("rolling_restart", command:format(log, log), healthy or "true", "a", "b",
                "c")
        end

        it("restarts one machine at a time, whoever asks", function()
            local two = { restart(), restart() }
            for _, p in ipairs(two) do
                assert.same({ 0, "restarting a\nrestarting b\nrestarting c\n" }, { cli.ends(p) })
            end
            local once = "down a\nup a\ndown b\nup b\ndown c\nup c\n"
            assert.equal(once .. once, logged())
        end)

        it("touches nothing while a machine is ill", function()
            local status, text = cli.ends(restart 'test "$1" != c')
            assert.equal(RAISED, status)
            assert.matches("c is not healthy; nothing is restarted", text)
            assert.equal("", logged())
        end)

        it("takes a host for a name, whatever that is", function()
            local host = "it's $(echo owned >> " .. log .. ") a;b"
            local status, text = run("rolling_restart", 'echo "down $1" >> ' .. log, "true", host)
            assert.same({ 0, "restarting " .. host .. "\n" }, { status, text })
            assert.equal("down " .. host .. "\n", logged())
        end)

        it("says when the lock was somebody else's", function()
            local p = restart(("grep -q 'up a' %s && redis-cli -p %d set rolling-restart x px 9000 "
                .. "&& redis-cli -p %d set rolling-restart x px 9000; true")
                :format(log, cluster[1].port, cluster[2].port))
            local status, text = cli.ends(p)
            -- The servers are not asked in the first third of a lease: the end tells.
            assert.equal(LOST, status, text)
            assert.matches("restarting c", text)
        end)
    end)

    describe("blue_green", function()
        local server

        setup(function() server = support.server() end)
        before_each(function() server:call "FLUSHALL" end)

        local function deploy(command, healthy)
            return start("blue_green", server.uri, command or 'echo "$1" >> ' .. log,
                healthy or "true")
        end

        it("makes the idle half live", function()
            assert.same({ 0, "blue is live\n" }, { cli.ends(deploy()) })
            assert.equal("blue", server:call("GET", "live"))
            assert.same({ 0, "green is live\n" }, { cli.ends(deploy()) })
            assert.equal("green", server:call("GET", "live"))
            assert.equal("blue\ngreen\n", logged())
        end)

        it("leaves what is live when the other half is ill", function()
            local status, text = cli.ends(deploy("true", "false"))
            assert.equal(RAISED, status)
            assert.matches("blue is not healthy; what is live stays", text)
            assert.equal(nil, server:call("GET", "live"))
        end)

        it("rolls back what is not healthy when it is live", function()
            assert.equal(0, (cli.ends(deploy())))
            local status, text = cli.ends(deploy("true", 'test "$1" != live'))
            assert.equal(RAISED, status)
            assert.matches("not healthy when live; rolled back to blue", text)
            assert.equal("blue", server:call("GET", "live"))
        end)

        it("rolls nothing back when somebody else has switched since", function()
            assert.equal(0, (cli.ends(deploy("true"))))
            local p = deploy("true", ([[[ "$1" != live ] || { echo in >> %s
                while ! test -e %s/go; do sleep 0.02; done; false; }]]):format(log, home))
            support.eventually(function() return logged():find "in" end, 20)
            assert.equal(0, (cli.ends(cli.start(cluster, home, {}, "unlock", "-f", "switch"))))
            local _, token = assert(client:getFencedLock("switch"):tryLock(5))
            local live = redlock.resource.new("live", function(...) return server:call(...) end)
            assert(live:set(token, "theirs"))
            sys.write_file(home .. "/go", "")
            local status, text = cli.ends(p)
            assert.equal(RAISED, status)
            assert.matches("somebody else has switched meanwhile", text)
            assert.equal("theirs", server:call("GET", "live"))
        end)

        it("switches nothing when the outer lock is lost inside the inner one", function()
            assert(support.sh("mkdir " .. home .. "/.config"))
            sys.write_file(home .. "/.config/redlock.conf", "lease = 4\n")
            local p = deploy("true", ("echo $PPID >> %s; while ! test -e %s/go; do sleep 0.02; "
                .. "done"):format(log, home))
            support.eventually(function() return logged():find "\n" end, 20)
            local script = logged():match "%d+"
            assert(support.sh("kill -STOP " .. script))
            cluster:each(function(s)
                support.eventually(function() return s:call("EXISTS", "deploy") == 0 end, 20)
            end)
            sys.write_file(home .. "/go", "")
            assert(support.sh("kill -CONT " .. script))
            local status, text = cli.ends(p)
            assert.equal(LOST, status, text)
            assert.equal(nil, server:call("GET", "live"))
        end)

        it("switches nothing back for who was paused", function()
            local p = deploy("echo first >> " .. log .. "; while ! test -e " .. home
                .. "/go; do sleep 0.02; done")
            support.eventually(function() return logged() ~= "" end, 20)
            assert.equal(0, (cli.ends(cli.start(cluster, home, {}, "unlock", "-f", "deploy"))))
            assert.same({ 0, "blue is live\n" }, { cli.ends(deploy()) })
            sys.write_file(home .. "/go", "")
            local status, text = cli.ends(p)
            assert.equal(RAISED, status)
            assert.matches("somebody else has switched meanwhile", text)
            assert.equal("blue", server:call("GET", "live"))
        end)
    end)

    describe("drain", function()
        local function drain(command, hosts)
            local machines, texts = {}, {}
            for i = 1, hosts do
                machines[i] = start("drain", "2", command, "web" .. i)
            end
            for i, p in ipairs(machines) do
                local status, text = cli.ends(p)
                texts[i] = status .. " " .. text
            end
            return texts
        end

        it("works on N hosts at most at a time", function()
            local n, most = 0, 0
            for i, text in ipairs(drain(("echo in >> %s; sleep 0.3; echo out >> %s")
                :format(log, log), 5)) do
                assert.matches(("^0 web%d: slot [12]\n$"):format(i), text)
            end
            for word in logged():gmatch "%a+" do
                n = n + (word == "in" and 1 or -1)
                most = math.max(most, n)
            end
            assert.same({ 0, 2 }, { n, most })
        end)

        it("works on no further host after a failure, until it may", function()
            assert.matches("^1 .*web1 failed: exit 4", drain("exit 4", 1)[1])
            for _, text in ipairs(drain("echo in >> " .. log, 3)) do
                assert.matches("^1 .*stopped: .*web1 failed", text)
            end
            assert.equal("", logged())
            assert.equal(0, (cli.ends(cli.start(cluster, home, {}, "unlock", "--force",
                "drain:stopped"))))
            assert.matches("^0 ", drain("echo in >> " .. log, 1)[1])
        end)
    end)

    it("resume repeats no step, and runs once", function()
        if not support.sh "command -v sqlite3 > /dev/null" then
            return pending "no sqlite3 here"
        end
        local file = home .. "/it's.db"
        local function job(second, mark)
            return start("resume", "it's", file, "echo 'CREATE TABLE t (n);'; echo first >> "
                .. log, second, "echo \"INSERT INTO t VALUES ('" .. mark .. "');\"")
        end
        assert.equal(RAISED, (cli.ends(job("exit 3", "a"))))
        assert.equal(RAISED, (cli.ends(job("echo '/* no end'", "b"))))
        -- It loses its lock within the second step; the next run does that step, too.
        local late = job("echo second >> " .. log .. "; while ! test -e " .. home
            .. "/go; do sleep 0.02; done; echo \"INSERT INTO t VALUES ('late');\"", "c")
        support.eventually(function() return logged():find "second" end, 20)
        assert.equal(0, (cli.ends(cli.start(cluster, home, {}, "unlock", "-f", "job:it's"))))
        assert.same({ 0, "step 2\nstep 3\ndone\n" }, { cli.ends(job("true", "d")) })
        sys.write_file(home .. "/go", "")
        local status, text = cli.ends(late)
        assert.is_true(status ~= 0, text)
        assert.same({ 0, "another run is at it, or has run today\n" },
            { cli.ends(job("true", "e")) })
        assert.equal("first\nsecond\n", logged())
        local p = support.spawn { "sqlite3", file, "SELECT n FROM t", stdout = "pipe" }
        assert.equal("d\n", p:read_all(20))
    end)
end)
