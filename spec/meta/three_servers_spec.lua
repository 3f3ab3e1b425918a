-- The page that leads from `redlock dev` to three servers: each of its steps, in order.
local cli = require "spec.support.command"
local pages = require "spec.support.pages"
local support = require "spec.support"
local sys = require "spec.support.sys"

local PAGE = "examples/three-servers/README.md"

local UNITS = "examples/systemd/redlock-"
local ROOT = support.sh "test $(id -u) = 0"
-- Users of this machine that are neither root nor in a group of its own.
local WEB, NOBODY = ROOT and "www-data" or nil, ROOT and { "setpriv", "--reuid=nobody",
    "--regid=nogroup", "--clear-groups" } or {}

-- Runs without an end, and takes a lock each time; says so when all went well.
local PROGRAM = [[
    local client = require("redlock").from_environment { lease = 5 }
    local held = client:getLock "held"
    assert(held:tryLock(20))
    io.stdout:write "begins\n"
    io.stdout:flush()
    repeat
        assert(held:isValid())
        local ok, err = client:using("taken", { wait = 5, kind = "fenced" }, function() end)
        assert(ok, err)
    until io.open(os.getenv "HOME" .. "/stop")
    assert(held:unlock())
    assert(client:stats().lost == 0)
    print "has ended"
]]

