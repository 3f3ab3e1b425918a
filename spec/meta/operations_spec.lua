-- The page for whoever runs the servers: its snippets run, and its tables have all there is.
local cli = require "spec.support.command"
local pages = require "spec.support.pages"
local reference = require "spec.support.reference"
local support = require "spec.support"
local sys = require "spec.support.sys"

local PAGE = "examples/operations/README.md"

local function snippet(language, text)
    return pages.snippet(PAGE, language, text)
end

-- The text below a heading.
local function section(heading)
    return assert((pages.text(PAGE) .. "\n## "):match("\n## " .. heading .. "\n(.-)\n## "), heading)
end

describe("the page of operations", function()
    local cluster, home

    -- Three servers with the configuration that the page shows.
    local function start()
        local args = {}
        for name, value in (snippet("conf", "maxmemory") .. "\n"):gmatch "(%S+) ([^\n]+)\n" do
            args[#args + 1], args[#args + 2] = "--" .. name, value
        end
        cluster = support.cluster(3, { new = true, args = args })
        home = support.tmpdir()
        assert(support.sh(("ln -s %s %s/redlock"):format(cli.REDLOCK, home)))
    end

    before_each(start)

    local function shell(code, stderr)
        return support.spawn { "sh", "-ec", code, cwd = home, stdout = "pipe", stdin = "pipe",
            stderr = stderr, env = { HOME = home, PATH = home .. ":" .. os.getenv "PATH",
            REDLOCK_NODES = table.concat(cluster:uris(), " ") } }
    end

    it("has a configuration and a first start that check has no complaint of", function()
        local status, said = cli.ends(shell(snippet("sh", "redlock init")), 120)
        assert.equal(0, status, said)
        assert.is_nil(said:find "warning", said)
        assert.matches("verdict: ok\n$", said)
        local line = pages.snippets("examples/day-two/README.md", "conf")[1]
            :gsub("^%S+ %S+ %S+ %S+ %S+ ", "")     -- of cron
        assert.same({ 0, "" }, { cli.ends(shell(line), 300) })
        assert.equal(3, assert(support.warm_client(cluster, { cluster = false }):check()).voting)
    end)

    -- Short quarantines; more: another line of the configuration.
    local function configure(more)
        assert(support.sh("mkdir -p " .. home .. "/.config"))
        sys.write_file(home .. "/.config/redlock.conf", "max_lease = 1\nlease = 1\n" .. more)
    end

    it("has a setting and a command that name a cluster in use", function()
        configure ""
        assert.equal(0, (cli.ends(shell "redlock init", 120)))
        local status, said = cli.ends(shell(snippet("sh", "--new-cluster"), "stdout"), 120)
        assert.equal(0, status, said)
        cluster:each(function(server) assert.equal("orders", server:marked().cluster) end)
        status, said = cli.ends(shell("redlock check", "stdout"), 120)
        assert.equal(2, status, said)
        assert.matches("set the same `cluster` everywhere", said, 1, true)
        configure(snippet("conf", "cluster") .. "\n")
        status, said = cli.ends(shell "redlock check", 120)
        assert.equal(0, status, said)
    end)

    it("has a health check that says so in a file, and by its status", function()
        assert.equal(0, (cli.ends(shell "redlock init", 120)))
        sys.write_file(home .. "/alarm", "#!/bin/sh\necho alarm\n")
        assert(support.sh("chmod +x " .. home .. "/alarm"))
        local code = snippet("sh", "health.json")
        assert.same({ 0, "" }, { cli.ends(shell(code), 120) })
        assert.matches('"verdict": "ok", "voting": 3}', sys.read_file(home .. "/health.json"))
        for i, status in ipairs { 1, 2 } do
            cluster[i]:kill()
            assert.same({ 0, "alarm\n" }, { cli.ends(shell(code), 120) })
            assert.equal(status, (cli.ends(shell "redlock check", 120)))
        end
    end)
end)

describe("the tables of operations", function()
    local function says_all(words, text)
        local n = 0
        for word in pairs(words) do
            assert.truthy(text:find("`" .. word .. "`", 1, true), word)
            n = n + 1
        end
        return n
    end

    it("have every event", function()
        local events = {}
        for name, item in pairs(reference.model) do
            for _, field in ipairs(type(item) == "table" and item.fields or {}) do
                local word = field.name == "type" and field.type:match '"(.*)"'
                if word and name:find "Event$" then
                    events[word] = true
                end
            end
        end
        assert.is_true(says_all(events, section "Monitoring") >= 14)
    end)

    it("have counters that exist", function()
        local stats = {}
        for _, field in ipairs(reference.model["redlock.Stats"].fields) do
            stats[field.name] = true
        end
        for _, word in ipairs { "lost", "failed", "contended", "waiting", "overloaded" } do
            assert.is_true(stats[word], word)
            assert.truthy(section("Monitoring"):find("`" .. word .. "`", 1, true), word)
        end
    end)
end)
