-- Many threads on one client, under the sanitizers, while servers come and go.
local support = require "spec.support"

local LEASE_MAX = 0.4              -- of threads.c

-- Nightly: five times as long
local TIMES, EACH = os.getenv "NIGHTLY" and 5 or 1, 4.5

local RUNS = {
    {
        name = "without data races",
        program = "build/spec/threads-tsan",
        -- A child of a fork may start threads; it is not watched any more.
        env = { TSAN_OPTIONS = "die_after_fork=0" },
    },
    {
        name = "without errors of memory, leaks or undefined behaviour",
        program = "build/spec/threads-asan",
        env = {
            ASAN_OPTIONS = "detect_leaks=1:detect_stack_use_after_return=1",
            UBSAN_OPTIONS = "print_stacktrace=1",
        },
    },
}

local counted = os.getenv "SPEC_CORE"
if counted then
    RUNS = { { name = "with their lines counted", program = counted .. "/threads" } }
end

-- The lease that is held all the time is on the server (again), or all is over.
local function has_main(server, p)
    support.eventually(function()
        return server:call("EXISTS", "main") == 1 or not p:alive()
    end, 60)
end

-- Nothing keeps a server that forgot its locks from voting but that it is away for longer
-- than they last.
local function hurt(cluster, p)
    cluster:each(function(server) has_main(server, p) end)
    support.sleep(0.3)
    cluster[1]:kill()
    support.sleep(2 * LEASE_MAX)
    cluster[1]:start()
    has_main(cluster[1], p)
    support.sleep(0.3)
    cluster[2]:freeze()
    support.sleep(0.6)
    cluster[2]:thaw()
    support.sleep(0.6)
    cluster[3]:kill()
    support.sleep(2 * LEASE_MAX)
    cluster[3]:start()
end

describe("threads share a client", function()
    for _, run in ipairs(RUNS) do
        it(run.name, function()
            local why = run.env and run.env.TSAN_OPTIONS and support.no_tsan()
            if why then return pending(why) end
            local dir = support.certificates()
            local cluster = support.cluster(2)
            cluster[3] = support.tls_server(dir, "good")
            local p = support.spawn {
                run.program, "-t", EACH * TIMES, "-c", dir .. "/ca.crt", cluster[1].port,
                cluster[2].port, cluster[3].tls_port,
                stdout = "pipe", stderr = "stdout", env = run.env,
            }
            for _ = 1, TIMES do
                hurt(cluster, p)
            end
            local text = p:read_all(60)
            assert.equal(0, p:wait(10), text)
            assert.matches("1 passed, 0 failed\n$", text)
            assert.is_nil(text:find "Sanitizer", text)
            assert.is_nil(text:find "runtime error", text)
        end)
    end
end)
