-- SAFETY.md: its names mean the same everywhere.
local pages = require "spec.support.pages"

local PAGE, SIM = "spec/SAFETY.md", "spec/sim/README.md"

describe("the assumptions and promises of SAFETY.md", function()
    local rests = {}             -- by name: the last cell of its row
    for name, cells in pages.text(PAGE):gmatch "\n| %*%*([HP]%d)%*%* ([^\n]*)|" do
        rests[name] = cells:match "([^|]*)$"
    end

    it("are those that pages name, and each promise says what it rests on", function()
        for _, path in ipairs { SIM, unpack(pages.list) } do
            for name in pages.text(path):gmatch "%f[%w][HP]%d%f[^%w]" do
                assert.truthy(rests[name], path .. ": " .. name)
            end
        end
        for name, on in pairs(rests) do
            assert.truthy(name:find "H" or on:find "H%d" or on:find "nothing", name)
        end
    end)

    it("are broken by a fault of the simulator, or by none, as its page says", function()
        local faults, broken = pages.text "spec/sim/faults.lua", {}
        for word, names in pages.text(SIM):gmatch "\n| `(%l+)` | ([H%d, ]*)|" do
            assert.truthy(faults:find('breaks = [^\n]*"' .. word .. '"')
                or faults:find("broken." .. word .. " =", 1, true), word)
            for name in names:gmatch "H%d" do
                broken[name] = true
            end
        end
        for name in pages.text(SIM):match("No fault breaks ([^.]*)%."):gmatch "H%d" do
            assert.is_nil(broken[name], name)
            broken[name] = true
        end
        for name in pairs(rests) do
            assert.equal(name:find "H" ~= nil, broken[name] or false, name)
        end
    end)
end)
