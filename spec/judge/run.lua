--- Asks every verb about every cause, on some of the servers and on all (make judge). Environment:
--   CAUSE   only these: names with commas
--   PLACE   only there: "2 of 3"
--   PART    "n": one of n cells that change with the commit
--   J       how many at once (as many as there are cores)
--
-- The exit status is 1 if a cell is wrong.

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
        for _, place in ipairs(PLACES) do
            local k, n = unpack(place)
            local here = not env "PLACE" or env "PLACE" == k .. " of " .. n
            if here and (k == n or not causes[name].every)
                and not (n == 1 and causes[name].guarded or n > 1 and causes[name].alone) then
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
    print(("= %d %d"):format(cells, bad))
end

local share = env "JUDGE_WORK"
if share then
    work(share:match "(%d+) (%d+)" + 0, share:match "%d+ (%d+)" + 0)
    os.exit(0)
end
local j, cells, bad, pipes = tonumber(env "J" or jobs.cores()), 0, 0, {}
for i = 1, j do
    pipes[i] = io.popen(("JUDGE_WORK='%d %d' luajit spec/judge/run.lua 2>&1"):format(i - 1, j))
end
for _, pipe in ipairs(pipes) do
    local done
    for line in pipe:lines() do
        local n, wrong = line:match "^= (%d+) (%d+)$"
        if n then
            cells, bad, done = cells + n, bad + wrong, true
        else
            print(line)
        end
    end
    pipe:close()
    bad = bad + (done and 0 or 1)
end
print(("%d passed, %d failed"):format(cells - bad, bad))
os.exit(bad == 0 and cells > 0 and 0 or 1)
