-- The shared object itself.
local ffi = require "ffi"
local support = require "spec.support"
local sys = require "spec.support.sys"

local CORE = "build/redlock/core.so"

local function output(...)
    local p = support.spawn { stdout = "pipe", ... }
    local text = p:read_all(10)
    assert.equal(0, p:wait(10))
    return text
end

describe("the core", function()
    setup(function() require("redlock.runtime.ffi").load() end)

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

    it("needs LuaJIT, and plain Lua says so", function()
        if not support.sh "command -v lua5.1 > /dev/null" then
            return pending "lua5.1 is not installed"
        end
        local p = support.spawn { "lua5.1", "-e", "require 'redlock'", stdout = "pipe",
            stderr = "stdout", env = { LUA_PATH = "./lua/?.lua;./lua/?/init.lua" } }
        assert.matches("^lua5.1: redlock needs LuaJIT or OpenResty", p:read_all(10))
    end)

    it("is never unloaded, binds its own symbols", function()
        local dynamic = output("readelf", "-dW", CORE)
        assert.matches("NODELETE", dynamic)
        assert.matches("SYMBOLIC", dynamic)
    end)

    it("is built with guards against overflows", function()
        if sys.read_file("build/flags"):find "%-%-coverage" then
            return pending "another build"
        end
        local needs = output("nm", "-D", "--undefined-only", CORE)
        assert.matches("__stack_chk_fail", needs)
        assert.matches("_chk@", (needs:gsub("__stack_chk", "")))
    end)

    it("has the ABI of the header in its name and in its answer", function()
        local abi = require("redlock.cdef").abi
        local lib = ffi.load(("build/redlock/core-%d.so"):format(abi))
        assert.equal(abi, lib.rl_abi())
    end)

    it("has the bounds that Lua has, too", function()
        local C = require("redlock.runtime.ffi").load()
        local limits = require "redlock.runtime.limits"
        assert.equal(tonumber(C.RL_MAX_NODES), limits.MAX_NODES)
        assert.equal(tonumber(C.RL_VALUE_LEN), limits.VALUE_LEN)
        assert.equal(tonumber(C.RL_MAX_KEYS), limits.MAX_KEYS)
        assert.equal(tonumber(C.RL_MAX_ARGS), limits.MAX_ARGS)
        assert.equal(10 ^ limits.TOKEN_DIGITS, limits.TOKEN_END)
    end)

    it("is refused when it has another ABI", function()
        local dir = support.tmpdir()
        assert(support.sh("mkdir " .. dir .. "/redlock"))
        sys.write_file(dir .. "/fake.c", "int rl_abi(void) { return -1; }")
        assert(support.sh(("cc -shared -fPIC -o %s/redlock/core-%d.so %s/fake.c"):format(dir,
            require("redlock.cdef").abi, dir)))
        local c = support.lua([[
            print(pcall(require("redlock").new, { nodes = "redis://127.0.0.1:1" }))
        ]], { env = { LUA_CPATH = dir .. "/?.so" } })
        assert.matches("^false.*has ABI %-1, this Lua code needs %d+", c:read_line(10))
        c = support.lua([[
            print(pcall(require("redlock").new, { nodes = "redis://127.0.0.1:1" }))
        ]], { env = { LUA_CPATH = "/nonexistent/?.so" } })
        assert.matches("^false.*the C core is not installed", c:read_line(10))
    end)

    it("is missed by name, as are the scripts", function()
        local dir = support.tmpdir()
        assert(support.sh(("cp -r lua build/redlock/cdef.lua %s && mv %s/cdef.lua %s/lua/redlock "
            .. "&& rm %s/lua/redlock/scripts/lock/release.lua"):format(dir, dir, dir, dir)))
        local c = support.lua("print(pcall(require, 'redlock'))", { env = {
            LUA_PATH = ("%s/lua/?.lua;%s/lua/?/init.lua"):format(dir, dir) } })
        assert.matches("^false.*redlock: a script is not installed", c:read_line(10))
        assert.matches("/lua/redlock/scripts/lock/release.lua", c:read_line(10))
    end)

    it("takes no client for one that is closed", function()
        local C, prim = require("redlock.runtime.ffi").load(), ffi.new "rl_primitive"
        local lease = ffi.new "rl_lease *[1]"
        local info = ffi.new("rl_node_info", { stats = { requests = 7 } })
        for _, started in ipairs {
            C.rl_acquire(nil, prim, nil, 0, nil, 0, nil, 1000, 1000, -1, 0, lease) == nil,
            C.rl_ask(nil, C.RL_ASK_MAJORITY, 0, nil, 0, nil, 0, 0) == nil,
            C.rl_ask(nil, 0, 0, nil, 0, nil, 0, 0) == nil,
            C.rl_check(nil) == nil,
            C.rl_teach(nil, -1, 0, 0) == nil,
            C.rl_sleep(nil, 1, nil, 0) == nil,
            C.rl_subscribe(nil, "x", 1) == nil,
            C.rl_import(nil, prim, nil, 0, nil, 0, nil, nil, 1000, 0, 0, lease) == nil,
            C.rl_next(nil, nil, 1) == nil,
            C.rl_script(nil, "return 1", 8) == 0,
            C.rl_noted(nil, 0, 1) == 0,
            C.rl_poll(nil) > C.rl_now_ms(),
            C.rl_look(nil, ffi.new "double[1]") > 0,
        } do
            assert.is_true(started)
        end
        C.rl_node_get_info(nil, 0, info)
        assert.equal(0, tonumber(info.stats.requests))
        local counters = ffi.new("rl_counters", { losses = 7 })
        C.rl_get_counters(nil, counters)
        assert.equal(0, tonumber(counters.losses))
    end)

    it("finds nothing in a mailbox that was given back before", function()
        local C = require("redlock.runtime.ffi").load()
        local options = ffi.new("rl_options", { timeout_ms = 100, connect_timeout_ms = 100 })
        local nodes = ffi.new("rl_node_options[1]", { { label = "x", host = "127.0.0.1",
            port = 1 } })
        local client = C.rl_open("mailbox", 7, options, nodes, 1, ffi.new "char[160]", 160)
        local box, done = C.rl_mailbox_open(), ffi.new "rl_done[8]"
        local function sleepers()
            local list = {}
            for i = 1, 4 do
                list[i] = C.rl_sleep(client, 5, nil, 0)
                assert.equal(0, C.rl_round_post(list[i], box))
            end
            for _, round in ipairs(list) do
                C.rl_wait(round)
            end
            return list
        end
        local list = sleepers()
        for _, i in ipairs { 4, 1, 3 } do          -- the last, the first, the one between
            C.rl_round_free(list[i])
        end
        assert.equal(1, C.rl_mailbox_take(box, done, 8))
        assert.equal(list[2], done[0].round)
        C.rl_round_free(list[2])
        list = sleepers()
        C.rl_mailbox_close(box)
        box = C.rl_mailbox_open()
        assert.equal(0, C.rl_mailbox_take(box, done, 8))
        for _, round in ipairs(list) do
            C.rl_round_free(round)
        end
        C.rl_mailbox_close(box)
        C.rl_unshare(client, 1)
    end)

    it("has a word for every code", function()
        local C = require("redlock.runtime.ffi").load()
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

    -- An error at each instruction of a call in turn, as Ctrl-C raises one.
    -- Not with lag: some hundred clients connect, one after the other.
    it("is freed with its client, wherever a call was interrupted #nolag", function()
        local p = support.lua(([[
            jit.off()
            local support = require "spec.support"
            local C = require("redlock.runtime.ffi").load()
            local n, ended = 0, false
            repeat
                local client = support.warm_client(%s, { timeout = 5 })
                local core = require("ffi").cast("void *", client.core)
                local l = client:getLock "x"
                assert(l:tryLock() and l:unlock())
                n = n + 1
                ended = pcall(function()
                    debug.sethook(function()
                        debug.sethook()
                        error("interrupted!", 0)
                    end, "", n)
                    l:tryLock(0, 5)
                    debug.sethook()
                end)
                client:close()
                l, client = nil, nil
                collectgarbage() collectgarbage()
                if C.rl_known(core) ~= 0 then print("left at " .. n) end
            until ended
            print(n > 300)
        ]]):format(support.cluster(1):text()), { stderr = "stdout" })
        assert.equal("true\n", p:read_all(120))
        support.cleanup()
    end)
end)
