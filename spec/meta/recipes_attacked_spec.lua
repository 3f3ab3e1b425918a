-- What people copy from examples/ holds under attack: names from outside, death between any two
-- changes of files, full disks, missing folders, two runs at once, and locks lost in the middle.
local build = require "spec.support.build"
local cli = require "spec.support.command"
local support = require "spec.support"
local sys = require "spec.support.sys"

local OLD, NEW = "old", "new"
local CUT, TOO_FEW = 99, 98                             -- of cut.c
local EXAMPLES = build.root .. "/examples/"
local HOSTILE = "-it's \"$(touch owned)\";touch owned\n*"

local function have(program)
    return support.sh("command -v " .. program .. " > /dev/null")
end

local function mkdir(path)
    assert(support.spawn({ "mkdir", "-p", "--", path }):wait(20) == 0)
end

local function read(path)
    return sys.read_file(path) or ""
end

local function sql(database, text)
    local p = support.spawn { "sqlite3", database, text, stdout = "pipe", stderr = "stdout" }
    return p:read_all(20)
end

-- Of each recipe: `prepare` makes what it works on in a folder and returns its arguments; `state`
-- says whether that is OLD or NEW, and fails if it is neither; `names` are those of its locks.
local recipes = {
    { "recipes/config_store.lua",
        prepare = function(file)
            sys.write_file(file, "colour = blue\n")
            return { file, "set", "size", "7" }
        end,
        state = function(file)
            local text = read(file)
            assert.truthy(text:find("colour = blue\n", 1, true), text)
            assert.is_true(#text == #"colour = blue\n" or text:find "size = 7\n" ~= nil, text)
            return text:find "size" and NEW or OLD
        end,
        names = function(file) return { "config:" .. file } end },
    { "recipes/shell_pipeline.sh",
        prepare = function(file)
            sys.write_file(file, "the old one\n")
            return { file, "printf", "b\na\nb\n" }
        end,
        state = function(file)
            local text = read(file)
            if text == "the old one\n" then return OLD end
            assert.matches("^%s+1 a\n%s+2 b\n$", text)
            return NEW
        end,
        names = function(file) return { "pipeline:" .. file } end },
    { "recipes/migrate.sh", needs = "sqlite3",
        prepare = function(file)
            mkdir(file .. ".d")
            sys.write_file(file .. ".d/1.sql", "CREATE TABLE t (n);")
            sys.write_file(file .. ".d/2.sql", "INSERT INTO t VALUES (1);\n")
            return { file, file .. ".d", "touch", "--", file .. ".started" }
        end,
        state = function(file)
            local version = sql(file, "PRAGMA user_version")
            local rows = version ~= "0\n" and sql(file, "SELECT count(*) FROM t") or "0\n"
            assert.equal(version == "2\n" and "1\n" or "0\n", rows)
            if sys.read_file(file .. ".started") then
                assert.equal("2\n", version)
                return NEW
            end
            return OLD
        end,
        names = function(file) return { "migrate:" .. file } end },
    { "recipes/nightly.sh", needs = "sqlite3", alone = true,
        prepare = function(file)
            sql(file, "CREATE TABLE t (n)")
            return { file, "echo", "INSERT INTO t VALUES (1); INSERT INTO t VALUES (2);" }
        end,
        state = function(file)
            local rows = tonumber(sql(file, "SELECT count(*) FROM t"))
            assert.equal(0, rows % 2)
            return rows > 0 and NEW or OLD
        end,
        names = function() return { "nightly" } end },
    { "recipes/worker_pool.lua",
        prepare = function(file)
            mkdir(file)
            sys.write_file(file .. "/" .. HOSTILE, "")
            return { file, ("touch -- '%s' &&: "):format((file .. ".done"):gsub("'", "'\\''")) }
        end,
        state = function(file)
            local done = sys.read_file(file .. ".done") ~= nil
            local job = sys.read_file(file .. "/" .. HOSTILE) ~= nil
            assert.is_true(done or job)
            return job and OLD or NEW
        end,
        names = function(file) return { "job:" .. sys.realpath(file) .. "/" .. HOSTILE } end },
    { "workflows/resume.lua", needs = "sqlite3",
        prepare = function(file)
            return { file, file, "echo 'CREATE TABLE t (n); INSERT INTO t VALUES (1);'",
                "echo 'INSERT INTO t VALUES (2);'" }
        end,
        state = function(file)
            local steps = tonumber((sql(file, "SELECT steps FROM progress"))) or 0
            local rows = tonumber((sql(file, "SELECT count(*) FROM t"))) or 0
            assert.equal(steps, rows)
            return steps == 2 and NEW or OLD
        end,
        names = function(file) return { "job:" .. file } end },
}

describe("under attack the recipe", function()
    local cluster = support.shared_cluster(3, { unnamed = true })
    local client

    setup(function() client = support.client(cluster) end)

    -- A run of a recipe on things of its own; cut: as for cut.c; limits: commands of the shell.
    local Run = {}
    Run.__index = Run

    function Run:start(cut, limits)
        local argv = { "sh", "-c", (limits or "") .. ' exec "$@"', "sh" }
        for _, word in ipairs(cut and { build.program "cut", tostring(cut) } or {}) do
            argv[#argv + 1] = word
        end
        if self.recipe[1]:find "%.lua$" then
            argv[#argv + 1], argv[#argv + 2] = cli.REDLOCK, "lua"
        end
        argv[#argv + 1] = EXAMPLES .. self.recipe[1]
        for _, word in ipairs(self.args) do
            argv[#argv + 1] = word
        end
        for name, value in pairs { cwd = self.dir, stdout = "pipe", stderr = "stdout", env = {
            HOME = self.dir, XDG_CONFIG_HOME = false, REDLOCK_CONFIG = false,
            PATH = cli.REDLOCK:match "^(.*)/" .. ":" .. os.getenv "PATH",
            REDLOCK_CLUSTER = false,
            REDLOCK_NODES = table.concat(cluster:uris(), " ") } } do
            argv[name] = value
        end
        self.process = support.spawn(argv)
        return self
    end

    function Run:ends()
        local status, text = cli.ends(self.process, 60)
        self.text = text
        return status
    end

    function Run:state()
        assert.is_nil(sys.read_file(self.dir .. "/owned"), "a name was run as code")
        return self.recipe.state(self.file)
    end

    -- Its locks are free, as after the lease of a run that has died.
    function Run:free()
        for _, name in ipairs(self.recipe.names(self.file)) do
            assert(client:getLock(name):forceUnlock() ~= nil)
        end
        return self
    end

    local function new(recipe, name)
        local dir = support.tmpdir()
        mkdir(dir .. "/.config")
        sys.write_file(dir .. "/.config/redlock.conf", "timeout = 5\nconnect_timeout = 20\n")
        local file = dir .. "/" .. (name or HOSTILE)
        return setmetatable({ recipe = recipe, dir = dir, file = file,
            args = recipe.prepare(file) }, Run):free()
    end

    -- What is left is whole, and the next run completes it.
    local function is_whole(run, status, why)
        local state = run:state()
        if status == 0 or status == TOO_FEW then
            assert.equal(NEW, state, why)
        end
        assert.equal(0, run:free():start():ends(), why .. run.text)
        assert.equal(NEW, run:state(), why)
    end

    -- Cuts runs at each step-th point, several at a time; sign: see cut.c.
    local function cuts(recipe, sign, first, step)
        if not support.sh(build.program "cut" .. " 99 true; [ $? = 98 ]") then
            return pending "no program may trace another one here"
        end
        local at_once, n, over = recipe.alone and 1 or 4, first, false
        while not over do
            local runs = {}
            for i = 1, at_once do
                runs[i] = new(recipe):start(sign * (n + (i - 1) * step))
            end
            for i, run in ipairs(runs) do
                local status = run:ends()
                local at = ("cut at %d: %d\n"):format(sign * (n + (i - 1) * step), status)
                assert.is_true(sign < 0 or status == CUT or status == TOO_FEW, at .. run.text)
                over = over or status == TOO_FEW
                is_whole(run, status, at)
            end
            n = n + at_once * step
            assert.is_true(n < 500)
        end
        assert.is_true(n > 8)
    end

    for _, recipe in ipairs(recipes) do
        local name = recipe[1]:match "[^/]*$"

        local function attack(what, fn)
            it(name .. " " .. what, function()
                if recipe.needs and not have(recipe.needs) then
                    return pending("no " .. recipe.needs .. " here")
                end
                fn()
            end)
        end

        attack("is whole after a death at some points", function()
            cuts(recipe, 1, 7, 5)
        end)

        -- Nightly: by day some of the points are tried
        attack("is whole after a death at any point, and after that of any process #nightly",
            function()
                cuts(recipe, 1, 1, 1)
                cuts(recipe, -1, 1, 1)
            end)

        attack("changes nothing when the disk is full, and says so", function()
            for _, limits in ipairs { "ulimit -f 0;", "trap '' XFSZ; ulimit -f 0;" } do
                local run = new(recipe)
                assert.is_true(run:start(nil, limits):ends() ~= 0)
                assert.equal(OLD, run:state())
                is_whole(run, 1, limits)
            end
        end)

        attack("does nothing in a folder that is missing, and says so", function()
            local run = new(recipe)
            for i, word in ipairs(run.args) do
                run.args[i] = word:gsub("^(" .. run.dir:gsub("%p", "%%%0") .. ")/", "%1/missing/")
            end
            assert.is_true(run:start():ends() ~= 0)
            assert.equal(OLD, run:state())
        end)

        attack("may be run twice at once", function()
            local run = new(recipe)
            local first = run:start().process
            assert.equal(0, run:start():ends(), run.text)
            assert.equal(0, (cli.ends(first, 60)))
            assert.equal(NEW, run:state())
        end)

        attack("takes names that begin with a dash", function()
            for _, file in ipairs { "-x", "-delete" } do
                local run = new(recipe, file)
                for i, word in ipairs(run.args) do
                    run.args[i] = word:gsub("^" .. run.dir:gsub("%p", "%%%0") .. "/", "")
                end
                assert.equal(0, run:start():ends(), run.text)
                assert.equal(NEW, run:state())
            end
        end)
    end
end)
