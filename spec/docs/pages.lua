-- Writes what ldoc makes the HTML reference from: a page for each file of the reference
-- (lua/redlock/types.lua, types/*.lua); and the configurations, for that and for the comments of
-- the modules inside.
--
--     luajit spec/docs/pages.lua DIR
local annotations = require "spec.support.annotations"
local typing = require "spec.support.typing"

local model = annotations.read()

local dir = assert(arg[1], "luajit spec/docs/pages.lua DIR")

-- ---- text --------------------------------------------------------------------------

local function html(text)
    text = text:gsub("&", "&amp;"):gsub("<", "&lt;")
    return (text:gsub("`([^`]+)`", "<code>%1</code>"))
end

-- A tag that ldoc makes links of, as far as it can read the type; else the type is text.
local function tagged(tag, item, name)
    local option, text = item.optional and "[opt]" or "", html(item.text)
    if item.type:find "[%s()<?{]" then
        return ("-- @%s%s %s <code>%s</code> %s"):format(tag, option, name, html(item.type), text)
    end
    return ("-- @t%s%s %s %s %s"):format(tag, option, item.type, name, text)
end

-- Names on a page of their own.
local function short(name)
    return (name:gsub("^redlock%.", ""))
end

local Page = {}
Page.__index = Page

function Page:add(...)
    self[#self + 1] = table.concat({ ... })
end

function Page:text(text)
    for line in (html(text) .. "\n"):gmatch "(.-)\n" do
        self:add(#self == self.from and "--- " or "-- ", line)
    end
end

local function inherited(class)
    local list = {}
    for _, parent in ipairs(class.parents or {}) do
        list[#list + 1] = model[parent] and ("@{%s}"):format(parent) or parent
    end
    if #list > 0 and #class.fields == 0 and #class.methods == 0 then
        return ("Either %s."):format(table.concat(list, " or "))
    end
    return #list > 0 and ("Has all of %s, too."):format(table.concat(list, ", ")) or nil
end

-- A comment: text first, then what fn adds.
function Page:comment(item, fn)
    self:add ""
    self.from = #self
    self:text(item.text)
    local parents = inherited(item)
    if parents then
        self:add("-- ", parents)
    end
    fn()
    for _, example in ipairs(item.examples) do
        self:add "-- @usage"
        for line in (example .. "\n"):gmatch "(.-)\n" do
            self:add("-- ", line)
        end
    end
end

-- ---- items -------------------------------------------------------------------------

function Page:method(method, variable, in_class)
    self:comment(method, function()
        if in_class and not method.colon then
            self:add "-- @static"
        end
        for _, param in ipairs(method.params) do
            self:add(tagged("param", param, param.name))
        end
        for _, ret in ipairs(method.returns) do
            self:add(tagged("return", ret, "<code>" .. ret.name .. "</code>"))
        end
    end)
    self:add("function ", variable, method.colon and ":" or ".", method.name, "(",
        table.concat(method.args, ", "), ") end")
end

-- Fields, or the words that a type consists of.
function Page:fields(item)
    for _, field in ipairs(item.fields) do
        self:add(tagged("field", field, (field.name:gsub("^%[integer%]$", "n"))))
    end
    for _, value in ipairs(item.values) do
        local class = model[value.type]
        if class then
            local names = typing.fields(model, class.name).type.type:gsub('"', "")
            self:add("-- @tfield ", class.name, " ", names, " ", html(class.text))
        else
            self:add("-- @field ", value.type:match '^"(.*)"$' or value.type, " ", html(value.text))
        end
    end
end

function Page:table(item)
    self:comment(item, function()
        self:add("-- @table ", short(item.name))
        self:fields(item)
    end)
    self:add ""
end

-- A class with methods, as a section or as the page.
function Page:class(class, tag, name)
    local variable = class.name:match "[^.]+$"
    self:comment(class, function()
        self:add("-- @", tag, " ", name)
    end)
    self:add("local ", variable, " = {}")
    for _, method in ipairs(class.methods) do
        self:method(method, variable, tag ~= "module")
    end
    self:add ""
    if #class.fields > 0 then
        self:comment({ text = "Fields.", examples = {} }, function()
            self:add "-- @table fields"
            self:fields(class)
        end)
        self:add ""
    end
end

-- ---- pages -------------------------------------------------------------------------

local where = {}                 -- type -> page#anchor

local function write(path, lines)
    local file = assert(io.open(path, "w"))
    file:write(table.concat(lines, "\n"), "\n")
    file:close()
end

-- What a file is about, by its second comment.
local function subject_of(file)
    for line in io.lines(file) do
        local text = line:match "^%-%- Part of types.lua: (.*)$"
        if text then
            return text:sub(1, 1):upper() .. text:sub(2)
        end
    end
end

-- A module is a page; else a file is one, and classes with methods are sections of it.
local function page_of(file, items)
    local page, sections = setmetatable({}, Page), {}
    local main, name = nil, file:match "([^/]+)%.lua$"
    for _, item in ipairs(items) do
        if #item.methods > 0 and not item.methods[1].colon then
            main, name = item, item.name
        end
    end
    local url = ("../modules/%s.html"):format(name)
    if main then
        page:class(main, "module", name)
        where[name] = url
    else
        page:add("--- ", subject_of(file))
        page:add("-- @module ", name)
    end
    for _, item in ipairs(items) do
        if item ~= main and #item.methods > 0 then
            sections[#sections + 1] = item
            where[item.name] = ("%s#Class_%s"):format(url, short(item.name))
        elseif item ~= main then
            page:table(item)
            where[item.name] = ("%s#%s"):format(url, short(item.name))
        end
    end
    for _, item in ipairs(sections) do
        page:class(item, "type", short(item.name))
        page:add "-- @section end"
    end
    return page, name
end

local files = {}
for _, file in ipairs(annotations.files) do
    local items = {}
    for _, name in ipairs(model.order) do
        if model[name].file == file then
            items[#items + 1] = model[name]
        end
    end
    local page, name = page_of(file, items)
    files[#files + 1] = ("    %q,"):format(name .. ".lua")
    write(("%s/%s.lua"):format(dir, name), page)
end

-- ---- configurations ----------------------------------------------------------------

local function config(path, title, ...)
    local lines = {}
    for line in io.lines "spec/docs/config.ld" do
        lines[#lines + 1] = line
    end
    write(path, { table.concat(lines, "\n"), ("title = %q"):format(title), ... })
end

local links = {}
for name, url in pairs(where) do
    links[#links + 1] = ("    [%q] = %q,"):format(name, url)
end
table.sort(links)
config(dir .. "/config.ld", "redlock: reference",
    "file = {", table.concat(files, "\n"), "}", "local links = {", table.concat(links, "\n"), "}",
    'custom_see_handler("^(redlock[%w_.]*)$", function(name) return name, links[name] end)')

-- Modules have a comment for ldoc at their heads, and others at what they export; scripts for
-- Redis have none.
local modules = {}
-- Names are told from the folder of the first one.
local find = "find $PWD/lua/redlock -name '*.lua' ! -path '*/types*' "
for path in io.popen(find .. "-maxdepth 1; " .. find .. "-mindepth 2 | sort"):lines() do
    local file = assert(io.open(path))
    if ("\n" .. file:read "*a"):find "\n%-%-%- .*\n%-%-%- " then
        modules[#modules + 1] = ("    %q,"):format(path)
    end
    file:close()
end
config(dir .. "/inside.ld", "redlock: inside", "file = {", table.concat(modules, "\n"), "}")
