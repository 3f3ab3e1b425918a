-- The shared object itself.
local ffi = require "ffi"
local support = require "spec.support"

local CORE = "build/redlock/core.so"

local function output(...)
    local p = support.spawn { stdout = "pipe", ... }
    local text = p:read_all(10)
    assert.equal(0, p:wait(10))
    return text
end

describe("the core", function()
    setup(function() require("redlock.ffi").load() end)
    teardown(support.cleanup)

    it("exports rl_* and nothing else", function()
        local count = 0
        for name in output("nm", "-D", "--defined-only", CORE):gmatch "%S+%s+%a%s+(%S+)" do
            assert.matches("^rl_", name)
            count = count + 1
        end
        local header = assert(io.open "c/redlock.h"):read "*a"
        local declared = 0
        for name in header:gsub("/%*.-%*/", ""):gmatch "(rl_[%w_]+)%(" do
            declared = declared + 1
            assert.truthy(ffi.load(CORE)[name])
        end
        assert.equal(declared, count)
    end)

    it("is never unloaded, needs no shared hiredis, binds its own symbols", function()
        local dynamic = output("readelf", "-dW", CORE)
        assert.matches("NODELETE", dynamic)
        assert.matches("SYMBOLIC", dynamic)
        assert.is_nil(dynamic:find "hiredis")
    end)

    it("has the ABI of the header in its name and in its answer", function()
        local abi = require("redlock.cdef").abi
        local lib = ffi.load(("build/redlock/core-%d.so"):format(abi))
        assert.equal(abi, lib.rl_abi())
    end)

    it("is refused when it has another ABI", function()
        local dir = support.tmpdir()
        assert(os.execute("mkdir " .. dir .. "/redlock") == 0)
        local f = assert(io.open(dir .. "/fake.c", "w"))
        f:write "int rl_abi(void) { return -1; }"
        f:close()
        assert(os.execute(("cc -shared -fPIC -o %s/redlock/core-%d.so %s/fake.c"):format(dir,
            require("redlock.cdef").abi, dir)) == 0)
        local c = support.lua([[
            local client = require("redlock").new { nodes = "redis://127.0.0.1:1" }
            print(pcall(client.getLock(client, "x").tryLock, client:getLock "x"))
        ]], { env = { LUA_CPATH = dir .. "/?.so" } })
        assert.matches("^false.*has ABI %-1, this Lua code needs %d+", c:read_line(10))
        c = support.lua([[
            local client = require("redlock").new { nodes = "redis://127.0.0.1:1" }
            print(pcall(client.getLock(client, "x").tryLock, client:getLock "x"))
        ]], { env = { LUA_CPATH = "/nonexistent/?.so" } })
        assert.matches("^false.*the C core is not installed", c:read_line(10))
    end)

    it("works beside another hiredis, real or broken", function()
        local server = support.server()
        local dir = support.tmpdir()
        local f = assert(io.open(dir .. "/other.c", "w"))
        f:write [[
            #include <stdlib.h>
            void *redisReaderCreateWithFunctions(void *fn) { abort(); }
            void redisReaderFree(void *r) { abort(); }
            int redisReaderFeed(void *r, const char *b, size_t n) { abort(); }
            int redisReaderGetReply(void *r, void **reply) { abort(); }
        ]]
        f:close()
        assert(os.execute(("cc -w -shared -fPIC -o %s/other.so %s/other.c"):format(dir, dir)) == 0)
        for _, library in ipairs { dir .. "/other.so", "libhiredis.so.0.14" } do
            local c = support.lua(([[
                local client = require("redlock").new { nodes = %q }
                local l = client:getLock "x"
                assert(l:tryLock(5))
                assert(l:unlock())
                print "fine"
            ]]):format(server.uri), { env = { LD_PRELOAD = library } })
            assert.equal("fine", c:read_line(10))
        end
    end)

    it("has a word for every code", function()
        local C = require("redlock.ffi").load()
        local seen = {}
        for code = 0, tonumber(C.RL_CODES) - 1 do
            local name = ffi.string(C.rl_code_name(code))
            assert.matches("^%l[%l_]+$", name)
            assert.is_nil(seen[name])
            seen[name] = true
        end
        assert.equal("unknown", ffi.string(C.rl_code_name(-1)))
        assert.equal("unknown", ffi.string(C.rl_code_name(1000)))
    end)
end)
