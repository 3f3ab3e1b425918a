-- What `redlock run` holds: readers, permits, several names, and once per period.
local cli = require "spec.support.command"
local support = require "spec.support"

local LOST, HELD, FAILED = 123, 124, 125

describe("redlock run", function()
    local cluster = support.shared_cluster(3)
    local home, client

    setup(function()
        home = support.tmpdir()
        client = support.warm_client(cluster, {})
    end)
    teardown(function() client:close() end)

    local ends = cli.ends

    -- Servers that are slow, as the machine is busy, are not down.
    local function start(...)
        return cli.start(cluster, home, { stdin = "pipe" }, "--timeout", "3", "--connect-timeout",
            "5", "run", ...)
    end

    local function run(...)
        return ends(start(...))
    end

    -- Whether a majority keeps a key for longer than that: one server may be late.
    local function keeps(key, ms)
        local n = 0
        cluster:each(function(s) n = n + (s:call("PTTL", key) > ms and 1 or 0) end)
        return n >= 2
    end

    -- A command that says that it runs, and ends when it is told to.
    local HOLD = { "--", "sh", "-c", "echo in; read end" }

    local function holds(...)
        local words = { ... }
        for _, word in ipairs(HOLD) do
            words[#words + 1] = word
        end
        local p = start(unpack(words))
        assert.equal("in", p:read_line(20))
        return p
    end

    local function let_go(p)
        p:write "\n"
        local status, text = ends(p)
        assert.equal(0, status, text)
    end

    describe("--shared", function()
        it("runs beside others that are, and keeps out all else", function()
            local a, b = holds("x", "--shared"), holds("x", "--shared")
            assert.equal(HELD, (run("x", "--no-wait", "--", "true")))
            assert.equal(HELD, (run("x", "--no-wait", "--plain", "--", "true")))
            support.fails("held", client:getLock("x"):tryLock(0))
            assert.is_true(client:getReadWriteLock("x"):readLock():tryLock(5))
            assert.is_true(client:getReadWriteLock("x"):readLock():unlock())
            let_go(a)
            assert.equal(HELD, (run("x", "--no-wait", "--", "true")))
            let_go(b)
            assert.equal(0, (run("x", "--wait", "20", "--", "true")))
        end)

        it("is kept out by a lock, and has no token", function()
            local p = holds "x"
            local status, text = run("x", "--shared", "--no-wait", "--", "true")
            assert.equal(HELD, status)
            assert.matches("^redlock: read lock 'x' is held by somebody else "
                .. "%(%S+ %d+ redlock: sh%)\n$", text)
            let_go(p)
            status, text = ends(cli.start(cluster, home, { env = { REDLOCK_TOKEN = "1",
                REDLOCK_SLOT = "1", REDLOCK_TERM = "1" } }, "run", "x", "--shared", "--wait", "20",
                "--", "sh", "-c", "echo $REDLOCK_NAME ${REDLOCK_TOKEN-none} "
                .. "${REDLOCK_SLOT-none} ${REDLOCK_TERM-none}"))
            assert.same({ 0, "x none none none\n" }, { status, text })
        end)
    end)

    describe("--write", function()
        it("keeps all others out, and readers who come while it waits", function()
            local reader = holds("x", "--shared")
            local writer = start("x", "--write", "--wait", "60", unpack(HOLD))
            support.eventually(function()
                return cluster[1]:call("EXISTS", "redlock:{x}:door") == 1
                    and cluster[2]:call("EXISTS", "redlock:{x}:door") == 1
            end, 20)
            assert.equal(HELD, (run("x", "--shared", "--no-wait", "--", "true")))
            let_go(reader)
            local line
            repeat                           -- it may say who it waits for
                line = writer:read_line(20)
            until not line:find "waiting"
            assert.equal("in", line)
            local status, text = run("x", "--write", "--no-wait", "--", "true")
            assert.equal(HELD, status)
            assert.matches("^redlock: write lock 'x' is held by somebody else", text)
            assert.equal(HELD, (run("x", "--shared", "--no-wait", "--", "true")))
            assert.equal(HELD, (run("x", "--write", "--fenced", "--no-wait", "--", "true")))
            assert.equal(HELD, (run("x", "--no-wait", "--", "true")))
            let_go(writer)
        end)

        it("has a token with --fenced, in one sequence with locks", function()
            local last = 0
            local function takes(...)
                local status, text = run("x", "--wait", "20", ...)
                local token = tonumber(text:match "^(%d+)\n$")
                assert.equal(0, status)
                assert.is_true(token > last, text)
                last = token
            end
            takes("--write", "--fenced", "--", "sh", "-c", "echo $REDLOCK_TOKEN")
            takes("--fenced", "--", "sh", "-c", "echo $REDLOCK_TOKEN")
            takes("--fenced", "--write", "--", "sh", "-c", "echo $REDLOCK_TOKEN")
            takes("--", "sh", "-c", "echo $REDLOCK_TOKEN")
            assert.same({ 0, "none\n" }, { run("x", "--write", "--wait", "20", "--", "sh", "-c",
                "echo ${REDLOCK_TOKEN-none}") })
        end)

        it("stays closed for --at-least, with a token and without", function()
            for name, flag in pairs { x = "--fenced", y = "--write" } do
                assert.equal(0, (run(name, "--write", flag, "--at-least", "50", "--", "true")))
                assert.equal(HELD, (run(name, "--shared", "--no-wait", "--", "true")))
            end
        end)
    end)

    describe("--permits", function()
        it("gives a token that is larger than all before it in its place, with --fenced", function()
            local last = 0
            for _ = 1, 3 do
                local p = start("x", "--permits", "1", "--fenced", "--wait", "20", "--", "sh", "-c",
                    "echo $REDLOCK_SLOT $REDLOCK_TOKEN; read end")
                local token = tonumber((p:read_line(20):match "^1 (%d+)$"))
                assert.is_true(token > last)
                last = token
                assert.equal(HELD, (run("x", "--permits", "1", "--no-wait", "--", "true")))
                let_go(p)
            end
            local ok, token = client:using("x", { permits = 1, fenced = true, wait = 20 },
                function(permit) return permit:token() end)
            assert.is_true(ok and token > last)
        end)

        it("lets so many run at once, each in a place of its own", function()
            local places, inside = {}, {}
            for i = 1, 2 do
                inside[i] = start("x", "--permits", "2", "--", "sh", "-c",
                    "echo $REDLOCK_NAME $REDLOCK_SLOT ${REDLOCK_TOKEN-none}; read end")
                local place = inside[i]:read_line(20):match "^x ([12]) none$"
                assert.truthy(place)
                places[place] = true
            end
            assert.same({ ["1"] = true, ["2"] = true }, places)
            local status, text = run("x", "--permits", "2", "--no-wait", "--", "true")
            assert.same({ HELD, "redlock: all permits of semaphore 'x' are taken\n" },
                { status, text })
            assert.equal(0, client:getSemaphore("x", 2):availablePermits())
            assert.equal(0, (run("x", "--no-wait", "--", "true")))       -- a lock, nothing else
            local third = start("x", "--permits", "2", "--wait", "20", "--", "echo", "third")
            let_go(inside[1])
            assert.same({ 0, "third\n" }, { ends(third) })
            let_go(inside[2])
        end)

        it("keeps a place for --at-least, also behind a command that is shorter", function()
            for _ = 1, 2 do
                assert.equal(0, (run("x", "--permits", "2", "--at-least", "50", "--", "true")))
            end
            assert.equal(HELD, (run("x", "--permits", "2", "--no-wait", "--", "true")))
            assert.equal(0, (run("y", "--permits", "1", "--at-least", "3600", "--", "true")))
            assert.is_true(keeps("redlock:{y}:slots", 3e6))
        end)
    end)

    describe("several names", function()
        it("are held at once, all or none", function()
            local p = start("b", "a", "b", "--", "sh", "-c",
                "echo $REDLOCK_NAME ${REDLOCK_TOKEN-none}; read end")
            assert.equal("a b none", p:read_line(20))
            for _, name in ipairs { "a", "b" } do
                assert.equal(HELD, (run(name, "--no-wait", "--", "true")))
            end
            local status, text = run("b", "c", "--no-wait", "--", "true")
            assert.equal(HELD, status)
            assert.matches("multi-lock 'b' and 1 more is held by somebody else", text, 1, true)
            assert.equal(0, (run("c", "--no-wait", "--", "true")))
            let_go(p)
            assert.equal(0, (run("b", "c", "--wait", "20", "--", "true")))
        end)
    end)

    describe("--once", function()
        it("starts a command once in that time, and hands on its status", function()
            local status, text = run("x", "--once", "3600", "--", "sh", "-c",
                "echo $REDLOCK_NAME $REDLOCK_TOKEN; exit 7")
            assert.equal(7, status)
            assert.matches("^x %d+\n$", text)
            status, text = run("x", "--once", "3600", "--", "echo", "again")
            assert.equal(HELD, status)
            assert.matches("^redlock: fenced lock 'x' has started already in this period "
                .. "%(closed by %S+ %d+ redlock: sh%)\n$", text)
            assert(client:getLock("z"):tryLock())
            status, text = run("z", "--once", "3600", "--", "echo", "never")
            assert.equal(HELD, status)
            assert.matches("^redlock: fenced lock 'z' is held by somebody else %(", text)
            assert.is_true(keeps("x", 3e6))
            assert.is_true(support.fails("held", client:once("x", 3600, error)).done)
            assert.same({ 0, "none\n" }, { run("y", "--once", "3600", "--plain", "--", "sh", "-c",
                "echo ${REDLOCK_TOKEN-none}") })
            assert.equal(HELD, (run("y", "--once", "3600", "--plain", "--", "true")))
        end)

        it("does not start it again whatever becomes of it, and of redlock", function()
            local p = start("x", "--once", "3600", "--", "sh", "-c", "echo $$; sleep 60")
            local pid = p:read_line(20)
            p:kill "KILL"
            p:wait(10)
            cli.gone(pid)
            assert.equal(HELD, (run("x", "--once", "3600", "--", "true")))
            p = start("y", "--once", "3600", "--", "sh", "-c", "echo in; kill -9 $$")
            assert.equal("in", p:read_line(20))
            assert.equal(128 + 9, (ends(p)))
            assert.equal(HELD, (run("y", "--once", "3600", "--", "true")))
        end)

        it("is not told of a loss, as nothing is held", function()
            local p = holds("x", "--once", "3600", "--lease", "1")
            cluster:each(function(s) s:call("DEL", "x") end)
            support.sleep(2)
            let_go(p)
        end)

        it("passes signals on, and ends it when it has had its time", function()
            local p = start("x", "--once", "3600", "--", "sh", "-c",
                "trap 'echo told; exit 3' TERM; echo in; while :; do sleep 0.05; done")
            assert.equal("in", p:read_line(20))
            p:kill "TERM"
            local status, text = ends(p)
            assert.equal(3, status)
            assert.matches("told\n$", text)
            status, text = run("y", "--once", "3600", "--max-hold", "0.5", "--", "sleep",
                "60")
            assert.equal(LOST, status)
            assert.matches("the command has had its time", text)
        end)
    end)

    it("says which of them go together, and with what", function()
        for pattern, words in pairs {
            ["--shared and --permits are two kinds of locks"] = { "x", "--permits", "1",
                "--shared" },
            ["--permits and --once are two kinds of locks"] = { "x", "--permits", "1", "--once",
                "1" },
            ["--at-least does not go with --shared"] = { "x", "--shared", "--at-least", "1" },
            ["--shared and --write are two kinds of locks"] = { "x", "--write", "--shared" },
            ["--plain does not go with --write"] = { "x", "--write", "--plain" },
            ["--fenced does not go with --shared"] = { "x", "--shared", "--fenced" },
            ["--fenced does not go with --plain"] = { "x", "--plain", "--fenced" },
            ["--write is for one name, not for x y"] = { "x", "y", "--write" },
            ["--fenced is for one name, not for x y"] = { "x", "y", "--fenced" },
            ["--plain does not go with --permits"] = { "x", "--permits", "1", "--plain" },
            ["--wait does not go with --once"] = { "x", "--once", "1", "--wait", "1" },
            ["--shared is for one name, not for x y"] = { "x", "y", "--shared" },
            ["--at-least is for one name, not for x y"] = { "x", "y", "--at-least", "1" },
            ["bad permits: a whole number from 1 to 1024 is needed, not many"] = { "x",
                "--permits", "many" },
            ["bad permits: a whole number from 1 to 1024 is needed, not 0"] = { "x",
                "--permits", "0" },
            ["--once needs a number of seconds, more than 0"] = { "x", "--once", "0" },
            ["names of locks are wanted, not redis://...;"] = { "x", "redis://:pw@b" },
            ["bad names[1]: such keys"] = { "redlock:{x}", "y" },
        } do
            words[#words + 1], words[#words + 2] = "--", "true"
            local status, text = run(unpack(words))
            assert.equal(FAILED, status)
            assert.matches(pattern, text, 1, true)
        end
    end)
end)
