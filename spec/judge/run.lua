--- Asks every verb about every cause, on some of the servers and on all (make judge). Environment:
--   CAUSE   only these: names with commas
--   PLACE   only there: "2 of 3"
--   PART    "n": one of n cells that change with the commit
--   SHOW    1: what each verb says
--   J       how many at once (four for each core, as most of the time they wait)
--
-- The rows go to stderr, their number to stdout. The exit status is 1 if a cell is wrong.

package.path = "./?.lua;./?/init.lua;./lua/?.lua;./lua/?/init.lua;./build/?.lua;" .. package.path
package.cpath = "./build/?.so;" .. package.cpath
io.stdout:setvbuf "line"

local causes = require "spec.judge.causes"
local jobs = require "spec.sim.jobs"
local judge = require "spec.judge.judge"
local scope = require "spec.support.scope"
local seeds = require "spec.sim.seeds"

local env = os.getenv
local PLACES = { { 1, 1 }, { 1, 3 }, { 2, 3 }, { 3, 3 } }

local function wanted(list, name)
    return not list or ("," .. list .. ","):find("," .. name .. ",", 1, true)
end

-- All stages, as { name, k, n }, in an order that does not change.
local function stages()
    local names, list = {}, {}
    for name in pairs(causes) do
        names[#names + 1] = wanted(env "CAUSE", name) and name or nil
    end
    table.sort(names)
    for _, name in ipairs(names) do
        if causes[name].lacks and not env "JUDGE_WORK" then
            print(("skipped: %s, as this machine lacks %s"):format(name, causes[name].lacks))
        end
        for _, place in ipairs(PLACES) do
            local k, n = unpack(place)
            local here = not env "PLACE" or env "PLACE" == k .. " of " .. n
            local cause = causes[name]
            local never = cause.lacks or cause.every and k < n or cause.some and k == n
                or cause.guarded and n == 1 or cause.alone and n > 1
            if here and not never then
                list[#list + 1] = { name, k, n }
            end
        end
    end
    return list
end

-- The stages of this run: with PART a share of them, drawn by the commit.
local function drawn()
    local list, part = stages(), tonumber(env "PART" or 1)
    math.randomseed(seeds.first())
    for i = #list, 2, -1 do
        local k = math.random(i)
        list[i], list[k] = list[k], list[i]
    end
    for i = #list, math.ceil(#list / part) + 1, -1 do
        list[i] = nil
    end
    return list
end

local function work(share, shares)
    local cells, bad = 0, 0
    for i, one in ipairs(drawn()) do
        if i % shares == share then
            local ok, n, wrong = pcall(judge.run, unpack(one))
            scope.cleanup()
            if not ok then
                n, wrong = 1, { ("%s, %d of %d: %s"):format(one[1], one[2], one[3], n) }
            end
            for _, text in ipairs(wrong) do
                print("WRONG: " .. text)
            end
            cells, bad = cells + n, bad + math.min(#wrong, n)
            print(("%-18s %d of %d  %2d cells  %2d wrong"):format(one[1], one[2], one[3], n,
                #wrong))
        end
    end
    assert(io.open("/dev/fd/3", "w")):write(("%d %d\n"):format(cells, bad))
end

local share = env "JUDGE_WORK"
if share then
    work(share:match "(%d+) (%d+)" + 0, share:match "%d+ (%d+)" + 0)
    os.exit(0)
end
local stages_of_run = #drawn()            -- says what is skipped, too
local j, cells, bad, pipes = tonumber(env "J" or 4 * jobs.cores()), 0, 0, {}
for i = 1, j do
    pipes[i] = io.popen(("JUDGE_WORK='%d %d' luajit spec/judge/run.lua 3>&1 1>&2"):format(i - 1, j))
end
for _, pipe in ipairs(pipes) do
    local n, wrong = (pipe:read "*a"):match "^(%d+) (%d+)"
    cells, bad = cells + (n or 1), bad + (wrong or 1)
    pipe:close()
end
print(("%d cells in %d stages"):format(cells, stages_of_run))
print(("%d passed, %d failed"):format(cells - bad, bad))
os.exit(bad == 0 and cells > 0 and 0 or 1)
