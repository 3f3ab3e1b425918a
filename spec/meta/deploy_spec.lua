-- The units of examples/systemd and the servers of examples/compose do what is said of them.
local build = require "spec.support.build"
local cli = require "spec.support.command"
local support = require "spec.support"
local sys = require "spec.support.sys"

local HELD = 124

local function read(path)
    return assert(sys.read_file(build.root .. "/examples/" .. path))
end

describe("the units of systemd", function()
    local cluster, home

    setup(function()
        cluster = support.cluster(3)
        home = support.tmpdir()
    end)

    -- With the programs of this machine in place of those that they name.
    local function here(text)
        return (text:gsub("=redlock ", "=" .. cli.REDLOCK .. " ")
            :gsub("/usr/local/bin/%a+ *\n", "/bin/true\n"))
    end

    it("are valid, and let the programs do little else", function()
        if not support.sh "command -v systemd-analyze > /dev/null" then
            return pending "no systemd-analyze here"
        end
        local units = {}
        for _, name in ipairs { "redlock-nightly.service", "redlock-nightly.timer",
            "redlock-leader.service" } do
            units[#units + 1] = home .. "/" .. name
            sys.write_file(home .. "/" .. name, here(read("systemd/" .. name)))
        end
        local p = support.spawn { "systemd-analyze", "verify", "--man=no", stdout = "pipe",
            stderr = "stdout", unpack(units) }
        local status, text = cli.ends(p)
        if text:find "Cannot determine cgroup" then
            return pending "systemd-analyze says nothing in a chroot"
        end
        assert.same({ 0, "" }, { status, text })
        for i = 1, #units, 2 do                         -- the services; offline since systemd 250
            p = support.spawn { "systemd-analyze", "security", "--offline=yes", "--threshold=20",
                units[i], stdout = "pipe", stderr = "stdout" }
            status, text = cli.ends(p)
            assert.is_true(status == 0 or text:find "unrecognized option" ~= nil, text)
        end
    end)

    -- Runs a line of a page or unit, with another command below the lock.
    local function start(line, command)
        local words = {}
        for word in line:gsub("%-%- .*", "-- " .. command):gmatch "%S+" do
            words[#words + 1] = word
        end
        return cli.start(cluster, home, {}, unpack(words))
    end

    -- Runs the command of a unit.
    local function run(unit, command)
        return start(read("systemd/" .. unit):match "\nExecStart=redlock ([^\n]+)",
            command)
    end

    it("run the job on one machine, and take it for done on the others", function()
        assert.equal(0, (cli.ends(run("redlock-nightly.service", "/bin/true"))))
        assert.equal(HELD, (cli.ends(run("redlock-nightly.service", "/bin/true"))))
        assert.equal(HELD, tonumber(read "systemd/redlock-nightly.service"
            :match "\nSuccessExitStatus=(%d+)\n"))
    end)

    it("run the service on one machine, and on the next when that ends", function()
        local program = home .. "/service"
        sys.write_file(program, "#!/bin/sh\necho in\nexec sleep 60\n")
        assert.is_true(support.sh("chmod +x " .. program))
        local first = run("redlock-leader.service", program)
        assert.equal("in", first:read_line(20))
        local second = run("redlock-leader.service", program)
        assert.is_nil(second:read_line(0.5))
        first:kill "TERM"
        assert.equal("in", second:read_line(20))
        assert.equal(143, first:wait(10))
        second:kill "TERM"
        assert.equal(143, second:wait(10))
    end)

    it("exclude what the pages start for the same purpose", function()
        local service = run("redlock-leader.service", "sleep 60")
        support.eventually(function()
            return cluster[1]:call("EXISTS", "scheduler") == 1
        end, 20)
        for _, page in ipairs { "../README.md", "recipes/README.md", "command/README.md" } do
            local p = start(read(page):match "\nredlock (lead [^\n]+)", "echo leads, too")
            assert.is_nil(p:read_line(0.3), page)
            p:kill "TERM"
            assert.equal(143, p:wait(10))
        end
        service:kill "TERM"
        assert.equal(143, service:wait(10))
    end)
end)

describe("the servers of compose", function()
    it("are what check has no complaint of", function()
        local text = read "compose/compose.yaml"
        local command, home = {}, support.tmpdir()
        for word in text:match "\n  command: %[(.-)%]\n":gmatch '"(.-)"' do
            command[#command + 1] = word
        end
        assert.equal("redis-server", command[1])
        local uris, ports = {}, {}
        for port in text:gmatch '\n    ports: %["127.0.0.1:(%d+):6379"%]' do
            assert.truthy(text:find("\n#[^\n]*redis://127.0.0.1:" .. port), port)
            ports[#ports + 1] = port
        end
        assert.equal(3, #ports)
        for i = 1, #ports do
            local port = support.free_port()
            local argv = { os.getenv "REDIS_SERVER" or "redis-server", stdout = "null",
                cwd = support.tmpdir() }
            for k = 2, #command do
                argv[k] = command[k] == "6379" and tostring(port) or command[k]
            end
            argv[#argv + 1], argv[#argv + 2] = "--bind", "127.0.0.1"
            support.spawn(argv)
            uris[i] = "redis://127.0.0.1:" .. port
            support.eventually(function() return support.connect(port) end, 20)
        end
        local function redlock(...)
            return cli.ends(cli.start({ uris = function() return uris end }, home, {}, ...))
        end
        local status, said = redlock "init"
        assert.equal(0, status, said)
        status, said = redlock("check", "--timeout", "3")
        assert.equal(0, status, said)
        assert.is_nil(said:find "warning", said)
        assert.equal(0, (redlock("run", "x", "--", "true")))
        -- The healthcheck, in the container: it votes, or it does not.
        local file = text:match '\n    test: %["CMD", "sh", "(.-)"%]\n'
        local _, n = text:gsub('"%.%./kubernetes/ready%.sh:' .. file .. ':ro"', "")
        assert.equal(3, n)
        local port = uris[1]:match "%d+$"
        local healthy = ("sh %s/examples/kubernetes/ready.sh -p %s"):format(build.root, port)
        assert.is_true(support.sh(healthy))
        support.connect(port):call "FLUSHALL"
        assert.is_not_true(support.sh(healthy))
    end)
end)
