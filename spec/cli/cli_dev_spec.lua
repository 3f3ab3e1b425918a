-- `redlock dev`: servers to try the library with.
local cli = require "spec.support.command"
local support = require "spec.support"
local sys = require "spec.support.sys"

local FAILED = 125

describe("redlock dev", function()
    local cluster, home

    setup(function()
        cluster = support.cluster(1)
        home = support.tmpdir()
    end)

    local ends, gone = cli.ends, cli.gone

    local start, redlock = cli.on(function() return cluster, home end)

    -- The URIs of the servers that it tells of.
    local function dev(...)
        local p = start({ env = { REDLOCK_NODES = false } }, "dev", "--json", ...)
        local uris = {}
        for uri in assert(p:read_line(30)):gmatch "redis://:%x+@[%d.:]+" do
            uris[#uris + 1] = uri
        end
        return p, uris
    end

    local function works(uris)
        local status, text = ends(start({ env = { REDLOCK_CLUSTER = false } }, "run", "x",
            "--nodes", table.concat(uris, " "), "--", "true"))
        assert.equal(0, status, text)
    end

    -- A program of the shell.
    local function script(name, text)
        local path = home .. "/" .. name
        sys.write_file(path, "#!/bin/sh\n" .. text .. "\n")
        assert.is_true(support.sh("chmod +x " .. path))
        return path
    end

    local function none_left(uris)
        for _, uri in ipairs(uris) do
            support.eventually(function()
                return not support.connect(tonumber(uri:match "%d+$"))
            end, 10, uri .. " to be gone")
        end
    end

    it("gives servers until it ends, however it ends", function()
        for signal, status in pairs { INT = 0, TERM = 0, KILL = 128 + 9 } do
            local p, uris = dev "2"
            assert.equal(2, #uris)
            works(uris)
            works(uris)
            p:kill(signal)
            assert.equal(status, p:wait(20))
            none_left(uris)
        end
    end)

    it("lets nobody else in, loads nobody's data, and leaves nothing", function()
        local tmp = support.tmpdir() .. "/all  of us"
        assert.is_true(support.sh("mkdir -m 1777 '" .. tmp .. "'"))
        local theirs = support.server { args = { "--dir", tmp } }
        theirs:call("SET", "x", "somebody's")
        theirs:call("SAVE")
        local p = start({ env = { REDLOCK_NODES = false, TMPDIR = tmp } }, "dev", "--json", "2")
        local line = p:read_line(30)
        local passwords, n = {}, 0
        for password, port in line:gmatch "redis://:(%x+)@127.0.0.1:(%d+)" do
            local conn = support.connect(tonumber(port))
            local _, err = conn:call("GET", "x")
            assert.matches("NOAUTH", tostring(err))
            assert(conn:call("AUTH", password))
            assert.is_nil((conn:call("GET", "x")))
            passwords[password], n = true, n + 1
        end
        assert.equal(2, n)
        for password in pairs(passwords) do            -- nor do arguments have it
            assert.is_false(support.sh(("cat /proc/[0-9]*/cmdline 2> /dev/null | grep -aq "
                .. "'[%s]%s'"):format(password:sub(1, 1), password:sub(2))))
        end
        assert.is_true(support.sh(("test -z \"$(find '%s'/* -perm /077 ! -name dump.rdb)\"")
            :format(tmp)))
        p:kill "INT"
        assert.equal(0, p:wait(20))
        assert.is_true(support.sh("test dump.rdb = \"$(ls -A '" .. tmp .. "')\""))
        p = start({ env = { TMPDIR = tmp } }, "dev", "--server", "false")
        assert.equal(FAILED, (ends(p)))
        assert.is_true(support.sh("test dump.rdb = \"$(ls -A '" .. tmp .. "')\""))
    end)

    it("tells how to use them, by one line", function()
        local p = start({}, "dev")
        local lines = {}
        for i = 1, 7 do
            lines[i] = p:read_line(30)
        end
        assert.matches("3 servers; Ctrl%-C", lines[1])
        local path = lines[6]:match "^  export REDLOCK_NODES= REDLOCK_CONFIG='(/.*/redlock.conf)'$"
        assert.is_true(support.sh(("test 600 = $(stat -c %%a '%s') && "
            .. "test 700 = $(stat -c %%a $(dirname '%s'))"):format(path, path)))
        local set = support.lua_env()
        set.REDLOCK_NODES = "redis://127.0.0.1:1"          -- of something else
        local used = support.spawn { "sh", "-c", lines[6] .. [[

            exec luajit -e '
                local client = require("redlock").from_environment()
                assert(client:getLock("x"):tryLock(5))
                print(#client.options.nodes, client:check().source)']], stdout = "pipe",
            stderr = "stdout", env = set }
        assert.same({ 0, "3\t" .. path .. "\n" }, { ends(used) })
        p:kill "INT"
        assert.equal(0, p:wait(20))
        assert.is_false(support.sh("test -e $(dirname '" .. path .. "')"))
    end)

    it("says what is missing", function()
        local status, text = redlock("dev", "--server", "no-such-server")
        assert.equal(FAILED, status)
        assert.matches("no%-such%-server is not on the PATH; on Debian", text)
        status, text = redlock("dev", "--server", "false")
        assert.equal(FAILED, status)
        assert.matches("try it by hand: false", text)
        status, text = redlock("dev", "--server", home)
        assert.equal(FAILED, status)
        assert.matches("does not start; try it by hand: " .. home:gsub("%p", "%%%0"), text)
        -- One that does not let itself be admitted.
        status, text = redlock("dev", "--server", script("no-set", 'exec redis-server "$@" '
            .. '--user default on ">$(sed -n "s/requirepass //p" "$1")" '
            .. "'~*' " .. (support.since(6, 2) and "'&*'" or "")
            .. " +@all -set"))
        assert.equal(FAILED, status)
        assert.matches("init: no majority.*noperm", text)
    end)

    it("tells of a server that has ended", function()
        local p, uris = dev "3"
        local port = tonumber(uris[2]:match "%d+$")
        local conn = support.connect(port)
        assert(conn:call("AUTH", (uris[2]:match ":(%x+)@")))
        conn:call("SHUTDOWN", "NOSAVE")
        assert.equal("redlock: 127.0.0.1:" .. port .. " has ended", p:read_line(10))
        works(uris)
        p:kill "INT"
        assert.equal(0, p:wait(20))
        none_left(uris)
    end)

    it("ends while its servers are not up yet", function()
        local p = start({}, "dev", "--server", script("slow", "echo up; exec sleep 100"))
        local pid
        support.eventually(function()
            local pipe = io.popen("pgrep -P " .. p.pid .. " sleep")
            pid = tonumber(pipe:read "*a")
            pipe:close()
            return pid
        end, 20)
        p:kill "TERM"
        assert.equal(128 + 15, p:wait(10))
        gone(pid)
    end)
end)
