-- examples/recipes: each does what it says, by one command.
local build = require "spec.support.build"
local cjson = require "cjson"
local cli = require "spec.support.command"
local support = require "spec.support"
local sys = require "spec.support.sys"

describe("the recipe", function()
    local cluster = support.shared_cluster(3, { unnamed = true })
    local home, log

    before_each(function()
        home = support.tmpdir()
        log = home .. "/log"
        sys.write_file(log, "")
        assert(support.sh("mkdir " .. home .. "/.config"))
        sys.write_file(home .. "/.config/redlock.conf", "timeout = 5\nconnect_timeout = 20\n")
    end)

    local function path(name)
        return build.root .. "/examples/recipes/" .. name
    end

    -- Starts a recipe of Lua, or of the shell, which finds `redlock` on its PATH.
    local function start(name, ...)
        if name:find "%.lua$" then
            return cli.start(cluster, home, {}, "lua", path(name), ...)
        end
        assert(support.sh(("ln -sf %s %s/redlock"):format(cli.REDLOCK, home)))
        return support.spawn { path(name), stdout = "pipe", stderr = "stdout", cwd = home,
            env = { HOME = home,
                XDG_CONFIG_HOME = false, PATH = home .. ":" .. os.getenv "PATH",
                REDLOCK_CLUSTER = false,
                REDLOCK_NODES = table.concat(cluster:uris(), " ") }, ... }
    end

    local function run(...)
        return cli.ends(start(...))
    end

    local function logged()
        return sys.read_file(log)
    end

    local function note(word)
        return ("echo %s >> %s"):format(word, log)
    end

    it("hello locks, and says who cannot", function()
        assert.same({ 0, "held for 30 s, and renewed\n" }, { run "hello.lua" })
        cluster:each(function(s) s:call("SET", "hello", "theirs", "PX", 60000) end)
        assert.same({ 1, "not now: held\n" }, { run "hello.lua" })
    end)

    it("leader has one leader, and another one after it", function()
        local first = start("leader.lua", note "first $REDLOCK_TOKEN")
        assert.equal("leads", first:read_line(20))
        local second = start("leader.lua", note "second")
        support.eventually(function() return logged():find "first %d+" end, 20)
        assert.is_nil(second:read_line(0.5))
        first:kill "TERM"
        assert.equal("leads", second:read_line(20))
        assert.equal(143, first:wait(10))
        cluster:each(function(s) s:call("SET", "scheduler", "theirs", "PX", 60000) end)
        assert.equal("leads no more", second:read_line(40))
        support.eventually(function() return logged():find "second" end, 20)
        second:kill "TERM"
        assert.equal(143, second:wait(10))
    end)

    it("worker_pool does each job once", function()
        local jobs = home .. "/jobs"
        assert(support.sh("mkdir " .. jobs))
        for i = 1, 12 do
            sys.write_file(("%s/%d"):format(jobs, i), "")
        end
        sys.write_file(home .. "/work", "#!/bin/sh\nsleep 0.05\nbasename $1 >> " .. log .. "\n")
        assert(support.sh("chmod +x " .. home .. "/work"))
        local workers, done = {}, 0
        for i = 1, 3 do
            workers[i] = start("worker_pool.lua", jobs, home .. "/work")
        end
        for _, p in ipairs(workers) do
            local status, text = cli.ends(p)
            assert.equal(0, status, text)
            done = done + text:match "^(%d+) jobs done\n$"
        end
        assert.equal(12, done)
        local seen = {}
        for job in logged():gmatch "%d+" do
            assert.is_nil(seen[job], job .. " was done twice")
            seen[job] = true
        end
        assert.same({ 0, "0 jobs done\n" }, { run("worker_pool.lua", jobs, "false") })
    end)

    it("config_store loses no change, and shows no half of one", function()
        local file, changes = home .. "/settings", {}
        assert.same({ 0, "" }, { run("config_store.lua", file, "set", "a", "1 = one") })
        for i = 1, 4 do
            changes[i] = start("config_store.lua", file, "set", "k" .. i, tostring(i))
        end
        for i = 1, 4 do
            local p = start("config_store.lua", file, "get", "a")
            assert.same({ 0, "1 = one\n" }, { cli.ends(p) })
            assert.equal(0, (cli.ends(changes[i])))
        end
        for i = 1, 4 do
            assert.same({ 0, i .. "\n" }, { run("config_store.lua", file, "get", "k" .. i) })
        end
        assert.equal(1, (run("config_store.lua", file, "set", "a")))
    end)

    it("config_store writes nothing that comes too late", function()
        local file = home .. "/settings"
        local function set(...)
            return cli.start(cluster, home, { env = { PATH = home .. ":" .. os.getenv "PATH" } },
                "lua", path "config_store.lua", file, "set", ...)
        end
        assert.same({ 0, "" }, { cli.ends(set("colour", "blue")) })
        assert(support.sh("chmod 600 " .. file))
        assert.is_true(cli.ends(set("two words", "1")) ~= 0)
        assert.is_true(cli.ends(set("size", "two\nlines")) ~= 0)
        -- A writer that waits where it checks what it has written.
        sys.write_file(home .. "/sync", "#!/bin/sh\ncase $2 in *.mark.new) exit ;; esac\n"
            .. "echo $PPID > " .. log .. "\nwhile ! test -e " .. home
            .. "/go; do sleep 0.02; done\n")
        assert(support.sh("chmod +x " .. home .. "/sync"))
        local late = set("colour", "late")
        support.eventually(function() return logged():find "\n" end, 20)
        os.remove(home .. "/sync")
        assert.equal(0, (cli.ends(cli.start(cluster, home, {}, "unlock", "-f",
            "config:" .. file))))
        assert.same({ 0, "" }, { cli.ends(set("size", "7")) })
        sys.write_file(home .. "/go", "")
        local status, text = cli.ends(late)
        assert.equal(1, status, text)
        assert.matches("too late: the token %d+ comes after %d+", text)
        assert.same({ 0, "7\n" }, { run("config_store.lua", file, "get", "size") })
        local pipe = io.popen("stat -c %a " .. file)
        assert.equal("600\n", pipe:read "*a")
        pipe:close()
    end)

    it("journal has a line for whatever became of the locks of four processes", function()
        local file, writers, seen = home .. "/locks.jsonl", {}, {}
        local server = support.server()
        for i = 1, 4 do
            writers[i] = support.lua(([[
                local redlock, journal = require "redlock", dofile(%q)
                local client = redlock.new { nodes = %q,
                    on_event = journal(%q, "web-%d") }
                local lock = client:getLock(("%d"):rep(60000))      -- a long line
                for _ = 1, 50 do
                    assert(lock:tryLock(1) and lock:unlock())
                end
                assert(lock:tryLock(1))
                client:close()
                print "done"
            ]]):format(path "journal.lua", server.uri, file, i, i), { stderr = "stdout" })
        end
        for i = 1, 4 do
            assert.equal("done\n", writers[i]:read_all(60))
        end
        for line in io.lines(file) do
            local row = cjson.decode(line)
            assert.is_true(math.abs(row.at - os.time()) < 3600)
            assert.is_nil(row.owner)
            local what = row.who .. " " .. row.type .. " " .. (row.reason or "")
            seen[what] = (seen[what] or 0) + 1
        end
        for i = 1, 4 do
            local who = "web-" .. i
            assert.same({ 51, 50, 1 }, { seen[who .. " acquired "], seen[who .. " released "],
                seen[who .. " lost closed"] })
        end
    end)

    it("own_primitive gives a desk to one person, whose name others see", function()
        local p = start("own_primitive.lua", "12", "Ada", "echo in; exec sleep 60")
        assert.equal("in", p:read_line(20))
        local seen = 0
        cluster:each(function(s)
            seen = seen + (s:call("HGET", "desk:12", "person") == "Ada" and 1 or 0)
        end)
        assert.is_true(seen >= 2)
        p:kill "TERM"
        assert.equal(143, p:wait(10))
        assert.same({ 0, "Bob\n" }, { run("own_primitive.lua", "12", "Bob", "echo Bob") })
        assert.same({ 1, "" }, { run("own_primitive.lua", "12", "Bob", "false") })
    end)

    it("shell_pipeline refuses what is cut short, and what comes too late", function()
        assert.same({ 0, "" }, { run("shell_pipeline.sh", "words", "printf", "b\na\nb\n") })
        assert.is_true(run("shell_pipeline.sh", "words", "sh", "-c", "echo c; kill -9 $$") ~= 0)
        sys.write_file(home .. "/words.mark", "99999999999999\n")
        local status, text = run("shell_pipeline.sh", "words", "echo", "c")
        assert.equal(1, status)
        assert.matches("too late: the token %d+ comes after 99999999999999", text)
        assert.matches("^%s+1 a\n%s+2 b\n$", sys.read_file(home .. "/words"))
    end)

    local function sql(text)
        local pipe = io.popen(("sqlite3 %s/bank.db %q"):format(home, text))
        local said = pipe:read "*a"
        pipe:close()
        return said
    end

    local function no_sqlite()
        return not support.sh "command -v sqlite3 > /dev/null"
    end

    describe("nightly", function()
        local database

        before_each(function() database = home .. "/bank.db" end)

        local function nightly(...)
            return start("nightly.sh", database, "sh", "-c", ...)
        end

        local function entries()
            return sql "SELECT group_concat(entry) FROM journal"
        end

        local INSERT = "echo \"INSERT INTO journal VALUES ('%s');\""

        it("writes once, whichever machine is first", function()
            if no_sqlite() then
                return pending "no sqlite3 here"
            end
            sql "CREATE TABLE journal (entry)"
            local machines = {}
            for i = 1, 3 do
                machines[i] = nightly(INSERT:format "done")
            end
            for _, p in ipairs(machines) do
                assert.equal(0, (cli.ends(p)))
            end
            machines[4] = nightly(INSERT:format "again")                           -- a late clock
            assert.equal(0, (cli.ends(machines[4])))
            assert.equal("done\n", entries())
            cluster:each(function(s) s:call("DEL", "nightly") end)                 -- the next night
            assert.same({ 0, "" }, { cli.ends(nightly(INSERT:format "next")) })
            assert.equal("done,next\n", entries())
        end)

        it("writes all or nothing", function()
            if no_sqlite() then
                return pending "no sqlite3 here"
            end
            sql "CREATE TABLE journal (entry)"
            local first = INSERT:format "first"
            for what, why in pairs { ["exit 124"] = "failed: 124",
                ["echo 'NONSENSE;'"] = "NONSENSE", ["echo '/* open'"] = "no end" } do
                local status, text = cli.ends(nightly(first .. "; " .. what))
                assert.equal(1, status, text)
                assert.matches(why, text)
                cluster:flush()
            end
            assert.equal("\n", entries())
        end)

        it("writes nothing that comes too late", function()
            if no_sqlite() then
                return pending "no sqlite3 here"
            end
            sql "CREATE TABLE journal (entry)"
            local late = nightly(note "begun" .. "; while ! test -e " .. home
                .. "/go; do sleep 0.02; done; " .. INSERT:format "late")
            support.eventually(function() return logged() ~= "" end, 20)
            assert.equal(0, (cli.ends(cli.start(cluster, home, {}, "unlock", "-f", "nightly"))))
            assert.same({ 0, "" }, { cli.ends(nightly(INSERT:format "next")) })
            sys.write_file(home .. "/go", "")
            local status, text = cli.ends(late)
            assert.is_true(status ~= 0)
            assert.matches("too late: another run has written since", text)
            assert.equal("next\n", entries())
        end)
    end)

    it("migrate brings a schema up to date once, before all programs", function()
        if no_sqlite() then
            return pending "no sqlite3 here"
        end
        sys.write_file(home .. "/1.sql", "CREATE TABLE t (n);\n")
        sys.write_file(home .. "/2.sql", "INSERT INTO t VALUES (42);\n")
        local programs, said = {}, ""
        for i = 1, 4 do
            programs[i] = start("migrate.sh", home .. "/bank.db", home, "sqlite3",
                home .. "/bank.db", "SELECT n FROM t")
        end
        for _, p in ipairs(programs) do
            local status, text = cli.ends(p)
            assert.equal(0, status, text)
            assert.matches("42\n$", text)
            said = said .. text
        end
        assert.equal(1, select(2, said:gsub("migrated to 1\nmigrated to 2\n", "")))
        assert.equal("1\n", sql "SELECT count(*) FROM t")
        sys.write_file(home .. "/3.sql", "INSERT INTO t VALUES (43);\nNONSENSE;\n")
        assert.is_true(run("migrate.sh", home .. "/bank.db", home, "true") ~= 0)
        assert.equal("2\n1\n", sql "PRAGMA user_version; SELECT count(*) FROM t")
    end)

    it("migrate starts nothing when migrations cannot be read", function()
        if no_sqlite() then
            return pending "no sqlite3 here"
        end
        local status, text = run("migrate.sh", home .. "/bank.db", home .. "/nowhere", "echo",
            "starts")
        assert.same({ 1, "migrate.sh: no such folder: " .. home .. "/nowhere\n" },
            { status, text })
        sys.write_file(home .. "/1.sql", "CREATE TABLE t (n); -- without a line's end")
        assert(support.sh("mkdir " .. home .. "/2.sql"))
        sys.write_file(home .. "/3.sql", "INSERT INTO t VALUES (43);\n")
        status, text = run("migrate.sh", home .. "/bank.db", home, "echo", "starts")
        assert.equal(1, status)
        assert.is_nil(text:find "starts" or text:find "migrated to 2", text)
        assert.equal("1\n0\n", sql "PRAGMA user_version; SELECT count(*) FROM t")
    end)

    it("migrate applies no migration twice when it has lost its lock", function()
        if no_sqlite() then
            return pending "no sqlite3 here"
        end
        -- A `cat` that waits after it has read the first migration.
        sys.write_file(home .. "/1.sql", "CREATE TABLE IF NOT EXISTS t (n);"
            .. "INSERT INTO t VALUES (1);\n")
        sys.write_file(home .. "/cat", ("#!/bin/sh\n/bin/cat\nif mkdir %s/first; then "
            .. "echo reads > %s; while ! test -e %s/go; do sleep 0.02; done; fi\n")
            :format(home, log, home))
        assert(support.sh("chmod +x " .. home .. "/cat"))
        local late = start("migrate.sh", home .. "/bank.db", home, "echo", "starts")
        support.eventually(function() return logged() ~= "" end, 20)
        assert.equal(0, (cli.ends(cli.start(cluster, home, {}, "unlock", "-f",
            "migrate:" .. home .. "/bank.db"))))
        local status, text = run("migrate.sh", home .. "/bank.db", home, "echo", "starts")
        assert.equal(0, status, text)
        sys.write_file(home .. "/go", "")
        status, text = cli.ends(late)
        assert.is_true(status ~= 0)
        assert.is_nil(text:find "starts", text)
        assert.equal("1\n1\n", sql "PRAGMA user_version; SELECT count(*) FROM t")
    end)
end)
