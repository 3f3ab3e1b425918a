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
    run("cp", "-r", "c", "lua", "rockspec", "Makefile", dir)
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

describe("installing", function()
    teardown(support.cleanup)

    it("by luarocks into an empty tree, offline", function()
        local dir, tree = checkout(), support.tmpdir()
        local p = support.spawn { "luarocks", "--lua-version", "5.1", "--tree", tree, "make",
            "rockspec/redlock-dev-1.rockspec", cwd = dir, stdout = "pipe", stderr = "stdout",
            env = { HOME = support.tmpdir() } }
        local text = p:read_all(120)
        assert.equal(0, p:wait(120), text)
        works(tree .. "/share/lua/5.1", tree .. "/lib/lua/5.1")
        commands(tree .. "/bin")
        -- Nothing but build/ was written into the checkout.
        assert.equal("Makefile\nbuild\nc\nlua\nrockspec\n", run("ls", dir))
    end)

    it("by make, with a prefix and a staging folder", function()
        local dir, stage = checkout(), support.tmpdir()
        run("make", "-s", "-C", dir, "install", "PREFIX=/opt/x", "DESTDIR=" .. stage)
        works(stage .. "/opt/x/share/lua/5.1", stage .. "/opt/x/lib/lua/5.1")
        commands(stage .. "/opt/x/bin")
        assert.equal("opt\n", run("ls", stage))
    end)
end)
