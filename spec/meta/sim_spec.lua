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

    it("depends on nothing that ran before", function()
        local alone = simulate "SEED=60 SIM_WORK='60 1 1'"
        local after = simulate "SIM_WORK='50 1 11'"
        local before = simulate "SIM_WORK='50 1 10'"
        local function holds(output)
            return tonumber(output:match "= %d+ 0 (%d+)")
        end
        assert.equal(holds(alone), holds(after) - holds(before))
    end)

    -- A fault that draws more than before, and strikes more often.
    local CHANGED = [[
        package.preload["spec.sim.faults"] = function()
            local faults = dofile "spec/sim/faults.lua"
            for _, fault in ipairs(faults.list) do
                if fault.name == "stopped between rounds" then
                    local strike = fault.strike
                    fault.times = { 4, 9 }
                    fault.strike = function(sim)
                        sim:below(9)
                        return strike(sim)
                    end
                end
            end
            return faults
        end]]

    it("leaves alone the schedules that do not have a fault when that fault changes", function()
        local same, changed = 0, 0
        for seed = 201, 240 do
            local work = ("SIM_WORK='%d 1 1'"):format(seed)
            local before = simulate(work):match "^(= 1 0 .*) %S+%s*$"
            local after = simulate(work .. (" LUA_INIT='%s'"):format(CHANGED))
            assert.is_string(before)
            if after:match "^(= 1 0 .*) %S+%s*$" == before then
                same = same + 1
            else
                changed = changed + 1
            end
        end
        assert.is_true(changed > 0, "no schedule had the fault")
        assert.is_true(same >= 20, same .. " of 40 schedules stayed as they were")
    end)

    it("draws seeds by the commit, by the date, and by the version where there is no git",
        function()
            local function first(env, prefix)
                local pipe = io.popen(env .. " luajit -e '" .. (prefix or "")
                    .. " local seeds = require \"spec.sim.seeds\" print(seeds.first())'")
                local text = pipe:read "*a"
                pipe:close()
                local seed, whence = text:match "^(%S+)%s+(.-)%s*$"
                return tonumber(seed), whence
            end
            local seed, whence = first "GIT_DIR=/nowhere"
            assert.matches("^version ", whence)
            assert.is_true(seed >= 1 and seed <= 1e9)
            assert.equal(seed, (first "GIT_DIR=/nowhere"))
            local today, date = first "DATE=20261125"
            assert.equal("date 20261125", date)
            assert.equal(4e6, first "DATE=20261126" - today)
            assert.equal(17, (first "SEED=17"))
            assert.matches("remembered seeds; then from seed", simulate "N=1 J=1", 1, true)
            assert.not_matches("remembered", simulate "SEED=5 N=1 J=1", 1, true)
        end)

    it("has the family in every sixteenth schedule, and leaves the others as they are", function()
        local function sums(env, first)
            local output = simulate(env .. (" SIM_WORK='%d 16 9'"):format(first))
            return output:match "^(= 9 0 .*) %S+%s*$"            -- less the time it took
        end
        for _, first in ipairs { 4, 5, 6 } do
            local drawn, locks = sums("", first), sums("SIM_FAMILY=none", first)
            assert.is_string(drawn)
            assert.equal(first ~= 5, drawn == locks)
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
