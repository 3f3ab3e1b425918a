-- A password file on a disk that hangs: a FIFO that nobody writes to, at which open() waits. That
-- costs the vote of its server, and nothing else. Time-outs are long here: a read that stops others
-- would stop them for longer than any bound of these tests.
local behaviour = require "spec.support.behaviour"
local support = require "spec.support"
local sys = require "spec.support.sys"

local LONG = 60                  -- seconds to connect

describe("beside a password file that hangs", function()
    local cluster = support.shared_cluster(3)
    local file

    setup(function()
        cluster:each(function(server) server:user("app", "on", ">first", "~*", "&*", "+@all") end)
    end)
    before_each(function()
        local dir = support.tmpdir()     -- workers of nginx may be another user
        file = dir .. "/password"
        assert(support.sh(("chmod 711 %s && mkfifo -m 644 %s"):format(dir, file)))
    end)

    -- The servers as Lua text; the first `hung` of them have that file.
    local function nodes(hung)
        local list = {}
        for i, server in ipairs(cluster) do
            list[i] = i <= hung
                and ("{ host = '127.0.0.1', port = %d, user = 'app', password_file = %q }")
                    :format(server.port, file)
                or ("%q"):format(server.uri)
        end
        return "{ " .. table.concat(list, ", ") .. " }"
    end

    local function client_of(hung, opts)
        return support.client(loadstring("return " .. nodes(hung))(), opts)
    end

    -- Waits until somebody reads the FIFO, puts a file in its place for all who come later, and
    -- writes the password.
    local function write_on()
        sys.write_file(file .. ".new", "first\n")
        local p = support.spawn { "sh", "-c",
            'exec 3> "$1" && mv -f "$1.new" "$1" && printf "first\n" >&3', "sh", file }
        assert.equal(0, p:wait(30))
    end

    it("a worker of nginx serves requests, and locks", function()
        local ng = support.nginx { nodes = cluster, init = ([[
            client = redlock.new { nodes = %s, cluster = "spec", timeout = 5,
                connect_timeout = %d }
        ]]):format(nodes(1), LONG) }
        local pid = ng:get "/ping"
        for _ = 1, 20 do
            assert.equal("ok", (ng:get "/once?wait=0"))
            assert.equal(pid, (ng:get "/ping"))
        end
        write_on()
        support.eventually(function()
            return ng:get "/once?wait=0" == "ok" and cluster[1]:calls_of "evalsha" > 0
        end, 20)
        ng:ends("TERM", "can read the secret in")
    end)

    for name, loop in pairs(behaviour.loops) do
        it("a loop of " .. name .. " runs other coroutines, and locks", function()
            local p = support.lua(([[NODES = %s %s %s main(function()
                local turns, over = 0, false
                spawn(function()
                    while not over do
                        turns = turns + 1
                        sleep(0.001)
                    end
                end)
                local c = new { connect_timeout = %d }
                local l = c:getLock "x"
                for _ = 1, 20 do
                    assert(l:tryLock(5))
                    sleep(0.001)
                    assert(l:unlock())
                end
                assert(turns > 5, turns)
                over = true
                c:close()
            end) print "ok"]]):format(nodes(1), loop, behaviour.prelude, LONG),
                { stderr = "stdout" })
            assert.equal("ok\n", p:read_all(30))
        end)
    end

    it("a plain client locks at the other servers", function()
        local client = client_of(1, { connect_timeout = LONG })
        local l = client:getLock "x"
        for _ = 1, 20 do
            assert.is_true(l:tryLock(5))
            assert.is_true(l:unlock())
        end
        assert.is_false(client:stats().nodes[1].ready)
        write_on()
        support.eventually(function()
            return l:tryLock(0) and l:unlock() and client:stats().nodes[1].ready
        end)
        client:close()
    end)

    it("a server is one without a connection in time, which names the file", function()
        local client = client_of(3, { connect_timeout = 0.2, timeout = 0.2 })
        support.eventually(function()
            local err = support.fails("no_quorum", client:getLock("x"):tryLock(0.5))
            local row = err.nodes[1]
            return row.code == "timeout"
                and row.message:find(file .. " was not read in time", 1, true)
        end)
        client:close()
    end)

    it("another file can take its place, and again another one", function()
        local client = client_of(3, { connect_timeout = 0.2 })
        local l = client:getLock "x"
        local function rotate(password)
            sys.write_file(file .. ".new", password .. "\n")
            assert(os.rename(file .. ".new", file))
            cluster:each(function(server)
                server:user("app", "on", "resetpass", ">" .. password)
                server:call("CLIENT", "KILL", "USER", "app")
            end)
            support.eventually(function() return l:tryLock(0) and l:unlock() end, 30)
        end
        for _ = 1, 3 do
            support.fails("no_quorum", l:tryLock(0.5))
        end
        for _, password in ipairs { "second", "third", "first" } do
            rotate(password)
        end
        client:close()
    end)

    for how, code in pairs {
        ["client:close()"] = "client:close() io.read()",
        ["os.exit()"] = "os.exit(0)",
        ["the end of the script"] = "",
        ["an end by a signal"] = "ffi.C.raise(15)",
        ["a fork"] = [[
            local pid = ffi.C.fork()
            if pid == 0 then
                client:close()
                os.exit(0)
            end
            local status = ffi.new "int[1]"
            assert(ffi.C.waitpid(pid, status, 0) == pid and status[0] == 0)
        ]],
    } do
        it(how .. " is not late", function()
            local p = support.lua(([[
                local ffi = require "ffi"
                ffi.cdef "int fork(void); int waitpid(int, int *, int); int raise(int);"
                local client = require("redlock").new { nodes = %s, cluster = "spec",
                    connect_timeout = %d, signals = { "TERM" } }
                local ok, err = client:connect(0.5)
                assert(not ok and err.code == "no_quorum", err)
                print "hangs"
                io.stdout:flush()
                %s
                print "over"
            ]]):format(nodes(2), LONG, code), { stderr = "stdout" })
            assert.equal("hangs", p:read_line(30))
            if how == "client:close()" then
                p:write "go\n"
            end
            assert.is_number(p:wait(20))
        end)
    end
end)
