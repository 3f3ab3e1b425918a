-- The simulator itself: the same seed gives the same schedule, and it does find the double
-- hold when an assumption of the algorithm is broken. (That it finds mistakes of the library
-- is shown by the mutants: spec/sim/mutants.lua.)

local sys = require "spec.support.sys"

local function simulate(env, option)
    local pipe = io.popen(("%s luajit %s spec/sim/run.lua 2>&1"):format(env, option or ""))
    local output = pipe:read "*a"
    pipe:close()
    return output
end

describe("the simulator", function()
    setup(function()
        assert.is_true(sys.sh "make -s sim-core")
    end)

    it("replays a seed, event by event", function()
        for _, seed in ipairs { 3, 17, 101 } do
            local first = simulate("SEED=" .. seed)
            assert.matches("no violation", first)
            assert.matches("holding", first)
            assert.equal(first, simulate("SEED=" .. seed))
        end
    end)

    it("plays every prefix to its end", function()
        local names = {}
        for _, file in ipairs { "counterexamples", "prefixes" } do
            local text = io.open("spec/sim/" .. file .. ".lua"):read "*a"
            for name in text:gmatch '{ name = "([^"]+)"' do
                names[#names + 1] = name
            end
        end
        assert.is_true(#names >= 20)
        for _, name in ipairs(names) do
            local output = simulate(("PREFIX='%s' SEED=5"):format(name))
            assert.matches("no violation", output, 1, true)
            assert.matches("prefix over: " .. name, output, 1, true)
        end
    end)

    it("depends on no collector and no compiler", function()
        local function sums(output)
            return output:match "^(= %d+ 0 .*) %S+%s*$"          -- less the time it took
        end
        local work = ("SIM_WORK='1000 1 %d'"):format(os.getenv "NIGHTLY" and 600 or 60)
        local compiled = sums(simulate(work))
        assert.is_string(compiled)
        assert.equal(compiled, sums(simulate(work, "-joff")))
    end)

    for _, fault in ipairs { "all memory lost", "last second lost", "FLUSHALL", "a key deleted",
        "server clock steps", "server clock races", "frozen boot clock" } do
        it("finds two holders after: " .. fault, function()
            local output = simulate(("SIM_STOP=1 SIM_IGNORE='one holder' SIM_FAULTS='%s,%s,"
                .. "silence,crash,killed client' SIM_WORK='1 1 20000'"):format(fault, fault))
            assert.matches("one holder: client .* both hold", output)
        end)
    end
end)
