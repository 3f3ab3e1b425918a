-- hiredis, linked in or loaded: the core's own, whatever else the process has.
local build = require "spec.support.build"
local nginx = require "spec.support.nginx"
local support = require "spec.support"
local sys = require "spec.support.sys"

local function run(...)
    local p = support.spawn { stdout = "pipe", stderr = "stdout", ... }
    local text = p:read_all(120)
    return p:wait(120), text
end

-- A build of the core in a folder of its own, whose speed does not matter; more: words for make.
local function make(kind, targets, more, dir)
    dir = dir or support.tmpdir()
    assert(support.sh("chmod 711 " .. dir))    -- workers of nginx are nobody's
    local code, text = run("sh", "-c", ("exec make -s -j2 BUILD=%s HIREDIS=%s CFLAGS=-O0 %s %s")
        :format(dir, kind, more or "", targets:gsub("%%", dir)))
    assert.equal(0, code, text)
    assert.equal("", text)                     -- and no warnings
    return dir
end

local function lock_once(uri)
    return ([[
        local client = require("redlock").new { nodes = %q, cluster = "spec", timeout = 5 }
        local l = client:getLock "x"
        assert(l:tryLock(5))
        assert(l:unlock())
        print "fine"
    ]]):format(uri)
end

-- A library with all names of hiredis; to use one of them is the end.
local function broken()
    local dir = support.tmpdir()
    local f = assert(io.open(dir .. "/broken.c", "w"))
    f:write "void abort(void);\n"
    local names = io.popen("nm -D --defined-only " .. build.library "libhiredis.so")
    local count = 0
    for letter, name in names:read("*a"):gmatch "(%a) (%w[%w_]+)" do
        count = count + 1
        f:write((letter == "T" and "void %s(void) { abort(); }\n" or "char %s[256];\n")
            :format(name))
    end
    names:close()
    f:close()
    assert(count > 40)
    assert(support.sh(("${CC:-cc} -w -shared -fPIC -o %s/broken.so %s/broken.c"):format(dir, dir)))
    return dir .. "/broken.so"
end

-- How the library under test has it.
local BUILD = build.root .. "/build"
local USUAL = sys.read_file(BUILD .. "/flags"):find("libhiredis.a", 1, true) and "static"
    or "shared"

local shared           -- where a core with a shared one is

for _, kind in ipairs { "static", "shared" } do
    describe("a core with a " .. kind .. " hiredis", function()
        local dir, server

        setup(function()
            dir = kind == USUAL and BUILD or make(kind, "%/redlock/core.so %/spec/unit")
            shared, server = kind == "shared" and dir or nil, support.server()
        end)

        it("is bound to none", function()
            local code, dynamic = run("readelf", "-dW", dir .. "/redlock/core.so")
            assert.equal(0, code)
            assert.is_nil(dynamic:find "hiredis")
            local _, names = run("nm", "-D", dir .. "/redlock/core.so")
            assert.is_nil(names:find "redisReader")
        end)

        -- Those of the usual one are a part of `make test` by themselves.
        if kind ~= USUAL then
            it("reads replies as the other does", function()
                local code, said = run(dir .. "/spec/unit")
                assert.equal(0, code, said)
                assert.matches("^%d+ passed, 0 failed\n$", said)
            end)
        end

        it("works beside others, real or broken", function()
            for _, other in ipairs { broken(), build.library "libhiredis.so" } do
                local c = support.lua(lock_once(server.uri), { stderr = "stdout",
                    env = { LUA_CPATH = dir .. "/?.so", LD_PRELOAD = other } })
                assert.equal("fine", c:read_line(10))
            end
        end)

        it("works in nginx with a module that brings its own (nchan)", function()
            if not nginx.has_module "ngx_nchan_module.so" then
                return pending "this nginx has no nchan"
            end
            local ng = support.nginx {
                nodes = { server }, core = dir, modules = { "ngx_nchan_module.so" },
                server = [[ location /cycle { content_by_lua_block {
                    local l = client:getLock "x"
                    assert(l:tryLock(5, 10))
                    assert(l:unlock())
                    ngx.print "ok"
                } } ]],
            }
            for _ = 1, 20 do
                assert.equal("ok", (ng:get "/cycle"))
            end
            assert.equal("", ng:complaints())
            ng:stop()
        end)
    end)
end

describe("a core whose shared hiredis", function()
    it("is gone, or is none, says so", function()
        local libs = support.tmpdir()
        local lib = libs .. "/libhiredis.so"
        local function put(name)
            assert(support.sh(("echo 'int none;' | ${CC:-cc} -xc -shared -fPIC -Wl,-soname,"
                .. "libredlock-none.so -o %s -"):format(name)))
        end
        put(lib)
        -- Only c/node/reader.c knows the name of hiredis: the rest is as it was compiled.
        local dir = support.tmpdir()
        assert(support.sh(("cd '%s' && cp -a obj redlock code_words.h flags '%s' && cd '%s' && "
            .. "rm obj/node/reader.o redlock/core*"):format(shared
            or make("shared", "%/redlock/core.so"), dir, dir)))
        make("shared", "-o %/flags %/redlock/core.so", "HIREDIS_LIBDIR=" .. libs, dir)
        local function says()
            local c = support.lua([[
                local client = require("redlock").new { nodes = "redis://127.0.0.1:1" }
                local ok, err = client:getLock("x"):tryLock(1)
                print(ok, err.code, err)
            ]], { env = { LUA_CPATH = dir .. "/?.so" } })
            return c:read_line(10)
        end
        assert.matches("^nil\tconfig\t.*hiredis cannot be loaded: libredlock%-none%.so: ", says())
        put(libs .. "/libredlock-none.so")
        assert.matches("^nil\tconfig\t.*redisReaderCreateWithFunctions is missing in "
            .. "libredlock%-none%.so", says())
    end)
end)
