-- `redlock lead`: a command runs where a candidate leads, and nowhere else.
local cli = require "spec.support.command"
local support = require "spec.support"
local sys = require "spec.support.sys"

local FAILED = 125

describe("redlock lead", function()
    local cluster = support.shared_cluster(3)
    local home, log, client

    setup(function() client = support.warm_client(cluster, {}) end)
    before_each(function()
        home = support.tmpdir()
        log = home .. "/log"
        sys.write_file(log, "")
    end)
    teardown(function() client:close() end)

    local ends, gone = cli.ends, cli.gone

    local started = {}

    local function start(script, ...)
        -- Servers that are slow, as the machine is busy, are not down.
        started[#started + 1] = cli.start(cluster, home, {}, "--timeout", "3",
            "--connect-timeout", "5", "lead", cli.script(script, "x", ...))
        return started[#started]
    end

    after_each(function()
        for _, p in ipairs(started) do           -- of one that has failed
            pcall(p.kill, p, "KILL")
        end
        started = {}
    end)

    -- A candidate whose command says its process, its term, and what becomes of it. No two of
    -- them run at once: each begins by finding nobody, and ends by leaving.
    local COMMAND = ([[
        trap 'rmdir %s; echo ended >> %s; exit 0' TERM
        mkdir %s || echo two >> %s
        echo $$ $REDLOCK_TERM $REDLOCK_TOKEN $REDLOCK_NAME
        while :; do sleep 0.02; done]])

    local function candidate(...)
        local room = home .. "/room"
        return start(COMMAND:format(room, log, room, log), ...)
    end

    -- The process and the term of the command that a candidate starts next.
    local function leads(p)
        local line, pid, term, token, name
        repeat                                   -- the shell says what was terminated
            line = assert(p:read_line(40), "nothing was started")
            pid, term, token, name = line:match "^(%d+) (%d+) (%d+) (%S+)$"
        until pid
        assert.same({ term, "x" }, { token, name })
        return tonumber(pid), tonumber(term)
    end

    -- Which of two candidates leads first, and the other one.
    local function first_of(a, b)
        local line
        support.eventually(function()
            line = a:read_line(0.05)
            if not line then
                a, b = b, a
            end
            return line
        end, 20)
        local pid, term = line:match "^(%d+) (%d+) "
        return a, b, tonumber(pid), tonumber(term)
    end

    local function logged()
        return sys.read_file(log)
    end

    it("starts the command of one candidate, which programs see as the leader", function()
        local a, b, _, term = first_of(candidate("--id", "one"), candidate("--id", "one"))
        local leader = client:getElection("x", { id = "me" }):leader()
        assert.same({ id = "one", term = term }, leader)
        support.fails("held", client:getLock("x"):tryLock(0))
        assert.is_nil(b:read_line(0.5))
        a:kill "TERM"
        local status, text = ends(a)
        assert.equal(0, status, text)
        local _, next_term = leads(b)
        assert.is_true(next_term > term)
        b:kill "TERM"
        assert.equal(0, (ends(b)))
        assert.equal("ended\nended\n", logged())
    end)

    it("says by itself which machine and process leads", function()
        local p = candidate()
        leads(p)
        local host = sys.read_file "/proc/sys/kernel/hostname":gsub("\n", "")
        assert.equal(host .. ":" .. p.pid, client:getElection("x", { id = "me" }):leader().id)
        p:kill "TERM"
        ends(p)
    end)

    it("says with --verbose who leads, when it is elected, and when it no longer leads", function()
        local a = candidate("--id", "o\27ne", "--verbose", "--lease", "8")
        assert.equal("redlock: x: standing for election; nobody leads", a:read_line(20))
        local term = assert(a:read_line(20):match "^redlock: x: elected, leads in term (%d+)$")
        local _, told = leads(a)
        assert.equal(tonumber(term), told)
        local b = candidate("-v")
        assert.equal(("redlock: x: standing for election; o\\x1bne leads in term %s"):format(term),
            b:read_line(20))
        local status, text = ends(cli.start(cluster, home, {}, "status", "x"))
        assert.equal(0, status)
        assert.matches(("^x is held, [^\n]*\n  [^\n]*\no\\x1bne leads in term %s\n"):format(
            term), text)
        assert.matches(('"leader": {"id": "o%%\\u001bne", "term": %s}'):format(term),
            (select(2, ends(cli.start(cluster, home, {}, "status", "x", "--json")))))
        cluster:each(function(s) s:call("SET", "x", "theirs", "PX", 200) end)
        local said
        repeat
            said = assert(a:read_line(30))
        until said:find "lost the lead"
        assert.matches("^redlock: x: lost the lead %(%l+%), term " .. term .. "$", said)
        assert.matches("^redlock: x: standing for election; ", a:read_line(20))
        support.eventually(function()
            local line = a:read_line(0.05)
            if not line then
                a, b = b, a
            end
            return line and line:find "elected, leads"
        end, 20)
        a:kill "TERM"
        assert.matches("redlock: x: resigned, term %d+\n$", (select(2, ends(a))))
        b:kill "TERM"
        ends(b)
    end)

    it("resigns when the command ends, and exits with its status", function()
        local other = candidate()
        local _, term = leads(other)
        local p = start "exit 7"
        other:kill "TERM"
        ends(other)
        local status, text = ends(p)
        assert.same({ 7, "" }, { status, text })
        assert.is_false(client:getElection("x", { id = "me" }):leader())
        assert.is_true(term > 0)
        for script, code in pairs { ["kill -9 $$"] = 137, ["exec /nowhere"] = 127 } do
            assert.equal(code, (ends(start(script))))
        end
    end)

    it("that is killed ends its command, and another candidate's is started", function()
        local a, b, pid, term = first_of(candidate("--lease", "4"), candidate("--lease", "4"))
        a:kill "KILL"
        local _, next_term = leads(b)
        gone(pid)
        assert.is_true(next_term > term)
        assert.equal("ended\n", logged())        -- before the other one began
        b:kill "TERM"
        assert.equal(0, (ends(b)))
    end)

    it("ends its command when it loses the majority, and starts it again with one", function()
        local p = candidate("--lease", "4")
        local pid, term = leads(p)
        cluster[1]:freeze()
        cluster[2]:freeze()
        assert.matches("the leadership was not renewed in time %(expired%); ending the command",
            p:read_line(30))
        gone(pid)
        assert.equal("ended\n", logged())
        support.sleep(1)                         -- nobody votes
        cluster[1]:thaw()
        cluster[2]:thaw()
        local _, next_term = leads(p)
        assert.is_true(next_term > term)
        p:kill "TERM"
        assert.equal(0, (ends(p)))
    end)

    it("stands for as long as nobody votes, and says so once", function()
        cluster[1]:freeze()
        cluster[2]:freeze()
        finally(function()
            cluster[1]:thaw()
            cluster[2]:thaw()
        end)
        local home_conf = home .. "/conf"
        sys.write_file(home_conf, "patience = 0.5\n")
        local p = candidate("--config", home_conf)
        local line
        repeat
            line = p:read_line(20)               -- first it names the servers
        until not line:find "^redlock: waiting: redis://.*no answer"
        assert.matches("^redlock: not elected yet: .*no majority of the servers", line)
        support.sleep(4)                         -- twice, at least
        cluster[1]:thaw()
        cluster[2]:thaw()
        repeat
            line = p:read_line(30)
            assert.is_nil(line:find "not elected")
        until line:find "^%d+ %d+ "
        p:kill "TERM"
        assert.equal(0, (ends(p)))
    end)

    it("ends by a signal while it waits", function()
        cluster:each(function(s) s:call("SET", "x", "theirs", "PX", 60000) end)
        local p = start "echo never"
        support.eventually(function()
            return cluster[1]:call("PUBSUB", "NUMSUB", "redlock:{x}:free")[2] == 1
        end, 20)
        p:kill "TERM"
        assert.same({ 143, "" }, { ends(p) })
    end)

    it("does not stand again behind a signal that was to end it", function()
        local p = start(("trap 'while [ ! -e %s/go ]; do sleep 0.02; done; exit 4' TERM; echo in; "
            .. "while :; do sleep 0.02; done"):format(home), "--lease", "10")
        assert.equal("in", p:read_line(20))
        p:kill "TERM"
        cluster:each(function(s) s:call("SET", "x", "theirs", "PX", 60000) end)
        local line
        repeat
            line = assert(p:read_line(20))
        until line:find "the leadership is lost"
        sys.write_file(home .. "/go", "")
        local status, text = ends(p)
        assert.equal(4, status, text)
    end)

    it("is checked", function()
        for pattern, words in pairs {
            ["lead needs the name"] = { "--", "true" },
            ["no command is given: redlock lead NAME -- CMD..."] = { "x" },
            ["bad id: 161 bytes"] = { "x", "--id", ("x"):rep(161), "--", "true" },
            ["unknown option --wait"] = { "x", "--wait", "1", "--", "true" },
        } do
            local status, text = ends(cli.start(cluster, home, {}, "lead", unpack(words)))
            assert.equal(FAILED, status)
            assert.matches(pattern, text, 1, true)
        end
    end)
end)
