--- The command's output: aligned rows, and errors with their remedies.

local args = require "redlock.cli.args"
local encoding = require "redlock.text.encoding"
local json = require "redlock.text.json"
local node_codes = require "redlock.runtime.node_codes"

local duration, printable = encoding.duration, encoding.printable

local _M = {}

--- A number with a noun: "1 lock", "2 locks".
function _M.count(n, what)
    return ("%d %s%s"):format(n, what, n == 1 and "" or "s")
end

local COUNTED = { readers = "reader", permits = "permit", latch = "arrival" }

--- A time of day (seconds since 1970), in UTC.
function _M.time(seconds)
    return os.date("!%Y-%m-%dT%H:%M:%SZ", math.floor(seconds))
end

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

--- A text, cut to `most` characters; in_middle: keeps its end, too.
function _M.cut(text, most, in_middle)
    if encoding.width(text) <= most then
        return text
    end
    local characters = {}
    for character in text:gmatch "[%z\1-\127\192-\255][\128-\191]*" do
        characters[#characters + 1] = character
    end
    local head = in_middle and math.ceil((most - 3) / 2) or most
    return table.concat(characters, "", 1, head) .. (in_middle and "..."
        .. table.concat(characters, "", #characters - (most - 3 - head) + 1) or "")
end

--- Rows of texts as lines with columns, each after two spaces.
function _M.columns(rows)
    return "  " .. table.concat(encoding.columns(rows), "\n  ")
end

local NAME, HOLDER, TOKEN = 1, 3, 7       -- the places of these columns
local SHORT = 16                          -- characters that stay of a name, at least

-- Makes a table fit: with the holders on lines of their own, without tokens, and then with shorter
-- names.
-- @return the rows; and the holders, if they are no column
local function fit(rows, columns)
    local widths, all = encoding.widths(rows), 0
    for _, n in ipairs(widths) do
        all = all + 2 + n
    end
    if all <= columns then
        return rows, {}
    end
    local holders, without_tokens = {}, all - widths[HOLDER] - 2 > columns
    all = all - widths[HOLDER] - 2 - (without_tokens and widths[TOKEN] + 2 or 0)
    for i, row in ipairs(rows) do
        holders[i] = i > 1 and "\n    " .. _M.cut(table.remove(row, HOLDER), columns - 4, true)
            or table.remove(row, HOLDER)
        row[TOKEN - 1] = not without_tokens and row[TOKEN - 1] or nil
        row[NAME] = _M.cut(row[NAME], math.max(widths[NAME] - math.max(all - columns, 0), SHORT),
            true)
    end
    return rows, holders
end

local function ago(seconds)
    return seconds < 1 and "now" or duration(seconds) .. " ago"
end

--- A line for each row of client:locks(), below their titles; two in a terminal of few columns
-- (nil: there is no terminal).
function _M.locks(list, columns)
    local rows = { { "NAME", "KIND", "HOLDER", "LEFT", "WAITING", "SINCE", "TOKEN" } }
    local now = os.time()
    for i, row in ipairs(list) do
        rows[i + 1] = { _M.name(row.name), row.kind, _M.holder(row), duration(row.remaining),
            ("%d"):format(math.max(row.waiting, row.queue)),
            row.holder and ago(now - row.holder.since) or "",
            row.token and ("%.0f"):format(row.token) or "" }
    end
    local holders
    rows, holders = fit(rows, columns or math.huge)
    local i = 0
    return (_M.columns(rows):gsub("[^\n]+", function(line)
        i = i + 1
        return line .. (i > 1 and holders[i] or "")
    end))
end

--- What to do about servers, by rows as in errors: a text, which may be empty.
function _M.remedies(nodes)
    local remedies, seen = {}, {}
    for _, row in ipairs(nodes) do
        local remedy = not row.why and row.message
            and node_codes.remedy(row.code or row.state, row.message)
        if remedy and not seen[remedy] then
            seen[remedy] = true
            remedies[#remedies + 1] = "\n  " .. remedy .. "."
        end
    end
    return table.concat(remedies)
end

function _M.error(err)
    if not err.nodes then
        return err.code .. ": " .. err.message
    end
    local rows = {}
    for i, row in ipairs(err.nodes) do
        rows[i] = { row.node, row.code, row.message }
    end
    -- The rest of the message repeats this in one line.
    return (err.message:match "^(.-): %a+://" or err.message) .. "\n" .. _M.columns(rows)
        .. _M.remedies(err.nodes)
end

--- Ends the command with an error of the library.
-- @return what it was given, unless that is nil and an error
function _M.need(value, err)
    if value == nil then
        args.fail(_M.error(err))
    end
    return value
end

--- Says that a name with characters of patterns is one name.
function _M.no_pattern(name)
    if name:find "[*?%[]" then
        name = _M.name(name)
        _M.note(("'%s' is a name, not a pattern: redlock ls '%s'"):format(name, name))
    end
end

function _M.note(...)
    io.stderr:write("redlock: ", table.concat { ... }, "\n")
end

return _M
