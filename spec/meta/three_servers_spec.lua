-- The page that leads from `redlock dev` to three servers: each of its steps, in order.
local cli = require "spec.support.command"
local pages = require "spec.support.pages"
local support = require "spec.support"
local sys = require "spec.support.sys"

local PAGE = "examples/three-servers/README.md"

describe("from redlock dev to three servers", function()
    local home, servers

    -- All hosts are this one; /etc is a folder.
    local function here(text)
        return (text:gsub("locks%-%d", "localhost"):gsub("/etc/redi%w+", home)
            :gsub("/etc/redlock", home))
    end

    local function shell(code)
        local p = support.spawn { "sh", "-ec", here(code), cwd = home, stdout = "pipe",
            stderr = "stdout", env = { HOME = home, PATH = home .. ":" .. os.getenv "PATH",
            REDLOCK_CONFIG = home .. "/redlock.conf" } }
        local status, said = cli.ends(p, 300)
        assert.equal(0, status, said)
        return said
    end

    local function start(port)
        local dir = support.tmpdir()
        local conf = here(pages.snippets(PAGE, "conf")[1]):gsub("port 6379", "port " .. port)
            :gsub("bind [^\n]*", "bind 127.0.0.1 -::1"):gsub("/server%.", "/localhost.")
        sys.write_file(dir .. "/redis.conf", conf .. "\n")
        return support.spawn { os.getenv "REDIS_SERVER" or "redis-server", "redis.conf", cwd = dir,
            stdout = "null", stderr = "null" }
    end

    it("works step by step, as pasted", function()
        if not support.since(7, 0) then return pending "rules for reading need Redis 7.0" end
        local steps = pages.snippets(PAGE, "sh")
        home = support.tmpdir()
        assert(support.sh(("ln -s %s %s/redlock"):format(cli.REDLOCK, home)))
        shell(steps[1] .. "\n" .. steps[2])
        local ports, n = {}, 0
        servers = {}
        for i = 1, 3 do
            ports[i] = support.free_port()
            servers[i] = start(ports[i])
        end
        sys.write_file(home .. "/redlock.conf", here(pages.snippets(PAGE, "conf")[2])
            :gsub("rediss://localhost", function(uri)
                n = n + 1
                return uri .. ":" .. ports[n]
            end) .. "\nmax_lease = 6\nlease = 5\n")        -- for a short quarantine
        for i = 1, 3 do
            support.eventually(function() return support.connect(ports[i]) end, 20)
        end
        assert.matches("verdict: ok\n$", shell(steps[3]))
        assert.equal("", shell(steps[4]))
        sys.write_file(home .. "/first.lua", pages.snippets(PAGE, "lua")[1])
        assert.matches("^held with token\t%d+\n$", shell "redlock lua first.lua")
        servers[2]:kill "KILL"
        servers[2]:wait(10)
        servers[2] = start(ports[2])
        assert.matches("verdict: ok\n$", shell(steps[5]))
        for _, server in ipairs(servers) do
            server:kill "TERM"
            server:wait(10)
        end
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
