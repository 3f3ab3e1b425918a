-- What the tests ran of c/ and lua/: percent of each file, the lines that did not run, and
-- whether each of those is explained in spec/coverage/explained.txt.
--   luajit spec/coverage/report.lua <folder> <source.lua>...
-- Fails below LEAST percent of a directory, for a line without an explanation, and for an
-- explanation of a line that is not there.
local LEAST, MAX_LINES = 95, 4096

local function source_lines(name)
    local list = {}
    for line in io.lines(name) do
        list[#list + 1] = line
    end
    return list
end

-- ---- C: what gcov says -----------------------------------------------------------

local function gcov(folder, name)
    local ran = {}
    local p = assert(io.popen(("gcov -t -o '%s/obj/%s' '%s' 2>/dev/null"):format(folder,
        name:match "^c/(.*)/", name)))
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

-- ---- explanations -----------------------------------------------------------------

-- The function that each line is in: the last one that begins above, or "-".
local FUNCTIONS = {
    c = { "^%a[%w_ *]-([%w_]+)%(" },
    lua = { "function ([%w_.:]+)%(", "([%w_.]+) = function%(", '"([%w_]+)".*function%(' },
}

local function functions_of(name, text)
    local list, now = {}, "-"
    for i, line in ipairs(text) do
        for _, pattern in ipairs(FUNCTIONS[name:match "%a+$"]) do
            now = line:match(pattern) or now
        end
        list[i] = now
    end
    return list
end

-- "# why", and below it "file function: line of code"; "*" is any line, or any function.
local function explanations()
    local of_file = {}
    for line in io.lines "spec/coverage/explained.txt" do
        local file, where, code = line:match "^([%w_/.]+) ([%w_.:*-]+): (.+)$"
        if file then
            of_file[file] = of_file[file] or {}
            table.insert(of_file[file], { where = where, code = code })
        elseif not line:match "^#" and line ~= "" then
            error("explained.txt: what is this? " .. line, 0)
        end
    end
    return of_file
end

-- Marks what explains a line: with "there", or, if it did not run, with "used".
local function explain(list, where, code, mark)
    local found = false
    for _, entry in ipairs(list or {}) do
        if (entry.where == where or entry.where == "*")
            and (entry.code == code or entry.code == "*") then
            entry[mark], found = true, true
        end
    end
    return found
end

-- ---- the report ------------------------------------------------------------------

local folder = arg[1]
local explained, failed = explanations(), false
local totals = { c = { 0, 0 }, lua = { 0, 0 } }

local function report(name, ran)
    local hit, all, lines = 0, 0, {}
    for line in pairs(ran) do
        lines[#lines + 1] = line
    end
    table.sort(lines)
    local text, missed = source_lines(name), {}
    local functions = functions_of(name, text)
    for _, line in ipairs(lines) do
        local code, where = text[line]:match "^%s*(.-)%s*$", functions[line]
        explain(explained[name], where, code, "there")
        all = all + 1
        if ran[line] then
            hit = hit + 1
        else
            local known = explain(explained[name], where, code, "used")
            failed = failed or not known
            missed[#missed + 1] = ("    %s %4d  %s: %s"):format(known and "explained"
                or "NOT RUN  ", line, where, code)
        end
    end
    print(("%6.1f %%  %s"):format(100 * hit / math.max(all, 1), name))
    for _, line in ipairs(missed) do
        print(line)
    end
    local total = totals[name:match "^%a+"]
    total[1], total[2] = total[1] + hit, total[2] + all
end

-- What is compiled only without TLS is counted in a build of its own.
local p = assert(io.popen "LC_ALL=C ls c/*/*.c c/*/*/*.c | grep -v ^c/world/")
for name in p:lines() do
    report(name, gcov(folder .. (name == "c/io/tls_none.c" and "/no_tls" or ""), name))
end
p:close()
local file = assert(io.open(folder .. "/lines", "rb"))
for i = 2, #arg do
    report(arg[i], lua_lines(arg[i], file:read(MAX_LINES)))
end
file:close()

for name, list in pairs(explained) do
    for _, entry in ipairs(list) do
        if not entry.used then
            print(("explained, but it %s: %s %s: %s"):format(entry.there and "runs"
                or "is not there", name, entry.where, entry.code))
            failed = failed or not entry.there
        end
    end
end
for name, total in pairs(totals) do
    local percent = 100 * total[1] / total[2]
    print(("%6.1f %%  all of %s/ (%d of %d lines)"):format(percent, name, total[1], total[2]))
    failed = failed or percent < LEAST
end
os.exit(failed and 1 or 0)
