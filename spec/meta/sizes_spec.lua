-- No function is longer than 60 lines, so that each can be read at once.
local util = require "jit.util"
local sys = require "spec.support.sys"

local FUNCTION = 60

local function files(folders)
    local list, pipe = {}, io.popen("find " .. folders .. " -name '*.[ch]' -o -name '*.lua'")
    for path in pipe:lines() do
        list[path] = sys.read_file(path)
    end
    pipe:close()
    return list
end

-- Where functions begin and end: of C by the braces in the first column, with the lines of
-- their heads; of Lua as the compiler has it.
local function functions_of_c(text)
    local list, n, head = {}, 0, nil
    for line in text:gmatch "([^\n]*)\n" do
        n = n + 1
        if line:find "^[%a_]" and line:find "%(" then
            head = n
        elseif line == "}" and head then
            list[#list + 1] = { head, n }
            head = nil
        elseif line:find "[;=]%s*$" and not line:find "^[%s{]" then
            head = nil
        end
    end
    return list
end

local function add_protos(fn, list)
    for k = -1, -math.huge, -1 do
        local proto = util.funck(fn, k)
        if proto == nil then
            return list
        elseif type(proto) == "proto" then
            local info = util.funcinfo(proto)
            list[#list + 1] = { info.linedefined, info.lastlinedefined }
            add_protos(proto, list)
        end
    end
end

local function functions_of(path, text)
    if path:find "%.lua$" then
        return add_protos(assert(loadstring(text, "@" .. path)), {})
    end
    return functions_of_c(text)
end

local function long_functions(sources)
    local long, count = {}, 0
    for path, text in pairs(sources) do
        for _, lines in ipairs(functions_of(path, text)) do
            local n = lines[2] - lines[1] + 1
            count = count + 1
            if n > FUNCTION then
                long[#long + 1] = ("%s:%d: %d lines"):format(path, lines[1], n)
            end
        end
    end
    return long, count
end

describe("on a few screens", function()
    it("is every function of the library", function()
        local long, count = long_functions(files "c lua")
        assert.same({}, long)
        assert.is_true(count > 1000, count)
    end)
end)
