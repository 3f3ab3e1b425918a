-- Short runs of what spec/stress/ does for hours.
local support = require "spec.support"
local fence = require "spec.stress.fence"

describe("fencing tokens under stress", function()
    teardown(support.cleanup)

    it("never repeat, and never go back", function()
        local r = fence.run(1500, 7)
        assert.same({}, r.wrong)
        assert.is_true(r.holds >= 1500 and r.writes > 0 and r.deletions > 0)
    end)

    it("never repeat where servers forget, one at a time", function()
        local r = fence.run(1500, 8, "forgets")
        assert.same({}, r.wrong)
        assert.is_true(r.holds >= 1500 and r.restarts + r.flushes > 0)
    end)

    it("do so without the second round, and are caught", function()
        for seed = 1, 10 do
            if #fence.run(1500, seed, "unconfirmed").wrong > 0 then
                return
            end
        end
        error "ten runs without the second round, and nothing wrong was seen"
    end)
end)
