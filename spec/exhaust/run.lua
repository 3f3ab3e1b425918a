--- Visits small worlds whole (make exhaust), or a part of them, or one run. Environment:
--   WORLD, KIND   only these: names with commas (worlds/, kinds.lua)
--   PART          "k n": of each world and kind one of n shares, another one for each k of 0 to
--                 n - 1; "n": with a k that changes with the commit, and not all of a large share
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
local MOST_OF_A_PART = 250               -- runs with as many odd choices
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
    { "latch", { "latch" } },
    { "ask", ALL }, { "release", ALL }, { "renewal", ALL }, { "quarantine", LOCKS },
    { "handover", LOCKS }, { "init", LOCKS }, { "short", LOCKS }, { "left", LOCKS },
    { "force", { "plain", "deaf" } }, { "owners", LOCKS }, { "close", LOCKS },
    { "once", { "plain", "before" } } }

local function limits_of(world)
    local limits = {}
    for class, n in pairs(world.limits) do
        limits[class] = n
    end
    for class, n in (env "LIMITS" or ""):gmatch "(%w+)=(%d+)" do
        limits[class] = tonumber(n)
    end
    return limits
end

-- ---- one run ---------------------------------------------------------------------------

-- Says which run goes wrong: how to repeat it, and why.
local function print_wrong(name, kind, word, why)
    local limits = env "LIMITS" and ("LIMITS='%s' "):format(env "LIMITS") or ""
    print(("%sWORLD=%s KIND=%s RUN=%s make exhaust: %s"):format(limits, name, kind, word, why))
end

local function replay(list)
    local name, kind = list[1][1], list[1][2]
    local world = require("spec.exhaust.worlds." .. name)
    local choices = explorer.choices(env "RUN", limits_of(world))
    local s = stage.run(world, choices, kinds[kind], print)      -- at once, as it may crash
    print(choices:sentence())
    print(s.fault or "nothing went wrong")
    return not s.fault
end

-- ---- a share of one world, with one kind ---------------------------------------------------

-- Prints each run, for everything(), and at the end how many there were.
local function visit(name, kind, share, shares, most)
    local world, bad = require("spec.exhaust.worlds." .. name), 0
    local runs = explorer.visit(limits_of(world), function(choices, word, mine)
        print(("~ %s %s %s"):format(name, kind, word))
        local s = stage.run(world, choices, kinds[kind])
        if collectgarbage "count" > GARBAGE_KB then
            collectgarbage()
        end
        if s.fault and mine then
            bad = bad + 1
            print_wrong(name, kind, word, choices:sentence() .. ": " .. s.fault)
        end
        return bad < MOST
    end, tonumber(share), tonumber(shares), tonumber(most))
    print(("%-11s %-11s %8d runs  %4d wrong  %6.1f s of processor"):format(name, kind, runs, bad,
        os.clock()))
    return bad == 0
end

-- ---- all -------------------------------------------------------------------------------

-- Which share of the i-th world and kind is wanted, of how many, and how much of it: not of all the
-- k-th, as shares that begin alike are as large.
local function share_of(i)
    local k, n = (env "PART" or "0 1"):match "^(%d+) (%d+)$"
    n = tonumber(n or env "PART")
    return ((k and tonumber(k) or seeds.first()) + 37 * i) % n, n,
        env "PART" and not k and MOST_OF_A_PART or nil
end

local function wanted(name, one)
    return not env(name) or ("," .. env(name) .. ","):find("," .. one .. ",", 1, true)
end

-- The worlds and kinds that were asked for: { name, kind, share, shares }. Ends the program if
-- there are none; with RUN also if there are several.
local function chosen()
    local list, known, i = {}, {}, 0
    for _, one in ipairs(WORLDS) do
        for _, kind in ipairs(one[2]) do
            i = i + 1
            if wanted("WORLD", one[1]) and wanted("KIND", kind) then
                table.insert(list, { one[1], kind, share_of(i) })
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

-- Visits them, each in a process of its own.
local function everything(list)
    local work, at, runs, bad = {}, {}, 0, 0         -- at: which run each is at
    for i, one in ipairs(list) do
        work[i] = table.concat(one, " ")
    end
    local pipe = io.popen(("echo '%s' | xargs -P %d -L 1 sh -c 'luajit spec/exhaust/run.lua $* "
        .. "|| exit %d' run"):format(table.concat(work, "\n"), env "J" or jobs.cores(),
        env "STOP" and 255 or 1))
    for line in pipe:lines() do
        local pair, word = line:match "^~ (%S+ %S+) (%S+)$"
        local name, kind, n, wrong = line:match "^(%S+) +(%S+) +(%d+) runs +(%d+) wrong"
        if pair then
            at[pair] = word
        else
            print(line)
        end
        if n then
            runs, bad, at[name .. " " .. kind] = runs + n, bad + wrong, false
        end
    end
    pipe:close()
    for _, one in ipairs(list) do
        local word = at[one[1] .. " " .. one[2]]
        if word or word == nil and bad == 0 then
            print_wrong(one[1], one[2], word or "-", "it crashes")
            runs, bad = runs + 1, bad + 1
        end
    end
    print(("%d passed, %d failed"):format(runs - bad, bad))
    return bad == 0 and runs > 0
end

local passed
if arg[1] then
    passed = visit(unpack(arg))
elseif env "RUN" then
    passed = replay(chosen())
else
    passed = everything(chosen())
end
os.exit(passed and 0 or 1)
