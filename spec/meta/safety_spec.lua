-- SAFETY.md: what it says of the tests is so.
local pages = require "spec.support.pages"

local PAGE = "spec/SAFETY.md"

describe("what SAFETY.md says of the tests", function()
    it("can be made", function()
        local n = 0
        for target in pages.text(PAGE):gmatch "`make ([%l-]+)" do
            assert.is_true(pages.is_target(target), target)
            n = n + 1
        end
        assert.is_true(n >= 6)
    end)
end)
