-- Short runs of what spec/stress/ does for hours.
local support = require "spec.support"
local fence = require "spec.stress.fence"

describe("fencing tokens under stress", function()
    teardown(support.cleanup)

    -- Nightly: servers that forget, below, are more
    it("never repeat, and never go back #nightly", function()
        local r = fence.run(1500, 7)
        assert.same({}, r.wrong)
        assert.is_true(r.holds >= 1500 and r.writes > 0 and r.deletions > 0)
    end)

    it("never repeat where servers forget, one at a time", function()
        local holds = os.getenv "NIGHTLY" and 1500 or 500
        local r = fence.run(holds, 8, "forgets")
        assert.same({}, r.wrong)
        assert.is_true(r.holds >= holds and r.restarts + r.flushes > 0)
    end)

    -- Nightly: a mutant of the simulator does the same
    it("do so without the second round, and are caught #nightly", function()
        for seed = 1, 10 do
            if #fence.run(1500, seed, "unconfirmed").wrong > 0 then
                return
            end
        end
        error "ten runs without the second round, and nothing wrong was seen"
    end)
end)
