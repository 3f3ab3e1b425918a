-- The pages in examples/: every snippet runs, links lead to files, and what tables name exists.
local build = require "spec.support.build"
local cli = require "spec.support.command"
local redlock = require "redlock"
local support = require "spec.support"
local sys = require "spec.support.sys"

local EXAMPLES = build.root .. "/examples/"

local pages = {}
for path in io.popen("cd " .. EXAMPLES .. " && find . -name README.md | sort"):lines() do
    pages[#pages + 1] = path:match "^%./(.*)/README.md$"
end

local function text_of(page)
    return assert(sys.read_file(EXAMPLES .. page .. "/README.md"))
end

-- The snippets of a language, in the order of the page.
local function snippets(page, language)
    local list = {}
    for code in text_of(page):gmatch("\n```" .. language .. "\n(.-)\n```\n") do
        list[#list + 1] = code
    end
    return list
end

describe("the pages of examples/", function()
    local cluster, home

    setup(function() cluster = support.cluster(3) end)
    before_each(function()
        cluster:flush()
        home = support.tmpdir()
    end)
    teardown(support.cleanup)

    it("are there", function()
        assert.same({ "from-redisson", "from-redsync-and-node-redlock", "from-resty-lock",
            "recipes" }, pages)
        local readme = sys.read_file(build.root .. "/README.md")
        for _, page in ipairs(pages) do
            assert.truthy(readme:find("(examples/" .. page .. "/README.md)", 1, true), page)
        end
    end)

    it("have snippets of known languages only", function()
        local known = { lua = true, sh = true, nginx = true }
        for _, page in ipairs(pages) do
            local n = 0
            for language in text_of(page):gmatch "\n```(%a+)\n" do
                assert.is_true(known[language], page .. ": " .. language)
                n = n + 1
            end
            assert.is_true(n > 1, page)
        end
    end)

    -- What snippets are given: a client, its servers, and work to do.
    local function given(client, done)
        local function work()
            done.n = done.n + 1
        end
        return setmetatable({ client = client, redlock = redlock, servers = cluster:uris(),
            work = work, charge = work, log = work }, { __index = _G })
    end

    -- What locks count with may stay.
    local function nothing_held()
        local n = 0
        cluster:each(function(s)
            for _, key in ipairs(s:call("KEYS", "*")) do
                n = n + (key:find "^redlock:{" and 0 or 1)
            end
        end)
        return n == 0
    end

    for _, page in ipairs(pages) do
        for i, code in ipairs(snippets(page, "lua")) do
            it(("run: %s, Lua %d"):format(page, i), function()
                local client, done = support.warm_client(cluster), { n = 0 }
                setfenv(assert(loadstring(code, "=" .. page)), given(client, done))()
                assert.is_true(done.n > 0 or code:find "prefix" ~= nil)
                assert.equal(0, client:stats().lost)
                client:close()
                -- A period stays closed behind its run.
                support.eventually(function() return nothing_held() == not code:find ":once" end)
            end)
        end
        for i, code in ipairs(snippets(page, "sh")) do
            it(("run: %s, shell %d"):format(page, i), function()
                sys.write_file(home .. "/done", "#!/bin/sh\necho done >> " .. home .. "/log\n")
                assert(support.sh(([[cd %s && chmod +x done && ln -s %sexamples examples &&
                    ln -s %s redlock && mkdir jobs migrations && : > jobs/1 &&
                    for c in report scheduler work app migrate charge restart healthy; do
                        ln -s done $c; done]]):format(home, build.root .. "/", cli.REDLOCK)))
                local p = support.spawn { "sh", "-ec", code, cwd = home, stdout = "pipe",
                    stderr = "stdout", env = { HOME = home, PATH = home .. ":" .. os.getenv "PATH",
                    REDLOCK_NODES = table.concat(cluster:uris(), " ") } }
                local status, said = cli.ends(p)
                assert.equal(0, status, said)
                local log = sys.read_file(home .. "/log")
                assert.equal(code:find "%./" ~= nil, log ~= nil, said)
            end)
        end
    end

    it("run: from-resty-lock, in nginx", function()
        local code = snippets("from-resty-lock", "nginx")[1]
        for i, server in ipairs(cluster) do
            code = code:gsub("10.0.0." .. i .. '"', "127.0.0.1:" .. server.port .. '"')
        end
        local init, rest = code:match "^init_by_lua_block (%b{})\n(.*)$"
        local ng = support.nginx { nodes = cluster, init = init:match "^{(.*)}$", server = rest }
        assert.equal("made under a lock\n", (ng:get "/page"))
        support.eventually(nothing_held)
        local other = support.warm_client(cluster)
        assert(other:getLock("my_locks:page"):tryLock(5))
        local _, status = ng:get "/page"
        assert.equal(503, status)
        assert.matches("timeout", ng:log())
        other:close()
        ng:ends("QUIT", "timeout")
    end)

    it("lead somewhere by their links", function()
        local n = 0
        for _, page in ipairs(pages) do
            for link in text_of(page):gmatch "%]%(([^)#]+)[^)]*%)" do
                assert.truthy(sys.read_file(EXAMPLES .. page .. "/" .. link), page .. ": " .. link)
                n = n + 1
            end
        end
        assert.is_true(n > 10)
    end)

    it("name methods and options that exist", function()
        local client = redlock.new { nodes = "redis://127.0.0.1:1" }
        local objects = { client = client, lock = client:getFencedLock "x", l = client:getLock "x" }
        local n = 0
        for _, page in ipairs(pages) do
            for of, method in text_of(page):gmatch "%f[%w](%l+):(%a+)%(" do
                if objects[of] and page ~= "from-resty-lock" then
                    assert.is_function(objects[of][method], page .. ": " .. of .. ":" .. method)
                    n = n + 1
                end
            end
        end
        assert.is_true(n > 40, n)
        local defaults = require("redlock.api.options").defaults
        for option, value in text_of "from-redisson":gmatch "`([%l_]+)` %((%d+)" do
            assert.equal(tonumber(value), defaults[option], option)
        end
        assert.equal(0.01, defaults.drift_factor)
        assert.equal(60, defaults.max_lease)
    end)

    -- What the page on redsync and node-redlock says of both kinds under one name.
    it("say who excludes whom", function()
        local client = support.warm_client(cluster)
        local function theirs(name)
            local n = 0
            cluster:each(function(s)
                n = n + (s:call("SET", name, "theirs", "NX", "PX", 8000) == "OK" and 1 or 0)
            end)
            return n
        end
        for _, lock in ipairs { client:getLock "a", client:getFencedLock "a" } do
            assert(lock:tryLock(5))
            support.eventually(function() return theirs "a" == 0 end)
            assert(lock:unlock())
            support.eventually(function() return theirs "a" == 3 end)
            support.fails("held", lock:tryLock())
            cluster:flush()
        end
        -- Redisson's is a hash.
        cluster:each(function(s) s:call("HSET", "a", "uuid:1", 1) end)
        support.fails("held", client:getLock("a"):tryLock())
        client:close()
    end)
end)
