-- What the tests ran of c/ and lua/: percent of each file, and the lines that did not run. Some
-- never count: what runs as a process ends by a signal, or as a Lua state is closed.
--   luajit spec/coverage/report.lua <folder> <source.lua>...
-- Fails below LEAST percent of a directory.
local LEAST, MAX_LINES = { c = 96, lua = 98 }, 4096

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

-- ---- the report ------------------------------------------------------------------

local folder = arg[1]
local totals = { c = { 0, 0 }, lua = { 0, 0 } }

local function report(name, ran)
    local hit, all, missed = 0, 0, {}
    for line, did in pairs(ran) do
        all, hit = all + 1, hit + (did and 1 or 0)
        missed[#missed + 1] = not did and line or nil
    end
    table.sort(missed)
    print(("%6.1f %%  %s"):format(100 * hit / math.max(all, 1), name))
    local text = source_lines(name)
    for _, line in ipairs(missed) do
        print(("    NOT RUN %4d  %s"):format(line, text[line]:match "^%s*(.-)%s*$"))
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

local failed = false
for name, total in pairs(totals) do
    local percent = 100 * total[1] / total[2]
    print(("%6.1f %%  all of %s/ (%d of %d lines)"):format(percent, name, total[1], total[2]))
    failed = failed or percent < LEAST[name]
end
os.exit(failed and 1 or 0)
