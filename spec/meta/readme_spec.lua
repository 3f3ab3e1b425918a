-- README.md: what it shows runs as it stands there.
local build = require "spec.support.build"
local cli = require "spec.support.command"
local pages = require "spec.support.pages"
local redlock = require "redlock"
local support = require "spec.support"
local sys = require "spec.support.sys"

local README = pages.text "README.md"

-- The shell snippet that has this in it.
local function snippet(text)
    return pages.snippet("README.md", "sh", text)
end

describe("the README", function()
    local home

    before_each(function()
        home = support.tmpdir()
        assert(support.sh(("ln -s %s %s/redlock && ln -s %s/examples %s"):format(cli.REDLOCK, home,
            build.root, home)))
    end)

    local function env(nodes)
        local set = support.lua_env()
        set.HOME, set.PATH, set.REDLOCK_NODES = home, home .. ":" .. os.getenv "PATH", nodes
        return set
    end

    local function shell(code, opts)
        return support.spawn { "sh", "-ec", code, cwd = home, stdout = "pipe", stderr = "stdout",
            env = env(false), unpack(opts or {}) }
    end

    it("has a first lock that works as pasted, beside redlock dev", function()
        local dev = shell("exec " .. snippet "redlock dev")
        local export
        repeat
            local line = assert(dev:read_line(30))
            export = line:match "^%s*(export .*)$"
        until export
        sys.write_file(home .. "/first.lua", pages.snippets("README.md", "lua")[1])
        local program = export .. "\n" .. README:match "run `(luajit first.lua)`"
        local status, said = cli.ends(shell(program), 120)
        assert.equal(0, status, said)
        assert.matches("^held, for [23]%d s and longer\ntrue\t3\n$", said)
        -- Somebody else has it for longer than it waits.
        local holder = shell(export
            .. "\nexec redlock run invoice:42 -- sh -c 'echo in; exec sleep 60'")
        assert.equal("in", holder:read_line(20))
        status, said = cli.ends(shell(program), 120)
        assert.equal(0, status, said)
        assert.equal("somebody else has it\n", said)
        holder:kill "TERM"
        holder:wait(10)
        dev:kill "INT"
        assert.equal(0, dev:wait(20))
        -- The settings are gone with the servers.
        status, said = cli.ends(shell(program), 120)
        assert.equal(1, status)
        assert.matches("redlock: the configuration cannot be read: .*No such file", said)
        -- And nobody answers.
        status, said = cli.ends(shell("export REDLOCK_NODES=redis://127.0.0.1:1\n"
            .. "luajit first.lua"), 120)
        assert.equal(1, status)
        assert.matches("redlock: no_quorum: .* refused", said)
    end)

    it("has commands that work", function()
        local cluster = support.cluster(3, { unnamed = true })
        sys.write_file(home .. "/report", "#!/bin/sh\necho $REDLOCK_NAME\n")
        assert(support.sh(([[cd %s && chmod +x report && ln report deploy &&
            ln report scheduler]]):format(home)))
        local p = support.spawn { "sh", "-ec", snippet "redlock run", cwd = home, stdout = "pipe",
            stderr = "stdout", env = env(table.concat(cluster:uris(), " ")) }
        local status, said = cli.ends(p, 300)
        assert.equal(0, status, said)
        assert.matches("^nightly\ndeploy:web\nscheduler\n.*\nverdict: ok\n", said)
    end)

    it("is read within minutes", function()
        assert.is_true(select(2, README:gsub("\n", "")) <= 150)
        assert.is_true(select(2, README:gsub("%S+", "")) <= 1150)
    end)

    -- The spec of SAFETY.md has the names; here are those that a reader must find.
    it("makes all promises of SAFETY.md", function()
        for name in pages.text("spec/SAFETY.md"):gmatch "\n| %*%*(P%d)%*%* " do
            assert.truthy(README:find("**" .. name .. "**", 1, true), name)
        end
    end)

    it("names a lock for each need", function()
        local client = redlock.new { nodes = "redis://127.0.0.1:1" }
        local objects = { client = client, redlock = redlock }
        local named = {}
        for of, method in README:match "\n## Which lock.-\n## "
            :gmatch "`(%l+)[:.](%w+)[ (]" do
            assert.is_function(objects[of][method], method)
            named[method] = true
        end
        for name, fn in pairs(getmetatable(client).__index) do
            if type(fn) == "function" and name:find "^get%u" then
                assert.is_true(named[name] or name == "getPermitExpirableSemaphore", name)
            end
        end
    end)
end)

describe("the recorded numbers", function()
    local cycle, benches = pages.text "spec/bench/cycle.txt", pages.text "spec/bench/README.md"

    it("are those that the README shows", function()
        for n, ours, floor in README:gmatch "\n| on (%d) servers? | (%d+) us | (%d+) us |" do
            local function p50(name)
                return tonumber(cycle:match("\n" .. n .. "   " .. name .. " +([%d.]+)"))
            end
            assert.is_true(math.abs(p50 "redlock" - ours) <= 0.5, n)
            assert.is_true(math.abs(p50 "floor, guarded" - floor) <= 0.5, n)
        end
        for name, n, times in README:gmatch "(%a+) %((%d) %a+[^)]*%)%s+took (%d+) times" do
            assert.truthy(benches:find(("\n| %s | %d | %d.0 |"):format(name, n, times), 1, true))
        end
        for name, times in README:gmatch "([%w-]+) %(1 server%) ([%d.]+) times" do
            name = name:gsub("%-", "%%-")
            assert.matches(("\n| %s[^|]* | 1 | %s |"):format(name, times), benches)
        end
    end)
end)

describe("the pictures", function()
    it("say in words what they show, and show what they say", function()
        local svg = pages.text "examples/redlock.svg"
        assert.equal(5, select(2, svg:gsub(">server %d<", "")))
        assert.equal(3, select(2, svg:gsub(">yes<", "")))
        svg = pages.text "examples/locks/acquire.svg"
        assert.equal(3, select(2, svg:gsub(">server %d: ", "")))
        assert.equal(2, select(2, svg:gsub(">yes<", "")))
    end)

    -- On a telephone, which shows it 343 px wide, its letters have 12 px.
    it("can be read on a telephone, by day and by night", function()
        for _, path in ipairs { "examples/redlock.svg", "examples/locks/acquire.svg" } do
            local svg = pages.text(path)
            assert.matches("<desc id=\"story\">[^<]+</desc>", svg)
            assert.matches("prefers%-color%-scheme: dark", svg)
        end
        local svg = pages.text "examples/locks/acquire.svg"
        local width, size = svg:match 'viewBox="0 0 (%d+) %d+".- font%-size="(%d+)"'
        assert.is_true(size * 343 / width >= 12)
    end)
end)
