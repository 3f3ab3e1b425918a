-- The settings of the command: where they come from, and what is no setting.
local cli = require "spec.support.command"
local support = require "spec.support"
local sys = require "spec.support.sys"

local FAILED = 125

describe("redlock", function()
    local cluster, home

    setup(function()
        cluster = support.cluster(3)
        home = support.tmpdir()
    end)

    local ends = cli.ends

    local start, redlock = cli.on(function() return cluster, home end)

    local function write(name, text)
        local path = home .. "/" .. name
        sys.write_file(path, text)
        return path
    end

    describe("takes its settings", function()
        it("from options, the environment, a file, in this order", function()
            local good = "node = " .. cluster[1].uri .. "\n# or\n\nnodes = " .. cluster[2].uri
                .. ", " .. cluster[3].uri .. "\ntimeout = 2\nmax_hold = false\n"
            local bad = "redis://127.0.0.1:1"
            local file = write("redlock.conf", good)
            local function works(env, ...)
                local status, text = ends(start({ env = env }, "status", "x", "--timeout", "3",
                    ...))
                assert.equal(3, status, text)
                assert.matches("x is free", text)
            end
            works({ REDLOCK_NODES = false }, "--config", file)
            works({ REDLOCK_NODES = false }, "--config=" .. file)
            works { REDLOCK_NODES = false, REDLOCK_CONFIG = file }
            works { REDLOCK_NODES = false, XDG_CONFIG_HOME = home }
            local function source(env, ...)
                local _, text = ends(start({ env = env }, "check", "--timeout", "3", ...))
                return text:match "\nsettings from ([^\n]*)\nverdict: "
            end
            assert.equal("REDLOCK_CLUSTER, " .. file, source { REDLOCK_NODES = false,
                XDG_CONFIG_HOME = home })
            assert.equal("REDLOCK_NODES, REDLOCK_CLUSTER, " .. file, source {
                REDLOCK_CONFIG = file })
            local uris = table.concat(cluster:uris(), ",")
            assert.equal("--nodes, REDLOCK_CLUSTER, " .. file, source({ REDLOCK_CONFIG = file },
                "--nodes", uris))
            assert.matches('"source": "REDLOCK_NODES, REDLOCK_CLUSTER"', (select(2, ends(start({},
                "check", "--json")))))
            works { REDLOCK_NODES = "", REDLOCK_CONFIG = "", XDG_CONFIG_HOME = home }
            assert.is_true(support.sh("mkdir -p " .. home .. "/.config; cp " .. file .. " " .. home
                .. "/.config/"))
            works { REDLOCK_NODES = "", REDLOCK_CONFIG = "", XDG_CONFIG_HOME = "" }
            assert.is_true(support.sh("rm -r " .. home .. "/.config"))
            works({ REDLOCK_NODES = bad }, "--nodes", table.concat(cluster:uris(), ","))
            write("redlock.conf", "nodes = " .. bad .. "\n")
            works { REDLOCK_CONFIG = file }
            os.remove(file)
        end)

        it("and names the servers, and what is wrong, where none is reachable", function()
            local uris = {}
            for i = 1, 3 do
                uris[i] = "redis://127.0.0.1:" .. support.free_port()
            end
            local script = write("take.lua", "assert(client:getLock('x'):tryLock(0))")
            for _, line in ipairs { "run x --no-wait -- true", "run x --wait 1 -- true", "wait x",
                "run x --permits 2 --no-wait -- true", "run x y --no-wait -- true", "status x",
                "run x --once 5 -- true", "lead x -- true", "unlock --force x", "ls", "ls --json",
                "check", "check --json", "init", "init --force", "top --count 1",
                "lua " .. script } do
                local words, text = {}, ""
                for word in line:gmatch "%S+" do
                    words[#words + 1] = word
                end
                local p = start({ env = { REDLOCK_NODES = table.concat(uris, " ") } },
                    "--config", write("patience.conf", "patience = 1\n"), unpack(words))
                for _, uri in ipairs(uris) do
                    while not text:find(uri, 1, true) do
                        text = text .. assert(p:read_line(30), line .. ": " .. text) .. "\n"
                    end
                end
                p:kill "TERM"
                text = text .. p:read_all(30)
                assert.matches("refused", text, 1, true)
            end
        end)

        it("from no variable that other programs would lack without a word", function()
            local held = start({}, "run", "x", "--prefix", "app:", "--", "sh", "-c",
                "echo on; sleep 60")
            assert.equal("on", held:read_line(30))
            local status, said = ends(start({ env = { REDLOCK_PREFIX = "app:" } }, "run", "x",
                "--no-wait", "--", "echo", "ran beside the holder"))
            held:kill "TERM"
            assert.equal(FAILED, status)
            assert.matches("^redlock: REDLOCK_PREFIX: this option is not read", said)
            assert.equal(128 + 15, (ends(held)))
        end)

        it("from a file without mistakes", function()
            local function wrong(text, pattern)
                local status, said = redlock("status", "x", "--config", write("bad.conf", text))
                assert.equal(FAILED, status)
                assert.matches(pattern, said)
            end
            wrong("\nleese = 1\n", "bad.conf:2: .*leese")
            wrong("on_event = print", "bad.conf:1: .*on_event")
            wrong("what is this", "bad.conf:1: a line is `option = value`")
            wrong("lease = long", "bad.conf:1: lease needs a number")
            wrong("lease = 1000", "bad option lease")
            for _, text in ipairs { "nodes = redis://h  # the server", "lease = 5 # seconds",
                "cluster = orders # ours", "nodes = redis://h\n  redis://i # ours" } do
                wrong(text, "bad.conf:%d: a comment needs a line of its own")
            end
            wrong("cluster = 'orders'", "bad.conf:1: cluster: leave out the quotes")
            wrong("\239\187\191cluster = 'orders'", "bad.conf:1: cluster: leave out the quotes")
            local status, said = redlock("status", "x", "--config", home .. "/none")
            assert.equal(FAILED, status)
            assert.matches("cannot be read: .*/none", said)
        end)

        it("from where secrets may be, and shows them nowhere", function()
            cluster:each(function(s)
                s:user("locks", "on", ">hunter2", "~*", "&*", "+@all")
            end)
            local secret = write("password", "hunter2\n")
            local file = write("secret.conf", "user = locks\npassword = hunter2\n")
            for _, way in ipairs {
                { { PW = "hunter2" }, "--user", "locks", "--password-env", "PW" },
                { { REDLOCK_USER = "locks", REDLOCK_PASSWORD = "hunter2" } },
                { { REDLOCK_USER = "locks", REDLOCK_PASSWORD_FILE = secret } },
                { {}, "--user", "locks", "--password-file", secret },
                { {}, "--config", file },
                { { REDLOCK_NODES = table.concat(cluster:uris(), " ")
                    :gsub("//", "//locks:hunter2@") } },
            } do
                local argv = { select(2, unpack(way)) }
                for _, word in ipairs { "--", "sh", "-c",
                    "cat /proc/$$/cmdline /proc/$PPID/cmdline; read line; exit 5" } do
                    argv[#argv + 1] = word
                end
                local p = start({ env = way[1], stdin = "pipe" }, "run", "x", unpack(argv))
                support.eventually(function()
                    return cluster[1]:call("CLIENT", "LIST"):find "user=locks"
                end, 20)
                p:write "\n"
                local status, text = ends(p)
                assert.equal(5, status, text)
                assert.matches("redlock", text)
                assert.is_nil(text:find "hunter2")
            end
            write("password", "wrong-hunter2")
            local status, text = redlock("status", "x", "--user", "locks", "--password-file",
                secret)
            assert.equal(FAILED, status)
            assert.matches("auth +AUTH: WRONGPASS", text)
            assert.is_nil(text:find "hunter2")
        end)
    end)

    it("reads every value of restart_guard from its file", function()
        for _, value in ipairs { "true", "auto" } do
            local path = home .. "/" .. value .. ".conf"
            sys.write_file(path, "restart_guard = " .. value .. "\n")
            local status, text = redlock("status", "x", "--config", path)
            assert.equal(3, status, text)        -- free
        end
    end)

    describe("reads a file of settings", function()
        local function status(text, ...)
            local path = home .. "/lines.conf"
            sys.write_file(path, text)
            assert.is_true(support.sh("chmod 600 " .. path))
            return ends(start({ env = { REDLOCK_NODES = false } },
                "status", "x", "--config", path, ...))
        end

        it("with a list of servers of several lines", function()
            local uris = cluster:uris()
            for _, list in ipairs {
                "nodes = %s\n        %s\n        %s\n",
                "nodes =\n  %s,\n  # the third one:\n\n  %s\n%s\ntimeout = 3\n",
                "timeout = 3\nnodes = %s \\\n    %s, \\\r\n  %s",
            } do
                local code, text = status(list:format(unpack(uris)), "--json")
                assert.equal(3, code, text)
                for _, uri in ipairs(uris) do
                    assert.matches('"node": "' .. uri .. '"', text, 1, true)
                end
            end
        end)

        it("that is a FIFO, as secret stores make, which is read once", function()
            local folder = support.tmpdir()
            assert(support.sh("mkfifo " .. folder .. "/redlock.conf"))
            for _ = 1, 10 do             -- a second read would sometimes find what is left
                local writer = support.spawn { "sh", "-c", ("echo 'nodes = %s' > %s/redlock.conf")
                    :format(table.concat(cluster:uris(), " "), folder) }
                assert.equal(3, (ends(start({ env = { REDLOCK_NODES = false,
                    XDG_CONFIG_HOME = folder } }, "status", "x"))))
                assert.equal(0, writer:wait(5))
            end
        end)

        it("and shows nobody what is on a line that it does not understand", function()
            for line, text in pairs {
                ["nodes = redis://a\n redis://b:hunter2@"] = "bad nodes[2]: there is no host",
                ["nodes = redis://a\n  hunter2"] = "lines.conf:2: a line is `option = value`",
                ["nodes = redis://a\n\thunter2 = x"] = "lines.conf:2: a line is",
                ["user = app\nredis://:hunter2@h"] = "lines.conf:2: a line is",
                ["nodes = redis://a\nuser = app\n  redis://:hunter2@h"] = "lines.conf:3: a line",
                ["password =\n  hunter2"] = "lines.conf:2: a line is",
                ["password = abc\nhunter=="] = "lines.conf:2: a line is",
                ["pasword = hunter2"] = "lines.conf:1: a line is",
                ["timeout = hunter2"] = "lines.conf:1: timeout needs a number",
                ["nodes = redis://a\ntls_verify = hunter2"] = "bad option tls_verify",
            } do
                local code, said = status(line .. "\n")
                assert.equal(125, code)
                assert.matches(text, said, 1, true)
                assert.is_nil(said:find "hunter", said)
            end
            assert.matches(": pasword\n$", (select(2, status "pasword = hunter2\n")))
        end)

        it("nor words that got between the others", function()
            for _, words in ipairs {
                { "run", "x", "--nodes", "redis://:hunter2@a", "redis://:hunter2@b", "--", "true" },
                { "run", "x", "--nodes", "redis://:hunter2@a", "redis://:hunter2@b", "true" },
                { "check", "--nodes", "redis://:hunter2@a", "redis://:hunter2@b" },
                { "status", "x", "--nodez=redis://:hunter2@b" },
                { "status", "x", "--timeout", "hunter2" },
            } do
                local code, said = redlock(unpack(words))
                assert.equal(125, code)
                assert.is_nil(said:find "hunter2", said)
            end
        end)

        it("and says so if everybody can, with a password in it", function()
            local file, secret = home .. "/open.conf", home .. "/open.password"
            local function warned(mode, text, ...)
                sys.write_file(file, text)
                sys.write_file(secret, "pw\n")
                assert.is_true(support.sh(("chmod %s '%s' '%s'"):format(mode, file, secret)))
                local _, said = redlock("status", "x", "--config", file, ...)
                return said:match "warning: every user .* can read the secret in (%S+):"
            end
            assert.equal(file, warned("644", "password = pw\n"))
            assert.equal(file, warned("604", "nodes = redis://a\n redis://:pw@b\n"))
            assert.equal(secret, warned("644", "password_file = " .. secret .. "\n"))
            assert.equal(secret, warned("644", "timeout = 1\n", "--password-file", secret))
            assert.is_nil(warned("640", "password = pw\n"))
            assert.is_nil(warned("600", "nodes = redis://a\n", "--password-file", secret))
            assert.is_nil(warned("644", "nodes = redis://a\ntimeout = 1\n"))
        end)
    end)

    it("run and lua hand no passwords on, and all else", function()
        local script = write("env.lua",
            "assert(client:getLock('x'):tryLock(20)) os.execute 'env' print(os.getenv 'OTHER')")
        cluster:each(function(s)
            s:user("locks", "on", ">hunter2", "~*", "&*", "+@all")
        end)
        local with = cluster:uris()
        for i, uri in ipairs(with) do
            with[i] = uri:gsub("//", "//locks:hunter2@")
        end
        local conf = home .. "/env.conf"
        sys.write_file(conf, "user = locks\npassword_env = PW\n")
        for _, way in ipairs {
            { { REDLOCK_NODES = table.concat(with, " ") } },
            { { REDLOCK_NODES = table.concat(with, ",") }, "--nodes",
                table.concat(cluster:uris(), ",") },
            { { PW = "hunter2" }, "--user", "locks", "--password-env", "PW" },
            { { PW = "hunter2", REDLOCK_CONFIG = conf } },
        } do
            way[1].OTHER = "kept"
            for _, verb in ipairs { { "run", "x", "--", "env" }, { "lua", script } } do
                local words = { select(2, unpack(way)) }
                for _, word in ipairs(verb) do
                    words[#words + 1] = word
                end
                local status, text = ends(start({ env = way[1] }, unpack(words)))
                assert.equal(0, status, text)
                assert.is_nil(text:find "hunter2", text)
                assert.matches("\nOTHER=kept\n", "\n" .. text)
            end
        end
        local _, text = redlock("run", "x", "--", "env")
        assert.matches("REDLOCK_NODES=redis://127", text, 1, true)
    end)

    it("run hands on the token of its own lock alone", function()
        local status, text = redlock("run", "outer", "--", "sh", "-c",
            'test "$REDLOCK_TOKEN" && exec "$0" run inner --plain -- sh -c '
            .. "'echo $REDLOCK_NAME ${REDLOCK_TOKEN-none}'", cli.REDLOCK)
        assert.equal("inner none\n", text)
        assert.equal(0, status)
    end)

    it("takes no names of the library's own keys", function()
        for _, words in ipairs { { "status" }, { "unlock", "--force" } } do
            local status, text = redlock(words[1], "redlock:{server}:marker", words[2])
            assert.equal(125, status)
            assert.matches("^redlock: bad name: keys that begin with 'redlock:{'", text)
        end
    end)

    it("takes no times that are none", function()
        for _, seconds in ipairs { "nan", "-1", "soon" } do
            local status, text = redlock("run", "x", "--kill-after", seconds, "--", "true")
            assert.equal(125, status)
            assert.matches("--kill-after needs a number of seconds", text, 1, true)
        end
    end)

    it("does not call free what a server that is down may have, too", function()
        local three = support.cluster(3)
        local nodes = table.concat(three:uris(), ",")
        assert.equal("OK", three[1]:call("SET", "x", "theirs", "PX", 60000))
        assert.equal(3, (redlock("status", "x", "--nodes", nodes)))
        three[2]:kill()
        local status, text = redlock("status", "x", "--nodes", nodes)
        assert.equal(125, status)
        assert.matches("no majority of the servers says whether it is held\n", text)
        assert.equal(3, (redlock("status", "y", "--nodes", nodes)))
    end)

    it("takes what follows -- as names, where no command is run", function()
        local status, text = redlock("status", "--", "-x")
        assert.equal(3, status)
        assert.matches("^%-x is free", text)
        status, text = redlock("status", "x", "--", "y")
        assert.equal(125, status)
        assert.matches("only one name is wanted, not x y", text, 1, true)
        status, text = redlock("check", "--", "y")
        assert.equal(125, status)
        assert.matches("check takes no names", text, 1, true)
    end)

    it("takes options of all commands before the command, too", function()
        local path = home .. "/before.conf"
        sys.write_file(path, "timeout = 3\n")
        for _, words in ipairs {
            { "--config", path, "status", "x" }, { "--config=" .. path, "status", "x" },
            { "--timeout", "3", "--no-tls-verify", "status", "--prefix", "a", "x" },
        } do
            local status, text = redlock(unpack(words))
            assert.equal(3, status, text)
            assert.equal("x is free\n", text:match "^[^\n]*\n")
        end
        local status, text = redlock("--json", "status", "x")
        assert.equal(3, status)
        assert.matches('^{"answered": true', text)
        status, text = redlock("--config", path, "run", "x", "--", "echo", "--json", "ran")
        assert.same({ 0, "--json ran\n" }, { status, text })
        for _, words in ipairs { { "--config", path, "--help" }, { "--json", "help" } } do
            status, text = redlock(unpack(words))
            assert.equal(0, status)
            assert.matches("^redlock: locks on Redis servers", text)
        end
        status, text = redlock("--config", path, "help", "run")
        assert.equal(0, status)
        assert.matches("^redlock run NAME", text)
        for _, words in ipairs { { "--config", path }, { "--json" }, {} } do
            status, text = redlock(unpack(words))
            assert.equal(125, status)
            assert.matches("no command given", text, 1, true)
        end
        status, text = redlock("--json", "--config")
        assert.equal(125, status)
        assert.matches("--config needs a value", text, 1, true)
        status, text = redlock("--wait", "5", "run", "x", "--", "true")
        assert.equal(125, status)
        assert.matches("there is no command '--wait'", text, 1, true)
    end)

    it("says that a server is not there, that answers, but with no vote", function()
        local new = support.cluster(3, { new = true })
        local function said(...)
            local status, text = redlock("--nodes", table.concat(new:uris(), ","), "--timeout", "3",
                ...)
            assert.equal(125, status, text)
            return text
        end
        new:each(function(s) s:call("CONFIG", "SET", "requirepass", "pw") end)
        assert.matches("no majority of the servers gave its vote\n", said("run", "x", "-n", "--",
            "true"))
        assert.matches("no majority of the servers says whether it is held\n", said("status", "x"))
        new[1]:kill()
        new[2]:kill()
        assert.matches("no majority of the servers answered\n", said("run", "x", "-n", "--",
            "true"))
        new:stop()
    end)

    it("init says that its only server is not there", function()
        local server = support.server()
        local status, text = redlock("init", "--nodes", server.uri)
        assert.same({ 0, "the servers may vote\n" }, { status, text })
        server:kill()
        status, text = redlock("init", "--nodes", server.uri)
        assert.equal(125, status)
        assert.matches("^redlock: init: no majority of the servers answered\n.*refused", text)
    end)

    it("helps with commands that there are", function()
        local status, text = redlock("help", "status")
        assert.equal(0, status)
        assert.matches("redlock status", text, 1, true)
        status, text = redlock("help", "zzz")
        assert.equal(125, status)
        assert.matches("there is no command 'zzz'", text, 1, true)
    end)

    it("says that a folder is no file of settings", function()
        local status, text = redlock("status", "x", "--config", home)
        assert.equal(125, status)
        assert.equal("redlock: the configuration cannot be read: " .. home
            .. ": Is a directory\n", text)
    end)

    it("fails where its answer cannot be written", function()
        local status, text = redlock("run", "outer", "--", "sh", "-c",
            '"$0" status x > /dev/full', cli.REDLOCK)
        assert.equal(125, status)
        assert.matches("the answer cannot be written: .*No space left", text)
    end)
end)
