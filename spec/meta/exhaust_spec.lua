-- The small worlds (spec/exhaust) say in a sentence what goes wrong, and repeat it.

local base_step = require "spec.sim.base_step"
local explorer = require "spec.exhaust.explorer"
local support = require "spec.support"
local sys = require "spec.support.sys"

local function run(command, root)
    local pipe = io.popen(("export SIM_LUA=%s J=1; %s 2>&1"):format(root, command))
    local output = pipe:read "*a"
    pipe:close()
    return output
end

describe("small worlds", function()
    it("are visited whole by shares, each run once, what is least odd first", function()
        local options, limits = { { "a" }, { "b" }, { "c" } }, { odd = 3, path = 3 }
        local function seven(choices)
            for _ = 1, 7 do
                choices:choose("path", options, "x")
            end
        end
        local function visited(shares)
            local seen, n, odd = {}, 0
            for share = 0, shares - 1 do
                odd = 0
                n = n + explorer.visit(limits, function(choices, word, mine)
                    local _, more = word:gsub("%.", "")
                    assert.is_true(more >= odd)
                    odd = more
                    seven(choices)
                    assert.is_false(mine and seen[word] or false)
                    seen[word] = mine or seen[word]
                end, share, shares)
            end
            return n
        end
        -- Up to three of seven, each in one of two ways.
        local all = 1 + 7 * 2 + 21 * 4 + 35 * 8
        for _, shares in ipairs { 1, 2, 7, 60, 61, 122, 1200 } do
            assert.equal(all, visited(shares))
        end
        local function most(n)
            return explorer.visit(limits, seven, 0, 1, n)
        end
        assert.equal(all, most(1000))
        assert.is_true(most(20) > 30 and most(20) <= 1 + 3 * 20, most(20))
    end)

    it("find nothing in what ships, and two holders where a script takes what is taken", function()
        local dir = support.tmpdir()
        assert.is_true(support.sh(("cp -r lua %s/lua"):format(dir)))
        local root, name = dir .. "/lua", dir .. "/lua/redlock/scripts/lock/acquire.lua"
        assert.matches("%d+ passed, 0 failed", run("WORLD=ask KIND=plain LIMITS=odd=0 make exhaust",
            root))
        sys.write_file(name, (sys.read_file(name):gsub("'NX', ", "")))
        local said = run("STOP=1 WORLD=ask KIND=plain LIMITS=odd=0 make exhaust", root)
        assert.matches("B begins: B's acquire changes a key on server %d that is not its own", said)
        local again = run(said:match "LIMITS=.- make exhaust", root)        -- as it is printed
        assert.matches("server 3 executes A's acquire: 1\n", again)
        assert.matches("WRONG: B's acquire changes a key on server %d", again)
    end)

    it("take no base for a step that nobody told, from the first moment on", function()
        local servers = { {}, {}, {} }
        assert.matches("is not what enough others gave out",
            base_step.wrong(servers, servers[1], "0123abcd1000", 0, 8e6))
        for _, server in ipairs(servers) do
            base_step.told(server, 0, 0, 0)                  -- all lack one: a guess is right
        end
        assert.is_nil(base_step.wrong(servers, servers[1], "0123abcd1000", 1, 8e6))
    end)

    it("name the worlds where there is none of that name", function()
        local said = run("WORLD=aks make exhaust", "lua")
        assert.matches("no such world: WORLD=aks", said)
        assert.matches("\n  ask +plain, fenced", said)
        assert.not_matches("0 failed", said)
    end)
end)
