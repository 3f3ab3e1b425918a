--- Tries the mutants (make mutants), most in schedules, and some by a test. Environment:
-- ONLY: a part of a name; J: on so many cores; RECORD=1: writes down new seeds; WORLDS=1: tries
-- them in the small worlds alone (spec/exhaust, whose LIMITS and PART may be given), and prints
-- which of them are caught there; STALE=1: tries none, and names those whose text is not in their
-- files.
--
-- A mutant is compiled beside the library, in build/mutants, and tried with the seed that
-- caught it before (caught.txt). Where that seed no longer catches it, because the schedules
-- have changed, another one is looked for within the mutant's budget. A mutant that is not
-- caught then, or whose text is not in its file any more, fails the run.

package.path = "./?.lua;" .. package.path

local jobs = require "spec.sim.jobs"

local BUDGET = 3000
local DIR = "build/mutants"
local CAUGHT = "spec/sim/caught.txt"
local WORLDS = os.getenv "WORLDS"
local HANGS = 300        -- seconds of one schedule; the slowest takes less than one

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

--- The library with that text in one file, and links to all others: to copy them takes longer than
-- to try the mutant.
local function link_lua(file, text, dir)
    local commands = {}
    for folder, name in file:gmatch "()/([^/]+)" do
        folder = file:sub(1, folder - 1)
        commands[#commands + 1] = ('mkdir %s/%s && ln -s "$PWD"/%s/* %s/%s && rm %s/%s/%s'):format(
            dir, folder, folder, dir, folder, dir, folder, name)
    end
    sh("%s", table.concat(commands, " && "))
    write(dir .. "/" .. file, text)
end

--- The core, or the unit tests, with that file changed, as make wrote down how (mutant-recipes).
local function compile(mutant, name, dir)
    local commands = {}
    for what, command in read(DIR .. "/recipes"):gmatch "(%l+) ([^\n]+)" do
        commands[what] = command:gsub(" %S+/obj/" .. name:gsub("%p", "%%%0") .. "%.o", "")
    end
    local unit = mutant.unit and not WORLDS
    sh("NAME=%s DIR=%s; %s && %s", name, dir, commands.compile, commands[unit and "unit" or "core"])
    if not unit then
        sh("cd %s/redlock && for f in core-*.so; do ln -s $f world-${f#core-}; done", dir)
    end
end

--- Makes the mutant in a directory of its own.
local function build(mutant, dir)
    local text = patched(mutant)
    sh("rm -rf %s && mkdir -p %s", dir, dir)
    if mutant.file:match "^c/" then
        local name = mutant.file:match "^c/(.+)%.c$"
        sh("mkdir -p %s/redlock %s/%s", dir, dir, name:match "^(.*)/" or "")
        write(dir .. "/" .. name .. ".c", text)
        compile(mutant, name, dir)
    else
        link_lua(mutant.file, text, dir)
    end
end

local function quote(s)
    return "'" .. s:gsub("'", "'\\''") .. "'"
end

