-- run() of the scripts of `redlock lua`: programs without a shell, under the script's locks.
local cli = require "spec.support.command"
local support = require "spec.support"
local sys = require "spec.support.sys"

local RAISED = 1

describe("run in a script", function()
    local cluster = support.shared_cluster(3)
    local home

    setup(function()
        home = support.tmpdir()
        sys.write_file(home .. "/short.conf", "lease = 4\n")
    end)

    local function start(opts, text, ...)
        sys.write_file(home .. "/script.lua", text)
        return cli.start(cluster, home, opts, "lua", "--config", home .. "/short.conf",
            home .. "/script.lua", ...)
    end

    -- What the script says, which is all right.
    local function says(text, ...)
        local status, said = cli.ends(start({}, text, ...))
        assert.equal(0, status, said)
        return said
    end

    local TAKE = "local lock = client:getLock 'x' assert(lock:tryLock(5)) "

    it("passes each argument as it is", function()
        local names = { "", " a  b ", "it's", '"quoted"', "$(touch owned)", "`touch owned`", "a;b",
            "$HOME", "*", "~", "\\n", "two\nlines", "-rf", "--", "--help", "\255\1", "%s" }
        assert.equal("<" .. table.concat(names, ">\n<") .. ">\n",
            says("assert(run('printf', '<%s>\\n', ...))", unpack(names)))
        assert.is_nil(sys.read_file "owned")
    end)

    it("finds the program on the PATH, or by its path, whatever that is", function()
        local path = home .. "/it's; exit 7"
        sys.write_file(path, "#!/bin/sh\necho \"$0\"\n")
        assert.is_true(support.sh('chmod +x "' .. path .. '"'))
        assert.equal(path .. "\n", says("assert(run 'true') assert(run(...))", path))
    end)

    it("returns true, or nil and the status", function()
        sys.write_file(home .. "/text", "#!/bin/sh\n")
        assert.equal("1\ttrue\n", says "print(select('#', run 'true'), run 'true')")
        for command, status in pairs { ["exit 3"] = 3, ["exit 255"] = 255, ["kill -TERM $$"] = 143,
            ["kill -KILL $$"] = 137, ["kill -INT $$"] = 130, ["kill -USR2 $$"] = 140 } do
            assert.equal("nil\t" .. status .. "\n", says("print(run('sh', '-c', ...))", command))
        end
        for path, why in pairs { ["/nowhere"] = "No such file or directory\nnil\t127",
            ["/text"] = "Permission denied\nnil\t126", [""] = "Permission denied\nnil\t126" } do
            assert.equal("redlock: " .. home .. path .. ": " .. why .. "\n",
                says("print(run(...))", home .. path))
        end
        assert.matches("^redlock: no%-such%-program: .*\nnil\t127\n$",
            says "print(run 'no-such-program')")
    end)

    it("gives the script its status, as what that returns", function()
        assert.equal(0, (cli.ends(start({}, "return run 'true'"))))
        assert.equal(9, (cli.ends(start({}, "return run('sh', '-c', 'exit 9')"))))
    end)

    it("leaves the three streams, their order, signals and descriptors as they were", function()
        local p = start({ stdin = "pipe" }, "io.write 'first ' run 'cat' io.write 'third\\n' "
            .. "run('sh', '-c', 'echo fourth >&2')")
        p:write "second "
        p:close_stdin()
        assert.same({ 0, "first second third\nfourth\n" }, { cli.ends(p) })
        for _, look in ipairs { { "ls", "/proc/self/fd" },
            { "grep", "SigBlk", "/proc/self/status" } } do
            local _, usual = cli.ends(support.spawn { stdout = "pipe", unpack(look) })
            assert.equal(usual, says(TAKE .. "assert(run(...))", unpack(look)))
        end
    end)

    -- They are finalized in the script's process, however often the new one collects garbage.
    it("writes once what dropped files have not written yet", function()
        says([[
            collectgarbage("setstepmul", 1000)
            for i = 1, 300 do
                local file = io.open(args[1] .. i, "w")
                file:write "once"
                file = nil
                run "true"
            end
        ]], home .. "/dropped")
        for i = 1, 300 do
            assert.equal("once", sys.read_file(home .. "/dropped" .. i))
        end
    end)

    it("keeps locks for as long as the program runs, and longer than a lease", function()
        local look = ("redis-cli -p %d exists x"):format(cluster[1].port)
        assert.equal("1\n1\ntrue\n", says(TAKE .. "assert(run('sh', '-c', ...)) lock:check() "
            .. "print(lock:unlock())", ("until %s | grep 1; do sleep 0.02; done; sleep 5; %s")
            :format(look, look)))
    end)

    for signal, status in pairs { TERM = 143, HUP = 129, INT = 130, QUIT = 131 } do
        it("ends the program first, while it is locked: " .. signal, function()
            local p = start({}, TAKE .. "run('sh', '-c', ...) print 'went on'",
                ("exec 2> /dev/null; trap 'redis-cli -p %d exists x; exit' %s; echo in $$; ")
                :format(cluster[1].port, signal) .. "while :; do sleep 0.05; done")
            local pid = tonumber(p:read_line(20):match "in (%d+)")
            support.eventually(function() return cluster[1]:call("EXISTS", "x") == 1 end)
            p:kill(signal)
            assert.same({ status, "1\n" }, { cli.ends(p) })
            assert.is_true(cli.has_ended(pid))
            assert.is_true(cluster:having "x" <= 1)          -- one server may be late
        end)
    end

    -- The signals do nothing in the script's process, of which the program is a copy at first.
    it("loses no signal while the program starts", function()
        local p = support.lua([=[
            local process = require "redlock.cli.process"
            process.disregard { process.TERM }
            for _ = 1, 20 do
                local pid = assert(process.spawn { "sleep", "60" })
                process.kill(pid, process.TERM)
                print(process.await(pid))
            end
        ]=], { stderr = "stdout" })
        assert.equal(("143\n"):rep(20), p:read_all(20))
    end)

    it("ends the program with `redlock`, however that ends", function()
        local p = start({}, TAKE .. "run('sh', '-c', 'echo $$; exec sleep 60')")
        local pid = tonumber(p:read_line(20))
        p:kill "KILL"
        assert.equal(137, p:wait(10))
        cli.gone(pid)
    end)

    it("raises for what is no command or argument, at its line", function()
        for call, complaint in pairs {
            ["run()"] = "command of run: a string is needed, not nil",
            ["run ''"] = "command of run: must not be empty",
            ["run { 'true' }"] = "command of run: a string is needed, not table",
            ["run 'a\\0b'"] = "command of run: a string without NUL bytes is needed",
            ["run('touch', 'owned', nil)"] = "argument 2 of run: a string is needed, not nil",
            ["run('touch', nil, 'owned')"] = "argument 1 of run: a string is needed, not nil",
            ["run('sleep', 0)"] = "argument 1 of run: a string is needed, not number",
            ["run('touch', 'b\\0')"] = "argument 1 of run: a string without NUL bytes is needed",
        } do
            local status, said = cli.ends(start({}, "\n" .. call))
            assert.equal(RAISED, status, said)
            assert.truthy(said:find("script.lua:2: redlock: bad " .. complaint .. "\n", 1, true),
                said)
        end
        assert.is_nil(sys.read_file "owned")
    end)
end)
