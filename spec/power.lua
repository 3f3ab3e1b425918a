--- What the tests notice (make power): puts faults into the library, one at a time, and runs
-- tests until the first one fails: the build, the unit tests (those of C also under sanitizers),
-- a part of the small worlds and 400 schedules, which take as long, and the specs of the room that
-- the fault is in. Environment:
--
--   N       how many faults (40)
--   SEED    which (1); the same tree and seed give the same faults
--   ONLY    a number: that fault alone, of those of the seed
--   IN      a part of a path: faults of these files alone, as IN=lua/redlock/scripts
--   BY      "unit", "worlds", "schedules" or "specs": what these notice without the others
--   J       how many at a time (as many as there are cores)
--   SPECS   the spec files, instead of those of the room; 0: none
--   LIST=1  prints the faults and runs nothing
--
-- Places are drawn in c/ and lua/, a kind of fault in turn. Those that a mutant of
-- spec/sim changes are left out. A fault that nothing notices is printed with its change:
-- it needs a test, unless it changes nothing that anybody could see.

package.path = "./?.lua;" .. package.path

local jobs = require "spec.sim.jobs"

local env = os.getenv
local count, seed = tonumber(env "N" or 40), tonumber(env "SEED" or 1)

local function output(command)
    local pipe = io.popen(command)
    local text = pipe:read "*a"
    pipe:close()
    return text
end

-- ---- faults ----------------------------------------------------------------------

local function replaces(from, to)
    return function(line)
        local changed, n = line:gsub(from, to, 1)
        return n == 1 and changed or nil
    end
end

--- A statement on a line of its own that calls what the pattern names; left out.
local function drops(called)
    return function(line, c)
        local statement = c and "^%s+([%w_]+)%(.*%);$" or "^%s+([%w_.:]+)%(.*%)$"
        local name = line:match(statement)
        return name and name:find(called) and not name:find "assert" and line:match "^%s+"
            .. (c and ";" or "") or nil
    end
end

local KINDS = {
    { name = "comparison flipped", replaces(" < ", " >= "), replaces(" > ", " <= "),
        replaces(" <= ", " > "), replaces(" >= ", " < ") },
    { name = "equality flipped", replaces(" ~= ", " == "), replaces(" != ", " == "),
        function(line, c)
            local changed, n = line:gsub(" == ", c and " != " or " ~= ", 1)
            return n == 1 and changed or nil
        end },
    { name = "free forgotten", drops "free", drops "close", drops "clear" },
    { name = "condition weakened", replaces(" && ", " || "), replaces(" and ", " or ") },
    { name = "time doubled", replaces("= ([%w_.>%-]*_ms)([;,])", "= 2 * %1%2"),
        replaces("(timeout)$", "%1 * 2"), replaces("= (%d+000)([;,]?)$", "= 2 * %1%2") },
    { name = "key left or kept", drops "redis.call", drops "^call$" },
    { name = "call lost", drops "" },
    { name = "off by one", replaces(" %+ 1([^%w])", "%1"), replaces(" %- 1([^%w])", "%1") },
}

-- Not what runs in production, or says nothing of behaviour.
local LEFT_OUT = { "^c/world/", "^lua/redlock/types", "^lua/redlock/status/s", "/cdef" }

