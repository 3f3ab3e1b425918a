--- What the command says: aligned rows, and errors with what to do about them.

local node_codes = require "redlock.core.node_codes"

local _M = {}

--- What was raised, without where that was.
function _M.text_of(err)
    return (tostring(err):gsub("^.-redlock: ", ""))
end

--- A number of things.
function _M.count(n, what)
    return ("%d %s%s"):format(n, what, n == 1 and "" or "s")
end

--- Rows of texts as lines, in columns, each after two spaces.
function _M.columns(rows)
    local widths, lines = {}, {}
    for _, row in ipairs(rows) do
        for i = 1, #row - 1 do
            widths[i] = math.max(widths[i] or 0, #row[i])
        end
    end
    for k, row in ipairs(rows) do
        local cells = {}
        for i, cell in ipairs(row) do
            cells[i] = i < #row and cell .. (" "):rep(widths[i] - #cell) or cell
        end
        lines[k] = ("  " .. table.concat(cells, "  ")):gsub("%s+$", "")
    end
    return table.concat(lines, "\n")
end

--- An error of the library, for people.
function _M.error(err)
    if not err.nodes then
        return err.code .. ": " .. err.message
    end
    local rows, remedies, seen = {}, {}, {}
    for i, row in ipairs(err.nodes) do
        rows[i] = { row.node, row.code, row.message }
        local remedy = node_codes[row.code] and node_codes[row.code].remedy
        if remedy and not seen[remedy] then
            seen[remedy] = true
            remedies[#remedies + 1] = "  " .. remedy .. "."
        end
    end
    -- The message goes on with the same in one line.
    local lines = { err.message:match "^(.-): %a+://" or err.message, _M.columns(rows) }
    if #remedies > 0 then
        lines[3] = table.concat(remedies, "\n")
    end
    return table.concat(lines, "\n")
end

function _M.note(...)
    io.stderr:write("redlock: ", table.concat { ... }, "\n")
end

return _M
