-- Installing from a checkout, and using it from any folder.
local annotations = require "spec.support.annotations"
local pages = require "spec.support.pages"
local support = require "spec.support"
local sys = require "spec.support.sys"

local function run(...)
    local p = support.spawn { stdout = "pipe", stderr = "stdout", ... }
    local text = p:read_all(600)
    local code = p:wait(600)
    assert.equal(0, code, table.concat({ ... }, " ") .. "\n" .. text)
    return text
end

-- A checkout without its history, and without anything that was built in this one.
local function checkout()
    local dir = support.tmpdir()
    run("sh", "-c", "tar c --exclude=./build --exclude=./.git . | tar x -C " .. dir)
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

-- The command, which finds the rest of the tree by itself, less a core in a folder for LuaJIT
-- alone.
local function commands(bin, cpath)
    local server = support.server()
    local p = support.spawn { bin .. "/redlock", "run", "x", "--", "sh", "-c",
        "echo $REDLOCK_NAME $LUA_PATH", cwd = support.tmpdir(), stdout = "pipe",
        env = { REDLOCK_NODES = server.uri, LUA_PATH = false,
            LUA_CPATH = cpath and cpath .. "/?.so" or false } }
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

    it("from a checkout into an empty tree, offline", function()
        if not modern then return pending(OLD) end
        local dir, tree = checkout(), support.tmpdir()
        run("mkdir", dir .. "/build")
        local names = run("ls", dir)
        luarocks(dir, "--tree", tree, "make", "rockspec/redlock-dev-1.rockspec")
        installed(tree)
        -- Nothing but build/ was written into the checkout.
        assert.equal(names, run("ls", dir))
        only_file(tree .. "/lib/luarocks/rocks-5.1/redlock/*/doc/LICENSE")
    end)
end)

