-- What operators do to servers that programs use: the page's commands, beside programs that lock
-- all the time. Its other rows are in change_spec, three_servers_spec and versions_spec.
local cli = require "spec.support.command"
local locking = require "spec.support.locking"
local pages = require "spec.support.pages"
local support = require "spec.support"
local sys = require "spec.support.sys"

local PAGE = "examples/day-two/README.md"

local function snippet(pattern)
    for _, code in ipairs(pages.snippets(PAGE, "sh")) do
        if code:find(pattern) then
            return code
        end
    end
    error("no snippet has " .. pattern)
end

describe("on the second day", function()
    local cluster, home, programs, lease

    local function configure(max_lease)
        lease = max_lease
        sys.write_file(home .. "/redlock.conf", ("max_lease = %g\nlease = %g\ntimeout = 1\n"
            .. "nodes = %s\n"):format(max_lease, max_lease, table.concat(cluster:uris(), " ")))
    end

    local function environment(more)
        local env = { HOME = home, PATH = home .. ":" .. os.getenv "PATH",
            REDLOCK_NODES = table.concat(cluster:uris(), " "), REDLOCK_CLUSTER = false,
            REDLOCK_CONFIG = home .. "/redlock.conf" }
        for name, value in pairs(more or {}) do
            env[name] = value
        end
        return env
    end

    -- off: by how much the clock of the third server is wrong.
    local function begin(off)
        cluster = support.cluster(3, { new = true, clocks = true })
        cluster[3]:stop()
        cluster[3].clock:set(off)
        cluster[3]:start()
        home = support.tmpdir()
        assert(support.sh(("ln -s %s %s/redlock"):format(cli.REDLOCK, home)))
        configure(2)
        programs = locking.start(4, environment())
        local status, said = cli.ends(support.spawn { cli.REDLOCK, "check", "--wait",
            stdout = "pipe", env = environment() }, 60)
        assert.equal(off == 0 and 0 or 1, status, said)
    end

    -- Runs commands of the page. Those of the operator's that are named print what they are told
    -- and wait; act(words) does it.
    local function run(code, commands, act)
        for _, name in ipairs(commands or {}) do
            sys.write_file(home .. "/" .. name, "#!/bin/sh\necho \"does $*\"\nread answer\n")
            assert(support.sh(("chmod +x %s/%s"):format(home, name)))
        end
        local p = support.spawn { "sh", "-ec", code, cwd = home, stdin = "pipe", stdout = "pipe",
            env = environment() }
        local said = {}
        for line in function() return p:read_line(60) end do
            local words = line:match "^does (.*)$"
            said[#said + 1] = line
            if words then
                act(words)
                p:write "done\n"
            end
        end
        said = table.concat(said, "\n")
        assert.equal(0, p:wait(10), said)
        assert.matches("verdict: ok$", said)
    end

    -- Ends the programs: none has seen anything.
    local function unnoticed()
        local seen = programs:stop()
        assert.same({ 0, 0, 0, 0 }, { seen.refused, seen.lost, seen.twice, seen.back }, seen.errors)
        assert.is_true(seen.longest < 2, seen.longest)
    end

    it("servers are upgraded one after another", function()
        begin(0)
        local restarted = {}
        run(snippet "/restart", { "restart" }, function(uri)
            for i = 1, 3 do
                if cluster[i].uri == uri then
                    restarted[#restarted + 1] = i
                    cluster[i]:stop():start()
                end
            end
        end)
        assert.same({ 1, 2, 3 }, restarted)
        unnoticed()
    end)

    it("a server is replaced behind its name", function()
        begin(0)
        cluster[2]:kill()
        cluster[2]:start()                -- an empty one: these servers write nothing to disk
        run "redlock check --wait"
        unnoticed()
    end)

    it("the clock of a server is set", function()
        begin(120)
        run(snippet "makestep" .. "\nredlock check --wait", { "systemctl", "chronyc" },
            function(words)
                if words:find "^stop " then
                    cluster[3]:stop()
                elseif words == "makestep" then
                    cluster[3].clock:set(0)
                else
                    cluster[3]:start()
                end
            end)
        unnoticed()
    end)

    it("all servers lose their memory at once", function()
        begin(0)
        for i = 1, 3 do
            cluster[i]:kill()
        end
        for i = 1, 3 do
            cluster[i]:start()
        end
        run(snippet "^redlock check %-%-wait$")
        local seen = programs:stop()
        assert.same({ 0, 0 }, { seen.twice, seen.back }, seen.errors)
        assert.is_true(seen.lost >= 4, seen.lost)
        local quarantine = lease * 1.01 + 1
        assert.is_true(seen.longest > quarantine and seen.longest < quarantine + 8, seen.longest)
    end)

    it("another number of servers is named, and all of them vote", function()
        begin(0)
        local uris = cluster:uris()
        uris[4], uris[5] = support.server().uri, support.server().uri
        local p = support.spawn { "sh", "-ec", snippet "change %$NEW", cwd = home, stdout = "pipe",
            stderr = "stdout", env = environment { NEW = table.concat(uris, " ") } }
        local status, said = cli.ends(p, 60)
        assert.equal(0, status, said)
        assert.matches("5 of 5 servers vote", said, 1, true)
        local seen = programs:stop()                     -- to the end with the old list
        assert.same({ 0, 0 }, { seen.twice, seen.back }, seen.errors)
        assert.matches("redlock: config: ", seen.errors)
    end)

    it("another max_lease is set", function()
        begin(0)
        local seen = programs:stop()
        assert.equal(0, seen.refused, seen.errors)
        configure(3)
        support.sleep(2)                  -- the longest lease, as the page says
        run(snippet "%-%-force")
        programs = locking.start(2, environment())
        unnoticed()
        assert.equal(3000, cluster[1]:marked().max_lease)
    end)
end)
