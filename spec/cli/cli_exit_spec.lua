-- The exit status of the command: none of redlock's answers can be that of a luajit that died.
local cli = require "spec.support.command"
local support = require "spec.support"
local sys = require "spec.support.sys"

local FREE, HELD, FAILED = 3, 124, 125

-- Runs a command in a process that cannot make memory executable that was writable.
local NO_CODE = [[
local ffi = require "ffi"
ffi.cdef "int prctl(int, unsigned long, unsigned long, unsigned long, unsigned long);"
ffi.cdef "int execvp(const char *, const char *const *);"
local PR_SET_MDWE, REFUSE_EXEC_GAIN = 65, 1
if ffi.C.prctl(PR_SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0) ~= 0 then
    os.exit(99)
end
local list = ffi.new("const char *[?]", #arg + 1)
for i = 1, #arg do
    list[i - 1] = arg[i]
end
ffi.C.execvp(arg[1], list)
]]

describe("the exit status of redlock", function()
    local cluster = support.shared_cluster(3)
    local home
    local luajit = sys.realpath("/proc/self/exe")

    setup(function()
        home = support.tmpdir()
        sys.write_file(home .. "/no_code.lua", NO_CODE)
        sys.write_file(home .. "/raises.lua", "error 'no'")
    end)

    local function redlock(opts, ...)
        return cli.ends(cli.start(cluster, home, opts, ...))
    end

    describe("where no code can be generated", function()
        local NOTE = "redlock: running without LuaJIT's compiler, as no code can be generated here "
            .. "(MemoryDenyWriteExecute)\n"
        local prefix

        setup(function()
            prefix = { "luajit", "-joff", home .. "/no_code.lua" }
        end)

        -- What it answers, without the note.
        local function answers(status, ...)
            local got, text = redlock({ argv_prefix = prefix }, ...)
            assert.equal(NOTE, text:sub(1, #NOTE))
            text = text:sub(#NOTE + 1)
            assert.is_nil(text:find(NOTE, 1, true))
            assert.equal(status, got, text)
            return text
        end

        it("is as elsewhere", function()
            if not support.sh(table.concat(prefix, " ") .. " true") then
                pending "this kernel cannot forbid it (before Linux 6.3)"
                return
            end
            assert.equal("x is free\n", answers(FREE, "status", "x"):match "^[^\n]*\n")
            answers(FREE, "unlock", "--force", "x")
            answers(0, "wait", "x", "--wait", "1")
            answers(0, "check", "--timeout", "3")
            answers(0, "ls")
            answers(0, "init", "--timeout", "3")
            answers(1, "lua", home .. "/raises.lua")
            assert.equal("ran\n", answers(0, "run", "x", "--", "echo", "ran"))
            answers(1, "run", "x", "--", "false")
            answers(7, "lead", "x", "--", "sh", "-c", "exit 7")
            local holder = cli.start(cluster, home, { argv_prefix = prefix, stderr = "null" },
                cli.script("echo in; exec sleep 100", "run", "y"))
            assert.equal("in", holder:read_line(20))
            answers(0, "status", "y")
            answers(HELD, "wait", "y", "--wait", "0.1")
            answers(HELD, "run", "y", "--no-wait", "--", "echo", "ran")
            answers(0, "unlock", "--force", "y")
            holder:kill "TERM"
            cli.ends(holder)
        end)
    end)

    -- A PATH on which a script stands for luajit, $LUAJIT.
    local function path_with(script)
        local folder = support.tmpdir()
        sys.write_file(folder .. "/luajit", "#!/bin/sh\nLUAJIT=" .. luajit .. "\n" .. script)
        assert.is_true(support.sh("chmod +x " .. folder .. "/luajit"))
        return folder .. ":" .. os.getenv "PATH"
    end

    it("is 125 when luajit cannot run", function()
        local function fails(path, why)
            for _, words in ipairs { { "status", "x" }, { "unlock", "--force", "x" }, { "check" },
                { "wait", "x" }, { "run", "x", "--", "true" }, { "lua", home .. "/raises.lua" } } do
                local status, text = redlock({ env = { PATH = path } }, unpack(words))
                assert.equal(FAILED, status, text)
                assert.matches("redlock: luajit " .. why .. "\n$", text)
            end
        end
        fails(support.tmpdir(), "is not on the PATH")
        local why = "cannot run here; look at its message, and at ulimit %-a"
        fails(path_with "exit 1", why)
        fails(path_with "exit 0", why)
        fails(path_with "echo 'error while loading shared libraries' >&2; exit 127", why)
        fails(path_with "kill -KILL $$", why)
    end)

    it("is an answer with few descriptors, too", function()
        local status, text = cli.ends(support.spawn { "/bin/sh", "-c", ("exec 9<&- 8<&- 7<&-; "
            .. "ulimit -n 12; exec %s status x --nodes redis://127.0.0.1:1"):format(cli.REDLOCK),
            stdout = "pipe", stderr = "stdout" })
        assert.equal(FAILED, status)
        assert.matches("refused", text)
    end)

    it("is 125 when the shell cannot start luajit's process", function()
        local status, text = cli.ends(support.spawn { "setpriv", "--reuid=54321", "--clear-groups",
            "prlimit", "--nproc=1", cli.REDLOCK, "status", "x", stdout = "pipe",
            stderr = "stdout" })
        assert.equal(FAILED, status, text)
        assert.matches("[Cc]annot fork", text)
    end)

    it("is no answer when luajit runs out of memory, wherever that is", function()
        for _, kilobytes in ipairs { 2000, 3500, 4000, 4500, 5000, 5500 } do
            local path = path_with(("ulimit -v %d; exec $LUAJIT \"$@\""):format(kilobytes))
            local status, text = redlock({ env = { PATH = path } }, "status", "x")
            if status < 128 then           -- a signal is no answer, either
                assert.equal(FAILED, status, kilobytes .. ": " .. text)
                assert.matches("redlock: ", text)
            end
        end
    end)

    it("is 125 when the library is missing", function()
        local folder = support.tmpdir()
        assert.is_true(support.sh(("mkdir %s/bin && cp %s %s/bin"):format(folder, cli.REDLOCK,
            folder)))
        local p = support.spawn { folder .. "/bin/redlock", "status", "x", stdout = "pipe",
            stderr = "stdout", env = { LUA_PATH = "/none/?.lua", LUA_CPATH = "/none/?.so" } }
        local status, text = cli.ends(p)
        assert.equal(FAILED, status)
        assert.matches("^redlock: .*module 'redlock.cli.main' not found", text)
    end)

    it("is 125, not the command's, when the supervisor dies by itself", function()
        local code = "if arg[0]:find 'supervisor' then error 'no' end"
        local status, text = redlock({ env = { LUA_INIT = code } }, "run", "x", "--", "echo", "ran")
        assert.equal(FAILED, status, text)
        assert.matches("redlock: the supervisor of the command died, and the command was killed\n$",
            text)
        assert.is_nil(text:find "ran")
    end)
end)
