--- The options of the command, in one table, the source of the parser, --help, the manual page and
-- shell completion. A row is
--
--     { flag, its value (S: seconds; nil: none), description, short = "-x" }
--
-- A verb has its own rows as `flags`; those of all verbs are here.

local options = require "redlock.servers.options"

local _M = {}

local WIDTH = 94              -- columns of --help

-- The row of a client option that has a flag.
local function of_client(row)
    local seconds = type(row.default) == "number"
    local text = row.text:gsub("`", ""):gsub("; false:.*", ""):gsub("^false: ", "")
    return { row.flag, row.arg or seconds and "S" or nil,
        seconds and ("%s (%g)"):format(text, row.default) or text }
end

--- The flags of all verbs.
_M.common = {
    { "--nodes", "URIS", "redis://[user:password@]host[:port][/db], rediss:// (TLS), "
        .. "unix:///path; separated by spaces or commas" },
    { "--config", "FILE", "the configuration file" },
}
for _, row in ipairs(options.rows) do
    if row.flag and not row.of then
        table.insert(_M.common, of_client(row))
    end
end
table.insert(_M.common, { "--json", nil, "print JSON, for programs" })
table.insert(_M.common, { "--help", nil, "print this help, or the help of the named command",
    short = "-h" })

--- The common flags and those of a verb's rows, or nil, in the form that args.parse takes. follows:
-- "--": a command follows "--"; "...": everything after the first name belongs to it; or nil.
-- @return flag -> "=" with a value, "=S" with a number of seconds, "" without a value; or the flag
--   that it abbreviates
function _M.kinds(rows, follows)
    local kinds = {}
    for _, list in ipairs { _M.common, rows or {} } do
        for _, row in ipairs(list) do
            local flag, arg = row[1], row[2]
            kinds[flag] = not arg and "" or arg == "S" and "=S" or "="
            if row.short then
                kinds[row.short] = flag
            end
        end
    end
    if follows then
        kinds[follows] = true
    end
    return kinds
end

-- A text as lines of at most `width` columns.
local function wrapped(text, width)
    local lines, line = {}, nil
    for word in text:gmatch "%S+" do
        if line and #line + 1 + #word > width then
            lines[#lines + 1], line = line, word
        else
            line = line and line .. " " .. word or word
        end
    end
    lines[#lines + 1] = line
    return lines
end

--- Rows as help text, in two columns.
function _M.text(rows)
    local heads, most, lines = {}, 0, {}
    for i, row in ipairs(rows) do
        heads[i] = (row.short and row.short .. ", " or "") .. row[1]
            .. (row[2] and " " .. row[2] or "")
        most = math.max(most, #heads[i])
    end
    for i, row in ipairs(rows) do
        local head = heads[i]
        for _, line in ipairs(wrapped(row[3], WIDTH - most - 4)) do
            lines[#lines + 1] = ("  %s%s  %s"):format(head, (" "):rep(most - #head), line)
            head = ""
        end
    end
    return table.concat(lines, "\n")
end

return _M
