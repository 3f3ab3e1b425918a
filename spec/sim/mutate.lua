--- Tries the mutants (make mutants). Environment: ONLY: a part of a name; CI: only those that
-- are caught fast; J: on so many cores.
--
-- A mutant is compiled beside the library, in build/mutants, and run until it is caught. One
-- that is not, within its budget, or whose text is not in its file any more, fails the run.

package.path = "./?.lua;" .. package.path

local BUDGET = 3000
local DIR = "build/mutants"

local function sh(command, ...)
    command = command:format(...)
    local status = os.execute(command)
    if status ~= 0 and status ~= true then       -- true: LuaJIT built to be like Lua 5.2
        error("failed: " .. command, 0)
    end
end

local function read(name)
    local file = assert(io.open(name, "rb"))
    local text = file:read "*a"
    file:close()
    return text
end

local function write(name, text)
    local file = assert(io.open(name, "wb"))
    file:write(text)
    file:close()
end

local function patched(mutant)
    local text = read(mutant.file)
    for _, patch in ipairs(mutant[1] and mutant or { { mutant.from, mutant.to } }) do
        local at, to = text:find(patch[1], 1, true)
        if not at or text:find(patch[1], to + 1, true) then
            error(("the mutant '%s' is stale: what it changes is %s in %s"):format(mutant.name,
                at and "more than once" or "not", mutant.file), 0)
        end
        text = text:sub(1, at - 1) .. patch[2] .. text:sub(to + 1)
    end
    return text
end

--- Makes the mutant in a directory of its own.
local function build(mutant, dir)
    local text = patched(mutant)
    sh("rm -rf %s && mkdir -p %s", dir, dir)
    if mutant.file:match "^c/" then
        local name = mutant.file:match "^c/(.+)%.c$"
        sh("mkdir -p %s/%s", dir, name:match "^(.*)/")
        write(dir .. "/" .. name .. ".c", text)
        sh("make -s mutant-core MUTANT=%s DIR=%s", name, dir)
    else
        sh("cp -r lua %s/lua", dir)
        write(dir .. "/" .. mutant.file, text)
    end
end

local function quote(s)
    return "'" .. s:gsub("'", "'\\''") .. "'"
end

--- Runs schedules until it is caught. The line that says so, or nil.
local function run(mutant, dir)
    local c = mutant.file:match "^c/"
    local pipe = io.popen(("SIM_STOP=1 %s %s %s SIM_FAULTS=%s SIM_CPATH=%s SIM_LUA=%s "
        .. "SIM_WORK='1 1 %d' timeout 100 luajit spec/sim/run.lua 2>&1"):format(
            mutant.guarded ~= nil and "SIM_GUARD=" .. (mutant.guarded and 1 or 0) or "",
            mutant.lease and "SIM_LEASE=" .. mutant.lease or "",
            ("SIM_FAMILY=%s "):format(mutant.family or "none")
                .. (mutant.lists and "SIM_LISTS=1 " or "")
                .. (mutant.deadlocks and "SIM_DEADLOCKS=1 " or "")
                .. (mutant.fenced and "SIM_FENCED=" .. mutant.fenced or "")
                .. (mutant.prefix and " PREFIX=" .. quote(mutant.prefix) or ""),
            quote(table.concat(mutant.faults or {}, ",")), c and dir .. "/?.so" or "build/sim/?.so",
            c and "lua" or dir .. "/lua", mutant.budget or BUDGET))
    local output = pipe:read "*a"
    pipe:close()
    return output
end

local function expected(mutant, output)
    local seed, name = output:match "seed (%d+): ([^:]+):"
    if not seed then
        if output == "" then
            return nil, "not noticed in the time there is"
        elseif output:match "^= " then
            return nil, "not noticed by so many schedules"
        end
        return "it crashed"  -- a core that does not survive itself is caught, too
    end
    for _, by in ipairs(mutant.by or { name }) do
        if by == name then
            return ("%s after %d schedules"):format(name, seed)
        end
    end
    return nil, "caught by another invariant: " .. name
end

local function now()
    local file = io.open "/proc/uptime"
    local at = file:read "*n"
    file:close()
    return at
end

local function try(k, mutant)
    local dir, began = DIR .. "/" .. k, now()
    local ok, caught, why = pcall(function()
        build(mutant, dir)
        return expected(mutant, run(mutant, dir))
    end)
    if not ok then
        caught, why = nil, caught
    end
    sh("rm -rf %s", dir)
    print(("%-42s %-8s %s, %.1f s"):format(mutant.name, caught and "caught" or "SURVIVES",
        caught or why or "nothing noticed", now() - began))
    return caught and true or false
end

local mutants = require "spec.sim.mutants"
for _, kind in ipairs { "family", "list", "deadlock" } do
    for _, mutant in ipairs(require("spec.sim." .. kind .. "_mutants")) do
        mutants[#mutants + 1] = mutant
    end
end
local only, ci = os.getenv "ONLY", os.getenv "CI"
local part, parts = (os.getenv "SIM_PART" or "0 1"):match "(%d+) (%d+)"

local function chosen(k, mutant)
    return (not only or mutant.name:find(only, 1, true)) and not mutant.equivalent
        and not (ci and mutant.ci == false)
        and k % tonumber(parts) == tonumber(part)
end

local function count_all()
    local passed, failed = 0, 0
    for k, mutant in ipairs(mutants) do
        if chosen(k, mutant) then
            if try(k, mutant) then
                passed = passed + 1
            else
                failed = failed + 1
            end
        end
    end
    print(("= %d %d"):format(passed, failed))
end

local function share(j)
    local pipes, passed, failed = {}, 0, 0
    for k = 0, j - 1 do
        pipes[k + 1] = io.popen(("SIM_PART='%d %d' luajit spec/sim/mutate.lua"):format(k, j))
    end
    for _, pipe in ipairs(pipes) do
        local complete = false
        for line in pipe:lines() do
            local p, f = line:match "^= (%d+) (%d+)$"
            if p then
                complete, passed, failed = true, passed + p, failed + f
            else
                print(line)
            end
        end
        pipe:close()
        failed = failed + (complete and 0 or 1)
    end
    print(("%d passed, %d failed"):format(passed, failed))
    return failed == 0
end

io.stdout:setvbuf "line"
if os.getenv "SIM_PART" then
    count_all()
else
    os.exit(share(tonumber(os.getenv "J" or 2)) and 0 or 1)
end
