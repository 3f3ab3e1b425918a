-- Chaos on real servers and processes; see spec/chaos/README.md. The seeds are fixed here, for
-- a run must mean the same for everybody; `make chaos` takes fresh ones.
local support = require "spec.support"
local build = require "spec.support.build"
local run = require "spec.chaos.run"
local schedule = require "spec.chaos.schedule"
local sys = require "spec.support.sys"

local GUARD_S = 1.3

local function plan(seed, more)
    local opts = { seed = seed, seconds = 60, nodes = 5, clients = 8, nginx = 1, claim = true,
        guard_s = GUARD_S }
    for name, value in pairs(more or {}) do
        opts[name] = value
    end
    return schedule.new(opts)
end

local function texts(list)
    local lines = {}
    for i, item in ipairs(list) do
        lines[i] = type(item) == "string" and item or item.text or schedule.describe(item)
    end
    return table.concat(lines, "\n")
end

describe("a schedule", function()
    it("impairs a minority of the servers, those in quarantine among them", function()
        for seed = 1, 50 do
            local guard = seed % 2 == 0
            local list = plan(seed, { guard = guard })
            for _, f in ipairs(list) do
                local n = 0
                for _, other in ipairs(list) do
                    local fault = schedule.fault(other)
                    local impairs = fault.impairs or guard and fault.guarded or other.door
                    if impairs and other.t <= f.t and f.t <= other.ends then
                        n = n + 1
                    end
                end
                assert.is_true(n <= 2)
            end
        end
    end)
end)

