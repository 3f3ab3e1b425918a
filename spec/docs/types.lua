-- `make types`: writes what stands elsewhere, once: into lua/redlock/types.lua the options
-- (options.rows) and the codes of servers (node_codes), and into the page of the options their
-- defaults and descriptions. types_spec fails where it was forgotten.
local node_codes = require "redlock.runtime.node_codes"
local options = require "redlock.servers.options"

local FILE, PAGE = "lua/redlock/types.lua", "examples/options/README.md"

local _M = {}

local function default(row)
    return type(row.default) == "string" and ("%q"):format(row.default) or tostring(row.default)
end

local function fields()
    local lines = {}
    for i, row in ipairs(options.rows) do
        lines[i] = ("---@field %s? %s  %s (default %s)\n"):format(row.name, row.type, row.text,
            default(row))
    end
    return table.concat(lines)
end

local function codes()
    local lines = {}
    for i, row in ipairs(node_codes.list) do
        lines[i] = ('---| "%s" # %s\n'):format(row.code, row.meaning)
    end
    return table.concat(lines)
end

-- Replaces the lines of a kind that follow a line.
local function replace(text, line, kind, lines)
    local _, at = text:find("\n" .. line .. "\n", 1, true)
    local to = assert(at, line)
    while text:find("^" .. kind .. "[^\n]*\n", to + 1) do
        to = select(2, text:find("^[^\n]*\n", to + 1))
    end
    return text:sub(1, at) .. lines .. text:sub(to + 1)
end

local function read(path)
    local file = assert(io.open(path))
    local text = file:read "*a"
    file:close()
    return text
end

--- @return a list of files: path, the text as it is, and as it should be
function _M.texts()
    local is, page = read(FILE), read(PAGE)
    local nodes = is:match "\n(%-%-%-@field nodes [^\n]*)\n"
    local should = replace(is, nodes, "%-%-%-@field", fields())
    local list = { { FILE, is, replace(should, "---@alias redlock.NodeCode", "%-%-%-|", codes()) },
        { PAGE, page, page } }
    for _, row in ipairs(options.rows) do
        local cells = ("\n| `%s` | `%s` | %s |"):format(row.name, default(row), row.text)
        local text, n = list[2][3]:gsub("\n| `" .. row.name .. "` |[^|]*|[^|]*|",
            function() return cells end)
        list[2][3] = text
        assert(n == 1, row.name .. " has no row of its own in " .. PAGE)
    end
    return list
end

--- Writes them.
function _M.write()
    for _, f in ipairs(_M.texts()) do
        local file = assert(io.open(f[1], "w"))
        file:write(f[3])
        file:close()
    end
end

return _M
