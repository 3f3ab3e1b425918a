-- The command, as people and cron use it.
local cli = require "spec.support.command"
local support = require "spec.support"

local LOST, HELD, FAILED = 123, 124, 125

describe("redlock", function()
    local cluster, home

    setup(function()
        cluster = support.cluster(3)
        home = support.tmpdir()
    end)
    before_each(function()
        cluster:each(function(s) if not s:alive() then s:start():admit() end end)
        cluster:flush()
    end)

    local ends, gone = cli.ends, cli.gone
    local start, redlock = cli.on(function() return cluster, home end)

    -- Nothing but what fenced locks count with.
    local function no_keys()
        local n = 0
        cluster:each(function(s)
            for _, key in ipairs(s:call("KEYS", "*")) do
                n = n + (key:find "^redlock:{.*}:" and 0 or 1)
            end
        end)
        return n == 0
    end

    -- Each server has the key: it is not tried while one of them is connecting still.
    local function on_all(name)
        cluster:each(function(s)
            support.eventually(function() return s:call("EXISTS", name) == 1 end, 20)
        end)
    end

    -- A shell command that says "in" and stays for so long.
    local function stay(s)
        return "echo in; exec sleep " .. s
    end

    describe("teaches", function()
        it("with --help, of everything", function()
            local status, text = redlock "--help"
            assert.equal(0, status)
            for _, command in ipairs(require("redlock.cli.help").verbs) do
                assert.matches("\n  redlock " .. command, text)
                local s, t = redlock(command, "--help")
                assert.equal(0, s)
                assert.matches("^redlock " .. command, t)
                s, t = redlock("help", command)
                assert.equal(0, s)
                assert.matches("^redlock " .. command, t)
            end
            assert.same({ 0, text }, { redlock "-h" })
            assert.same({ redlock("run", "--help") }, { redlock("run", "-h") })
            for line in text:gmatch "[^\n]+" do
                assert.is_true(#line <= 96, line)
            end
            for _, code in ipairs { "123", "124", "125", "126", "127" } do
                assert.matches(code, text)
            end
            assert.matches("put no passwords there", text)
            assert.equal("redlock " .. require("redlock")._VERSION .. "\n",
                select(2, redlock "--version"))
        end)

        it("without control characters of the words that it was given", function()
            for i, words in ipairs { { "" }, { "ls", "--" }, { "check", "--config=" },
                { "run", "x", "--", "" }, { "lua", "" } } do
                words[#words] = words[#words] .. "/x\27[31m\nredlock: FORGED"
                local p = start({ stderr = "pipe" }, unpack(words))
                assert.matches("^[^\n]*/x%?%[31m%?redlock: FORGED", (p.stderr:read_all(20)))
                assert.equal(i < 4 and FAILED or 127, p:wait(10))
            end
        end)

        it("when it is used wrongly", function()
            local function wrong(pattern, ...)
                local p = start({ stderr = "pipe" }, ...)
                assert.equal("", p:read_all(10))
                assert.matches(pattern, (p.stderr:read_all(10)))
                assert.equal(FAILED, p:wait(10))
            end
            wrong "Try: redlock %-%-help"
            wrong("no command 'frob'", "frob")
            wrong("unknown option %-%-a%?%[31m", "ls", "--a\27[31m")
            wrong("unknown option %-%-waitt\nTry: redlock run %-%-help", "run", "x", "--waitt",
                "1", "--", "true")
            wrong("%-%-wait needs a number", "run", "x", "--wait", "soon", "--", "true")
            wrong("%-%-wait needs a value", "run", "x", "--wait")
            wrong("%-%-json takes no value", "status", "x", "--json=1")
            wrong("needs the name", "run", "--", "true")
            wrong("only one name", "lead", "x", "y", "--", "true")
            wrong("redlock run x %-%- sleep 5", "run", "x", "sleep", "5")
            wrong("no command is given", "run", "x")
            wrong("no command is given", "run", "x", "--")
            wrong("unlock needs %-%-force", "unlock", "x")
            wrong("a number of servers", "dev", "many")
            wrong("%-%-password%-file", "status", "x", "--password", "pw")
            wrong("bad option lease", "run", "x", "--lease", "1000", "--", "true")
            wrong("%-%-wait needs a number", "run", "x", "--wait", "-1", "--", "true")
            wrong("redlock status x", "check", "x")
            wrong("takes no names", "init", "x")
        end)

        it("when no servers are named, or they are not there", function()
            local status, text = ends(start({ env = { REDLOCK_NODES = false } }, "status", "x"))
            assert.equal(FAILED, status)
            assert.matches("%-%-nodes.*REDLOCK_NODES.*redlock dev", text)
            status, text = redlock("run", "x", "--nodes", "http://h", "--", "true")
            assert.equal(FAILED, status)
            assert.matches("^redlock: bad nodes%[1%]: unknown scheme", text)
            status, text = redlock("run", "x", "--wait", "0.1", "--nodes",
                "redis://127.0.0.1:1,redis://127.0.0.1:2", "--", "echo", "ran")
            assert.equal(FAILED, status)
            assert.matches("no majority.*127.0.0.1:1 +refused.*redis%-cli", text)
            assert.is_nil(text:find "ran")
        end)
    end)

    it("believes a server's certificate only if told so", function()
        local server = support.tls_server(support.certificates(), "good")
        local function status(...)
            return redlock("status", "x", "--nodes", "rediss://127.0.0.1:" .. server.tls_port,
                "--timeout", "3", ...)
        end
        local code, text = status()
        assert.equal(FAILED, code)
        assert.matches("tls", text)
        code, text = status "--no-tls-verify"
        assert.equal(3, code, text)
        assert.matches("x is free", text)
    end)

    it("status does not wait for a server that hangs once a majority agrees", function()
        cluster[2]:freeze()
        local port = cluster[2].port
        local function says()
            local code, text = redlock("status", "x", "--timeout", "60", "--connect-timeout", "60")
            assert.matches(port .. "  pending  no answer yet\n", text)
            assert.matches(cluster[3].port .. "  %l", text)
            return code, text:match "x is %l+"
        end
        assert.same({ 3, "x is free" }, { says() })
        for i = 1, 3, 2 do
            cluster[i]:call("SET", "x", ("a"):rep(40), "PX", 60000)
        end
        assert.same({ 0, "x is held" }, { says() })
        cluster[2]:thaw()
    end)

    it("tells names from patterns, and keys without an end from leases", function()
        cluster:each(function(s) s:call("SET", "kept", ("a"):rep(40)) end)
        local _, text = redlock("status", "kept")
        assert.not_matches("for without", text)
        for _, words in ipairs { { "status" }, { "unlock", "--force" }, { "wait" } } do
            words[#words + 1] = "dep*"
            _, text = redlock(unpack(words))
            assert.matches("'dep*' is a name, not a pattern: redlock ls 'dep*'", text, 1, true)
        end
    end)

    it("ends at Ctrl-C, whatever it waits for", function()
        cluster:each(function(s) s:freeze() end)
        local p = start({}, "status", "x", "--timeout", "60")
        support.eventually(function()
            local pipe = io.popen(("ls -l /proc/%d/fd 2>/dev/null"):format(p.pid))
            local _, n = pipe:read("*a"):gsub("socket:", "")
            pipe:close()
            return n >= 3
        end, 20)
        support.sleep(0.05)              -- it has begun to wait
        p:kill "INT"
        local status, text = ends(p)
        cluster:each(function(s) s:thaw() end)
        assert.same({ 130, "" }, { status, text })
    end)

    describe("run", function()
        it("passes on what the command says and how it ends", function()
            local status, text = redlock("run", "invoice:42", "--", "sh", "-c",
                "echo $REDLOCK_NAME; exit 7")
            assert.same({ 7, "invoice:42\n" }, { status, text })
            assert.equal(0, (redlock("run", "x", "--", "true")))
            assert.equal(128 + 9, (redlock("run", "x", "--", "sh", "-c", "kill -9 $$")))
            status, text = redlock("run", "x", "--", "no-such-command")
            assert.equal(127, status)
            assert.matches("no%-such%-command: No such file", text)
            assert.equal(126, (redlock("run", "x", "--", home)))
            assert.equal(0, (redlock("run", "x", "--", "sh", "-c", '[ "$1" = "a  b" ]', "sh",
                "a  b")))
            support.eventually(no_keys)
        end)

        it("tells the command its fencing token, unless the lock is plain", function()
            local function token(...)
                local status, text = redlock("run", "x", ...)
                assert.equal(0, status, text)
                return (assert(text:match "^token ?(%d*)\n$", text))
            end
            local command = { "--", "sh", "-c", "echo token $REDLOCK_TOKEN" }
            local first = tonumber(token(unpack(command)))
            cluster:each(function(s) s:call("DEL", "redlock:{x}:fence") end)
            local second = tonumber(token(unpack(command)))
            assert.is_true(first > 0 and second > first)
            assert.equal("", token("--plain", unpack(command)))
            local p = start({}, "run", "x", "--plain", "--", "sh", "-c", stay(100))
            assert.equal("in", p:read_line(20))
            assert.equal(HELD, (redlock("run", "x", "--no-wait", "--", "true")))
            p:kill "TERM"
            assert.equal(128 + 15, (ends(p)))
        end)

        it("holds the lock meanwhile, for longer than a lease", function()
            local p = start({}, "run", "x", "--lease", "5", "--", "sh", "-c", stay(11))
            assert.equal("in", p:read_line(20))
            assert.equal(0, (redlock("status", "x")))
            local status, text = redlock("run", "x", "--no-wait", "--", "echo", "ran")
            assert.equal(HELD, status)
            assert.matches("^redlock: fenced lock 'x' is held by somebody else "
                .. "%(%S+ %d+ redlock: sh%)\n$", text)
            assert.equal(HELD, (redlock("run", "-w", "0.8", "x", "--", "true")))
            assert.is_nil(p:wait(0))
            assert.equal(0, p:wait(20))
            support.eventually(no_keys, 3)           -- before the lease ends
        end)

        -- A shell's child that is not yet what it will be may miss a signal.
        local function asleep(p)
            local pid = tonumber(p:read_line(20):match "^in (%d+)$")
            support.eventually(function()
                local file = io.open(("/proc/%d/comm"):format(pid))
                local name = file and file:read "*l"
                if file then
                    file:close()
                end
                return name == "sleep"
            end)
            return pid
        end

        it("passes signals on, to all that the command has started", function()
            local p = start({}, "run", "x", "--", "sh", "-c",
                "trap 'echo told; kill $! 2>/dev/null; exit 3' TERM; sleep 100 & echo in $!; wait")
            local other = asleep(p)
            p:kill "TERM"
            local status, text = ends(p)
            assert.same({ 3, "told\n" }, { status, text })
            gone(other)
            p = start({}, "run", "x", "--", "sh", "-c", "sleep 100 & echo in $!; wait")
            other = asleep(p)
            p:kill "TERM"
            assert.equal(128 + 15, (ends(p)))
            gone(other)
            support.eventually(no_keys)
        end)

        -- A terminal of its own, whose Ctrl-C goes to all that run in it; a shell that
        -- waits for the command would end by it itself.
        it("has Ctrl-C end the command once, at a terminal", function()
            local p = support.spawn { "script", "-qec", "exec " .. cli.REDLOCK .. " run x -- sh -c "
                .. "'trap \"echo told; t=1\" INT; echo in; i=0; until [ $t ]; do :; done; "
                .. "while [ $i -lt 200000 ]; do i=$((i + 1)); done; exit 3'", "/dev/null",
                stdin = "pipe", stdout = "pipe", env = { REDLOCK_CLUSTER = support.CLUSTER,
                    REDLOCK_NODES = table.concat(cluster:uris(), " "), HOME = home } }
            assert.equal("in\r", p:read_line(20))
            p:write "\3"
            local status, text = ends(p)
            assert.equal(3, status, text)
            assert.equal(1, select(2, text:gsub("told", "")))
            support.eventually(no_keys)
        end)

        it("has a signal end the wait, and leaves nothing behind", function()
            cluster:each(function(s) s:call("SET", "x", "theirs", "PX", 60000) end)
            for signal, status in pairs { INT = 130, TERM = 143, HUP = 129 } do
                local p = start({}, "run", "x", "--", "echo", "ran")
                support.eventually(function()
                    return cluster[1]:call("PUBSUB", "NUMSUB", "redlock:{x}:free")[2] > 0
                end, 20)
                p:kill(signal)
                assert.same({ status, "" }, { ends(p) })
                support.eventually(function()
                    return cluster[1]:call("PUBSUB", "NUMSUB", "redlock:{x}:free")[2] == 0
                end, 20)
            end
            assert.equal("theirs", cluster[1]:call("GET", "x"))
        end)

        describe("ends the command when the lock is lost,", function()
            local function lose(p)
                cluster:each(function(s) s:call("SET", "x", "theirs", "PX", 60000) end)
                local status, text = ends(p)
                assert.equal(LOST, status, text)
                assert.matches("redlock: the lock is lost %(taken%)", text)
                return text
            end

            it("by TERM", function()
                local p = start({}, "run", "x", "--lease", "8", "--", "sh", "-c",
                    "trap 'echo told; exit 0' TERM; echo in; while :; do sleep 0.1; done")
                assert.equal("in", p:read_line(20))
                assert.matches("told", lose(p))
            end)

            it("with what it left behind", function()
                local p = start({}, "run", "x", "--lease", "8", "--", "sh", "-c",
                    "(trap '' TERM; exec sleep 100) & echo $!; sleep 100")
                local other = tonumber(p:read_line(20))
                support.sleep(0.2)           -- it has said that it will not listen
                lose(p)
                gone(other)
            end)

            it("but not because a minority is", function()
                local p = start({}, "run", "x", "--lease", "8", "--", "sh", "-c", stay(5))
                assert.equal("in", p:read_line(20))
                on_all "x"
                cluster[2]:kill()
                assert.equal(0, (ends(p)))
            end)

            it("or says that it was lost before its end", function()
                local p = start({ stdin = "pipe" }, "run", "x", "--lease", "50", "--", "sh", "-c",
                    "echo in; read line")
                assert.equal("in", p:read_line(20))
                cluster:each(function(s) s:call("SET", "x", "theirs", "PX", 60000) end)
                p:write "\n"
                local status, text = ends(p)
                assert.equal(LOST, status)
                assert.matches("lost before the command ended", text)
            end)
        end)

        it("passes the status on when the release is not confirmed", function()
            local p = start({ stdin = "pipe" }, "run", "x", "--", "sh", "-c",
                "echo in; read line; exit 4")
            assert.equal("in", p:read_line(20))
            cluster:each(function(s) s:freeze() end)
            p:write "\n"
            local status, text = ends(p)
            cluster:each(function(s) s:thaw() end)
            assert.equal(4, status)
            assert.matches("release was not confirmed", text)
        end)
    end)

    describe("status and unlock", function()
        it("tell who holds it, server by server, and open it", function()
            local p = start({}, "run", "x", "--lease", "50", "--", "sh", "-c", stay(100))
            assert.equal("in", p:read_line(20))
            on_all "x"
            local status, text
            support.eventually(function()        -- once a majority agrees, it waits for no other
                status, text = redlock("status", "x", "--timeout", "3")
                return not text:find "pending"
            end)
            assert.equal(0, status)
            local holder, label = text:match
                "^x is held, for %d%d%.%d s unless it is renewed, by holder (%x+):\n  ([^\n]+)\n"
            assert.equal(8, #holder)
            assert.matches("^%S+ %d+ redlock: sh, since %d+%-%d+%-%d+T%d+:%d+:%d+Z$", label)
            assert.matches(":" .. cluster[1].port .. "  held  %d+%.%d s  holder " .. holder .. "\n",
                text)
            cluster[2]:kill()
            status, text = redlock("status", "x", "--timeout", "3")
            assert.equal(0, status)
            assert.matches(":" .. cluster[2].port .. " +refused +connect", text)
            status, text = redlock("status", "x", "--timeout", "3", "--json")
            assert.equal(0, status)
            assert.matches('^{"answered": true, "held": true, "holder": "' .. holder .. '", '
                .. '"label": "%S+ %d+ redlock: sh", "name": "x", "nodes": %[{.*}%], '
                .. '"permits": %[%], "queue": %[%], "readers": %[%], "remaining": %d+%.%d+, '
                .. '"since": %d+%.%d+, "waiting": 0, "waiting_for_permits": 0}\n$', text)
            assert.same({ 3, "x was not held by 00000000\n" },
                { redlock("unlock", "--force", "x", "--holder", "00000000") })
            local by = { "unlock", "--force", "x", "--holder", holder }
            assert.same({ 0, "x is no longer held by " .. holder .. "\n" }, { redlock(unpack(by)) })
            for i = 1, 3, 2 do
                cluster[i]:call("SET", "x", ("a"):rep(40), "PX", "60000")
            end
            assert.equal(3, (redlock(unpack(by))))
            assert.same({ 0, "x is open now\n" }, { redlock("unlock", "--force", "x") })
            assert.same({ 3, "x was open already\n" }, { redlock("unlock", "-f", "x") })
            assert.same({ 3, '{"name": "x", "opened": false}\n' },
                { redlock("unlock", "-f", "--json", "x") })
            assert.equal(3, (redlock("status", "x")))
            p:kill "TERM"
            p:wait(10)
            cluster[1]:kill()
            status, text = redlock("status", "x")
            assert.equal(FAILED, status)
            assert.matches("no majority", text)
            assert.equal(FAILED, (redlock("unlock", "-f", "x")))
        end)

        it("speak JSON that others can read", function()
            local json = require "redlock.text.json"
            assert.equal([[{"a": [1, 2.5, true], "b": "x\"\\\n\u0001ä", "c": null, "d": []}]],
                json.encode { a = { 1, 2.5, true }, b = 'x"\\\n\1ä', c = math.huge, d = {} })
        end)
    end)

    describe("check and init", function()
        it("tell how the servers are", function()
            local status, text = redlock("check", "--timeout", "3")
            assert.equal(0, status, text)
            assert.equal(0, (redlock("init", "--timeout", "3")))
            cluster[3]:kill()
            status, text = redlock("check", "--timeout", "3")
            assert.equal(1, status, text)
            assert.matches(tostring(cluster[3].port), text)
            assert.matches("refused", text)
            assert.matches("\nverdict: warning: 2 of 3 vote: restart no other server\n$", text)
            cluster[2]:kill()
            status, text = redlock("check", "--json", "--timeout", "3")
            assert.equal(2, status, text)
            assert.matches('"summary": "1 of 3 vote: no locks", "verdict": "error"', text)
            status, text = redlock "init"
            assert.equal(FAILED, status)
            assert.matches("a new cluster is all up, but .*" .. cluster[2].port, text)
        end)

        it("lead from a brand-new cluster to one that votes", function()
            local new = support.cluster(3, { new = true })
            local uris = table.concat(new:uris(), ",")
            local function on_new(...)
                return redlock(select(1, ...), "--nodes", uris, "--timeout", "3",
                    select(2, ...))
            end
            local function guarded(text)
                assert.matches("guarded", text)
                assert.matches("%d+ s", text)
            end
            local p = start({}, "run", "x", "--no-wait", "--nodes", uris, "--", "echo", "ran")
            assert.matches("waiting .* %d+ s$", p:read_line(20))
            p:kill "TERM"
            assert.same({ 128 + 15, "" }, { ends(p) })
            local status, text = on_new("status", "x")
            assert.equal(FAILED, status)
            assert.matches("too few servers may vote to say whether it is held", text)
            guarded(text)
            assert.matches('"guard": "guarded"', select(2, on_new("status", "x", "--json")))
            status, text = on_new "check"
            assert.equal(2, status)
            guarded(text)
            assert.matches("^node +verdict +guard", text)
            assert.matches("all: if no program has used these servers in the last %d+ s: redlock "
                .. "init", text)
            assert.matches("^redlock: waiting .*the servers may vote\n$", select(2, on_new "init"))
            assert.same({ 0, '{"admitted": true}\n' }, { on_new("init", "--json") })
            assert.same({ 0, "ran\n" }, { on_new("run", "x", "--", "echo", "ran") })
            assert.equal(0, (on_new "check"))
            new[2]:restart()
            status, text = on_new "init"
            assert.equal(FAILED, status)
            -- Whose answer comes last decides which it says: the others are "admitted already, so
            -- this cluster is not new"; or this one "lost its memory ...: it is not new".
            assert.matches("is not new", text)
            assert.matches(":" .. new[2].port .. "[^\n]* votes in %d+ s of %d+", text)
            assert.same({ 0, "the servers may vote\n" }, { on_new("init", "--force") })
            assert.equal(0, (on_new "check"))
            new:stop()
        end)
    end)
end)
