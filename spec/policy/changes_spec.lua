-- Random schedules of changes of servers, in worlds: spec/sim/changes.lua.
local changes = require "spec.sim.changes"

-- Which caught wrong variants (spec/sim/mutants.lua) that others let pass.
local SEEDS = { 226, 228, 279 }

describe("changes of servers in worlds", function()
    local function run(seed)
        local wrong = changes.run(seed)
        assert.is_nil(wrong, ("seed %d: %s; luajit spec/sim/changes.lua %d"):format(seed,
            tostring(wrong), seed))
    end

    it("give no name to two, no token twice, and leave no name stuck", function()
        for _, seed in ipairs(SEEDS) do
            run(seed)
        end
        for seed = 1, 60 do
            run(seed)
        end
    end)

    -- Nightly: minutes.
    it("hold in thousands of schedules #nightly", function()
        local first = 1000 * (os.time() % 1000000)
        for seed = first, first + 3000 do
            run(seed)
        end
    end)
end)
