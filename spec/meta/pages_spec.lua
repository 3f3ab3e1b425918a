-- The pages: every snippet runs, links lead somewhere, and what tables name exists.
local build = require "spec.support.build"
local cli = require "spec.support.command"
local dbi = require "DBI"
local pages = require "spec.support.pages"
local redlock = require "redlock"
local support = require "spec.support"
local sys = require "spec.support.sys"

-- Pages whose snippets have specs of their own: readme_spec, operations_spec, testing/page_spec,
-- three_servers_spec, kubernetes_spec.
local ELSEWHERE = { ["README.md"] = true, ["examples/operations/README.md"] = true,
    ["examples/day-two/README.md"] = true, ["examples/kubernetes/README.md"] = true,
    ["examples/testing/README.md"] = true,
    ["examples/three-servers/README.md"] = true }

-- Pages that begin with what needs more: certificates, a client of Redis, nginx, no server at all.
local NOT_PASTED = { ["examples/access/README.md"] = true, ["examples/fencing/README.md"] = true,
    ["examples/from-resty-lock/README.md"] = true, ["examples/testing/README.md"] = true }

describe("the pages", function()
    it("can be reached from the README", function()
        local reached = {}
        local function read(path)
            if not reached[path] then
                reached[path] = true
                for _, link in ipairs(path:find "%.md$" and pages.links(path) or {}) do
                    read(link[1])
                end
            end
        end
        read "README.md"
        for _, path in ipairs(pages.list) do
            assert.truthy(reached[path], path)
        end
    end)

    it("lead somewhere by their links", function()
        local n = 0
        for _, path in ipairs(pages.list) do
            for _, link in ipairs(pages.links(path)) do
                local target, anchor = link[1], link[2]
                assert.is_true(support.sh("test -e " .. build.root .. "/" .. target),
                    path .. ": " .. target)
                assert.truthy(anchor == "" or pages.anchors(target)[anchor],
                    path .. ": " .. target .. "#" .. anchor)
                n = n + 1
            end
        end
        assert.is_true(n > 100, n)
    end)

    it("name what make can make", function()
        local n = 0
        for _, path in ipairs(pages.list) do
            for target in pages.text(path):gmatch "[`\n]make ([%l-]+)" do
                assert.is_true(pages.is_target(target), path .. ": " .. target)
                n = n + 1
            end
            for rockspec in pages.text(path):gmatch "rockspec/[%w-]+%.rockspec" do
                assert.is_string(pages.text(rockspec))
            end
        end
        assert.is_true(n > 20, n)
    end)

    it("say in the same words what becomes of whatever may outlive max_lease", function()
        local words = 'What lasts longer than `max_lease` is forgotten if a majority of the '
            .. 'servers lose their memory meanwhile, even one by one, as in a rolling restart: '
            .. 'where that does harm, keep "done" in a table of your own.'
        for path, times in pairs { ["examples/kinds/README.md"] = 1,
            ["lua/redlock/types/family.lua"] = 1, ["lua/redlock/types/lock.lua"] = 1,
            ["lua/redlock/types/client.lua"] = 1 } do
            local text, n, at = pages.text(path):gsub("\n%-%-%-", " "):gsub("%s+", " "), 0, 0
            repeat
                at = text:find(words, at + 1, true)
                n = n + (at and 1 or 0)
            until not at
            assert.equal(times, n, path)
        end
    end)

    it("have snippets of known languages only, of which each is run", function()
        local known = { lua = true, sh = true, nginx = true, sql = true, conf = true }
        for _, path in ipairs(pages.list) do
            for language, n in pairs(pages.languages(path)) do
                assert.is_true(known[language], path .. ": " .. language)
                assert.equal(n, #pages.snippets(path, language), path)
            end
            -- Commands are no indented text.
            assert.is_nil(pages.text(path):find "\n\n    %l", path)
        end
    end)

    it("name methods that exist", function()
        local client = redlock.new { nodes = "redis://127.0.0.1:1" }
        local objects = { client = client, lock = client:getFencedLock "x", l = client:getLock "x" }
        local n = 0
        for _, path in ipairs(pages.list) do
            for of, method in pages.text(path):gmatch "%f[%w](%l+):(%a+)%(" do
                if objects[of] and not path:find "from%-resty%-lock" then
                    assert.is_function(objects[of][method], path .. ": " .. of .. ":" .. method)
                    n = n + 1
                end
            end
        end
        assert.is_true(n > 100, n)
    end)
end)

describe("the snippets of pages", function()
    local cluster = support.shared_cluster(3, { unnamed = true })
    local home

    before_each(function() home = support.tmpdir() end)

    -- A client of Redis with a method for each command, for what is kept beside locks.
    local function commands(done)
        local conn = support.connect(cluster[1].port)
        return setmetatable({}, { __index = function(_, command)
            return function(_, ...)
                done.n = done.n + 1
                return conn:call(command:upper(), ...)
            end
        end })
    end

    -- What snippets are given: a client, its servers, and work to do.
    local function given(client, done)
        local function work()
            done.n = done.n + 1
        end
        return setmetatable({ client = client, work = work, log = work, red = commands(done) },
            { __index = _G })
    end

    -- What locks count with may stay, and what they protect.
    local function nothing_held()
        local n = 0
        cluster:each(function(s)
            for _, key in ipairs(s:call("KEYS", "*")) do
                n = n + (not (key:find "^redlock:{" or key:find "^stock:7%f[:%z]"
                    and not key:find ":lock$") and 1 or 0)
            end
        end)
        return n == 0
    end

    -- In a program of its own, as pasted beside `redlock dev`.
    local function run_program(path, code)
        local p = support.lua(code, { stderr = "stdout", cwd = build.root, env = { HOME = home,
            REDLOCK_NODES = table.concat(cluster:uris(), " ") } })
        local status, said = cli.ends(p, 60)
        assert.equal(0, status, said)
        assert.matches("%S", said, path)
    end

    local function run_with_client(path, code)
        local client, done = support.warm_client(cluster), { n = 0 }
        setfenv(assert(loadstring(code, "=" .. path)), given(client, done))()
        assert.is_true(done.n > 0 or code:find "redlock\"%)%.new" ~= nil)
        assert.equal(0, client:stats().lost)
        client:close()
    end

    local function run_lua(path, code)
        (code:find "from_environment" and run_program or run_with_client)(path, code)
        -- A period stays closed behind its run.
        support.eventually(function() return nothing_held() == not code:find ":once" end)
    end

    -- Where programs are that the snippets start, each of which says that it was.
    local function at_home()
        sys.write_file(home .. "/done", "#!/bin/sh\necho done >> " .. home .. "/log\n")
        assert(support.sh(([[cd %s && chmod +x done && ln -s %s/examples examples &&
            ln -s %s redlock && mkdir jobs migrations && : > jobs/1 &&
            for c in report scheduler work app migrate charge restart healthy deploy export \
                     download backup transfer send; do
                ln -s done $c; done]]):format(home, build.root, cli.REDLOCK)))
    end

    local function run_sh(code)
        if code:find "%.db" and not support.sh "command -v sqlite3 > /dev/null" then
            return pending "no sqlite3 here"
        end
        at_home()
        local p = support.spawn { "sh", "-ec", code, cwd = home, stdout = "pipe",
            stderr = "stdout", env = { HOME = home, PATH = home .. ":" .. os.getenv "PATH",
            REDLOCK_NODES = table.concat(cluster:uris(), " ") } }
        local status, said = cli.ends(p, 300)
        assert.equal(0, status, said)
        local log = sys.read_file(home .. "/log")
        assert.equal(code:find "%./" ~= nil, log ~= nil, said)
    end

    -- The first one and each other one, beside the same servers, which keep what the others left.
    it("stand in nobody's way, and need the first one only", function()
        local begin = "local function work(...) return ... end\nlocal log = print\n"
        for _, path in ipairs(pages.list) do
            local list = pages.snippets(path, "lua")
            for i = 2, (NOT_PASTED[path] or ELSEWHERE[path]) and 0 or #list do
                local p = support.lua(begin .. list[1] .. "\n" .. list[i], { stderr = "stdout",
                    cwd = build.root, env = { HOME = home,
                        REDLOCK_NODES = table.concat(cluster:uris(), " ") } })
                local status, said = cli.ends(p, 60)
                assert.equal(0, status, ("%s, Lua %d: %s"):format(path, i, said))
            end
        end
    end)

    it("begin with one that can be pasted beside `redlock dev`", function()
        for _, path in ipairs(pages.list) do
            local first = pages.snippets(path, "lua")[1]
            if first and not NOT_PASTED[path] then
                assert.matches("redlock\"?%)?%.from_environment", first, path)
            end
        end
    end)

    for _, path in ipairs(pages.list) do
        if not ELSEWHERE[path] then
            for i, code in ipairs(pages.snippets(path, "lua")) do
                it(("run: %s, Lua %d"):format(path, i), function() run_lua(path, code) end)
            end
            for i, code in ipairs(pages.snippets(path, "sh")) do
                it(("run: %s, shell %d"):format(path, i), function() return run_sh(code) end)
            end
        end
    end

    -- A snippet for nginx with the servers of the specs: what it answers at a path; which lock it
    -- takes, and its status and log while somebody else has that.
    local function in_nginx(path, location, answer, name, complaint)
        local init, server = pages.nginx(path, 1)
        local nodes = table.concat(cluster:uris(), '", "')
        init = init:gsub("nodes = %b{}", 'nodes = { "' .. nodes .. '" }')
        local ng = support.nginx { nodes = cluster, init = init, server = server }
        assert.equal(answer, (ng:get(location)))
        support.eventually(nothing_held)
        local other = support.warm_client(cluster)
        assert(other:getLock(name):tryLock(5))
        local _, status = ng:get(location)
        local log, query = ng:log(), location:match "^.*="
        if query then                          -- without what a name is made of
            assert.equal(400, (select(2, ng:get(query))))
        end
        other:close()
        ng:ends("QUIT", complaint)
        return status, log
    end

    it("run: from-resty-lock, in nginx", function()
        local status, log = in_nginx("examples/from-resty-lock/README.md", "/page",
            "made under a lock\n", "my_locks:page", "timeout")
        assert.equal(503, status)
        assert.matches("timeout", log)
    end)

    it("run: nginx, in nginx", function()
        assert.equal(503, (in_nginx("examples/nginx/README.md", "/charge?id=7", "charged\n",
            "invoice:7")))
    end)

    it("run: gateway, in nginx", function()
        local status, log = in_nginx("examples/gateway/README.md", "/charge", "charged\n",
            "gateway:invoice:42", "held")
        assert.equal(503, status)
        assert.matches("redlock: held: ", log)
    end)

    it("run: README, in nginx", function()
        local status, log = in_nginx("README.md", "/charge", "charged\n", "invoice:42")
        assert.equal(503, status)
        assert.is_nil(log:find "%[error%][^\n]*redlock: held: ")     -- no fault
    end)

    it("run: fencing, in SQL", function()
        local db = assert(dbi.Connect("SQLite3", home .. "/bank.db"))
        db:autocommit(true)
        local function run(sql, ...)
            local statement = assert(db:prepare(sql))
            assert(statement:execute(...))
            return statement
        end
        run "CREATE TABLE account (id INTEGER, balance INTEGER)"
        run "INSERT INTO account VALUES (7, 100)"
        run(pages.snippets("examples/fencing/README.md", "sql")[1])
        local given_names = {}
        local sql = pages.snippets("examples/fencing/README.md", "sql")[2]:gsub(":(%l+)",
            function(name)
                given_names[#given_names + 1] = name
                return "?"
            end)
        local function write(values)
            local args = {}
            for i, name in ipairs(given_names) do
                args[i] = assert(values[name], name)
            end
            return run(sql, unpack(args)):affected()
        end
        assert.equal(1, write { b = 105, t = 34, id = 7 })
        assert.equal(0, write { b = 110, t = 33, id = 7 })
        assert.equal(1, write { b = 106, t = 34, id = 7 })
        assert.equal(106, run("SELECT balance FROM account"):fetch(true).balance)
    end)
end)
