-- The page of lists that change: its snippets run, in their order, and it explains all that the
-- command says meanwhile.
local cli = require "spec.support.command"
local pages = require "spec.support.pages"
local quarantine = require "spec.support.quarantine"
local support = require "spec.support"
local sys = require "spec.support.sys"

local PAGE = "examples/members/README.md"

describe("the page of lists that change", function()
    local cluster, home

    before_each(function()
        cluster, home = support.cluster(6, { new = true }), support.tmpdir()
        sys.write_file(home .. "/redlock.conf", ("max_lease = %g\nlease = 0.4\ntimeout = 2\n")
            :format(quarantine.MAX_LEASE))
        assert(support.sh(("cd %s && ln -s %s redlock && mkdir .config && mv redlock.conf .config")
            :format(home, cli.REDLOCK)))
    end)
    after_each(support.cleanup)

    -- Three servers of the cluster are 10.0.0.1 to 10.0.0.3, the others those that are new.
    local function shell(code)
        local nodes = {}
        for i, server in ipairs(cluster) do
            code = code:gsub("redis://10%.0%.0%." .. i, server.uri)
                :gsub("10%.0%.0%." .. i .. ":6379", "127.0.0.1:" .. server.port)
            nodes[i] = i <= 3 and server.uri or nil
        end
        local p = support.spawn { "sh", "-exc", code, cwd = home, stdout = "pipe", stdin = "pipe",
            stderr = "stdout", env = { HOME = home, PATH = home .. ":" .. os.getenv "PATH",
            REDLOCK_NODES = table.concat(nodes, " ") } }
        return cli.ends(p, 600)
    end

    -- What the page says that it says, as patterns.
    local function explained()
        local patterns = {}
        for text in pages.text(PAGE):gmatch "\n| `([^`]+)` |" do
            patterns[#patterns + 1] = "^" .. text:gsub("10%.0%.0%.4", "..."):gsub("%p", "%%%0")
                :gsub("%%%.%%%.%%%.", ".+")
        end
        return patterns
    end

    it("has snippets that do what it says", function()
        local known, told = explained(), {}
        assert.equal(0, (shell "redlock init"))
        for _, code in ipairs(pages.snippets(PAGE, "sh")) do
            local status, said = shell(code)
            assert(status == 0 or status == 1, said)       -- 1: by check, of the list
            for line in said:gmatch "redlock: ([^\n]+)" do
                local found
                for _, pattern in ipairs(known) do
                    found = found or line:find(pattern) and pattern
                end
                assert.truthy(found, line)
                told[found] = true
            end
        end
        for _, pattern in ipairs { known[1], known[4], known[5], known[6] } do
            assert.is_true(told[pattern], pattern)
        end
        local client = support.warm_client({ cluster[2], cluster[3], cluster[4] },
            quarantine.options { timeout = 2 })
        local nodes = {}
        local code = assert(pages.snippets(PAGE, "lua")[1])
        local function log(node, votes)
            assert.is_true(votes)
            nodes[node] = true
        end
        setfenv(assert(loadstring(code)), setmetatable({ client = client, log = log },
            { __index = _G }))()
        client:close()
        for i = 2, 6 do
            assert.is_true(nodes[cluster[i].uri])
        end
        assert.is_nil(nodes[cluster[1].uri])
    end)
end)
