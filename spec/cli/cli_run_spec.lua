-- `redlock run` and what becomes of all that a command starts.
local cli = require "spec.support.command"
local proc = require "spec.support.proc"
local support = require "spec.support"
local sys = require "spec.support.sys"

local LOST = 123

describe("redlock run", function()
    local cluster = support.shared_cluster(3)
    local home

    setup(function() home = support.tmpdir() end)

    local ends, gone = cli.ends, cli.gone

    -- Runs a script of the shell below the lock x; words: options.
    local function start(script, ...)
        return cli.start(cluster, home, {}, "run", cli.script(script, "x", ...))
    end

    -- The process ids that it says, in one line; redlock may have said something before.
    local function pids(p)
        local list, line = {}, assert(p:read_line(20))
        if line:find "^redlock: " then
            line = assert(p:read_line(20))
        end
        for pid in line:gmatch "%d+" do
            list[#list + 1] = tonumber(pid)
        end
        return list
    end

    local function all_gone(list)
        for _, pid in ipairs(list) do
            gone(pid)
        end
    end

    local function supervisor_of(p)
        return support.eventually(function()
            local children = sys.read_file(("/proc/%d/task/%d/children"):format(p.pid, p.pid))
            return children and tonumber(children:match "%d+")
        end)
    end

    -- A child, one in a session of its own, and a daemon, whose parent has ended.
    local FAMILY = "sleep 60 & a=$!; setsid sleep 60 & b=$!; "
        .. "c=$(setsid sh -c 'sleep 60 > /dev/null & echo $!'); echo $$ $a $b $c; wait"

    describe("that is killed", function()
        it("takes all along that the command has started", function()
            local p = start(FAMILY)
            local list = pids(p)
            assert.equal(4, #list)
            p:kill "KILL"
            assert.equal(128 + 9, p:wait(10))
            all_gone(list)
        end)

        it("has the command told by TERM", function()
            local p = start "trap 'echo told; exit 0' TERM; echo in; while :; do sleep 0.1; done"
            assert.equal("in", p:read_line(20))
            p:kill "KILL"
            assert.matches("told\n$", p:read_all(10))
        end)

        it("has those killed who do not listen, while it is locked still", function()
            local seen = home .. "/seen"
            local p = start(("trap '' TERM; (setsid sh -c 'while :; do "
                .. "redis-cli -p %d exists x >> %s; sleep 0.02; done') & echo $$ $!; wait")
                :format(cluster[1].port, seen), "--lease", "4", "--kill-after", "60")
            local list = pids(p)
            support.eventually(function() return (sys.read_file(seen) or ""):find "1" end)
            local killed = support.now()
            p:kill "KILL"
            all_gone(list)
            assert.is_true(support.now() - killed > 0.5)       -- TERM alone did not do it
            support.eventually(function() return cluster[1]:call("EXISTS", "x") == 0 end, 20)
            local text = sys.read_file(seen)
            support.sleep(0.1)
            assert.equal(text, sys.read_file(seen))
            assert.matches("^[0\n]*[1\n]+$", text)     -- that server may have been late
        end)

        it("leaves nobody at a terminal either", function()
            local file = home .. "/terminal"
            local p = support.spawn { "script", "-qec", "exec " .. cli.REDLOCK
                .. " run x -- sh -c 'sleep 60 & echo $PPID $$ $! > " .. file .. "; wait'",
                "/dev/null", stdin = "pipe", stdout = "pipe",
                env = { REDLOCK_CLUSTER = support.CLUSTER,
                    REDLOCK_NODES = table.concat(cluster:uris(), " "), HOME = home } }
            local text = support.eventually(function()
                local said = sys.read_file(file)
                return said and said:find "\n" and said
            end, 20)
            local supervisor, command, other = text:match "(%d+) (%d+) (%d+)"
            local stat = sys.read_file("/proc/" .. supervisor .. "/stat")
            assert.is_true(support.sh("kill -KILL " .. stat:match "%) %a (%d+)"))
            all_gone { command, other, supervisor }
            p:kill "KILL"
        end)
    end)

    -- The command, which does not listen to TERM, looks for as long as it runs whether a key is
    -- there that only its holder keeps.
    for what, words in pairs {
        ["the lock"] = { key = "x" },
        ["the permit"] = { key = "redlock:{x}:slots", "--permits", "1" },
        ["the leadership"] = { verb = "lead", key = "x" },
    } do
        it("that is stopped ends the command before " .. what .. " ends", function()
            local seen = support.tmpdir() .. "/seen"
            local p = cli.start(cluster, home, {}, words.verb or "run", cli.script(
                ("trap 'echo told' TERM; (trap '' TERM; while :; do redis-cli -p %d exists '%s' "
                .. ">> %s; sleep 0.02; done) & echo $$ $!; while :; do sleep 0.1; done")
                :format(cluster[1].port, words.key, seen), "x", "--lease", "4", unpack(words)))
            local list = pids(p)
            support.eventually(function() return (sys.read_file(seen) or ""):find "1" end)
            p:kill "STOP"
            all_gone(list)
            support.eventually(function() return cluster[1]:call("EXISTS", words.key) == 0 end, 20)
            assert.matches("^[0\n]*[1\n]+$", sys.read_file(seen))
            p:kill "TERM"
            p:kill "CONT"
            local status, text = ends(p)
            assert.equal(words.verb and 128 + 9 or LOST, status, text)
            assert.matches("told\n", text)
            assert.matches(what .. " %a+ lost", text)
        end)
    end

    it("ends the command before its lock that cannot be renewed ends", function()
        local seen = support.tmpdir() .. "/seen"
        local p = start("trap '' TERM; echo $$; while :; do cut -d ' ' -f 1 /proc/uptime >> "
            .. seen .. "; sleep 0.1; done", "--lease", "6", "--kill-after", "60")
        assert.matches("^redlock: %-%-kill%-after is cut to 2 s, a third of the lease",
            p:read_line(20))
        local list = pids(p)
        finally(function() cluster:each(function(s) s:thaw() end) end)
        cluster[1]:freeze()
        cluster[2]:freeze()
        local from = tonumber(sys.read_file("/proc/uptime"):match "^%S+")
        all_gone(list)         -- nothing was granted behind that
        assert.is_true(tonumber(sys.read_file(seen):match "([%d.]+)\n[^\n]*$") - from < 6)
        local status, text = ends(p)
        assert.equal(LOST, status, text)
        assert.matches("the lock was not renewed in time", text)
    end)

    it("releases what it could not renew in time", function()
        local p = start("echo in; exec sleep 60", "--lease", "6")
        assert.equal("in", p:read_line(20))
        finally(function() cluster:each(function(s) s:thaw() end) end)
        cluster[1]:freeze()
        cluster[2]:freeze()
        assert.matches("the lock was not renewed in time", p:read_line(20))
        cluster:each(function(s) s:thaw() end)
        assert.equal(LOST, (ends(p)))
        -- A process that ends has no time for a server that is late: there the lease ends it.
        support.eventually(function()
            local free = 0
            cluster:each(function(s) free = free + (s:call("EXISTS", "x") == 0 and 1 or 0) end)
            return free >= 2
        end, 2)
    end)

    it("ends all of the command when its supervisor is killed", function()
        local p = start(FAMILY)
        local list = pids(p)
        assert.is_true(support.sh("kill -KILL " .. supervisor_of(p)))
        local status, text = ends(p)
        assert.equal(128 + 9, status)
        assert.equal("redlock: the supervisor of the command died, and the command was killed\n",
            text)
        all_gone(list)
        support.eventually(function()
            return cluster[1]:call("EXISTS", "x") + cluster[2]:call("EXISTS", "x") == 0
        end)
    end)

    describe("inside another one", function()
        local function nested(outer, inner)
            return ends(start(cli.REDLOCK .. " " .. inner, unpack(outer)))
        end

        for inner, outer in pairs {
            ["run x -- true"] = {},
            ["run y x --wait 60 -- true"] = {},
            ["run x --shared -- true"] = { "--write" },
            ["run x --write -- true"] = { "--shared" },
            ["run y -- " .. cli.REDLOCK .. " run x -- true"] = {},
            ["lead x -- true"] = {},
            ["wait x"] = {},
        } do
            it("does not wait for what that holds: " .. inner:gsub("/%S+/", ""), function()
                local status, text = nested(outer, inner)
                assert.equal(125, status, text)
                assert.matches("redlock: deadlock: the redlock around this one holds 'x'", text)
            end)
        end

        for inner, outer in pairs {
            ["run y -- true"] = {},
            ["run x --shared -- true"] = { "--shared" },
            ["run x --permits 2 -- true"] = { "--permits", "2" },
            ["run x -- true"] = { "--permits", "2" },
            ["--prefix other: run x -- true"] = {},
        } do
            it("takes what that leaves free: " .. inner, function()
                assert.same({ 0, "" }, { nested(outer, inner) })
            end)
        end

        it("waits where that has ended: a daemon that it started", function()
            local dir = support.tmpdir()
            assert.equal(0, (ends(start(("(setsid sh -c 'while [ ! -e %s/go ]; do sleep 0.1; done; "
                .. "%s run x -- echo ran' > %s/seen 2>&1 &)"):format(dir, cli.REDLOCK, dir)))))
            sys.write_file(dir .. "/go", "")
            support.eventually(function() return sys.read_file(dir .. "/seen") == "ran\n" end, 60)
        end)

        it("is refused at once if it is not to wait", function()
            local status, text = nested({}, "run x --no-wait -- true")
            assert.equal(124, status, text)
            assert.matches("held by somebody else", text)
        end)
    end)

    describe("that waits", function()
        -- Side by side, as each waits before it says so. Each: what it says, and its words.
        local function waits(...)
            local started = {}
            for i, words in ipairs { ... } do
                started[i] = cli.start(cluster, home, {}, unpack(words, 2))
            end
            for i, words in ipairs { ... } do
                assert.matches("^redlock: waiting: " .. words[1], started[i]:read_line(20))
            end
            for _, p in ipairs(started) do
                p:kill "TERM"
                local status, text = ends(p)
                assert.equal(128 + 15, status, text)
            end
        end

        it("says who holds the lock, or leads", function()
            local p = start "echo in; exec sleep 60"
            assert.equal("in", p:read_line(20))
            waits(
                { "fenced lock 'x' is held by .* %(.* redlock: sh%)", "run", "x", "--", "true" },
                { "multi%-lock.* is held by somebody else %(", "run", "x", "y", "--", "true" },
                { "the name is held by somebody else %(.* redlock: sh%)", "lead", "x", "--",
                    "true" })
            p:kill "TERM"
            ends(p)
            p = cli.start(cluster, home, {}, "lead", "x", "--id", "me", "--", "sh", "-c",
                "echo in; exec sleep 60")
            assert.equal("in", p:read_line(20))
            waits { "me leads", "lead", "x", "--", "true" }
            p:kill "TERM"
            ends(p)
            p = start("echo in; exec sleep 60", "--permits", "1")
            assert.equal("in", p:read_line(20))
            local quiet = start("true", "--permits", "1", "--quiet")
            waits { "all permits of", "run", "x", "--permits", "1", "--", "true" }
            local function said(...)
                return { ends(start("true", ...)) }
            end
            assert.same({ 124, "" }, said("--permits", "1", "--no-wait", "--quiet"))
            assert.same({ 0, "" }, said("--once", "60"))
            assert.same({ 124, "" }, said("--once", "60", "--quiet"))
            assert.is_nil(quiet:read_line(2))        -- it has waited as long as the other
            p:kill "TERM"
            assert.same({ 0, "" }, { ends(quiet) })
        end)
    end)

    -- A shell with job control at a terminal of its own: what is typed there, and what it shows.
    describe("at a terminal", function()
        local shell, screen, at

        local function await(pattern)
            local ok = pcall(support.eventually, function()
                local _, to = sys.read_file(screen):find(pattern, at)
                at = to or at
                return to
            end, 60)
            assert(ok, pattern .. " is not in " .. sys.read_file(screen):sub(at))
        end

        local function type_in(text)
            assert(shell:write(text))
        end

        before_each(function()
            screen, at = support.tmpdir() .. "/screen", 1
            shell = support.spawn { "script", "-qfec", "bash --norc --noprofile -i", "/dev/null",
                stdin = "pipe", stdout = screen, stderr = "stdout",
                env = { REDLOCK_CLUSTER = support.CLUSTER, TERM = "dumb", PS1 = "> ", HOME = home,
                    REDLOCK_NODES = table.concat(cluster:uris(), " ") } }
        end)
        after_each(function() shell:kill "KILL" end)

        local RUN = cli.REDLOCK .. " run x -- sh -c "
        local ASK = "'echo I\"\"N; read a < /dev/tty; echo got:$a'"
        for what, steps in pairs {
            ["reads from standard input"] = { RUN .. "'echo I\"\"N; read a; echo got:$a'",
                "IN", "anna\n", "got:anna", "END=0" },
            ["asks while standard input is a pipe"] = { "echo rows | " .. RUN .. ASK,
                "IN", "anna\n", "got:anna", "END=0" },
            ["is piped to a pager that asks"] = {
                RUN .. "'while echo row; do sleep 0.05; done' | sh -c " .. ASK,
                "IN", "anna\n", "got:anna", "END=0" },
            ["asks in the background"] = { RUN .. ASK .. " < /dev/null &",
                "stopped by signal 21, as it wants the terminal",
                "until jobs | grep -q Stopped; do sleep 0.05; done; fg; echo E''ND=$?\n",
                "redlock run", "anna\n", "got:anna", "END=0" },
            -- The command is stopped behind redlock: what is typed in between, a space, may be its.
            ["is stopped by Ctrl-Z, and goes on"] = { "echo rows | " .. RUN .. ASK,
                "IN", "\26", "Stopped.-END=%d+%s.-[#$>] ",       -- the shell reads again
                " fg; echo E''ND=$?\n", "redlock run", "anna\n", "got:anna", "END=0" },
            ["is ended by Ctrl-C"] = { "echo rows | " .. RUN .. "'echo I\"\"N; exec sleep 60'",
                "IN", "\3", "END=130" },
        } do
            it(what, function()
                type_in(steps[1] .. (steps[1]:find "&$" and "\n" or "; echo E''ND=$?\n"))
                for i = 2, #steps do
                    (steps[i]:find "[%c]" and type_in or await)(steps[i])
                end
                support.eventually(function() return cluster[1]:call("EXISTS", "x") == 0 end)
            end)
        end
    end)

    -- As a shell without job control starts `redlock ... &`, and as nohup does it.
    it("leaves signals ignored that were", function()
        local function ignoring(signal, command)
            return support.spawn { "sh", "-c", ("trap '' %s; exec %s run %s -- %s"):format(signal,
                cli.REDLOCK, signal, command), stdout = "pipe", stderr = "stdout",
                env = { REDLOCK_CLUSTER = support.CLUSTER, HOME = home,
                    REDLOCK_NODES = table.concat(cluster:uris(), " ") } }
        end
        local go, holders, waiters = support.tmpdir() .. "/go", {}, {}
        for _, signal in ipairs { "INT", "QUIT", "HUP" } do
            local p = ignoring(signal, ("sh -c 'kill -%s $$; echo went on'"):format(signal))
            assert.same({ 0, "went on\n" }, { ends(p) })
            p = ignoring(signal, ("sh -c 'echo in; while [ ! -e %s ]; do sleep 0.05; done; "
                .. "echo went on'"):format(go))
            assert.equal("in", p:read_line(20))
            holders[signal], waiters[signal] = p, ignoring(signal, "echo ran")
        end
        for signal, waiter in pairs(waiters) do
            assert.matches("waiting", waiter:read_line(20) or "")
            holders[signal]:kill(signal)
            waiter:kill(signal)
        end
        sys.write_file(go, "")
        for signal, waiter in pairs(waiters) do
            assert.same({ 0, "went on\n" }, { ends(holders[signal]) })
            assert.same({ 0, "ran\n" }, { ends(waiter) })
        end
    end)

    it("tells of a command that is stopped, and has it ended by TERM", function()
        local p = start "kill -STOP $$; echo never"
        assert.equal("redlock: the command is stopped by signal 19", p:read_line(20))
        p:kill "TERM"
        local status, text = ends(p)
        assert.equal(128 + 15, status, text)
    end)

    it("passes signals on to a command that has left its group, and to its children", function()
        local file = support.tmpdir() .. "/leaves.lua"
        sys.write_file(file, [[
            local ffi = require "ffi"
            ffi.cdef "int setpgid(int, int); int getpgid(int); int getppid(void); int pause(void);"
            assert(ffi.C.setpgid(0, ffi.C.getpgid(ffi.C.getppid())) == 0)
            os.execute "sleep 60 & echo $PPID $!; wait"
            ffi.C.pause()                -- its children may get the signal before it
        ]])
        local p = start("exec luajit " .. file)
        local list = pids(p)
        assert.equal(2, #list)
        p:kill "TERM"
        assert.equal(128 + 15, (ends(p)))
        all_gone(list)
    end)

    describe("whose supervisor alone is stopped", function()
        -- Loses the lock to another holder, whose command looks whether the first one still writes.
        local function loses(p, list, stays)
            local supervisor = supervisor_of(p)
            support.sh("kill -STOP " .. supervisor)
            local stopping = stays and proc.spawn { "sh", "-c",
                "while kill -STOP " .. supervisor .. " 2> /dev/null; do :; done" }
            cluster:each(function(s) s:call("SET", "x", "theirs", "PX", 60000) end)
            all_gone(list)
            local status, text = ends(p)
            assert.equal(LOST, status, text)
            if stopping then
                stopping:wait(10)
            end
            return text
        end

        it("has it go on, and end the command, when the lock is lost", function()
            local p = start("trap 'echo told' TERM; echo $$; while :; do sleep 0.1; done",
                "--lease", "3")
            assert.matches("told\n", loses(p, pids(p)))
        end)

        it("ends the command, also if it is stopped again and again", function()
            local p = start(FAMILY, "--lease", "3")
            loses(p, pids(p), true)
        end)

        it("has it go on when a signal asks for the end", function()
            local p = start "echo $$; sleep 60"
            local list = pids(p)
            support.sh("kill -STOP " .. supervisor_of(p))
            p:kill "TERM"
            assert.equal(128 + 15, (ends(p)))
            all_gone(list)
        end)
    end)

    -- The shell runs redlock when the reader of its stderr has closed that.
    local UNREAD = [[{ until [ -e %s/closed ]; do sleep 0.01; done; "$@" 2>&1 > /dev/null
        echo $? > %s/status; } | { exec 0<&-; : > %s/closed; }]]

    for verb, words in pairs { run = { "--lease", "6", "--kill-after", "60" }, lead = { "-v" } } do
        it(verb .. " goes on if nobody reads what it says, which only its command hears", function()
            local dir = support.tmpdir()
            local opts = { argv_prefix = { "sh", "-c", (UNREAD:gsub("%%s", dir)), "sh" } }
            local script = "yes >&2; echo $? > " .. dir .. "/yes; exit 5"
            local p = cli.start(cluster, home, opts, verb, cli.script(script, "x", unpack(words)))
            assert.equal(0, (ends(p)))
            assert.equal("5\n", sys.read_file(dir .. "/status"))
            assert.equal("141\n", sys.read_file(dir .. "/yes"))
        end)
    end

    it("lets what a command leaves behind run on, when it ends by itself", function()
        local p = start "setsid sleep 60 > /dev/null 2>&1 & echo $!"
        local list = pids(p)
        assert.equal(0, (ends(p)))
        assert.is_false(cli.has_ended(list[1]))
        assert.is_true(support.sh("kill " .. list[1]))
        gone(list[1])
    end)

    it("ends all of the command when the lock is lost", function()
        local p = start(FAMILY, "--lease", "2")
        local list = pids(p)
        cluster:each(function(s) s:call("SET", "x", "theirs", "PX", 60000) end)
        assert.equal(LOST, (ends(p)))
        all_gone(list)
    end)

    it("takes commands of many words", function()
        local argv = { cli.REDLOCK, "run", "x", "--", "sh", "-c", "echo $#", "sh",
            stdout = "pipe", stderr = "stdout",
            env = { REDLOCK_CLUSTER = support.CLUSTER,
                REDLOCK_NODES = table.concat(cluster:uris(), " "), HOME = home } }
        for i = 1, 20000 do
            argv[#argv + 1] = "w" .. i
        end
        local status, text = ends(support.spawn(argv))
        assert.same({ 0, "20000\n" }, { status, text })
    end)

    describe("--max-hold", function()
        it("ends the command at that time, and opens the lock", function()
            local p = start("trap 'date +%s.%N; exit 0' TERM; date +%s.%N; "
                .. "while :; do sleep 0.01; done", "--max-hold", "2")
            local from = tonumber((p:read_line(20)))
            local status, text = ends(p)
            assert.equal(LOST, status, text)
            local to = text:match "([%d.]+)\n"
            assert.matches("the command has had its time (max_hold)", text, 1, true)
            assert.is_true(to - from > 0.5 and to - from < 6, to - from)
            cluster:each(function(s)
                support.eventually(function() return s:call("EXISTS", "x") == 0 end)
            end)
        end)
    end)

    describe("--at-least", function()
        local HELD = 124

        -- A short job at the same time by the clocks of three machines, which differ by more than
        -- it takes; how often it ran, and what became of it.
        local function nightly(...)
            local log, codes = home .. "/nightly", {}
            sys.write_file(log, "")
            for i = 1, 3 do
                codes[i] = ends(start("echo ran >> " .. log, "--no-wait", ...))
            end
            return select(2, sys.read_file(log):gsub("ran", "")), codes
        end

        it("makes a job run on one machine, whatever their clocks say", function()
            assert.same({ 3, { 0, 0, 0 } }, { nightly() })
            assert.same({ 1, { 0, HELD, HELD } }, { nightly("--at-least", "50") })
            cluster:flush()
            assert.same({ 1, { 0, HELD, HELD } }, { nightly("--at-least", "50", "--plain") })
        end)

        it("holds whatever becomes of the command, and of redlock", function()
            local function stays()       -- on a majority
                support.eventually(function()
                    local n = 0
                    cluster:each(function(s) n = n + (s:call("PTTL", "x") > 30000 and 1 or 0) end)
                    return n >= 2
                end)
            end
            assert.equal(7, (ends(start("exit 7", "--at-least", "50"))))
            stays()
            cluster:flush()
            local p = start("echo in; sleep 60", "--at-least", "50")
            assert.equal("in", p:read_line(20))
            p:kill "KILL"
            p:wait(10)
            stays()
            cluster:flush()
            assert.equal(LOST, (ends(start("sleep 60", "--at-least", "50", "--max-hold", "0.5"))))
            stays()
        end)
    end)
end)
