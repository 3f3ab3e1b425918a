-- What fenced locks leave on the servers ends when their counters expire; `make bench-fencing`
-- does the same with a million names.
-- Nightly, all of it: 20 s until thousands of names end; fenced_spec has one
local bench = require "spec.bench.fence_memory"

describe("many fenced names", function()
    it("leave nothing behind at the end but floors, whose number is bounded", function()
        local rows = bench.run(3000, 20, function() end)
        assert.equal(3, #rows)
        local counters = 0
        for _, row in ipairs(rows) do
            -- A slow server may be left behind by the majority, and know fewer.
            counters = counters + row.counters
            assert.is_true(row.counters <= 3000, row.counters)
            assert.is_true(row.per_name < 250, row.per_name)
            assert.equal(0, row.left)
            assert.is_true(row.floors <= 1024, row.floors)
            assert.is_true(row.floor_bytes < 100 * 1024, row.floor_bytes)
            assert.is_true(row.grown < row.counters * row.per_name / 4, row.grown)
        end
        assert.is_true(counters >= 2 * 3000, counters)
    end)
end)
