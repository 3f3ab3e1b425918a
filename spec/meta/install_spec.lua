-- Installing from a checkout, and using it from any folder.
local annotations = require "spec.support.annotations"
local support = require "spec.support"

local function run(...)
    local p = support.spawn { stdout = "pipe", stderr = "stdout", ... }
    local text = p:read_all(120)
    local code = p:wait(120)
    assert.equal(0, code, text)
    return text
end

-- A checkout without anything that was built in this one.
local function checkout()
    local dir = support.tmpdir()
    run("cp", "-r", "c", "lua", "rockspec", "Makefile", "LICENSE", dir)
    return dir
end

-- Locks once in a fresh process that only knows the installed tree.
local function works(path, cpath)
    for _, file in ipairs(annotations.files) do
        assert(io.open(path .. file:match "^lua(/.*)$")):close()
    end
    local server = support.server()
    local c = support.lua(([[
        local client = require("redlock").new { nodes = %q }
        local l = client:getLock "x"
        assert(l:tryLock(5))
        assert(l:isLocked())
        assert(l:unlock())
        local world = require("redlock").testing.new()
        assert(world:client():getLock("x"):tryLock(0, 5))
        world:advance(3600):close()
        print "fine"
    ]]):format(server.uri), { cwd = support.tmpdir(),
        env = { LUA_PATH = ("%s/?.lua;%s/?/init.lua"):format(path, path),
            LUA_CPATH = cpath .. "/?.so" } })
    assert.equal("fine", c:read_line(10))
end

-- The command, which finds the rest of the tree by itself.
local function commands(bin)
    local server = support.server()
    local p = support.spawn { bin .. "/redlock", "run", "x", "--", "sh", "-c",
        "echo $REDLOCK_NAME $LUA_PATH", cwd = support.tmpdir(), stdout = "pipe",
        env = { REDLOCK_NODES = server.uri, LUA_PATH = false, LUA_CPATH = false } }
    assert.equal("x", p:read_line(10))
    assert.equal(0, p:wait(10))
end

-- LuaRocks in a folder, with a home of its own.
local function luarocks(dir, ...)
    return run("env", "HOME=" .. support.tmpdir(), "sh", "-c", 'cd "$0" && exec "$@"', dir,
        "luarocks", "--lua-version", "5.1", ...)
end

-- A tree that LuaRocks made.
local function installed(tree)
    works(tree .. "/share/lua/5.1", tree .. "/lib/lua/5.1")
    commands(tree .. "/bin")
end

local function only_file(pattern)
    return assert(run("sh", "-c", "ls " .. pattern):match "^([^\n]+)\n$")
end

-- Nightly: each of the ways builds anew, and another way is left in the day
describe("installing by luarocks #nightly", function()
    local OLD = "LuaRocks before 3.0 does not read rockspecs of format 3.0"
    local modern = not run("luarocks", "--version"):find " 2%."
    teardown(support.cleanup)

    it("from a checkout into an empty tree, offline", function()
        if not modern then return pending(OLD) end
        local dir, tree = checkout(), support.tmpdir()
        luarocks(dir, "--tree", tree, "make", "rockspec/redlock-dev-1.rockspec")
        installed(tree)
        -- Nothing but build/ was written into the checkout.
        assert.equal("LICENSE\nMakefile\nbuild\nc\nlua\nrockspec\n", run("ls", dir))
        only_file(tree .. "/lib/luarocks/rocks-5.1/redlock/*/doc/LICENSE")
    end)

    it("of the source rock that is packed from the archive", function()
        if not modern then return pending(OLD) end
        local dir, tree = checkout(), support.tmpdir()
        run("make", "-s", "-C", dir, "dist")
        local dist = dir .. "/build/dist"
        luarocks(dist, "pack", only_file(dist .. "/*.rockspec"))
        luarocks(dir, "--tree", tree, "install", only_file(dist .. "/*.src.rock"))
        installed(tree)
    end)

    it("of the binary rock that is packed from a tree", function()
        if not modern then return pending(OLD) end
        local dir, tree, other = checkout(), support.tmpdir(), support.tmpdir()
        luarocks(dir, "--tree", tree, "make", "rockspec/redlock-dev-1.rockspec")
        luarocks(tree, "--tree", tree, "pack", "redlock")
        luarocks(dir, "--tree", other, "install", only_file(tree .. "/*.rock"))
        run("rm", "-rf", dir)
        installed(other)
    end)
end)

