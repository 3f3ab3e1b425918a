-- What the tests ran of c/ and lua/: percent of each file, the lines that did not run, and
-- whether each of those is explained in spec/coverage/explained.txt.
--   luajit spec/coverage/report.lua <objects> <lines> <source.lua>...
-- Fails below LEAST percent of a directory, for a line without an explanation, and for an
-- explanation without a line.
local LEAST, MAX_LINES = 95, 4096

local function source_lines(name)
    local list = {}
    for line in io.lines(name) do
        list[#list + 1] = line
    end
    return list
end

-- ---- C: what gcov says -----------------------------------------------------------

local function gcov(objects, name)
    local ran = {}
    local p = assert(io.popen(("gcov -t -o '%s' '%s' 2>/dev/null"):format(objects, name)))
    local ours = false
    for line in p:lines() do
        local count, number, rest = line:match "^%s*([^:]+):%s*(%d+):(.*)$"
        if number == "0" and rest:match "^Source:" then
            ours = rest == "Source:" .. name
        elseif ours and number and number ~= "0" and not count:match "%-$" then
            ran[tonumber(number)] = not count:match "^[#=]"
        end
    end
    p:close()
    return ran
end

-- ---- Lua: the lines that have code, against the bytes ------------------------------

local funcinfo, funck = require("jit.util").funcinfo, require("jit.util").funck

local function lines_with_code(proto, lines)
    for pc = 1, funcinfo(proto).bytecodes - 1 do
        lines[funcinfo(proto, pc).currentline] = true
    end
    for k = -1, -funcinfo(proto).gcconsts, -1 do
        local constant = funck(proto, k)
        if type(constant) == "proto" then
            lines_with_code(constant, lines)
        end
    end
    return lines
end

-- The end of a function or a loop is no line of its own.
local function is_code(text)
    return text and not text:match "^%s*[%]})]*[,;]?$" and not text:match "^%s*end[%s,)]*$"
        and not text:match "^%s*else%s*$" and not text:match "^%s*until true$"
end

local function lua_lines(name, bytes)
    local ran, text = {}, source_lines(name)
    for line in pairs(lines_with_code(assert(loadfile(name)), {})) do
        if is_code(text[line]) then
            ran[line] = bytes:byte(line + 1) == 1
        end
    end
    return ran
end

-- ---- explanations: "file: line of code -- reason" --------------------------------

local function explanations()
    local of_file = {}
    for line in io.lines "spec/coverage/explained.txt" do
        local file, code = line:match "^([%w_/.]+): (.-) %-%- "
        if file then
            of_file[file] = of_file[file] or {}
            table.insert(of_file[file], { code = code, used = false })
        end
    end
    return of_file
end

local function explain(list, code)
    for _, entry in ipairs(list or {}) do
        if entry.code == code then
            entry.used = true
            return true
        end
    end
end

-- ---- the report ------------------------------------------------------------------

local objects, bytes_file = arg[1], arg[2]
local explained, failed = explanations(), false
local totals = { c = { 0, 0 }, lua = { 0, 0 } }

local function report(name, ran)
    local hit, all, missed = 0, 0, {}
    for line, was in pairs(ran) do
        all = all + 1
        if was then
            hit = hit + 1
        else
            missed[#missed + 1] = line
        end
    end
    table.sort(missed)
    print(("%6.1f %%  %s"):format(100 * hit / math.max(all, 1), name))
    local total, text = totals[name:match "^%a+"], source_lines(name)
    total[1], total[2] = total[1] + hit, total[2] + all
    for _, line in ipairs(missed) do
        local code = text[line]:match "^%s*(.-)%s*$"
        local known = explain(explained[name], code)
        failed = failed or not known
        print(("    %s %4d  %s"):format(known and "explained" or "NOT RUN  ", line, code))
    end
end

local p = assert(io.popen "LC_ALL=C ls c/*.c")
for name in p:lines() do
    report(name, gcov(objects, name))
end
p:close()
local file = assert(io.open(bytes_file, "rb"))
for i = 3, #arg do
    report(arg[i], lua_lines(arg[i], file:read(MAX_LINES)))
end
file:close()

for name, list in pairs(explained) do
    for _, entry in ipairs(list) do
        if not entry.used then
            print(("explained, but it runs: %s: %s"):format(name, entry.code))
        end
    end
end
for name, total in pairs(totals) do
    local percent = 100 * total[1] / total[2]
    print(("%6.1f %%  all of %s/ (%d of %d lines)"):format(percent, name, total[1], total[2]))
    failed = failed or percent < LEAST
end
os.exit(failed and 1 or 0)
