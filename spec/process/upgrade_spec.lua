-- Modules that are loaded at their first use, while a package may be upgraded.
local build = require "spec.support.build"
local support = require "spec.support"
local sys = require "spec.support.sys"

-- `require "redlock"` in a process of its own, with the files of a copy that may be changed.
local PROGRAM = [[
    package.path = %q .. "/?.lua;" .. %q .. "/?/init.lua;" .. package.path
    local client = require("redlock").new { nodes = "redis://127.0.0.1:1" }
    local n = 0
    for name in pairs(package.loaded) do
        n = n + (name:find "^redlock" and 1 or 0)
    end
    print(n)
    io.stdout:flush()
    io.read()
    print(pcall(client.getSemaphore, client, "x", 1))
    print(pcall(client.getLock, client, "x"))
]]

describe("the library", function()
    teardown(support.cleanup)

    local function start()
        local copy = support.tmpdir() .. "/lua"
        assert(support.sh(("cp -r %s/lua %s"):format(build.root, copy)))
        local program = support.lua(PROGRAM:format(copy, copy), { stdin = "pipe" })
        return program, copy .. "/redlock/init.lua", tonumber(program:read_line(20))
    end

    it("loads what a plain lock needs, and the rest at its first use", function()
        local program, _, n = start()
        assert.is_true(n <= 54, n)
        program:write "\n"
        assert.equal("true\tsemaphore(x, 1 permits)", program:read_line(20))
    end)

    it("does not mix with the files of another version", function()
        local program, path = start()
        sys.write_file(path, (sys.read_file(path):gsub('_VERSION = "', "%09.")))
        program:write "\n"
        assert.matches("^false\tredlock: 9%..* was installed while this program runs .*restart",
            program:read_line(20))
        assert.equal("true\tlock(x, not held)", program:read_line(20))
    end)
end)