describe("the source archive", function()
    teardown(support.cleanup)

    it("has what is needed, under one version, and is the same bytes each time", function()
        local dir = checkout()
        local function sum()
            run("make", "-s", "-C", dir, "dist")
            return run("sh", "-c", "sha256sum " .. dir .. "/build/dist/*.tar.gz")
        end
        local first = sum()
        assert.equal(first, sum())
        local archive = first:match "%s(/.*)\n"
        local version = require("redlock")._VERSION
        assert.equal(("redlock-%s.tar.gz"):format(version), archive:match "[^/]*$")
        local names = "\n" .. run("tar", "tzf", archive)
        for _, name in ipairs { "Makefile", "LICENSE", "c/redlock.h",
            "lua/redlock/init.lua", "rockspec/redlock-dev-1.rockspec" } do
            assert.truthy(names:find(("\nredlock-%s/%s\n"):format(version, name), 1, true), name)
        end
        assert.is_nil(names:find "/build/")
        local rockspec = run("sh", "-c", ("cat %s/build/dist/*.rockspec"):format(dir))
        assert.truthy(rockspec:find(('version = "%s-1"'):format((version:gsub("~", ""))), 1, true))
        assert.truthy(rockspec:find('url = "file://' .. archive .. '"', 1, true))
        assert.is_nil(rockspec:find "homepage")       -- the copy knows of none
    end)

    it("is not made of nothing where git says nothing", function()
        local dir = checkout()
        run("mkdir", dir .. "/.git")                  -- a clone that git refuses, or finds broken
        for _, target in ipairs { "dist", "deb" } do
            local p = support.spawn { "make", "-s", "-C", dir, target, "MAINTAINER=N <n@ex.org>",
                stdout = "pipe", stderr = "stdout", env = { GIT_CEILING_DIRECTORIES = dir } }
            local text = p:read_all(120)
            assert.is_true(p:wait(120) > 0)
            assert.matches("git", text)
            assert.matches("no list of files", text)
            assert.equal("", run("sh", "-c", ("find %s/build -name '*.gz'"):format(dir)))
        end
    end)
end)

describe("installing by make", function()
    local dir

    setup(function() dir = checkout() end)
    teardown(support.cleanup)

    it("with a prefix and a staging folder", function()
        local stage = support.tmpdir()
        run("make", "-s", "-C", dir, "install", "PREFIX=/opt/x", "DESTDIR=" .. stage)
        works(stage .. "/opt/x/share/lua/5.1", stage .. "/opt/x/lib/lua/5.1")
        commands(stage .. "/opt/x/bin")
        assert.equal("opt\n", run("ls", stage))
        assert.equal("bin\ninclude\nlib\nshare\n", run("ls", stage .. "/opt/x"))
        for path, text in pairs { ["man/man1/redlock.1"] = "redlock run NAME",
            ["doc/redlock/LICENSE"] = "the redlock authors.*hiredis.*in binary form must",
            ["bash-completion/completions/redlock"] = "complete .* redlock\n",
            ["zsh/site-functions/_redlock"] = "^#compdef redlock\n",
            ["fish/vendor_completions.d/redlock.fish"] = "complete %-c redlock" } do
            assert.matches(text, run("cat", stage .. "/opt/x/share/" .. path))
        end
        local theirs = stage .. "/opt/x/share/lua/5.1/theirs.lua"
        run("touch", theirs)
        run("make", "-s", "-C", dir, "uninstall", "PREFIX=/opt/x", "DESTDIR=" .. stage)
        assert.equal(theirs .. "\n", run("find", stage, "!", "-type", "d"))
    end)

    it("gives the same bytes in whatever folder", function()
        local sums = {}
        for i = 1, 2 do
            local other = checkout()
            run("make", "-s", "-C", other, "all", "CFLAGS=-O0 -g", "STRICT=1")
            sums[i] = run("sh", "-c", "cd " .. other .. "/build/redlock && sha256sum *")
        end
        assert.equal(sums[1], sums[2])
    end)

    it("lets programs in C lock without Lua", function()
        local prefix, server = support.tmpdir(), support.server()
        run("make", "-s", "-C", dir, "install-c", "PREFIX=" .. prefix)
        run("sh", "-c", ([[${CC:-cc} -std=c11 -Wall -Wextra -Werror -o %s/lock examples/c/lock.c \
            $(PKG_CONFIG_PATH=%s/lib/pkgconfig pkg-config --cflags --libs redlock) \
            -Wl,-rpath,%s/lib]]):format(prefix, prefix, prefix))
        local function lock()
            return support.spawn { prefix .. "/lock", "x", "127.0.0.1:" .. server.port,
                stdin = "pipe", stdout = "pipe" }
        end
        local holder = lock()
        assert.matches("^held for 29%d%d%d ms$", holder:read_line(10))
        assert.equal(40, #server:call("GET", "x"))
        support.fails("held", support.client({ server }):getLock("x"):tryLock())
        local other = lock()
        assert.equal("held", other:read_line(10))
        assert.equal(1, other:wait(10))
        holder:write "\n"
        assert.equal("released", holder:read_line(10))
        assert.equal(0, holder:wait(10))
        assert.equal(0, server:keys())
    end)
end)
