--- The command's output: aligned rows, and errors with their remedies.

local json = require "redlock.runtime.json"
local node_codes = require "redlock.runtime.node_codes"
local printable = require("redlock.runtime.encoding").printable

local _M = {}

--- A raised error without its position.
function _M.text_of(err)
    return (tostring(err):gsub("^.-redlock: ", ""))
end

--- A number with a noun: "1 lock", "2 locks".
function _M.count(n, what)
    return ("%d %s%s"):format(n, what, n == 1 and "" or "s")
end

local COUNTED = { readers = "reader", permits = "permit", latch = "arrival" }

--- The holder in a row of client:locks(), or the number of holders.
function _M.holder(row)
    return row.holder and row.holder.label or row.count and _M.count(row.count, COUNTED[row.kind])
        .. (row.kind == "latch" and " missing" or "") or "?"
end

local function from_environment(first, ...)
    local value = os.getenv(first) or ""
    return value == "" and ... and from_environment(...) or value
end

local IN_UTF8 = from_environment("LC_ALL", "LC_CTYPE", "LANG"):upper():find "UTF%-?8" ~= nil

-- Characters that control a terminal, are invisible, or move their neighbours.
local HIDDEN = { "[%c\127]", "\194[\128-\159\173]", "\216\156", "\225\160\142",
    "\239\187\191", "\243\160", "\226\128[\128-\143\168-\175]", "\226\129[\160-\175]" }

--- A name for people: unchanged if the terminal shows UTF-8 and the name has no hidden characters;
-- else as by printable().
function _M.name(name)
    local text = #name <= 64 and name
        or name:sub(1, 61):gsub("[\192-\255][\128-\191]*$", "") .. "..."
    local plain = IN_UTF8 and json.is_utf8(text)
    for _, pattern in ipairs(HIDDEN) do
        plain = plain and not text:find(pattern)
    end
    return plain and text or printable(name)
end

--- Who leads, of election:leader(); nil: no leader is known.
function _M.leader(leader)
    return leader and leader.id and ("%s leads in term %.0f"):format(_M.name(leader.id),
        leader.term) or nil
end

local function width(text)
    return #text:gsub("[\128-\191]", "")
end

--- Rows of texts as lines with columns, each after two spaces.
function _M.columns(rows)
    local widths, lines = {}, {}
    for _, row in ipairs(rows) do
        for i = 1, #row - 1 do
            widths[i] = math.max(widths[i] or 0, width(row[i]))
        end
    end
    for k, row in ipairs(rows) do
        local cells = {}
        for i, cell in ipairs(row) do
            cells[i] = i < #row and cell .. (" "):rep(widths[i] - width(cell)) or cell
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
    -- The rest of the message repeats this in one line.
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
