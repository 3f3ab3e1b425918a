-- The page on specs of programs: its snippets run, its specs pass, and its program does the same
-- on real servers.
local build = require "spec.support.build"
local cli = require "spec.support.command"
local pages = require "spec.support.pages"
local redlock = require "redlock"
local support = require "spec.support"
local sys = require "spec.support.sys"

local PAGE, HOME = "examples/testing/README.md", build.root .. "/examples/testing"

describe("the page on specs of programs", function()
    it("has snippets that run", function()
        local snippets = pages.snippets(PAGE, "lua")
        assert.equal(4, #snippets)
        for i = 2, 4 do
            local code = snippets[1] .. "\n" .. snippets[i]
            assert(loadstring(code, "=" .. PAGE))()
        end
        redlock.testing.new():close()
    end)

    it("shows the program as it is", function()
        local program = sys.read_file(HOME .. "/report.lua")
        local shown = pages.snippets(PAGE, "lua")[1]:match "\n(.*)$"
        assert.truthy(program:find(shown, 1, true))
    end)

    it("has specs that pass, in a folder of their own", function()
        local path = ("%s/lua/?.lua;%s/lua/?/init.lua;%s/build/?.lua;./?.lua;;"):gsub("%%s",
            (build.root:gsub("%%", "%%%%")))
        local p = support.spawn { "busted", "--lua=luajit", "report_spec.lua", cwd = HOME,
            stdout = "pipe", stderr = "stdout",
            env = { LUA_PATH = path, LUA_CPATH = build.root .. "/build/?.so;;" } }
        local status, said = cli.ends(p)
        assert.equal(0, status, said)
        assert.matches("4 successes / 0 failures / 0 errors", said)
    end)

    it("has a program that does the same on real servers", function()
        local chunk = assert(loadfile(HOME .. "/report.lua"))
        local cluster = support.cluster(3)
        local real = { support.warm_client(cluster), support.warm_client(cluster) }
        local world = redlock.testing.new()
        local outcomes = {}
        for i, clients in ipairs { real, { world:client(), world:client() } } do
            local list, report = {}, chunk()
            list[1] = { report.write(clients[1], 3, function(page, token)
                list[page + 1] = { token, report.write(clients[2], 1, print) }
            end) }
            list[5] = { report.write(clients[2], 1, function() end) }
            outcomes[i] = list
        end
        local first = outcomes[1][2][1] - outcomes[2][2][1]      -- where tokens began
        for i = 2, 4 do
            outcomes[2][i][1] = outcomes[2][i][1] + first
        end
        assert.same(outcomes[1], outcomes[2])
        assert.same({ "written" }, outcomes[1][5])
        world:close()
    end)
end)