local function settings(mutant)
    local words = { "SIM_STOP=1", "SIM_FAMILY=" .. (mutant.family or "none"),
        "SIM_FAULTS=" .. quote(table.concat(mutant.faults or {}, ",")) }
    local function set(name, value)
        if value ~= nil then
            words[#words + 1] = name .. "=" .. quote(tostring(value))
        end
    end
    set("SIM_GUARD", mutant.guarded ~= nil and (mutant.guarded and 1 or 0) or nil)
    set("SIM_LEASE", mutant.lease)
    set("SIM_FENCED", mutant.fenced)
    set("PREFIX", mutant.prefix)
    return table.concat(words, " ")
end

--- Runs so many schedules from a seed on, until one catches it.
-- @return the seed, and what it violates; else nil, and why it is not caught
local function run(mutant, dir, seed, count)
    local c, last, other = mutant.file:match "^c/", seed + count - 1, nil
    while seed <= last do
        local n = last - seed + 1
        local pipe = io.popen(("%s SIM_CPATH=%s SIM_LUA=%s SIM_WORK='%d 1 %d' timeout %d "
            .. "luajit spec/sim/run.lua 2>&1"):format(settings(mutant), c and dir .. "/?.so"
                or "build/sim/?.so", c and "lua" or dir .. "/lua", seed, n, HANGS * n))
        local output = pipe:read "*a"
        pipe:close()
        local at, name = output:match "seed (%d+): ([^:]+):"
        if not at then
            if output:match "^= " then
                break
            end
            return seed, "it crashed"    -- a core that does not survive itself is caught, too
        end
        for _, by in ipairs(mutant.by or { name }) do
            if by == name then
                return tonumber(at), name
            end
        end
        seed, other = at + 1, name
    end
    return nil, other and "caught by another invariant alone: " .. other
        or ("not noticed by %d schedules"):format(count)
end

--- The command that runs the test of C, or of Lua, that it names.
local function test_of(mutant, dir)
    if mutant.unit then
        return ("%s/unit %s"):format(dir, mutant.unit)
    end
    local file, name = mutant.spec:match "^(%S+) (.+)$"
    read(file)               -- it is there
    local lua = mutant.file:match "^c/" and "lua" or dir .. "/lua"
    local path = ("./?.lua;./?/init.lua;LUA/?.lua;LUA/?/init.lua;./build/?.lua"):gsub("LUA", lua)
    -- Two kinds of quotes: busted gives its arguments to a shell once more.
    return ([[env SPEC_LUA="$(realpath %s)" busted --lua=luajit --lpath='"%s"' ]]
        .. [[--cpath='"%s/?.so;./build/?.so"' -o TAP --filter='"%s"' %s]]):format(lua, path, dir,
        name, file)
end

--- By the test that it names.
-- @return true, and how; or nil, and why it is not caught
local function noticed(mutant, dir)
    local name = mutant.unit and "unit test " .. mutant.unit or mutant.spec
    local pipe = io.popen(("timeout %d %s 2>&1"):format(HANGS, test_of(mutant, dir)))
    local output = pipe:read "*a"
    pipe:close()
    local passed, failed = output:match "(%d+) passed, (%d+) failed"
    if mutant.spec then
        passed, failed = output:match "^ok" or "0", output:match "not ok" or "0"
    end
    if passed == "0" and failed == "0" then
        return nil, "there is no " .. name
    elseif mutant.spec and output:find "not ok %d+ %- suite " then
        return nil, "it cannot be loaded: " .. name
    elseif failed == "0" then
        return nil, "not noticed by " .. name
    end
    return true, name
end

--- With the remembered seed, or 1; else with the first that catches it.
local function catch(mutant, dir, remembered)
    local seed, name = run(mutant, dir, remembered or 1, 1)
    if seed then
        return seed, ("%s, seed %d"):format(name, seed)
    end
    seed, name = run(mutant, dir, 1, mutant.budget or BUDGET)
    if seed then
        return seed, ("%s, a NEW seed: %d"):format(name, seed)
    end
    return nil, name
end

--- In small worlds.
-- @return the world and kind that catch it; or nil, and how many runs did not
local function catch_in_worlds(mutant, dir)
    local c = mutant.file:match "^c/"
    local pipe = io.popen(("STOP=1 J=1 SIM_CPATH=%s SIM_LUA=%s luajit spec/exhaust/run.lua 2>&1")
        :format(c and dir .. "/?.so" or "build/?.so", c and "lua" or dir .. "/lua"))
    local output = pipe:read "*a"
    pipe:close()
    local world, kind = output:match "WORLD=(%S+) KIND=(%S+)"
    if world then
        return true, world .. ", " .. kind
    elseif not output:match "%d+ passed, 0 failed" then
        return true, "it crashed"
    end
    return nil, output:match "(%d+) passed" .. " runs did not notice it"
end

-- ---- the seeds that catch them ------------------------------------------------------

--- From name to seed, of caught.txt: lines of "SEED NAME".
local function read_caught()
    local caught, file = {}, io.open(CAUGHT)
    for line in file and file:lines() or function() end do
        local seed, name = line:match "^(%d+) (.+)$"
        if seed then
            caught[name] = tonumber(seed)
        end
    end
    return caught
end

--- Those of all mutants that there are, in their order.
local function write_caught(mutants, caught)
    local lines = { "# Seeds that catch mutants, other than 1; `make mutants` writes this file.\n" }
    for _, mutant in ipairs(mutants) do
        if (caught[mutant.name] or 1) ~= 1 then
            lines[#lines + 1] = ("%d %s\n"):format(caught[mutant.name], mutant.name)
        end
    end
    write(CAUGHT, table.concat(lines))
end

-- ---- one ----------------------------------------------------------------------------

--- Prints how it ended; for the parent first the seed.
-- @return whether it was caught
local function try(k, mutant, remembered)
    local dir, began = DIR .. "/" .. k, jobs.now()
    local ok, seed, how = pcall(function()
        build(mutant, dir)
        if WORLDS then
            return catch_in_worlds(mutant, dir)
        end
        if mutant.unit or mutant.spec then
            return noticed(mutant, dir)
        end
        return catch(mutant, dir, remembered)
    end)
    if not ok then
        seed, how = nil, seed
    end
    sh("rm -rf %s", dir)
    if seed and seed ~= true then
        print(("+ %d %s"):format(seed, mutant.name))
    end
    print(("%-42s %-8s %s, %.1f s"):format(mutant.name, seed and "caught" or "SURVIVES", how,
        jobs.now() - began))
    return seed and true or false
end

-- ---- all ----------------------------------------------------------------------------

local mutants = require "spec.sim.mutants"
for _, mutant in ipairs(require "spec.sim.family_mutants") do
    mutants[#mutants + 1] = mutant
end
local only, record = os.getenv "ONLY", os.getenv "RECORD"
local part, parts = (os.getenv "SIM_PART" or "0 1"):match "(%d+) (%d+)"

local function chosen(k, mutant)
    return (not only or mutant.name:find(only, 1, true)) and k % tonumber(parts) == tonumber(part)
end

local function count_all()
    local passed, failed, caught = 0, 0, read_caught()
    for k, mutant in ipairs(mutants) do
        if chosen(k, mutant) then
            if try(k, mutant, caught[mutant.name]) then
                passed = passed + 1
            else
                failed = failed + 1
            end
        end
    end
    print(("= %d %d"):format(passed, failed))
end

--- In parts of five, the next for whoever is free.
local function share(j)
    local n = math.ceil(#mutants / 5)
    local passed, failed, complete, caught = 0, 0, 0, read_caught()
    sh "make -s mutant-recipes"
    local pipe = io.popen(("seq 0 %d | xargs -P %d -I @ env SIM_PART='@ %d' "
        .. "luajit spec/sim/mutate.lua"):format(n - 1, j, n))
    for line in pipe:lines() do
        local p, f = line:match "^= (%d+) (%d+)$"
        local seed, name = line:match "^%+ (%d+) (.+)$"
        if p then
            complete, passed, failed = complete + 1, passed + p, failed + f
        elseif seed then
            caught[name] = tonumber(seed)
        else
            print(line)
        end
    end
    pipe:close()
    failed = failed + n - complete
    if record then
        write_caught(mutants, caught)
    end
    print(("%d passed, %d failed"):format(passed, failed))
    return failed == 0
end

local function count_stale()
    local n = 0
    for _, mutant in ipairs(mutants) do
        local ok, why = pcall(patched, mutant)
        if not ok then
            print(why)
            n = n + 1
        end
    end
    print(("%d of %d mutants are stale"):format(n, #mutants))
    return n
end

io.stdout:setvbuf "line"
if os.getenv "STALE" then
    os.exit(count_stale() == 0 and 0 or 1)
elseif os.getenv "SIM_PART" then
    count_all()
else
    os.exit(share(tonumber(os.getenv "J" or jobs.cores())) and 0 or 1)
end
