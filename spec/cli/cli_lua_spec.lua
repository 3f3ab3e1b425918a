-- `redlock lua`: scripts that take locks, and what becomes of those when the scripts end.
local cli = require "spec.support.command"
local support = require "spec.support"
local sys = require "spec.support.sys"

local RAISED, LOST, HELD, FAILED, NOT_LUA, NOT_THERE = 1, 123, 124, 125, 126, 127

describe("redlock lua", function()
    local cluster = support.shared_cluster(3)
    local home

    setup(function() home = support.tmpdir() end)

    local ends, gone = cli.ends, cli.gone

    local function file(text)
        sys.write_file(home .. "/script.lua", text)
        return home .. "/script.lua"
    end

    local function start(text, ...)
        return cli.start(cluster, home, {}, "lua", file(text), ...)
    end

    local function run(text, ...)
        return ends(start(text, ...))
    end

    -- At once, and not with the lease.
    local function is_free(name)
        support.eventually(function() return cluster:having(name) == 0 end, 10,
            name .. " to be free")
    end

    local TAKE = "local lock = client:getLock 'x' assert(lock:tryLock(5)) "

    describe("gives a script", function()
        it("the library, a client, and its arguments", function()
            local status, text = run([[
                print(redlock == require "redlock", #client.options.nodes, #args)
                print(args[0] == arg[0] and args[0]:match "[^/]*$", args[1], ...)
                assert(client:getLock "x":tryLock(5))
            ]], "--json", "--", "-y", "a b")
            assert.same({ 0, "true\t3\t4\nscript.lua\t--json\t--json\t--\t-y\ta b\n" },
                { status, text })
            is_free "x"
        end)

        it("the settings of the command, before the file", function()
            local status, text = ends(cli.start(cluster, home, {}, "--prefix", "app:", "lua",
                "--timeout=3", file "print(client.options.prefix, client.options.timeout, #args)"))
            assert.same({ 0, "app:\t3\t0\n" }, { status, text })
        end)

        it("a first line that starts it", function()
            local path = file("#!/usr/bin/env -S redlock lua\nprint(args[1])\nreturn 3\n")
            assert.is_true(support.sh("chmod +x " .. path .. " && ln -sf " .. cli.REDLOCK .. " "
                .. home .. "/redlock"))
            local p = support.spawn { path, "--help", stdout = "pipe", env = {
                PATH = home .. ":" .. os.getenv "PATH",
                REDLOCK_CLUSTER = support.CLUSTER,
                    REDLOCK_NODES = table.concat(cluster:uris(), " "), HOME = home } }
            assert.same({ 3, "--help\n" }, { ends(p) })
        end)

        it("standard input, and a process that can wait for others", function()
            local p = cli.start(cluster, home, { stdin = "pipe" }, "lua",
                file "local n = io.read() print(n * 2, os.execute 'exit 3' ~= 0)")
            p:write "21\n"
            assert.same({ 0, "42\ttrue\n" }, { ends(p) })
        end)
    end)

    describe("ends with", function()
        it("what the script says, and nothing held", function()
            for text, status in pairs {
                [""] = 0, ["return 7"] = 7, ["os.exit(9)"] = 9, ["os.exit(false)"] = 1,
                ["os.exit(true)"] = 0, ["return false"] = 1, ["return true"] = 0,
            } do
                assert.same({ status, "" }, { run(TAKE .. text) }, text)
                is_free "x"
            end
        end)

        it("the line of an error, and nothing held", function()
            local status, text = run(TAKE .. "\nlocal function f() error 'no disk' end\nf()")
            assert.equal(RAISED, status)
            assert.matches("^redlock: [^\n]*/script.lua:2: no disk\nstack traceback:\n", text)
            assert.matches("\n\t[^\n]*/script.lua:3: in main chunk\n$", text)
            assert.is_nil(text:find("cli/", 1, true), text)
            is_free "x"
            status, text = run(TAKE .. "\nclient:getLock(5)")
            assert.equal(RAISED, status)
            assert.matches("script.lua:2: redlock: bad name", text)
            status, text = run "local t = nil\nt.x = 1"
            assert.equal(RAISED, status)
            assert.matches("script.lua:2: attempt to index", text)
            assert.equal(RAISED, (run "error {}"))
            assert.equal(RAISED, (run(TAKE .. [[
                error(setmetatable({}, { __tostring = function() error "no text" end }))]])))
            is_free "x"
        end)

        it("a status for what the library says", function()
            cluster:each(function(s) s:call("SET", "theirs", "v", "PX", 60000) end)
            local status, text = run "\nassert(client:getLock 'theirs':tryLock())"
            assert.equal(HELD, status)
            assert.matches("^redlock: held: lock 'theirs' is held by somebody else", text)
            assert.matches("script.lua:2: in main chunk", text)
            local LOSE = TAKE .. "for _, s in ipairs(args) do "
                .. "os.execute('redis-cli -u ' .. s .. ' set x theirs px 60000 > /dev/null') end "
            for how, code in pairs {
                ["lock:extend() lock:check()"] = "lost",
                ["assert(lock:extend())"] = "lost",
                ["assert(lock:unlock())"] = "held",
                ["error(tostring(select(2, lock:extend())))"] = "lost",
            } do
                cluster:flush()
                status, text = run(LOSE .. how, unpack(cluster:uris()))
                assert.equal(LOST, status, how .. ": " .. text)
                assert.matches("redlock: " .. code .. ": ", text)
                assert.is_true(cluster:having "x" == 3)
            end
            status, text = ends(cli.start(cluster, home, {}, "lua", "--nodes",
                "redis://127.0.0.1:1", file "assert(client:getLock 'x':tryLock())"))
            assert.equal(FAILED, status)
            assert.matches("no_quorum: .*127.0.0.1:1 refused", text)
            status, text = run "assert(client:getLock 'y':unlock())"
            assert.equal(FAILED, status)
            assert.matches("not_held", text)
        end)

        it("why a file cannot be run", function()
            local function wrong(status, pattern, ...)
                local p = cli.start(cluster, home, { stderr = "pipe" }, "lua", ...)
                assert.equal("", p:read_all(20))
                assert.matches(pattern, (p.stderr:read_all(20)))
                assert.equal(status, p:wait(10))
            end
            wrong(FAILED, "redlock lua FILE")
            wrong(FAILED, "unknown option %-%-waitt", "--waitt", file "")
            wrong(FAILED, "%-%-timeout needs a number", "--timeout", "soon", file "")
            wrong(NOT_THERE, "nowhere.lua: No such file", home .. "/nowhere.lua")
            wrong(NOT_LUA, "directory", home)
            wrong(NOT_LUA, "script.lua:2: '=' expected", file "print 'ran'\na b")
            wrong(FAILED, "http", "--nodes", "http://h", file "print 'ran'")
            local status, text = ends(cli.start(cluster, home, { env = { REDLOCK_NODES = false } },
                "lua", file "print 'ran'"))
            assert.equal(FAILED, status)
            assert.matches("no servers are given", text)
        end)
    end)

    describe("told to end", function()
        local STATUS = { TERM = 143, HUP = 129, INT = 130, QUIT = 131 }

        for place, code in pairs {
            ["reads"] = "io.read()",
            ["is in a compiled loop"] = "local n = 0 while true do n = (n + 1) % 7 end",
            ["waits for a lock"] = "client:getLock('theirs'):lock()",
            ["does not let itself be interrupted"] = "while true do pcall(io.read) end",
        } do
            it("releases and stops: it " .. place, function()
                cluster:each(function(s) s:call("SET", "theirs", "v", "PX", 60000) end)
                for signal, status in pairs(STATUS) do
                    file(TAKE .. "print 'in' io.stdout:flush() " .. code .. " print 'went on'")
                    local p = cli.start(cluster, home, { stdin = "pipe" }, "lua",
                        home .. "/script.lua")
                    assert.equal("in", p:read_line(20))
                    p:kill(signal)
                    local code_, text = ends(p)
                    assert.equal(status, code_)
                    assert.is_nil(text:find "went on", text)
                    is_free "x"
                end
            end)
        end

        -- A machine that is being restarted is still being restarted when the lock is free.
        it("ends first what the script has started, while it is locked", function()
            local seen = home .. "/seen"
            sys.write_file(seen, "")
            local p = start(TAKE .. ([[os.execute "trap '%sexit' TERM; echo in $$; ]]
                .. [[while :; do sleep 0.05; done" print "went on"]])
                :format(("redis-cli -p %d exists x >> %s; sleep 0.3; "):rep(2)
                    :format(cluster[1].port, seen, cluster[1].port, seen)))
            local pid = tonumber(p:read_line(20):match "in (%d+)")
            support.eventually(function() return cluster[1]:call("EXISTS", "x") == 1 end)
            p:kill "TERM"
            local status, text = ends(p)
            assert.equal(143, status)
            assert.is_nil(text:find "went on", text)
            assert.equal("1\n1\n", sys.read_file(seen))
            gone(pid)
            is_free "x"
        end)

        it("ends, though redlock was started to ignore the signal that ends it inside", function()
            local p = cli.start(cluster, home, { stdin = "pipe", argv_prefix = { "sh", "-c",
                [[trap '' USR2; exec "$@"]], "sh" } }, "lua", file(TAKE
                .. "print 'in' io.stdout:flush() io.read() print 'went on'"))
            assert.equal("in", p:read_line(20))
            p:kill "TERM"
            assert.same({ 143, "" }, { ends(p) })
            is_free "x"
        end)

        -- In a command of the script: until `redlock` has stopped the script.
        local AWAIT_STOP = "until grep -q State:.T /proc/$PPID/status; do sleep 0.01; done; "

        -- As a terminal and systemd do it.
        it("does so when all its processes are told at once", function()
            local path = file(TAKE .. 'os.execute "trap \'' .. AWAIT_STOP .. "exit' TERM; echo in; "
                .. [[while :; do sleep 0.05; done" print "went on"]])
            local p = support.spawn { "setsid", cli.REDLOCK, "lua", path, stdout = "pipe", env = {
                REDLOCK_CLUSTER = support.CLUSTER,
                    REDLOCK_NODES = table.concat(cluster:uris(), " "), HOME = home } }
            assert.equal("in", p:read_line(20))
            assert.is_true(support.sh("kill -TERM -" .. p.pid))
            assert.same({ 143, "" }, { ends(p) })
            is_free "x"
        end)

        it("tells nobody twice whom the terminal has told", function()
            local path = file(TAKE .. 'os.execute "trap \'echo told; ' .. AWAIT_STOP
                .. [[exit' INT; echo in; while :; do sleep 0.05; done" print "went on"]])
            local p = support.spawn { "script", "-qec", "exec " .. cli.REDLOCK .. " lua " .. path,
                "/dev/null", stdin = "pipe", stdout = "pipe", env = {
                REDLOCK_CLUSTER = support.CLUSTER,
                    REDLOCK_NODES = table.concat(cluster:uris(), " "), HOME = home } }
            assert.equal("in\r", p:read_line(20))
            p:write "\3"
            local status, text = ends(p)
            assert.equal(130, status)
            assert.equal(1, select(2, text:gsub("told", "")))
            assert.is_nil(text:find "went on", text)
            is_free "x"
        end)

        it("kills who does not listen, and daemons, while it is locked", function()
            local seen = home .. "/looks"
            sys.write_file(seen, "")
            sys.write_file(home .. "/short.conf", "lease = 6\n")
            local path = file(TAKE .. ([[os.execute "trap '' TERM; (setsid sh -c 'while :; do ]]
                .. [[redis-cli -p %d exists x >> %s; sleep 0.02; done' &) ; echo in $$; ]]
                .. [[while :; do sleep 0.05; done"]]):format(cluster[1].port, seen))
            local p = cli.start(cluster, home, {}, "lua", "--config", home .. "/short.conf", path)
            local pid = tonumber(p:read_line(20):match "in (%d+)")
            support.eventually(function() return sys.read_file(seen):find "1" end, 20)
            p:kill "TERM"
            assert.equal(143, (ends(p)))
            gone(pid)
            local text = sys.read_file(seen)
            assert.matches("^[0\n]*[1\n]+$", text)     -- that server may have been late
            support.sleep(0.2)
            assert.equal(text, sys.read_file(seen))
            is_free "x"
        end)

        it("is killed with its script; locks open with their lease", function()
            sys.write_file(home .. "/short.conf", "lease = 2\n")
            local path = file(TAKE .. "print 'in' io.stdout:flush() "
                .. "local n = 0 while true do n = (n + 1) % 7 end")
            local p = cli.start(cluster, home, {}, "lua", "--config", home .. "/short.conf", path)
            assert.equal("in", p:read_line(20))
            p:kill "KILL"
            assert.equal(128 + 9, p:wait(10))
            is_free "x"
        end)
    end)

    it("lets what a script leaves behind run on, when it ends by itself", function()
        local p = start(TAKE .. "os.execute 'setsid sleep 60 > /dev/null 2>&1 & echo $!'")
        local pid = tonumber(p:read_line(20))
        assert.equal(0, (ends(p)))
        assert.is_false(cli.has_ended(pid))
        assert.is_true(support.sh("kill " .. pid))
        gone(pid)
    end)
end)
