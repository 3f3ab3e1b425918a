--- Visits small worlds whole (make exhaust), or a part of them, or one run. Environment:
--   WORLD, KIND   only these: names with commas (worlds/, kinds.lua)
--   PART          "k n": of each world and kind one of n shares, another one for each k of 0 to
--                 n - 1; "n": with a k that changes with the commit
--   LIMITS        "path=1 fault=0": of odd choices, instead of those of the worlds
--   RUN           one run of one world and kind, as a wrong one is printed: with all its events
--   J             on how many cores (as many as there are)
--   STOP=1        end at the first that goes wrong
--   SIM_CPATH, SIM_LUA   where the core and the library are (spec/sim/mutate.lua)
--
-- The exit status is 1 if a run went wrong.

local env = os.getenv
local lua = env "SIM_LUA" or "lua"
package.path = ("./?.lua;%s/?.lua;%s/?/init.lua;./build/?.lua;"):format(lua, lua) .. package.path
package.cpath = (env "SIM_CPATH" or "./build/?.so") .. ";" .. package.cpath

-- Many short functions that call each other, and garbage that is best collected between two runs.
jit.opt.start("maxtrace=8000", "maxmcode=65536", "sizemcode=64", "maxside=20", "hotloop=200",
    "hotexit=100")
collectgarbage("setpause", 1000)
local GARBAGE_KB = 128 * 1024
local MOST = env "STOP" and 1 or 20      -- wrong runs, and no more
io.stdout:setvbuf "line"

local explorer = require "spec.exhaust.explorer"
local jobs = require "spec.sim.jobs"
local kinds = require "spec.exhaust.kinds"
local seeds = require "spec.sim.seeds"
local stage = require "spec.exhaust.stage"

local LOCKS, ALL = { "plain", "fenced" },
    { "plain", "fenced", "read-write", "permit", "fair", "election" }
local FENCED = { "fenced" }
local WORLDS = { { "look", LOCKS }, { "ahead", FENCED }, { "older", FENCED }, { "wild", FENCED },
    { "sequencer", FENCED }, { "permits", { "permit" } }, { "line", { "fair" } },
    { "ask", ALL }, { "release", ALL }, { "renewal", ALL }, { "quarantine", LOCKS },
    { "handover", LOCKS }, { "init", LOCKS }, { "short", LOCKS }, { "left", LOCKS },
    { "force", { "plain", "deaf" } }, { "owners", LOCKS }, { "close", LOCKS },
    { "once", { "plain", "before" } } }

local function limits_of(world, kind)
    local limits = { odd = math.min(kinds[kind].odd, world.odd) }
    for class, n in pairs(world.limits) do
        limits[class] = n
    end
    for class, n in (env "LIMITS" or ""):gmatch "(%w+)=(%d+)" do
        limits[class] = tonumber(n)
    end
    return limits
end

-- ---- one run ---------------------------------------------------------------------------

-- Says which run goes wrong: how to repeat it, what is odd in it, and what is wrong.
local function print_wrong(name, kind, word, sentence, fault)
    local limits = env "LIMITS" and ("LIMITS='%s' "):format(env "LIMITS") or ""
    print(("%sWORLD=%s KIND=%s RUN=%s make exhaust: %s: %s"):format(limits, name, kind, word,
        sentence, fault))
end

local function replay(list)
    local name, kind = list[1][1], list[1][2]
    local world = require("spec.exhaust.worlds." .. name)
    local choices = explorer.choices(explorer.read(env "RUN"), limits_of(world, kind))
    local s = stage.run(world, choices, kinds[kind], print)      -- at once, as it may crash
    print(choices:sentence())
    print(s.fault or "nothing went wrong")
    return not s.fault
end

-- ---- a share of one world, with one kind ---------------------------------------------------

local function visit(name, kind, share, shares)
    local world, bad = require("spec.exhaust.worlds." .. name), 0
    local runs = explorer.visit(limits_of(world, kind), function(choices, tape, mine)
        if env "EXHAUST_TOLD" then
            choices.tell = function()
                print(("~ %s ~ %s"):format(explorer.word(tape), choices:sentence()))
            end
        end
        local s = stage.run(world, choices, kinds[kind])
        if collectgarbage "count" > GARBAGE_KB then
            collectgarbage()
        end
        if s.fault and mine then
            bad = bad + 1
            print_wrong(name, kind, explorer.word(tape), choices:sentence(), s.fault)
        end
        return bad < MOST
    end, share, shares)
    print(("= %d %d %.1f"):format(runs, bad, os.clock()))
