-- SAFETY.md: what it says of the tests is so.
local pages = require "spec.support.pages"

local PAGE = "spec/SAFETY.md"

describe("what SAFETY.md says of the tests", function()
    -- How often a pattern is found in files.
    local function count(pattern, ...)
        local n = 0
        for _, path in ipairs { ... } do
            n = n + select(2, pages.text(path):gsub(pattern, ""))
        end
        return n
    end

    it("are not fewer than it says", function()
        local there = {
            ["faults"] = count("\n    { name = ", "spec/sim/faults.lua"),
            ["invariants"] = count(" name = \"", "spec/sim/invariants.lua",
                "spec/sim/holding.lua", "spec/sim/tokens.lua"),
            ["scripted beginnings"] = count(" name = \"", "spec/sim/prefixes.lua",
                "spec/sim/counterexamples.lua"),
            ["deliberately wrong variants"] = count(" name = \"", "spec/sim/mutants.lua"),
            ["broken variants"] = count("\n    variant [%w-]+ +counterexample", "spec/models/run")
                + count("\n    missed %l", "spec/models/run")
                + count("\n    unshared %l", "spec/models/run"),
        }
        for what, n in pairs(there) do
            local said = tonumber(pages.text(PAGE):match("over (%d+) " .. what))
            assert.is_true(said and n > said and n < said + 50, ("%s: %d"):format(what, n))
        end
    end)

    it("can be made", function()
        local n = 0
        for target in pages.text(PAGE):gmatch "`make ([%l-]+)" do
            assert.is_true(pages.is_target(target), target)
            n = n + 1
        end
        assert.is_true(n >= 6)
    end)
end)
