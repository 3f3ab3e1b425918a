-- `make docs`: the reference as HTML, without warnings, whole, and with links that lead somewhere.
local annotations = require "spec.support.annotations"
local support = require "spec.support"
local sys = require "spec.support.sys"

describe("make docs", function()
    local dir, pages = nil, {}

    setup(function()
        local build = support.tmpdir()
        local p = support.spawn { "make", "-s", "docs", "BUILD=" .. build, stdout = "pipe",
            stderr = "stdout", env = support.lua_env() }
        local text = p:read_all(60)
        assert.equal(0, p:wait(60), text)
        assert.equal(build .. "/docs/index.html\n", text)
        dir = build .. "/docs/"
        for path in io.popen("cd " .. dir .. " && find [!i]* index.html -name '*.html'"):lines() do
            pages[path] = sys.read_file(dir .. path)
        end
    end)

    it("has whatever the reference has", function()
        local all = {}
        for _, page in pairs(pages) do
            all[#all + 1] = page
        end
        all = table.concat(all)
        local function has(pattern, what)
            assert.truthy(all:find(pattern), what)
        end
        local model = annotations.read()
        for _, name in ipairs(model.order) do
            local item = model[name]
            local short = name:gsub("^redlock%.", "")
            has(">[%w_]*[ .]?" .. short .. " ?<", name)
            for _, method in ipairs(item.methods) do
                has('<a name = "[%w_]*[:.]?' .. method.name .. '">', name .. ":" .. method.name)
            end
            -- A list has its elements under "n"; events stand under what their type says.
            for _, list in ipairs { item.fields, name ~= "redlock.Event" and item.values or {} } do
                for _, field in ipairs(list) do
                    local word = (field.name or field.type):gsub("%[integer%]", "n"):match "[%w_]+"
                    has('<span class="parameter">' .. word .. "[%w_|]*</span>", name .. "." .. word)
                end
            end
        end
    end)

    it("has no dead links", function()
        local n = 0
        local function names(page)
            local set = {}
            for name in page:gmatch 'name ?= ?"([^"]*)"' do
                set[name] = true
            end
            return set
        end
        for path, page in pairs(pages) do
            for link in page:gmatch 'href="([^"]*)"' do
                local file, anchor = link:match "^([^#]*)#?(.*)$"
                local target = file == "" and path or file:find "^%.%./" and file:sub(4) or file
                if not file:find "^http:" and not file:find "%.css$" then
                    assert.truthy(pages[target], path .. ": " .. link)
                    assert.truthy(anchor == "" or names(pages[target])[anchor],
                        path .. ": " .. link)
                    n = n + 1
                end
            end
        end
        assert.is_true(n > 200)
    end)
end)

describe("comments", function()
    -- Each comment before a function: how it begins, and the line that it is about.
    local function each_comment(fn)
        for path in io.popen "find lua/redlock -name '*.lua' ! -path '*/types*'":lines() do
            local first, number = nil, 0
            for line in io.lines(path) do
                number = number + 1
                if line:find "^%-%-" then
                    first = first or line
                else
                    if first then
                        fn(first:match "^%-%-%-?", line, ("%s:%d"):format(path, number))
                    end
                    first = nil
                end
            end
        end
    end

    it("for ldoc are those of what a module gives to others", function()
        local n = 0
        each_comment(function(begins, line, where)
            if line:find "^local function " then
                assert.equal("--", begins, where)
            elseif line:find "^function " then
                assert.equal("---", begins, where)
                n = n + 1
            end
        end)
        assert.is_true(n > 100)
    end)
end)
