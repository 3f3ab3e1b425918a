-- redlock.from_environment: where it finds servers and options, and what it says of that. How the
-- command reads the same settings: cli/cli_settings_spec.
local cli = require "spec.support.command"
local support = require "spec.support"
local sys = require "spec.support.sys"

local NONE = { REDLOCK_NODES = false, REDLOCK_CONFIG = false, REDLOCK_CLUSTER = false,
    XDG_CONFIG_HOME = false, HOME = false }

describe("redlock.from_environment", function()
    local cluster, home, uris

    setup(function()
        cluster = support.cluster(3)
        uris = table.concat(cluster:uris(), " ")
    end)
    before_each(function() home = support.tmpdir() end)

    local function write(name, text)
        assert(support.sh(("mkdir -p $(dirname '%s/%s')"):format(home, name)))
        sys.write_file(home .. "/" .. name, text)
        return home .. "/" .. name
    end

    local function run(code, env, argv_prefix)
        local all = {}
        for name, value in pairs(NONE) do
            all[name] = value
        end
        for name, value in pairs(env) do
            all[name] = value
        end
        local p = support.lua('local redlock = require "redlock"\n' .. code, { env = all,
            stderr = "stdout", argv_prefix = argv_prefix })
        local status, said = cli.ends(p, 60)
        return (said:gsub("\n$", "")), status
    end

    -- Takes a lock; returns where the client says that its settings are from.
    local function source(env, opts)
        return (run(([[
            local seen = {}
            local opts = %s
            opts.on_event = function(e) seen[e.type] = e end
            local client = redlock.from_environment(opts)
            assert(client:getLock("x"):tryLock(5))
            local report = client:check()
            assert(seen.configured.source == report.source)
            assert(tostring(report):find("\nsettings from " .. report.source .. "\n", 1, true))
            print(report.source)
        ]]):format(opts or "{}"), env))
    end

    it("takes the servers of the environment, or of a file, in the command's order", function()
        local bad = "redis://127.0.0.1:1"
        local good = "nodes = " .. cluster[1].uri .. "\n  " .. cluster[2].uri .. " \\\n  "
            .. cluster[3].uri .. "\ncluster = spec\n"
        local file = write("a.conf", good)
        local own = write(".config/redlock.conf", good)
        local xdg = write("xdg/redlock.conf", good)
        local set = { REDLOCK_NODES = uris, REDLOCK_CLUSTER = "spec" }
        assert.equal("REDLOCK_NODES, REDLOCK_CLUSTER", source(set))
        set.REDLOCK_NODES = (uris:gsub(" ", ","))
        assert.equal("REDLOCK_NODES, REDLOCK_CLUSTER", source(set))
        assert.equal(file, source { REDLOCK_CONFIG = file, HOME = home })
        assert.equal(own, source { HOME = home, REDLOCK_NODES = "", XDG_CONFIG_HOME = "" })
        assert.equal(xdg, source { HOME = home, XDG_CONFIG_HOME = home .. "/xdg" })
        write("b.conf", "nodes = " .. bad .. "\ntimeout = 5\ncluster = spec")
        assert.equal("REDLOCK_NODES, " .. home .. "/b.conf",
            source { REDLOCK_NODES = uris, REDLOCK_CONFIG = home .. "/b.conf" })
        assert.equal("the program, " .. home .. "/b.conf", source({ REDLOCK_NODES = bad,
            REDLOCK_CONFIG = home .. "/b.conf" }, ("{ nodes = %q }"):format(uris)))
    end)

    -- A variable that one program has and another one lacks, such as a worker of nginx, would split
    -- the two. That is loud for servers and passwords, and silent for a prefix.
    it("reads a variable that names an option, or refuses it, never ignores it", function()
        local options = require "redlock.servers.options"
        local read = { cluster = "spec", user = "u", password = "p", password_file = "/f",
            password_env = "PW", ca_file = "/ca", cert_file = "/cert", key_file = "/key" }
        for _, row in ipairs(options.rows) do
            local name, variable = row.name, "REDLOCK_" .. row.name:upper()
            local value = read[name] or name == "prefix" and "app:" or "1"
            local said, status = run(([[
                local settings = require "redlock.servers.settings"
                local opts, from = settings.load()
                print(opts[%q], from.source)
            ]]):format(name), { REDLOCK_NODES = uris, [variable] = value })
            if read[name] then
                assert.equal(value .. "\tREDLOCK_NODES, " .. variable, said)
            else
                assert.equal(1, status)
                assert.matches("redlock: " .. variable .. ": .* settings file: " .. name .. " = ",
                    said)
            end
            assert.equal("REDLOCK_NODES", (run(([[
                print((select(2, require "redlock.servers.settings".load { %s = 1 })).source)
            ]]):format(name), { REDLOCK_NODES = uris, [variable] = value })))      -- options win
        end
    end)

    it("is not disturbed by what an orchestrator sets for a service named redlock", function()
        assert.equal("REDLOCK_NODES, REDLOCK_CLUSTER", source { REDLOCK_NODES = uris,
            REDLOCK_CLUSTER = "spec", REDLOCK_PORT = "tcp://10.0.0.1:6379",
            REDLOCK_NAME = "/a/redlock", REDLOCK_SERVICE_HOST = "10.0.0.1",
            REDLOCK_SERVICE_PORT = "6379", REDLOCK_PORT_6379_TCP_ADDR = "10.0.0.1",
            REDLOCK_PORT_6379_TCP_PROTO = "tcp" })
    end)

    it("lets variables win over the file, with whatever password", function()
        local file = write("p.conf", "user = a\npassword = b\n")
        local secret = write("pw", "c\n")
        assert.equal("a\tnil\t" .. secret, (run([[
            local opts = require "redlock.servers.settings".load()
            print(opts.user, opts.password, opts.password_file)
        ]], { REDLOCK_NODES = uris, REDLOCK_CONFIG = file, REDLOCK_PASSWORD_FILE = secret })))
    end)

    it("lets the program's options win", function()
        local file = write("c.conf", "timeout = 1\nlease = 20\npassword = x\ntls_verify = true\n")
        assert.equal("2\t20\tfalse\tspec", (run([[
            local o = redlock.from_environment { timeout = 2, tls_verify = false,
                password_env = "PW", cluster = "spec" }.options
            print(o.timeout, o.lease, o.tls_verify, o.cluster)
        ]], { REDLOCK_NODES = uris, REDLOCK_CONFIG = file, REDLOCK_CLUSTER = "other", PW = "y" })))
    end)

    it("takes paths in a file as relative to its folder, others as they are", function()
        local file = write("sub/c.conf", "password_file = own/pw\nca_file = ca.crt\n"
            .. "cert_file = /a.crt\nkey_file = false\n")
        local code = [[
            local o = redlock.from_environment({ key_file = "k" }).options
            print(o.nodes[1].password_file, o.ca_file, o.cert_file, o.key_file)
        ]]
        assert.equal(("%s/sub/own/pw\t%s/sub/ca.crt\t/a.crt\tk"):format(home, home),
            (run(code, { REDLOCK_NODES = uris, REDLOCK_CONFIG = file })))
        assert.equal("sub/own/pw\tsub/ca.crt\t/a.crt\tk", (run(code, { REDLOCK_NODES = uris,
            REDLOCK_CONFIG = "sub/c.conf" }, { "env", "-C", home })))
    end)

    it("raises at the caller's line, and says what to do", function()
        local text = run("\nredlock.from_environment()", { HOME = home })
        assert.matches("code.lua:3: redlock: no servers are given.*export REDLOCK_NODES='redis://"
            .. ".*/etc/redlock.conf.*redlock dev", text)
        assert.is_nil(text:find "nginx")
        assert.matches("code.lua:3: redlock: " .. home .. "/d.conf:2: timeout needs a number",
            run("\nredlock.from_environment()", { REDLOCK_NODES = uris,
                REDLOCK_CONFIG = write("d.conf", "\ntimeout = hunter2\n") }), 1, true)
        assert.matches("code.lua:3: redlock: bad options: unknown option 'nods'",
            run("\nredlock.from_environment { nods = 1 }", { REDLOCK_NODES = uris }), 1, true)
        assert.matches("code.lua:3: redlock: bad options: a table is needed, not string",
            run("\nredlock.from_environment 'redis://a'", { REDLOCK_NODES = uris }), 1, true)
        for _, call in ipairs { "redlock.new()", "redlock.new {}", "redlock.new { lease = 5 }" } do
            assert.matches("code.lua:3: redlock: bad option.*redlock.from_environment%(%)",
                run("\n" .. call, { REDLOCK_NODES = uris }))
        end
    end)

    it("warns of a file whose password everybody can read", function()
        local function findings(mode)
            local file = write("e.conf", "nodes = redis://:pw@127.0.0.1:1\n")
            assert(support.sh("chmod " .. mode .. " " .. file))
            return run([[
                for _, found in ipairs(redlock.from_environment():check().findings) do
                    print(found.kind, found.message)
                end
            ]], { REDLOCK_CONFIG = file })
        end
        assert.matches("^exposed\tevery user of this machine can read .*/e.conf", findings "644")
        assert.equal("", findings "600")
    end)

    -- The caller of a setuid program chooses its variables.
    it("ignores the caller's files and variables where it has more rights", function()
        if not support.sh "test $(id -u) = 0" then
            return pending "only root can make such a program here"
        end
        local file = write(".config/redlock.conf", "nodes = redis://127.0.0.1:1\n")
        assert(support.sh(([[chmod 755 %s && cp "$(readlink -f "$(command -v luajit)")" %s/raised &&
            chown nobody %s/raised]]):format(home, home, home)))
        local function says(mode, env)
            assert(support.sh(("chmod %s %s/raised"):format(mode, home)))
            local code = write("raised.lua", [[
                local client = require("redlock").from_environment()
                print(client:check().source)
            ]])
            local all = support.lua_env()
            for _, list in ipairs { NONE, env } do
                for name, value in pairs(list) do
                    all[name] = value
                end
            end
            local p = support.spawn { home .. "/raised", code, stdout = "pipe", stderr = "stdout",
                env = all }
            return (p:read_all(30))
        end
        for _, env in ipairs { { HOME = home }, { XDG_CONFIG_HOME = home .. "/.config" } } do
            assert.equal(file .. "\n", says("755", env))
            assert.matches("no servers are given", says("4755", env))
            env.REDLOCK_CONFIG = file
            assert.matches("no servers are given", says("4755", env))
            env.REDLOCK_CONFIG, env.REDLOCK_NODES = nil, uris
            assert.matches("no servers are given", says("4755", env))
        end
    end)

    describe("in nginx", function()
        local SERVER = [[location /worker { content_by_lua_block {
            local ok, made = pcall(redlock.from_environment)
            ngx.say(ok and made:check().source or made)
        } }
        location /master { content_by_lua_block { ngx.say(made:check().source) } }]]

        local function says(main)
            local ng = support.nginx { nodes = cluster, main = main, server = SERVER,
                init = "made = redlock.from_environment()", env = { REDLOCK_NODES = uris } }
            local master, worker = ng:get "/master", ng:get "/worker"
            ng:ends()
            assert.equal("REDLOCK_NODES\n", master)
            return worker
        end

        it("says which line nginx.conf needs, and works with it", function()
            local said = says ""
            assert.matches("no servers are given", said)
            assert.matches("\n  env REDLOCK_NODES;\n", said, 1, true)
            assert.equal("REDLOCK_NODES\n", says "env REDLOCK_NODES;")
        end)
    end)
end)