describe("from redlock dev to three servers", function()
    local home
    local servers, ports, dirs = {}, {}, {}

    -- All hosts are this one; /etc and /etc/redis are folders. i: that of a server.
    local function here(text, i)
        return (text:gsub("%-h locks%-2", "-h localhost -p " .. (i and ports[i] or "none"))
            :gsub("locks%-%d", "localhost"):gsub("/etc/redis", i and dirs[i] or home)
            :gsub("/etc/redlock", home .. "/redlock")
            :gsub("groupadd[^\n]*\nusermod[^\n]*\n", "")
            :gsub("%-g redlock", "-g " .. (WEB or "$(id -gn)")))
    end

    local function environment()
        return { HOME = home, PATH = home .. ":" .. os.getenv "PATH",
            REDLOCK_CONFIG = home .. "/redlock.conf" }
    end

    local function shell(code, i)
        local p = support.spawn { "sh", "-ec", here(code, i), cwd = home, stdout = "pipe",
            stderr = "stdout", env = environment() }
        local status, said = cli.ends(p, 300)
        assert.equal(0, status, said)
        return said
    end

    local function copy(i, from, to)
        assert(support.sh(("cp %s/%s %s/%s"):format(home, from, dirs[i], to or from)))
    end

    local function start(i)
        dirs[i] = support.tmpdir()
        copy(i, "users.acl")
        copy(i, "ca.crt")
        copy(i, "localhost.crt", "server.crt")
        copy(i, "localhost.key", "server.key")
        sys.write_file(dirs[i] .. "/redis.conf", here(pages.snippets(PAGE, "conf")[1], i)
            :gsub("port 6379", "port " .. ports[i])
            :gsub("bind [^\n]*", "bind 127.0.0.1 -::1") .. "\n")
        servers[i] = support.spawn { os.getenv "REDIS_SERVER" or "redis-server", "redis.conf",
            cwd = dirs[i], stdout = "null", stderr = "null" }
        support.eventually(function() return support.connect(ports[i]) end, 20)
    end

    local steps = pages.snippets(PAGE, "sh")

    -- The one snippet that has this.
    local function step(words)
        for _, code in ipairs(steps) do
            if code:find(words, 1, true) then
                return code
            end
        end
    end

    if not support.since(7, 0) then
        return pending "rules for reading need Redis 7.0"
    end

    setup(function()
        home = support.tmpdir()
        assert(support.sh(("chmod 711 %s; ln -s %s %s/redlock"):format(home, cli.REDLOCK, home)))
        shell(steps[1] .. "\n" .. steps[2])
        for i = 1, 3 do
            ports[i] = support.free_port()
            start(i)
        end
    end)

    it("works step by step, as pasted", function()
        local n = 0
        sys.write_file(home .. "/redlock.conf", here(pages.snippets(PAGE, "conf")[2])
            :gsub("rediss://localhost", function(uri)
                n = n + 1
                return uri .. ":" .. ports[n]
            end) .. "\nmax_lease = 6\nlease = 5\n")        -- for a short quarantine
        assert(support.sh("chmod 644 " .. home .. "/redlock.conf"))
        shell(step "groupadd")
        assert.matches("verdict: ok\n$", shell(step "redlock init"))
        assert.equal("", shell(step "said="))
        sys.write_file(home .. "/first.lua", pages.snippets(PAGE, "lua")[1])
        assert.matches("^held with token\t%d+\n$", shell "redlock lua first.lua")
    end)

    -- The addresses of here; users who are not root read the files.
    local function in_nginx(path, k, location, server)
        local init, rest = pages.nginx(path, k)
        local uris = {}
        for i = 1, 3 do
            uris[i] = '"rediss://localhost:' .. ports[i] .. '"'
        end
        local ng = support.nginx { nodes = { "redis://127.0.0.1:1" }, user = WEB,
            env = environment(), server = server or rest, init = here(init)
                :gsub("nodes = %b{}", "max_lease = 6, lease = 5, nodes = { " .. table.concat(uris,
                ", ") .. " }") }
        local said, status = ng:get(location)
        ng:ends()
        assert.same({ 200, "held" }, { status, said:match "^held" })
    end

    it("lets nginx lock as a user of its own", function()
        in_nginx(PAGE, 1, "/charge")
        in_nginx("examples/nginx/README.md", 2, "/", [[location / { content_by_lua_block {
            local held, err = locks:using("x", { wait = 5 }, function() ngx.print "held" end)
            if not held then ngx.print(err or "lost") end
        } }]])
    end)

    -- As systemd does for a unit: the files of LoadCredential in a folder %d, for its user alone.
    local function credentials(unit)
        local dir = support.tmpdir()
        for id, path in unit:gmatch "\nLoadCredential=([^:\n]+):([^\n]+)" do
            sys.write_file(dir .. "/" .. id, sys.read_file(here(path)))
        end
        assert(support.sh(("chmod 400 %s/*; chmod 500 %s"):format(dir, dir)))
        assert(not ROOT or support.sh("chown -R nobody " .. dir))
        return dir
    end

    it("lets the units of systemd lock, each as its own user", function()
        for _, name in ipairs { "nightly", "leader" } do
            local unit = pages.text(UNITS .. name .. ".service")
            local words = { stdout = "pipe", stderr = "stdout", env = { REDLOCK_CONFIG = unit
                :match "\nEnvironment=REDLOCK_CONFIG=([^\n]+)":gsub("%%d", credentials(unit)) } }
            for _, word in ipairs(NOBODY) do
                words[#words + 1] = word
            end
            for word in unit:match "\nExecStart=([^\n]+)":gsub("^redlock", cli.REDLOCK)
                :gsub("%-%- .*", "-- echo runs"):gmatch "%S+" do
                words[#words + 1] = word
            end
            local status, said = cli.ends(support.spawn(words), 60)
            assert.equal(0, status, said)
            assert.matches("runs\n$", said)
        end
    end)

    local function served(i)
        return support.sh(("openssl s_client -connect localhost:%d < /dev/null 2> /dev/null | "
            .. "openssl x509 > %s/served; cmp -s %s/served %s/localhost.crt"):format(ports[i], home,
            home, home))
    end

    -- The two commands for a certificate; on each server. ca: the file that redis-cli is given.
    local function renew_certificates(ca)
        for i = 1, 3 do
            shell(step "-days 720")
            copy(i, "localhost.crt", "server.crt")
            assert.is_false(served(i) == true)
            assert.equal("OK\n", shell("export REDISCLI_AUTH=$(cat admin.password)\n"
                .. step "tls-cert-file":gsub("%-%-cacert ca.crt", "--cacert " .. ca), i))
            assert.is_true(served(i))
        end
    end

    local function load_users()
        for i = 1, 3 do
            copy(i, "users.acl")
            assert.equal("OK\n", shell("export REDISCLI_AUTH=$(cat admin.password)\n"
                .. step "ACL LOAD", i))
        end
        assert.equal("", shell(step "said="))
    end

    it("renews certificates, a password and the CA beside a program that locks", function()
        local p = support.lua(PROGRAM, { stderr = "stdout", env = environment() })
        assert.equal("begins", p:read_line(30))
        renew_certificates "ca.crt"

        shell(step "mv locks.password")
        load_users()
        shell(step "redlock.new")
        assert.equal("", shell(step "said="))
        shell(step ") //")
        load_users()
        assert.is_nil(sys.read_file(home .. "/users.acl"):find(sys.read_file(home
            .. "/old.password"):match "%x+", 1, true))

        shell(step "both.crt")
        shell "install -m 644 both.crt redlock.crt"
        renew_certificates "both.crt"
        shell "install -m 644 ca.crt redlock.crt"
        load_users()                                     -- new connections
        assert.equal("", shell(step "said="))
        sys.write_file(home .. "/stop", "")
        assert.same({ 0, "has ended\n" }, { cli.ends(p, 30) })
    end)

    it("replaces a server", function()
        servers[2]:kill "KILL"
        servers[2]:wait(10)
        start(2)
        assert.matches("verdict: ok\n$", shell(step "check --wait"))
    end)

    it("makes certificates of which no two end on one day", function()
        local dir = support.tmpdir()
        local p = support.spawn { "sh", "-ec", steps[1] .. [[

            for host in locks-1 locks-2 locks-3; do
                openssl x509 -in $host.crt -noout -enddate
            done]], cwd = dir, stdout = "pipe", stderr = "null" }
        local status, said = cli.ends(p, 60)
        assert.equal(0, status, said)
        local seen, n = {}, 0
        for day, year in said:gmatch "notAfter=(%a+ +%d+) [%d:]+ (%d+)" do
            assert.is_nil(seen[day .. year], said)
            seen[day .. year], n = true, n + 1
        end
        assert.equal(3, n)
    end)

    it("gives users the rules that the page on access explains", function()
        local function set(text)
            local rules = {}
            for rule in text:gmatch "[~&+%%][^%s`']+" do
                rules[rule:gsub("^~redlock:{app:%*}:fence$", "~redlock:{app:*}:*")] = true
            end
            return rules
        end
        local commands = {}
        for command in pages.text("examples/access/README.md")
            :match "\n## Least privilege\n(.-)\n%[Listing":gmatch "`ACL SETUSER ([^`]*)`" do
            commands[#commands + 1] = command
        end
        assert.same(set(table.concat(commands, " ")),
            set(pages.snippets(PAGE, "sh")[2]:match "rules='(.-)'"))
    end)
end)
