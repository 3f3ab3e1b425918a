-- What a cycle costs in instructions, which no load of the machine changes.
local instructions = require "spec.bench.instructions"
require "spec.support"               -- undoes what that starts

describe("the instructions", function()
    local cycle, futures

    setup(function() cycle, futures = instructions.count() end)

    it("of a cycle and of 1,000 futures are as many as before", function()
        local what = instructions.here()
        local cycle_before, futures_before = instructions.known(what)
        if not cycle_before then
            pending("not counted with " .. what)
            return
        end
        for name, pair in pairs { ["a cycle"] = { cycle, cycle_before },
            ["1,000 futures"] = { futures, futures_before } } do
            assert.is_true(math.abs(pair[1] / pair[2] - 1) <= instructions.TOLERANCE,
                ("%s: %d instructions, and %d before; if that is meant: make instructions"):format(
                    name, pair[1], pair[2]))
        end
    end)

    -- LuaJIT's tables: one more than 1,023 is as many as one of them has room for.
    it("of a cycle beside as many held as fill a table are hardly more", function()
        local alone, beside = instructions.count_beside(1), instructions.count_beside(1023)
        assert.is_true(beside < alone * 1.2, ("%d, alone %d"):format(beside, alone))
    end)

    it("of a cycle with metrics are hardly more", function()
        local added = instructions.count_metered()       -- 0.65 %
        assert.is_true(added > 0 and added <= cycle * 0.016, ("%d of %d"):format(added, cycle))
    end)
end)
