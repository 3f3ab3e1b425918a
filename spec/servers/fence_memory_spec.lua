-- What fenced locks leave on the servers ends after fence_ttl; `make bench-fencing` does the
-- same with a million names.
local support = require "spec.support"
local bench = require "spec.bench.fence_memory"

-- Nightly: 20 s until thousands of names end; the next test has one
describe("many fenced names #nightly", function()
    teardown(support.cleanup)

    it("leave nothing behind after fence_ttl but floors, whose number is bounded", function()
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

describe("a fenced name", function()
    after_each(support.cleanup)

    it("has larger tokens after its counter is gone [40]", function()
        local cluster = support.cluster(3, { new = true }):admit(0.5)
        local client = support.warm_client(cluster, { max_lease = 0.5, lease = 0.5,
            fence_ttl = 0.5 })
        local last = bench.lock_once(client, "idle:", 1)
        for _ = 1, 3 do
            support.eventually(function()
                local left = 0
                cluster:each(function(s) left = left + #s:call("KEYS", "*:fence") end)
                return left == 0
            end)
            local token = bench.lock_once(client, "idle:", 1)
            assert.is_true(token > last)
            last = token
        end
        client:close()
    end)
end)
