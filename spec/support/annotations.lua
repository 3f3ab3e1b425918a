-- Reads the reference of the library, lua/redlock/types.lua and types/*.lua: the part of
-- LuaCATS that those files use, and nothing else. Two spaces stand between a type and what is
-- said of it.
--
-- The model is { order = { name, ... }, [name] = class or alias, ... }:
--   class  { name, kind = "class", text, examples, parents, exact, fields, methods, file }
--   alias  { name, kind = "alias", text, examples, values = { { type, text } }, file }
--   field  { name, type, optional, text }
--   method { name, of, colon, args, params = fields, returns = fields, text, examples, as }
--          as: the method that it does the work of: a field "name fun(self, ...): type  `as`"
local typing = require "spec.support.typing"

local _M = {}

local function trim(s)
    return (s:gsub("^%s+", ""):gsub("%s+$", ""))
end

-- ---- tags ------------------------------------------------------------------------

-- "name? type  text"
local function read_field(rest)
    local head, text = rest:match "^(.-)  +(.+)$"
    local name, optional, type = (head or rest):match "^(%[?[%w_.]+%]?)(%??) (.+)$"
    assert(name, "a name and a type are needed")
    return { name = name, optional = optional == "?", type = type, text = text or "" }
end

-- "type name  text"
local function read_return(rest)
    local type, name, text = rest:match "^(.-) (%S+)  +(.+)$"
    assert(type, "a type, a name and, behind two spaces, a text are needed")
    return { name = name, type = type, text = text }
end

local TAGS = {}

function TAGS.class(block, rest)
    local plain, exact = rest:gsub("^%(exact%) ", "")
    local name, parents = plain:match "^([%w_.]+):? ?(.*)$"
    block.class, block.parents, block.exact = name, {}, exact == 1
    for parent in parents:gmatch "[^, ]+" do
        block.parents[#block.parents + 1] = parent
    end
end

function TAGS.alias(block, rest)
    block.alias = rest
end

function TAGS.field(block, rest)
    block.fields[#block.fields + 1] = read_field(rest)
end

function TAGS.param(block, rest)
    block.params[#block.params + 1] = read_field(rest)
end

TAGS["return"] = function(block, rest)
    block.returns[#block.returns + 1] = read_return(rest)
end

-- What only editors need.
function TAGS.meta() end
function TAGS.overload() end
function TAGS.operator() end

-- ---- blocks ----------------------------------------------------------------------

-- The lines of a comment: text with examples, tags, and the values of an alias.
local function read_block(lines)
    local block = { text = {}, examples = {}, fields = {}, params = {}, returns = {}, values = {} }
    local example
    for _, line in ipairs(lines) do
        local tag, rest = line:match "^@(%w+) ?(.*)$"
        local value, said = line:match "^| (%S+)%s*#?%s*(.*)$"
        if line:find "^```" then
            if example then
                block.examples[#block.examples + 1] = table.concat(example, "\n")
            end
            example = not example and {} or nil
        elseif example then
            example[#example + 1] = line
        elseif tag then
            assert(TAGS[tag], "unknown tag @" .. tag)(block, trim(rest))
        elseif value then
            block.values[#block.values + 1] = { type = value, text = said }
        else
            block.text[#block.text + 1] = line
        end
    end
    assert(not example, "an example without an end")
    block.text = trim(table.concat(block.text, "\n"))
    return block
end

-- A method that a field describes; nil: the field is none.
local function brief_method(class, field)
    local list, results = field.type:match "^fun%(self(.-)%): (%S.*)$"
    if not list then
        return nil
    end
    local as, more = field.text:match "^`(%w+)`(.*)$"
    assert(as, field.name .. ": what method is it like?")
    local method = { name = field.name, of = class, colon = true, args = {}, params = {}, as = as,
        text = ("Does what `%s` does%s."):format(as, more), examples = {}, returns = {} }
    for name, optional, type in list:gmatch ", ([%w_]+)(%??): ([^,]+)" do
        method.args[#method.args + 1] = name
        method.params[#method.params + 1] = { name = name, optional = optional == "?",
            type = type, text = ("as for `%s`"):format(as) }
    end
    for type in results:gmatch "[^,%s]+" do
        method.returns[#method.returns + 1] = { name = "result", type = type,
            text = ("of `%s`"):format(as) }
    end
    return method
end

-- Gives such methods the names and texts of what the methods return that they refer to, with types
-- of their own.
local function complete(model)
    for _, name in ipairs(model.order) do
        for _, method in ipairs(model[name].methods) do
            local full = method.as and typing.methods(model, name, method)[method.as]
            local same = full and #full.returns == #method.returns
            for i, ret in ipairs(same and full.returns or {}) do
                method.returns[i].name, method.returns[i].text = ret.name, ret.text
            end
        end
    end
end

local function define(model, kind, name, block, file)
    assert(not model[name], name .. " is there twice")
    model.order[#model.order + 1] = name
    local fields, methods = {}, {}
    for _, field in ipairs(block.fields) do
        local method = brief_method(name, field)
        local list = method and methods or fields
        list[#list + 1] = method or field
    end
    model[name] = { name = name, kind = kind, text = block.text, examples = block.examples,
        parents = block.parents, exact = block.exact, fields = fields,
        values = block.values, methods = methods, file = file }
    return model[name]
end

local function read_args(list)
    local args = {}
    for name in list:gmatch "[%w_.]+" do
        args[#args + 1] = name
    end
    return args
end

-- What a comment is about stands in the line behind it.
local function add(model, variables, block, code, file)
    local variable, separator, method, args =
        code:match "^function ([%w_]+)([.:])([%w_]+)%((.-)%) end$"
    if block.class then
        local class = define(model, "class", block.class, block, file)
        local name = code:match "^local ([%w_]+) = {}$"
        if name then
            variables[name] = class
        end
    elseif block.alias then
        define(model, "alias", block.alias, block, file)
    elseif method then
        local class = assert(variables[variable], "no class is called " .. variable)
        class.methods[#class.methods + 1] = { name = method, of = class.name,
            colon = separator == ":", args = read_args(args), params = block.params,
            returns = block.returns, text = block.text, examples = block.examples }
    else
        assert(block.text == "" and #block.fields == 0, "a comment of nothing")
    end
end

-- ---- files -----------------------------------------------------------------------

local function read(model, file)
    local variables, lines, number = {}, {}, 0
    local function finish(code)
        if #lines > 0 then
            local ok, err = pcall(function()
                add(model, variables, read_block(lines), code, file)
            end)
            assert(ok, ("%s:%d: %s"):format(file, number, tostring(err)))
        end
        lines = {}
    end
    for line in io.lines(file) do
        number = number + 1
        local comment = line:match "^%-%-%-(.*)$"
        if comment then
            lines[#lines + 1] = comment
        else
            finish(line)
        end
    end
    finish ""
end

-- The files of the reference, the first one first.
_M.files = { "lua/redlock/types.lua" }
for file in io.popen "ls lua/redlock/types/*.lua":lines() do
    _M.files[#_M.files + 1] = file
end

function _M.read()
    local model = { order = {} }
    for _, file in ipairs(_M.files) do
        read(model, file)
    end
    complete(model)
    return model
end

return _M