local function chaos(opts)
    local lines = {}
    opts.out = opts.out or build.root .. "/build/chaos"
    opts.report = function(line) lines[#lines + 1] = line end
    local started = support.now()
    local verdict = run.run(opts)
    verdict.took = support.now() - started
    verdict.story = ("seed %s\n%s\n%s"):format(opts.seed, table.concat(lines, "\n"),
        texts(verdict.violations))
    return verdict
end

local function count(list)
    local kinds, n = 0, 0
    for _, k in pairs(list) do
        kinds, n = kinds + 1, n + k
    end
    return kinds, n
end

-- Whether much was done and suffered, as happens on a machine that is not too busy; and it in
-- words.
local function was_a_trial(v, opts)
    local kinds, n = count(v.faults)
    local counts = setmetatable({}, { __index = function(_, name) return v.counts[name] or 0 end })
    local told = ("chaos: %d faults of %d kinds, %d acquired, %d lost, %d accepted; %d orphaned; "
        .. "of the careless %d lost updates, %d intrusions"):format(
        n, kinds, counts.acquired, counts.lost, counts.accepted, counts.orphaned,
        v.lost_updates.careless, v.intrusions.careless)
    return kinds >= 5 and counts.acquired > 3 * opts.seconds and counts.lost > 0
        and counts.accepted > opts.seconds and counts.orphaned > 0, told
end

describe("chaos", function()
    -- Nightly: longer trials, with fewer servers, without the guard, beyond what is promised
    for _, opts in ipairs {
        { seed = 20261, nodes = 5, seconds = 10 },
        { seed = 20261, nodes = 5, seconds = 28 },
        { seed = 20262, nodes = 3, seconds = 18, restart_guard = false },
        { seed = 20263, nodes = 5, seconds = 12, restart_guard = false, claim = false },
    } do
        it(("of %d s does no harm, %d servers%s%s%s"):format(opts.seconds, opts.nodes,
            opts.restart_guard == false and " without restart guard" or "",
            opts.claim == false and ", beyond what can be promised" or "",
            opts.seconds > 10 and " #nightly" or ""), function()
            local trial, told, v
            for _ = 1, 2 do             -- what was no trial is tried once more
                v = chaos(opts)
                assert.same({}, v.violations, v.story)
                trial, told = was_a_trial(v, opts)
                print(told .. (trial and "" or ": too little"))
                if trial then
                    break
                end
            end
        end)
    end
end)

describe("make chaos", function()
    it("prints the schedule, what came of it, and where it is written down", function()
        local p = support.spawn { "luajit", build.root .. "/spec/chaos/main.lua", "2", "11", "3",
            stdout = "pipe", stderr = "stdout", cwd = build.root, env = support.lua_env() }
        local text = p:read_all(120)
        assert.equal(0, p:wait(10), text)
        assert.matches("^chaos: seed 11, 3 servers, 2 s\n +[%d.]+ s +%a", text)
        assert.matches("\ncalls: accepted %d+, acquired %d+", text)
        assert.matches("\n0 violations; history: build/chaos/11.jsonl\n$", text)
    end)
end)

-- A copy of the library that is wrong in one place. (A run removes temporary directories.)
local function mutant(name, file, from, to)
    local dir = ("%s/build/mutants/%s"):format(build.root, name:gsub(" ", "-"))
    assert(support.sh(("rm -rf '%s'; mkdir -p '%s/build' && cd '%s' && cp -a c lua Makefile "
        .. "'%s' && cp -a build/obj build/redlock '%s/build'"):format(dir, dir, build.root, dir,
        dir)))
    local text = sys.read_file(dir .. "/" .. file)
    local at, last = text:find(from, 1, true)
    assert(at, file .. " has changed: '" .. from .. "' is not there")
    sys.write_file(dir .. "/" .. file, text:sub(1, at - 1) .. to .. text:sub(last + 1))
    assert(support.sh(("make -s -C '%s' CFLAGS=-O1 all"):format(dir)))
    return dir
end

-- Nightly: each is built, and tried for up to three seeds
describe("a library that #nightly", function()
    for what, m in pairs {
        ["releases whatever is there"] = { "lua/redlock/scripts/lock/release.lua",
            "if value == ARGV[1] then", "if value then", "while it is client" },
        ["is content with half of the servers"] = { "c/core/base/quorum.c",
            "return n / 2 + 1;", "return n / 2;", "while it is client" },
        ["counts on twice the lease"] = { "c/core/base/quorum.c",
            "return started_ms + lease_ms -", "return started_ms + 2 * lease_ms -",
            "ms of validity of a lease of" },
        ["does not tell of losses"] = { "lua/redlock/lock/holds.lua",
            "local those = hold.on_lost or {}", "local those = {}", "not told of the loss" },
        ["believes tokens unconfirmed"] = { "lua/redlock/kinds/fenced_lock.lua",
            'confirm = script("fenced.counter", "fenced.counted", "fenced.confirm")',
            'confirm = "return 1"', "token",
            { nodes = 3, kinds = { "fenced" }, bare = true, only = {}, seconds = 3 } },
        ["lets readers in beside writers"] = { "lua/redlock/scripts/rw/read_acquire.lua",
            "if kind == 'none' or kind == 'zset' then",
            "if kind == 'string' then call('del', KEYS[1]) kind = 'none' end if true then",
            "while it is client", { kinds = { "family" } } },
        ["gives a slot twice"] = { "lua/redlock/scripts/slots/acquire.lua",
            "if not call('zscore', KEYS[1], slot) then", "if true then", "'permits/%d' while",
            { kinds = { "family" } } },
        ["lets late writers in"] = { "lua/redlock/scripts/resource/mark.lua",
            "if token < highest then", "if false then", "update is lost",
            { kinds = { "fenced" } } },
    } do
        it(what .. " is caught", function()
            local library = mutant(what, m[1], m[2], m[3])
            local v
            for seed = 5, 7 do
                local opts = { seed = seed, seconds = 4, nginx = 0, library = library,
                    out = library .. "/chaos" }
                for name, value in pairs(m[5] or {}) do
                    opts[name] = value
                end
                v = chaos(opts)
                for _, violation in ipairs(v.violations) do
                    if violation.text:find(m[4]) then
                        return
                    end
                end
            end
            error("not caught; " .. v.story)
        end)
    end
end)
