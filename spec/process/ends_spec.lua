-- Threads, forks and exits that come at an awkward moment, under the sanitizers.
local support = require "spec.support"

local CASES = { "exit_before_close", "exit_while_waiting", "exit_while_unsharing",
    "two_who_wait", "keep_in_a_child", "a_sleep_while_unsharing",
    "a_resolver_that_hangs", "signals_with_a_handler", "signals_while_forking",
    "signals_on_a_busy_machine", "signals_handed_on" }

describe("a process", function()
    local cluster = support.shared_cluster(3)

    local function survives(program, case)
        local p = support.spawn {
            program, case, cluster[1].port, cluster[2].port, cluster[3].port,
            stdout = "pipe", stderr = "stdout",
            -- It ends in the middle; and a child may start threads.
            env = { ASAN_OPTIONS = "detect_leaks=0", TSAN_OPTIONS = "die_after_fork=0" },
        }
        local text = p:read_all(60)
        assert.equal(0, p:wait(10), text)
        assert.equal("", text)
        cluster:await_free()
    end

    for _, case in ipairs(CASES) do
        it("survives " .. case:gsub("_", " "), function()
            survives("build/spec/ends", case)
        end)

        if case:find "^signals" then
            it("has no data races: " .. case:gsub("_", " "), function()
                local why = support.no_tsan()
                if why then return pending(why) end
                survives("build/spec/ends-tsan", case)
            end)
        end
    end
end)