local function sources()
    local list = {}
    for file in output("find c lua -name '*.c' -o -name '*.lua' | LC_ALL=C sort"):gmatch "%S+" do
        local out = not file:find(env "IN" or "", 1, true)
        for _, pattern in ipairs(LEFT_OUT) do
            out = out or file:find(pattern)
        end
        if not out then
            list[#list + 1] = file
        end
    end
    return list
end

--- Whether a mutant of the simulator changes this line.
local function mutated()
    local texts = {}
    for _, name in ipairs { "mutants", "family_mutants" } do
        for _, mutant in ipairs(require("spec.sim." .. name)) do
            for _, patch in ipairs(mutant[1] and mutant or { { mutant.from } }) do
                texts[mutant.file] = (texts[mutant.file] or "") .. patch[1] .. "\n"
            end
        end
    end
    return function(file, line)
        return texts[file] and texts[file]:find(line:match "^%s*(.-)%s*$", 1, true)
    end
end

--- All places for each kind of fault: lists of { file, number, line, changed }.
local function places()
    local lists, is_mutated = {}, mutated()
    for k in ipairs(KINDS) do
        lists[k] = {}
    end
    for _, file in ipairs(sources()) do
        local number, c = 0, file:match "%.c$" ~= nil
        for line in io.lines(file) do
            number = number + 1
            local code = not line:match "^%s*[-/*#]" and not line:match "^%S.*[^;]$"
            for k, kind in ipairs(code and not is_mutated(file, line) and KINDS or {}) do
                for _, change in ipairs(kind) do
                    local changed = change(line, c)
                    if changed then
                        table.insert(lists[k], { file = file, number = number, line = line,
                            changed = changed, kind = kind.name })
                        break
                    end
                end
            end
        end
    end
    return lists
end

--- The faults of the seed.
local function draw()
    local lists, faults, kind = places(), {}, 0
    math.randomseed(seed)
    while #faults < count and kind < count * #KINDS do
        local list = lists[kind % #KINDS + 1]
        faults[#faults + 1] = list[1] and table.remove(list, math.random(#list))
        kind = kind + 1
    end
    return faults
end

-- ---- tests -----------------------------------------------------------------------

-- Which specs are about what is in a folder; a file's own spec comes first.
local ROOMS = {
    { "^c/node/", "servers process" }, { "^c/io/", "servers process" },
    { "^c/core/", "policy servers api" }, { "^c/engine/", "process hosts api" },
    { "^lua/redlock/cli/", "cli" }, { "^lua/redlock/host/", "hosts process" },
    { "^lua/redlock/testing/", "testing" }, { "^lua/redlock/metrics", "api/metrics hosts/nginx_m" },
    { "^lua/redlock/status", "hosts/nginx_status" }, { "^lua/redlock/resty_lock", "hosts/nginx_r" },
    { "^lua/redlock/lock/", "policy api testing" }, { "", "api testing policy servers" },
}

-- @return those named after the file, and the others of its room
local function specs(file)
    local own, rest, seen = {}, {}, {}
    local word = file:match "([%w_]+)%.%w+$"
    for _, room in ipairs(ROOMS) do
        if file:find(room[1]) then
            for part in room[2]:gmatch "%S+" do
                for spec in output(("ls spec/%s*_spec.lua spec/%s/*_spec.lua 2> /dev/null"):format(
                    part, part)):gmatch "%S+" do
                    if not seen[spec] then
                        seen[spec] = true
                        table.insert(spec:find(word, 1, true) and own or rest, spec)
                    end
                end
            end
            break
        end
    end
    if env "SPECS" then
        return env "SPECS" == "0" and "" or env "SPECS", ""
    end
    return table.concat(own, " "), table.concat(rest, " ")
end

-- $1: the folder; the fault is in it. Prints what noticed it; nothing if nothing did.
local TRY = [[
BY='%s'
cd '%s' || exit 1
try() {
    [ -z "$BY" ] || [ "$BY" = "$by" ] || return 0
    timeout 1800 "$@" > log 2>&1 < /dev/null && return
    echo "$name $(grep -m 1 -o '\(Failure\|Error\) -> .*\|WORLD=.*KIND=[^ ]*\|^seed .*' log)"
    exit
}
by=$BY name=build; try make -s STRICT=1 all tools sim-core build/spec/unit
by=unit name="unit tests"; try build/spec/unit
%s
by=worlds name=world; try env PART='0 600' STOP=1 J=1 luajit spec/exhaust/run.lua
by=schedules name=schedules; try env SEED=1 N=400 SIM_STOP=1 J=1 luajit spec/sim/run.lua
by=specs
for name in %s; do try busted --lua=luajit "$name"; done
name="specs of the room"; rest="%s"
[ -z "$rest" ] || try env LANES=4 spec/lanes $rest
]]

-- Of a fault in C, before the schedules.
local SANITIZERS = [[
name=sanitizers; try make -s build/spec/unit-sanitized
try build/spec/unit-sanitized
]]

local function patch(dir, fault)
    local lines, number = {}, 0
    for line in io.lines(fault.file) do
        number = number + 1
        lines[number] = number == fault.number and fault.changed or line
    end
    local file = assert(io.open(dir .. "/" .. fault.file, "w"))
    file:write(table.concat(lines, "\n"), "\n")
    file:close()
end

--- Runs one fault in a copy of the tree.
local function try(k, fault)
    local dir = ("%s/redlock-power.%d"):format(env "TMPDIR" or "/dev/shm", k)
    os.execute(("rm -rf %s && mkdir %s && cp -a $(ls -A | grep -v '^.git$') %s"):format(dir, dir,
        dir))
    patch(dir, fault)
    local noticed = output(TRY:format(env "BY" or "", dir,
        fault.file:find "%.c$" and SANITIZERS or "", specs(fault.file))):match "[^\n]+"
    os.execute("rm -rf " .. dir)
    print(("%2d %-9s %s:%d: %s: %s"):format(k, noticed and "caught" or "SURVIVES", fault.file,
        fault.number, fault.kind, noticed or fault.line .. "  ->  " .. fault.changed))
    return noticed
end

io.stdout:setvbuf "line"
local faults = draw()
local part, parts = (env "POWER_PART" or ""):match "(%d+) (%d+)"
if env "LIST" then
    for k, f in ipairs(faults) do
        print(("%2d %s:%d: %s: %s  ->  %s"):format(k, f.file, f.number, f.kind, f.line, f.changed))
    end
elseif part or env "ONLY" then
    for k, fault in ipairs(faults) do
        if tonumber(env "ONLY" or k) == k and (not part or k % parts == tonumber(part)) then
            try(k, fault)
        end
    end
else
    local many = tonumber(env "J" or jobs.cores())
    local caught, pipes = 0, {}
    for k = 0, many - 1 do
        pipes[k + 1] = io.popen(("POWER_PART='%d %d' luajit spec/power.lua"):format(k, many))
    end
    for _, pipe in ipairs(pipes) do
        for line in pipe:lines() do
            print(line)
            caught = caught + (line:match "^ *%d+ caught " and 1 or 0)
        end
        pipe:close()
    end
    print(("%d of %d faults were noticed"):format(caught, #faults))
end