end

-- ---- all -------------------------------------------------------------------------------

-- The first share to run of the i-th world and kind, on j cores, and of how many: not all of them
-- the k-th, as shares that begin alike are as large.
local function part(i, j)
    local k, n = (env "PART" or "0 1"):match "^(%d+) (%d+)$"
    n = tonumber(n or env "PART")
    return ((k and tonumber(k) or seeds.first()) + 37 * i) % n * j, n * j
end

local function wanted(list, name)
    return not list or ("," .. list .. ","):find("," .. name .. ",", 1, true)
end

-- Which run of a share crashes: the share once more, told of each odd choice.
-- @return its word and sentence
local function crashed_in(work)
    local pipe = io.popen(("EXHAUST_TOLD=1 EXHAUST_WORK='%s' luajit spec/exhaust/run.lua 2>&1")
        :format(work))
    local word, sentence = "-", "all goes as usual"
    for line in pipe:lines() do
        local one, said = line:match "^~ (%S+) ~ (.*)$"
        word, sentence = one or word, said or sentence
    end
    pipe:close()
    return word, sentence
end

-- Runs one world and kind, a process for each core.
local function share_out(name, kind, i, j)
    local first, shares = part(i, j)
    local pipes, runs, bad, seconds = {}, 0, 0, 0
    for k = 0, j - 1 do
        pipes[k + 1] = io.popen(("EXHAUST_WORK='%s %s %d %d' luajit spec/exhaust/run.lua"):format(
            name, kind, first + k, shares))
    end
    for k, pipe in ipairs(pipes) do
        local done = false
        for line in pipe:lines() do
            local n, wrong, took = line:match "^= (%d+) (%d+) ([%d.]+)$"
            done = done or n ~= nil
            runs, bad = runs + (n or 0), bad + (wrong or 0)
            seconds = seconds + (took or 0)
            if not n then
                print(line)
            end
        end
        pipe:close()
        if not done then
            runs, bad = runs + 1, bad + 1
            local word, sentence = crashed_in(("%s %s %d %d"):format(name, kind, first + k - 1,
                shares))
            print_wrong(name, kind, word, sentence, "it crashes")
        end
    end
    print(("%-11s %-11s %8d runs  %4d wrong  %6.1f s of processor"):format(name, kind, runs, bad,
        seconds))
    return runs, bad
end

-- The worlds and kinds that were asked for: { name, kind, its number among all }. Ends the program
-- if there are none; with RUN also if there are several.
local function chosen()
    local list, known, i = {}, {}, 0
    for _, one in ipairs(WORLDS) do
        for _, kind in ipairs(one[2]) do
            i = i + 1
            if wanted(env "WORLD", one[1]) and wanted(env "KIND", kind) then
                table.insert(list, { one[1], kind, i })
            end
        end
        table.insert(known, ("  %-11s %s"):format(one[1], table.concat(one[2], ", ")))
    end
    if #list == 0 or env "RUN" and #list > 1 then
        io.stderr:write(("%s: WORLD=%s KIND=%s. The worlds, and the kinds of each:\n%s\n"):format(
            #list == 0 and "there is no such world" or "RUN needs one world and one kind",
            env "WORLD" or "", env "KIND" or "", table.concat(known, "\n")))
        os.exit(1)
    end
    return list
end

local function everything(list)
    local j, runs, bad = tonumber(env "J" or jobs.cores()), 0, 0
    for _, one in ipairs(list) do
        if not (env "STOP" and bad > 0) then
            local more, wrong = share_out(one[1], one[2], one[3], j)
            runs, bad = runs + more, bad + wrong
        end
    end
    print(("%d passed, %d failed"):format(runs - bad, bad))
    return bad == 0 and runs > 0
end

local work = env "EXHAUST_WORK"
if work then
    local name, kind, share, shares = work:match "(%S+) (%S+) (%d+) (%d+)"
    visit(name, kind, tonumber(share), tonumber(shares))
else
    local act = env "RUN" and replay or everything
    os.exit(act(chosen()) and 0 or 1)
end
