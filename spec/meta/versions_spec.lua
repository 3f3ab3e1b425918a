-- Two versions beside each other: the last commit whose core had another ABI, and this one.
local build = require "spec.support.build"
local support = require "spec.support"
local sys = require "spec.support.sys"

local function output(command)
    local pipe = io.popen(("cd '%s' && %s 2> /dev/null"):format(build.root, command))
    local text = pipe:read "*a"
    pipe:close()
    return (text:gsub("\n$", ""))
end

-- The last commit of the ABI before this one; "" where git has no such history.
local OLD = output [[git rev-parse -q --verify \
    "$(git log -1 --format=%H -G'^#define RL_ABI' -- c/redlock.h)^"]]
local NONE = OLD == "" and "no git history with another ABI here"

local LOCKS = [[
    local client = require("redlock").new { nodes = %q }
    print "ready"
    for line in io.lines() do
        local lock = client[line:match "%%a+"](client, line:match "%%a+ (%%a+)")
        local ok, token = lock:tryLock(0, 20)
        print(ok and (token or "mine") or token.code)
        client.keep = client.keep or {}
        table.insert(client.keep, lock)
    end
    for _, lock in ipairs(client.keep) do lock:unlock() end
    print "left"
]]

describe("two versions", function()
    local dir

    setup(function()
        if NONE then return end
        dir = support.tmpdir()
        assert(support.sh(("cd '%s' && git archive %s | tar x -C '%s'")
            :format(build.root, OLD, dir)))
        local p = support.spawn { "make", "-s", "-C", dir, "all", "CFLAGS=-O0", stdout = "pipe",
            stderr = "stdout", env = { MAKEFLAGS = false, BUILD = false } }
        local text = p:read_all(300)
        assert.equal(0, p:wait(300), text)
    end)

    -- A program of a version that acquires what it is told to, and says how that went.
    local function program(cluster, root)
        local c = support.lua(LOCKS:format(table.concat(cluster:uris(), " ")), root and { env = {
            LUA_PATH = ("%s/lua/?.lua;%s/lua/?/init.lua;%s/build/?.lua"):format(root, root, root),
            LUA_CPATH = root .. "/build/?.so" } })
        assert.equal("ready", c:read_line(20))
        return c, function(what)
            c:write(what .. "\n")
            return c:read_line(20)
        end
    end

    it("exclude each other on the same servers", function()
        if NONE then return pending(NONE) end
        local cluster = support.cluster(3, { unnamed = true })
        local old, by_old = program(cluster, dir)
        local new, by_new = program(cluster)
        assert.equal("mine", by_old "getLock a")
        assert.equal("mine", by_new "getLock b")
        local first = tonumber(by_old "getFencedLock c")
        local second = tonumber(by_new "getFencedLock d")
        assert.is_true(first > 0 and second > 0)
        for _, name in ipairs { "getLock a", "getFencedLock c" } do
            assert.equal("held", by_new(name))
        end
        old:close_stdin()
        assert.equal("left", old:read_line(20))
        assert.is_true(tonumber(by_new "getFencedLock c") > first)
        new:close_stdin()
        assert.equal("left", new:read_line(20))
    end)

    it("of Lua and its core are refused, with both numbers", function()
        if NONE then return pending(NONE) end
        local cpath = support.tmpdir()
        local function abi(root)
            return sys.read_file(root .. "/c/redlock.h"):match "\n#define RL_ABI (%d+)"
        end
        local old, new = abi(dir), abi(build.root)
        assert.not_equal(old, new)
        -- Under the name that this version loads.
        assert(support.sh(("cd %s && mkdir redlock && cp %s/build/redlock/core-%s.so "
            .. "redlock/core-%s.so"):format(cpath, dir, old, new)))
        local code = [[ print(pcall(require("redlock").new, { nodes = "redis://127.0.0.1:1" })) ]]
        local c = support.lua(code, { env = { LUA_CPATH = cpath .. "/?.so" } })
        assert.matches("^false\tredlock: .* has ABI " .. old .. ", this Lua code needs " .. new
            .. "; install both from the same version$", c:read_line(20))
        -- And under its own name, where only that is installed.
        c = support.lua(code, { env = { LUA_CPATH = dir .. "/build/?.so" } })
        assert.matches("the C core is not installed", c:read_line(20))
        assert.matches("core%-" .. new .. "%.so'$", c:read_line(20))
    end)
end)
