-- examples/workflows: scripts of `redlock lua` that do what they say, once, and in their order.
local build = require "spec.support.build"
local cli = require "spec.support.command"
local support = require "spec.support"
local sys = require "spec.support.sys"

local RAISED, LOST = 1, 123

describe("the workflow", function()
    local cluster, home, log

    setup(function() cluster = support.cluster(3) end)
    before_each(function()
        cluster:flush()
        home = support.tmpdir()
        log = home .. "/log"
        sys.write_file(log, "")
    end)
    teardown(support.cleanup)

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
            drain = { "none" } } do
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

        it("switches nothing back for who was paused", function()
            local p = deploy("echo first >> " .. log .. "; while ! test -e " .. home
                .. "/go; do sleep 0.02; done")
            support.eventually(function() return logged() ~= "" end, 20)
            assert.equal(0, (cli.ends(cli.start(cluster, home, {}, "unlock", "-f", "deploy"))))
            assert.same({ 0, "blue is live\n" }, { cli.ends(deploy()) })
            sys.write_file(home .. "/go", "")
            local status, text = cli.ends(p)
            assert.equal(RAISED, status)
            assert.matches("somebody else has deployed meanwhile", text)
            assert.equal("blue", server:call("GET", "live"))
        end)
    end)

    it("drain lets in N machines at most", function()
        local machines, n, most = {}, 0, 0
        for i = 1, 5 do
            machines[i] = start("drain", "2", ("echo in >> %s; sleep 0.3; echo out >> %s")
                :format(log, log))
        end
        for _, p in ipairs(machines) do
            local status, text = cli.ends(p)
            assert.equal(0, status, text)
            assert.matches("^slot [12]\n$", text)
        end
        for word in logged():gmatch "%a+" do
            n = n + (word == "in" and 1 or -1)
            most = math.max(most, n)
        end
        assert.same({ 0, 2 }, { n, most })
        local status, text = run("drain", "1", "exit 4")
        assert.equal(RAISED, status)
        assert.matches("failed: exit 4", text)
    end)
end)