describe("the source archive", function()
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
        assert.truthy(rockspec:find('url = "file://' .. archive:match "[^/]*$" .. '"', 1, true))
        assert.is_nil(rockspec:find "homepage")       -- the copy knows of none
    end)

    it("has a list of what is in it, with sums, for scanners", function()
        local dir = checkout()
        local file = ("%s/build/dist/redlock-%s.spdx"):format(dir, require("redlock")._VERSION)
        run("make", "-s", "-C", dir, "sbom")
        local text = sys.read_file(file)
        run("make", "-s", "-C", dir, "sbom")
        assert.equal(text, sys.read_file(file))
        -- The archive by itself, and the list in the words of sha1sum and sha256sum.
        local files = run("sh", "-c", ([[cd %s && mkdir x && tar x --strip-components=1 -C x \
            -f build/dist/*.tar.gz && cd x && find . -type f | wc -l]]):format(dir))
        local sha1, sha256, ids = {}, {}, {}
        for name, id, one, two in text:gmatch("\nFileName: (%S+)\nSPDXID: (%S+)\n"
            .. "FileChecksum: SHA1: (%x+)\nFileChecksum: SHA256: (%x+)\n") do
            sha1[#sha1 + 1], sha256[#sha256 + 1] = one .. "  " .. name, two .. "  " .. name
            assert.is_nil(ids[id])
            ids[id] = true
        end
        assert.equal(tonumber(files), #sha1)
        for program, sums in pairs { sha1sum = sha1, sha256sum = sha256 } do
            sys.write_file(dir .. "/sums", table.concat(sums, "\n") .. "\n")
            run("sh", "-c", ("cd %s/x && %s --quiet -c ../sums"):format(dir, program))
        end
        for i, line in ipairs(sha1) do
            sha1[i] = line:sub(1, 40)
        end
        table.sort(sha1)
        sys.write_file(dir .. "/sums", table.concat(sha1))
        assert.equal(run("sha1sum", dir .. "/sums"):sub(1, 40),
            text:match "\nPackageVerificationCode: (%x+)\n")
        assert.matches("^SPDXVersion: SPDX%-2%.3\nDataLicense: CC0%-1%.0\n", text)
        local version = text:match "\nPackageName: hiredis\n[^\n]*\nPackageVersion: (%S+)\n"
        local _, debian = pcall(run, "dpkg-query", "-Wf", "${source:Version}", "libhiredis-dev")
        assert.equal(debian:match "^%d+%.%d+%.%d+%-%S+$" or version:match "^[%d.]+$", version)
        assert.matches("\nPackageName: hiredis\n.*\nPackageLicenseDeclared: BSD%-3%-Clause\n", text)
        assert.matches("\nRelationship: SPDXRef%-redlock DEPENDS_ON SPDXRef%-hiredis\n", text)
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

-- What README names: its links, in a folder of documentation; verbs of the command; modules and
-- getters, of the library in a tree.
local function has_what_readme_names(doc, bin, path, cpath)
    local n = 0
    for _, link in ipairs(pages.links "README.md") do
        run("test", "-e", doc .. "/" .. link[1])
        n = n + 1
    end
    local text = pages.text "README.md"
    for example in text:gmatch "%f[%w]examples/%w+/[%w_]+%.lua" do
        run("test", "-f", doc .. "/" .. example)
    end
    local named = {}
    for verb in text:gmatch "\nredlock (%l+)" do named[verb] = true end
    for verb in text:gmatch "`redlock (%l+)" do named[verb] = true end
    for verb in pairs(named) do
        assert.matches("redlock " .. verb, run("env", "-u", "LUA_PATH", "-u", "LUA_CPATH",
            bin .. "/redlock", verb, "--help"))
        n = n + 1
    end
    local calls = {}
    for of, name in text:gmatch "%f[%w](%l+)[.:](%a+)[ (]" do
        if of == "client" or of == "locks" or of == "lock" or of == "redlock" then
            calls[#calls + 1] = ("assert(type(%s.%s) == 'function', %q)"):format(of, name, name)
        end
    end
    assert.is_true(n > 40 and #calls > 15, n .. ", " .. #calls)
    local c = support.lua([[
        local redlock = require "redlock"
        local client = redlock.new { nodes = "redis://127.0.0.1:1" }
        local locks, lock = client, client:getFencedLock "x"
        ]] .. table.concat(calls, "\n") .. " print 'all'", { cwd = support.tmpdir(),
        stderr = "stdout", env = { LUA_PATH = ("%s/?.lua;%s/?/init.lua"):format(path, path),
            LUA_CPATH = cpath .. "/?.so" } })
    assert.equal("all", c:read_line(20))
end

-- Nightly: builds everything that is released twice, and another way is left in the day
describe("what is released #nightly", function()
    local dir, sums, tree
    local version = require("redlock")._VERSION

    setup(function()
        if not support.sh "command -v dh luarocks zip > /dev/null" then return end
        sums = {}
        for i, umask in ipairs { "022", "077" } do
            dir = checkout()
            run("env", "TZ=Asia/Tokyo", "HOME=" .. support.tmpdir(), "sh", "-c", ("umask %s && "
                .. "make -s -C %s release MAINTAINER='N <n@ex.org>'"):format(umask, dir))
            sums[i] = sys.read_file(dir .. "/build/release/SHA256SUMS")
        end
        dir = dir .. "/build/release/"
    end)
    before_each(function() tree = support.tmpdir() end)

    local function is(name, fn)
        it(name, function()
            if not sums then return pending "debhelper, luarocks or zip is missing" end
            fn()
        end)
    end

    is("is the same bytes in whatever folder", function()
        assert.equal(sums[1], sums[2])
        assert.equal(8, select(2, sums[1]:gsub("\n", "")), sums[1])
        run("sh", "-c", "cd " .. dir .. " && sha256sum --quiet -c SHA256SUMS")
    end)

    for _, kind in ipairs { "src", "linux-*" } do
        is("works from the rock: " .. kind, function()
            luarocks(tree, "--tree", tree, "install",
                only_file(("%sredlock-%s-1.%s.rock"):format(dir, version, kind)))
            installed(tree)
        end)
    end

    is("works from the packages, which have what README names", function()
        for _, name in ipairs { "redlock", "lua-redlock", "redlock-dev" } do
            run("dpkg", "-x", only_file(("%s%s_%s_*.deb"):format(dir, name, version)), tree)
        end
        local path = tree .. "/usr/share/lua/5.1"
        local cpath = only_file("-d " .. tree .. "/usr/lib/*/lua/5.1")
        works(path, cpath)
        commands(tree .. "/usr/bin", cpath)
        has_what_readme_names(tree .. "/usr/share/doc/lua-redlock", tree .. "/usr/bin", path, cpath)
        local libdir = cpath:gsub("/lua/5%.1$", "")
        run("sh", "-c", ([[${CC:-cc} -o %s/lock examples/c/lock.c $(PKG_CONFIG_PATH=%s/pkgconfig \
            PKG_CONFIG_SYSROOT_DIR=%s pkg-config --cflags --libs redlock)]]):format(tree, libdir,
            tree))
        local p = support.spawn { tree .. "/lock", stdout = "pipe", stderr = "stdout",
            env = { LD_LIBRARY_PATH = libdir } }
        assert.equal("usage: lock NAME HOST:PORT...\n", p:read_all(20))
    end)
end)

describe("installing by make, from the archive", function()
    local FAST = "CFLAGS=-O0"            -- what is compiled is not what is tried
    local dir

    setup(function()
        dir = support.tmpdir()
        run("sh", "-c", ("make -s dist BUILD=%s/b && tar x -C %s --strip-components=1 "
            .. "-f %s/b/dist/*.tar.gz"):format(dir, dir, dir))
    end)

    it("with a prefix and a staging folder", function()
        local stage = support.tmpdir()
        run("make", "-s", "-C", dir, "install", FAST, "PREFIX=/opt/x", "DESTDIR=" .. stage)
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
        has_what_readme_names(stage .. "/opt/x/share/doc/redlock", stage .. "/opt/x/bin",
            stage .. "/opt/x/share/lua/5.1", stage .. "/opt/x/lib/lua/5.1")
        for target in pages.text "README.md":gmatch "%f[%w]make ([%l-]+)" do
            run("make", "-n", "-C", dir, target)
        end
        local rock = support.spawn { "make", "-s", "-C", dir, "install-rock", FAST,
            "LUADIR=" .. stage .. "/opt/x/lib/luarocks/rocks-5.1/redlock/1/lua",
            "PREFIX=" .. support.tmpdir(), stdout = "pipe", stderr = "stdout" }
        assert.truthy(rock:read_all(120):find("first run: make uninstall PREFIX=" .. stage
            .. "/opt/x\n", 1, true))
        run("rm", "-r", stage .. "/opt/x/lib/luarocks")
        local theirs = stage .. "/opt/x/share/lua/5.1/theirs.lua"
        run("touch", theirs)
        run("make", "-s", "-C", dir, "uninstall", "PREFIX=/opt/x", "DESTDIR=" .. stage)
        assert.equal(theirs .. "\n", run("find", stage, "!", "-type", "d"))
    end)

    it("lets programs in C lock without Lua", function()
        local prefix, server = support.tmpdir(), support.server()
        sys.write_file(prefix .. "/ldconfig", "#!/bin/sh\necho ran >> " .. prefix .. "/log\n")
        run("chmod", "+x", prefix .. "/ldconfig")
        for _, stage in ipairs { support.tmpdir(), "" } do
            run("env", ("PATH=%s:%s"):format(prefix, os.getenv "PATH"), "make", "-s", "-C", dir,
                "install-c", FAST, "PREFIX=" .. prefix, "DESTDIR=" .. stage)
        end
        assert.equal("ran\n", sys.read_file(prefix .. "/log"))        -- not for the staged files
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

describe("what make installs for demos and specs", function()
    it("starts no service", function()
        if not support.sh "test $(id -u) = 0 && unshare -m true 2> /dev/null" then
            return pending "only root can have a /usr/sbin of its own"
        end
        local dir = support.tmpdir()
        sys.write_file(dir .. "/apt-get", ("#!/bin/sh\n[ $1 = update ] || { echo $* > %s/named\n"
            .. "/usr/sbin/policy-rc.d; echo $? > %s/refused; }\n"):format(dir, dir))
        sys.write_file(dir .. "/dpkg", "#!/bin/sh\nexit 1\n")
        sys.write_file(dir .. "/apt-cache", "#!/bin/sh\n")
        assert.is_true(support.sh(("cd %s && mkdir sbin && chmod +x apt-get dpkg apt-cache")
            :format(dir)))
        assert.is_true(support.sh(([[unshare -m sh -c 'mount --bind %s/sbin /usr/sbin &&
            PATH=%s:$PATH exec spec/setup demo' > /dev/null]]):format(dir, dir)))
        assert.equal("101\n", sys.read_file(dir .. "/refused"))
        assert.is_nil(sys.read_file(dir .. "/sbin/policy-rc.d"))
        -- README lets `make install` follow, and servers with TLS need these then.
        local named = sys.read_file(dir .. "/named")
        for _, package in ipairs { "libhiredis-dev", "libssl-dev", "pkg-config" } do
            assert.truthy(named:find(" " .. package .. " ", 1, true), package)
        end
    end)

    it("is named where there is no compiler", function()
        local p = support.spawn { "make", "-s", "all", "CC=no-such-compiler",
            "BUILD=" .. support.tmpdir(), stdout = "pipe", stderr = "stdout" }
        assert.matches("apt%-get install gcc .-libhiredis%-dev .-libssl%-dev", p:read_all(60))
        assert.equal(2, p:wait(60))
    end)
end)
