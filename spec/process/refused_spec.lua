-- Memory, descriptors, threads and calls on sockets are refused, one at every moment in turn:
-- callers are told, what they ask for again works, and nothing is left behind. In the day that
-- is every 60th moment, at night every one.
local support = require "spec.support"

local counted = os.getenv "SPEC_CORE"           -- by `make coverage`
local RUNS = counted and { [counted .. "/refused"] = 1 }
    or os.getenv "NIGHTLY" and { ["build/spec/refused"] = 1, ["build/spec/refused-asan"] = 10 }
    or { ["build/spec/refused"] = 60, ["build/spec/refused-asan"] = 90 }

describe("what the system refuses", function()
    after_each(support.cleanup)

    for program, stride in pairs(RUNS) do
        it("does no harm to " .. program:match "[^/]*$", function()
            local dir = support.certificates()
            local cluster = support.cluster(2)
            cluster[3] = support.tls_server(dir, "good")
            local p = support.spawn {
                program, "-s", os.getenv "STRIDE" or stride, "-c", dir .. "/ca.crt",
                cluster[1].port, cluster[2].port, cluster[3].tls_port,
                stdout = "pipe", stderr = "stdout",
            }
            local text = p:read_all(3600)
            assert.equal(0, p:wait(10), text)
            assert.matches("1 passed, 0 failed\n$", text)
            assert.is_true(tonumber(text:match "^(%d+) times") > 20)
            cluster:each(function(server) assert.equal(0, server:keys()) end)
        end)
    end
end)
