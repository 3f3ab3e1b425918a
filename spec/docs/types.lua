-- `make types`: writes into lua/redlock/types.lua what stands elsewhere, once: the options
-- (options.rows) and the codes of servers (node_codes). types_spec fails where it was forgotten.
local node_codes = require "redlock.runtime.node_codes"
local options = require "redlock.servers.options"

local FILE = "lua/redlock/types.lua"

local _M = {}

local function fields()
    local lines = {}
    for i, row in ipairs(options.rows) do
        local default = type(row.default) == "string" and ("%q"):format(row.default)
            or tostring(row.default)
        lines[i] = ("---@field %s? %s  %s (default %s)\n"):format(row.name, row.type, row.text,
            default)
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

--- @return the text of the file as it is, and as it should be
function _M.texts()
    local file = assert(io.open(FILE))
    local is = file:read "*a"
    file:close()
    local nodes = is:match "\n(%-%-%-@field nodes [^\n]*)\n"
    local should = replace(is, nodes, "%-%-%-@field", fields())
    return is, replace(should, "---@alias redlock.NodeCode", "%-%-%-|", codes())
end

--- Writes it.
function _M.write()
    local _, text = _M.texts()
    local file = assert(io.open(FILE, "w"))
    file:write(text)
    file:close()
end

return _M
