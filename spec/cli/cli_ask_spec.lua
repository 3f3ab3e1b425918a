-- redlock ask.
local cli = require "spec.support.command"
local support = require "spec.support"

local FREE, UNHEARD, FAILED = 1, 2, 125

describe("redlock ask", function()
    local cluster, home, client

    setup(function()
        cluster = support.cluster(3)
        home = support.tmpdir()
    end)
    before_each(function()
        cluster:flush()
        client = support.warm_client(cluster, { label = "web-1" })
    end)
    after_each(function() client:close() end)
    teardown(support.cleanup)

    local function ask(...)
        return cli.ends(cli.start(cluster, home, {}, "ask", ...))
    end

    it("tells the holder, who lets go or not", function()
        local l, told = client:getLock "x", nil
        assert.same({ FREE, "x is free\n" }, { ask "x" })
        assert(l:tryLock(0, 50))
        assert.same({ UNHEARD, "x: nobody listens; held by web-1\n" }, { ask("x", "--why", "now") })
        assert(l:onAsked(function(_, why, who) told = { why, who } end))
        support.eventually(function() l:isValid() return told end, 20)
        assert.equal("now", told[1])
        assert.matches("^%S+ %d+ redlock$", told[2])
        assert.same({ 0, "x: asked web-1\n" }, { ask("x", "--why", "later\n") })
        assert.same({ UNHEARD, "x: an earlier request is still to be read by web-1\n" },
            { ask "x" })
        support.eventually(function() l:isValid() return told[1] == "later?" end, 20)
        assert.is_true(l:isValid())
    end)

    it("--json is JSON", function()
        local status, text = ask("x", "--json")
        assert.same({ FREE, '{"held": false, "name": "x"}\n' }, { status, text })
        assert(client:getLock("x"):tryLock(0, 50))
        status, text = ask("--json", "x")
        assert.equal(UNHEARD, status)
        assert.matches('^{"before": false, "heard": false, "held": true, "label": "web%-1", '
            .. '"name": "x", "remaining": %d+%.?%d*, "since": %d+%.?%d*}\n$', text)
    end)

    describe("and run --on-ask", function()
        -- Runs a script under the lock that says its first line when it is ready.
        local function start(script, ...)
            local p = cli.start(cluster, home, {}, "run", cli.script(script, ...))
            assert.equal("in", p:read_line(20))
            return p
        end

        it("gives the command the signal, and says who asks, and why", function()
            local p = start("trap 'echo told; exit 7' USR1; echo in; while :; do sleep 0.05; done",
                "x", "--on-ask", "USR1")
            ask("x", "--why", "a deploy waits")      -- before or behind its subscription
            local status, text = cli.ends(p)
            assert.equal(7, status)
            assert.matches("redlock: %S+ %d+ redlock asks to let go of the lock: a deploy waits\n",
                text)
            assert.matches("told\n", text)
            assert.same({ FREE, "x is free\n" }, { ask "x" })
        end)

        it("is told each time, and forced to nothing", function()
            local p = start("n=0; trap 'n=$((n+1)); echo told $n' HUP; trap 'exit 0' TERM; "
                .. "echo in; while :; do sleep 0.05; done", "x", "--on-ask", "SIGHUP")
            for n = 1, 2 do
                local status = ask "x"
                assert.is_true(status == 0 or n == 1 and status == UNHEARD)
                local line = assert(p:read_line(20))
                assert.matches("asks to let go of the lock$", line)
                repeat                   -- the shell says that its sleep was hung up
                    line = assert(p:read_line(20))
                until line == "told " .. n
            end
            p:kill "TERM"
            assert.equal(0, (cli.ends(p)))
        end)

        it("goes for readers, writers and several names", function()
            for _, words in ipairs { { "x", "--shared" }, { "x", "--write" }, { "y", "x" } } do
                words[#words + 1] = "--on-ask=TERM"
                local p = start("trap 'exit 0' TERM; echo in; while :; do sleep 0.05; done",
                    unpack(words))
                ask "x"
                assert.equal(0, (cli.ends(p)))
            end
        end)

        it("does not listen without it", function()
            local p = start("echo in; exec sleep 60", "x")
            assert.equal(UNHEARD, (ask "x"))
            p:kill "TERM"
            cli.ends(p)
        end)

        it("says what does not go together", function()
            for _, case in ipairs {
                { "--on-ask takes HUP, INT, QUIT, TERM, USR1 or USR2", "KILL" },
                { "--on-ask does not go with --permits", "TERM", "--permits", "2" },
                { "--on-ask does not go with --once", "TERM", "--once", "9" },
            } do
                local status, text = cli.ends(cli.start(cluster, home, {}, "run",
                    cli.script("true", "x", "--on-ask", unpack(case, 2))))
                assert.equal(FAILED, status)
                assert.matches(case[1], text, 1, true)
            end
        end)

        it("does not run what could not be asked", function()
            local name = ("n"):rep(240)
            local status, text = cli.ends(cli.start(cluster, home, {}, "run", name, "--on-ask",
                "TERM", "--", "echo", "ran"))
            assert.equal(FAILED, status)
            assert.matches("unsupported", text)
            assert.not_matches("ran\n", text)
            assert.is_false(client:getLock(name):isLocked())
        end)
    end)

    it("says what it cannot do", function()
        local status, text = ask()
        assert.equal(FAILED, status)
        assert.matches("ask", text)
        status, text = ask("x", "--why", ("w"):rep(161))
        assert.equal(FAILED, status)
        assert.matches("160 bytes", text)
        status, text = ask("x", "--nodes", "redis://127.0.0.1:1")
        assert.equal(FAILED, status)
        assert.matches("refused", text)
    end)
end)
